# SPDX-License-Identifier: GPL-3.0-or-later
"""Speech tasks on local worker processes: the asyncio front of the scheduler.

Each worker is a process pool of one, and one asyncio task serves it: take the next entry from the scheduler, run it,
deliver, repeat. A worker has at most one task at a time, so the order is the scheduler's alone, and a worker that
dies or is recycled disturbs no other. While a worker loads, its asyncio task takes nothing from the queue.

A worker keeps no state that would be worth a farewell, so it is ended by SIGKILL: an orderly exit of a process with
several OpenMP runtimes can hang or abort (LibreTranslate#1008).

All methods belong to the event loop's thread; the pools' threads speak to it through `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Future
from concurrent.futures.process import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar

import structlog

from gateway.speech import local
from gateway.speech.engines.alphabet import MOST_UNSAID
from gateway.speech.errors import ModelMissing, QueueFull, SpeechError, TaskFailed, WorkerLost
from gateway.speech.jobs import (
    MODEL_RATE_HZ,
    Done,
    Priority,
    RecognizeTask,
    Result,
    Speech,
    SynthesizeTask,
    Task,
    TranslateTask,
)
from gateway.speech.local import Engines, Failure, Loaded, Ran, WorkerSetup
from gateway.speech.scheduler import Bounds, Entry, LoadMeter, Scheduler

log = structlog.get_logger(__name__)

T = TypeVar("T")

KINDS: Mapping[type, str] = MappingProxyType(
    {RecognizeTask: "recognize", TranslateTask: "translate", SynthesizeTask: "synthesize"}
)
DEADLINES_S: Mapping[str, float] = MappingProxyType(dict.fromkeys(KINDS.values(), 30.0))
"""A run this long is a hang: the longest utterance is 20 s, and a loaded CPU is still faster than real time."""

LONGEST_BACKOFF_S = 10.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(eq=False, slots=True)
class _Job:
    task: Task
    kind: str
    future: asyncio.Future[Done]
    losses: int = 0


class State(Enum):
    """What a worker does."""

    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    ENDED = "ended"


@dataclass(eq=False, slots=True)
class _Worker:
    index: int
    state: State = State.LOADING
    pool: ProcessPoolExecutor | None = None
    process: BaseProcess | None = None
    leaving: bool = False
    """It shall take no further task: it died, or it is recycled."""
    recycled: bool = False
    wake: asyncio.Future[None] | None = None
    tasks: int = 0
    load_ms: float = 0.0
    first_load: asyncio.Future[None] | None = None
    failed_loads: int = 0

    def nudge(self) -> None:
        """Let it look at the queue again, if it sleeps."""
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)


@dataclass(slots=True)
class _Counts:
    completed: int = 0
    unheard: int = 0
    failed: int = 0
    restarts: int = 0
    recycled: int = 0
    resubmitted: int = 0
    lost: int = 0
    hung: int = 0
    respoken: int = 0
    unsaid: int = 0


class LocalTicket:
    """A task on its way; see `gateway.speech.protocols.Ticket`."""

    def __init__(self, service: LocalSpeechService, entry: Entry[_Job]) -> None:
        self._service = service
        self._entry = entry

    async def result(self) -> Done:
        """Wait for the `Done`. Raises WorkerLost, TaskFailed, QueueFull when it was shed, CancelledError."""
        # The shield keeps the task when one who waits for it is cancelled.
        return await asyncio.shield(self._entry.payload.future)

    def cancel(self) -> None:
        """Nobody wants the result any more. A task that has started runs on, unheard."""
        self._service._scheduler.cancel(self._entry)
        self._entry.payload.future.cancel()

    def withdraw(self) -> bool:
        """Cancel it if it has not started, and only then; True when it will never run."""
        withdrawn = self._service._scheduler.cancel(self._entry)
        if withdrawn:
            self._entry.payload.future.cancel()
        return withdrawn

    def promote(self, priority: Priority) -> None:
        """Raise its urgency while it waits; later, or to a lower one: no effect. QueueFull leaves it as it was."""
        self._service._scheduler.promote(self._entry, priority)


class LocalSpeechService:
    """`SpeechService` on worker processes of this machine.

    ``factory`` makes the engines inside each worker. ``threads`` bounds OpenMP per worker. ``deadlines_s`` gives the
    longest run by kind (``recognize``, ``translate``, ``synthesize``), ``load_deadline_s`` the longest load. After
    ``load_attempts`` failed loads in a row a worker is given up; without any worker left all tasks are lost.
    """

    def __init__(
        self,
        factory: Callable[[], Engines],
        *,
        workers: int = 1,
        threads: int = 1,
        niceness: int = 0,
        bounds: Bounds | None = None,
        deadlines_s: Mapping[str, float] = DEADLINES_S,
        load_deadline_s: float = 180.0,
        load_attempts: int = 6,
        backoff_s: float = 0.5,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if workers < 1 or threads < 1 or load_attempts < 1:
            raise ValueError("workers, threads and load_attempts have to be at least 1")
        self._setup = WorkerSetup.of(factory, threads=threads, niceness=niceness)
        self._deadlines_s = {**DEADLINES_S, **deadlines_s}
        self._load_deadline_s = load_deadline_s
        self._load_attempts = load_attempts
        self._backoff_s = backoff_s
        self._clock_ns = clock_ns
        self._scheduler: Scheduler[_Job] = Scheduler(bounds)
        self._meter = LoadMeter(workers, clock_ns())
        self._workers = [_Worker(index) for index in range(workers)]
        self._servants: list[asyncio.Task[None]] = []
        self._ended: list[BaseProcess] = []
        self._counts = _Counts()
        self._capabilities: dict[str, Any] = {}
        self._closing = False

    async def __aenter__(self) -> LocalSpeechService:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Load and warm every worker. Raises ModelMissing or SpeechError with the engine's own words."""
        if self._servants or self._closing:
            raise RuntimeError("a speech service starts once")
        loop = asyncio.get_running_loop()
        first_loads = []
        for worker in self._workers:
            worker.first_load = loop.create_future()
            worker.first_load.add_done_callback(_retrieve)
            first_loads.append(worker.first_load)
            self._servants.append(loop.create_task(self._serve(worker), name=f"speech-worker-{worker.index}"))
        try:
            await asyncio.gather(*first_loads)
        except BaseException:
            await self.close()
            raise
        self._meter = LoadMeter(len(self._workers), self._clock_ns())
        log.info(
            "speech_workers_ready", workers=len(self._workers), load_ms=round(max(w.load_ms for w in self._workers))
        )

    async def close(self) -> None:
        """End the workers; returns when their processes are gone. Tasks not done fail with WorkerLost."""
        self._closing = True
        self._lose_queued("the speech service was closed")
        for servant in self._servants:
            servant.cancel()
        await asyncio.gather(*self._servants, return_exceptions=True)
        self._lose_queued("the speech service was closed")  # what a lost worker put back in between
        ended, self._ended = self._ended, []
        await asyncio.to_thread(_join, ended)

    def submit(self, leg: str, task: Task, priority: Priority) -> LocalTicket:
        """Queue a task; raises QueueFull. After `close` the ticket's result is WorkerLost."""
        future: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        entry, victim = self._scheduler.offer(leg, priority, _Job(task, KINDS[type(task)], future), self._clock_ns())
        if victim is not None:
            _fail(victim.payload, QueueFull("shed for a more urgent task"))
        if self._closing or all(worker.state is State.ENDED for worker in self._workers):
            self._lose_queued("no speech worker is left")
        self._nudge_all()
        return LocalTicket(self, entry)

    def recycle(self, index: int) -> None:
        """Replace a worker by a fresh process once its current task is done, e.g. because it grew."""
        worker = self._workers[index]
        if worker.state in {State.READY, State.BUSY} and not worker.leaving:
            worker.leaving = worker.recycled = True
            worker.nudge()

    def statistics(self) -> dict[str, Any]:
        """The scheduler's figures, the meter's, and per worker its pid, state, tasks, load time and memory."""
        counts = self._counts
        return {
            **self._scheduler.statistics(),
            **self._meter.statistics(self._clock_ns()),
            "completed": counts.completed,
            "unheard": counts.unheard,
            "failed": counts.failed,
            "restarts": counts.restarts,
            "recycled": counts.recycled,
            "resubmitted": counts.resubmitted,
            "lost": counts.lost,
            "hung": counts.hung,
            "respoken": counts.respoken,
            "unsaid": counts.unsaid,
            "workers": [
                {
                    "index": worker.index,
                    "pid": worker.process.pid if worker.process else None,
                    "state": worker.state.value,
                    "tasks": worker.tasks,
                    "load_ms": worker.load_ms,
                    "rss_mb": _resident_mb(worker.process.pid) if worker.process else 0.0,
                    "voice_mb": _children_mb(worker.process.pid) if worker.process else 0.0,
                }
                for worker in self._workers
            ],
        }

    def capabilities(self) -> dict[str, Any]:
        """What the engines said after loading; empty before `start`."""
        return dict(self._capabilities)

    # -- one worker's life ---------------------------------------------------------------------------------------

    async def _serve(self, worker: _Worker) -> None:
        try:
            while await self._load(worker):
                worker.failed_loads = 0
                while (entry := await self._next(worker)) is not None and await self._run(worker, entry):
                    pass
                if worker.recycled:
                    self._counts.recycled += 1
                else:
                    self._counts.restarts += 1
                self._end_process(worker)
        except Exception:
            log.exception("speech_worker_unserved", worker=worker.index)
            raise
        finally:
            # Reached also when the loop is torn down without `close`, as after an exception or Ctrl-C.
            self._end_process(worker)
            worker.state = State.ENDED
            self._note_busy()
            if worker.first_load is not None and not worker.first_load.done():
                worker.first_load.set_exception(SpeechError("a speech worker could not be started"))
            if all(other.state is State.ENDED for other in self._workers):
                self._lose_queued("no speech worker is left")

    async def _load(self, worker: _Worker) -> bool:
        """Start the process and load its engines; False when the worker is given up."""
        while True:
            worker.state = State.LOADING
            worker.leaving = worker.recycled = False
            self._note_busy()
            loaded = await self._load_once(worker)
            first = worker.first_load
            if first is not None and not first.done():
                if loaded.failure is not None:
                    first.set_exception(_load_error(loaded.failure))
                    return False
                self._capabilities = loaded.capabilities
                first.set_result(None)
            if loaded.failure is None:
                worker.load_ms = loaded.load_ns / 1e6
                worker.state = State.READY
                self._note_busy()
                self._watch(worker)
                return True
            self._end_process(worker)
            worker.failed_loads += 1
            log.error(
                "speech_worker_load_failed",
                worker=worker.index,
                error_type=loaded.failure.type_name,
                reason=loaded.failure.text,
            )
            if worker.failed_loads >= self._load_attempts:
                log.error("speech_worker_given_up", worker=worker.index)
                return False
            await asyncio.sleep(min(self._backoff_s * 2 ** (worker.failed_loads - 1), LONGEST_BACKOFF_S))

    async def _load_once(self, worker: _Worker) -> Loaded:
        worker.pool = ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),  # engines are not fork-safe
            initializer=local.initialise,
            initargs=(self._setup, os.getpid()),
        )
        try:
            submitted = worker.pool.submit(local.load)
        except OSError as error:  # no memory, no process
            return _not_loaded(type(error).__name__, str(error))
        # The pool has no public way to its process before Python 3.14; it is needed to end a hung one.
        (worker.process,) = worker.pool._processes.values()
        try:
            async with asyncio.timeout(self._load_deadline_s):
                return await _heard(submitted)
        except TimeoutError:
            return _not_loaded("TimeoutError", f"a speech worker did not load in {self._load_deadline_s:g} s")
        except BrokenExecutor:
            return _not_loaded("BrokenExecutor", "a speech worker ended while it loaded its models (out of memory?)")
        except Exception as error:  # e.g. capabilities that cannot be pickled
            return _not_loaded(type(error).__name__, str(error))

    async def _next(self, worker: _Worker) -> Entry[_Job] | None:
        """Wait for an entry; None when the worker shall take no further one."""
        loop = asyncio.get_running_loop()
        while not worker.leaving:
            entry = self._scheduler.take(self._clock_ns())
            if entry is not None:
                return entry
            worker.wake = loop.create_future()
            await worker.wake
        return None

    async def _run(self, worker: _Worker, entry: Entry[_Job]) -> bool:
        """Run an entry and deliver its outcome; False when the worker was lost."""
        job, pool = entry.payload, worker.pool
        assert pool is not None
        worker.state = State.BUSY
        self._note_busy()
        try:
            submitted = pool.submit(local.run_task, job.task)
        except BrokenExecutor:  # it died unseen before it got the task, which is not to blame
            self._scheduler.requeue(entry)
            self._nudge_all()
            return False
        deadline_s = self._deadlines_s[job.kind]
        try:
            async with asyncio.timeout(deadline_s):
                ran = await _heard(submitted)
            self._deliver(worker, entry, ran)
        except TimeoutError:
            self._counts.hung += 1
            self._lose(job, f"a {job.kind} task ran longer than {deadline_s:g} s")
            log.error("speech_worker_hung", worker=worker.index, kind=job.kind, deadline_s=deadline_s)
            return False
        except asyncio.CancelledError:
            self._lose(job, "the speech service was closed")
            raise
        except BrokenExecutor:
            self._resubmit(worker, entry)
            return False
        except Exception as error:  # the task or its result could not be pickled
            self._counts.failed += 1
            _fail(job, TaskFailed(f"{type(error).__name__}: {error}"))
        worker.tasks += 1
        worker.state = State.READY
        self._note_busy()
        return True

    def _deliver(self, worker: _Worker, entry: Entry[_Job], ran: Ran) -> None:
        job, outcome = entry.payload, ran.outcome
        if isinstance(outcome, Failure):
            self._counts.failed += 1
            log.warning("speech_task_failed", worker=worker.index, kind=job.kind, error_type=outcome.type_name)
            _fail(job, TaskFailed(f"{outcome.type_name}: {outcome.text}"))
            return
        self._meter.add_run(job.kind, ran.done_ns - ran.started_ns, _sound_ns(job.task, outcome))
        if job.future.done():
            self._counts.unheard += 1
            return
        self._counts.completed += 1
        if isinstance(outcome, Speech):
            self._counts.respoken += outcome.respoken
            if outcome.unsaid > MOST_UNSAID:
                self._counts.unsaid += 1
                log.warning("voice_lacks_letters", voice=outcome.voice, share=round(outcome.unsaid, 2))
        job.future.set_result(
            Done(outcome, entry.queued_ns, ran.started_ns, ran.done_ns, ran.cpu_ns, worker_pid=ran.worker_pid)
        )

    def _resubmit(self, worker: _Worker, entry: Entry[_Job]) -> None:
        job = entry.payload
        job.losses += 1
        log.error("speech_worker_lost", worker=worker.index, kind=job.kind, losses=job.losses)
        if job.future.done():
            self._counts.unheard += 1
        elif job.losses > 1:
            self._lose(job, f"two workers died while they ran this {job.kind} task")
        else:
            self._counts.resubmitted += 1
            self._scheduler.requeue(entry)
            self._nudge_all()

    def _watch(self, worker: _Worker) -> None:
        """Notice the death of an idle worker at once, not when it is next needed."""
        process = worker.process
        assert process is not None
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(process.sentinel)
            if worker.process is process:
                log.error("speech_worker_ended", worker=worker.index, state=worker.state.value)
                worker.leaving = True
                worker.nudge()

        loop.add_reader(process.sentinel, ended)

    def _end_process(self, worker: _Worker) -> None:
        process, pool = worker.process, worker.pool
        worker.process = worker.pool = None
        if process is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(process.sentinel)
            process.kill()
            self._ended = [*(other for other in self._ended if other.is_alive()), process]
        if pool is not None:
            pool.shutdown(wait=False)

    # -- small change --------------------------------------------------------------------------------------------

    def _nudge_all(self) -> None:
        # All of them: one that is woken may be about to leave, and the task would lie until the next submit.
        for worker in self._workers:
            worker.nudge()

    def _note_busy(self) -> None:
        self._meter.set_busy(sum(w.state is not State.READY for w in self._workers), self._clock_ns())

    def _lose(self, job: _Job, reason: str) -> None:
        self._counts.lost += not job.future.done()
        _fail(job, WorkerLost(reason))

    def _lose_queued(self, reason: str) -> None:
        for entry in self._scheduler.drain():
            self._lose(entry.payload, reason)


def _heard(submitted: Future[T]) -> asyncio.Future[T]:
    """The pool's future on this loop. Unlike `asyncio.wrap_future`, giving it up does not cancel the pool's own:
    Python 3.11's pool would stumble over a cancelled future when its process dies."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[T] = loop.create_future()

    def deliver() -> None:
        if heard.done():
            return
        error = submitted.exception()
        if error is None:
            heard.set_result(submitted.result())
        else:
            heard.set_exception(error)
            heard.exception()  # seen, should nobody wait any more

    def tell(_: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver)

    submitted.add_done_callback(tell)
    return heard


def _fail(job: _Job, error: SpeechError) -> None:
    if not job.future.done():
        job.future.set_exception(error)


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark an exception as seen: who could wait for it, e.g. the owner of a ticket, need not."""
    if not future.cancelled():
        future.exception()


def _load_error(failure: Failure) -> SpeechError:
    if failure.model_missing:
        return ModelMissing(failure.text)
    return SpeechError(f"a speech worker could not load: {failure.type_name}: {failure.text}")


def _not_loaded(type_name: str, text: str) -> Loaded:
    return Loaded(worker_pid=0, load_ns=0, capabilities={}, failure=Failure(type_name, text, model_missing=False))


def _join(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.join(timeout=5.0)  # after SIGKILL; only a process in an uninterruptible system call takes longer


def _sound_ns(task: Task, result: Result) -> int:
    """Length of the sound a task consumed or made; 0 for text alone."""
    if isinstance(task, RecognizeTask):
        return len(task.pcm) // 2 * 1_000_000_000 // MODEL_RATE_HZ
    if isinstance(result, Speech):
        return len(result.pcm) // 2 * 1_000_000_000 // result.rate_hz
    return 0


def _children_mb(pid: int | None) -> float:
    """Resident memory of what a worker has started itself, such as the process that holds a Coqui voice."""
    children: list[str] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():  # a child belongs to the thread that started it
            children += (task / "children").read_text().split()
    return sum(_resident_mb(int(child)) for child in children)


def _resident_mb(pid: int | None) -> float:
    """Resident memory of a process in MB (2**20 bytes); 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES / 2**20
    except (OSError, IndexError, ValueError):
        return 0.0
