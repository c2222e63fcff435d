# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulation of time: the call's own pipeline and the real engines, on a clock that stands still while nobody works.

`VirtualLoop` is an asyncio loop whose time jumps to the next timer as soon as no callback is ready, so silence costs
nothing and every `sleep`, `timeout` and `call_at` of the product keeps its meaning. `VirtualSpeech` is a
`SpeechService`: it ranks tasks with the real `Scheduler`, runs each one for real in this process while virtual time
stands still, measures the run, and delivers the result that much *virtual* time later. With ``workers`` virtual
workers, one task each, the order of events is that of the real service: a worker that is done takes its next task
before those who waited for the result can ask for more.

What a run is charged is its wall time less the longest time that one of the process's threads was ready to run and
had no processor (Linux: second field of ``/proc/self/task/*/schedstat``); at least its CPU time over its threads, and
at most its CPU time, because an engine computes and waits for nothing, so on an idle machine one thread always runs.
A thread that waits for a late sibling is charged, so under load the charge is an upper bound, not a guess.

Runs of several virtual workers share the machine's cores: each wants as many as its CPU time over its charge says, and
when all together want more than there are, all slow down alike.

Limits of the method. The loop's own work (resampling, voice detection, copies) is free here, in a call it shares the
cores with the workers; so is the way to a worker process and back, 1 to 3 ms a task. Threads that spin while others
have their core are not modelled. Other programs still spoil caches and clock speed. Use ``--real`` to see the
difference.
Nothing under the loop may wait for a thread or a socket while a timer is set: virtual time would run past it.
"""

from __future__ import annotations

import asyncio
import math
import os
import selectors
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gateway.runtime import engine_spec, make_engines, model_store
from gateway.settings import Loaded
from gateway.speech.engines.registry import RECOGNIZERS, build
from gateway.speech.errors import QueueFull, TaskFailed, WorkerLost
from gateway.speech.jobs import Done, Priority, Result, Task
from gateway.speech.local import Engines
from gateway.speech.protocols import Recognizer
from gateway.speech.scheduler import Bounds, Entry, Scheduler
from gateway.speech.service import KINDS

T = TypeVar("T")

START_NS = 1_000_000_000
"""Virtual time does not begin at 0, which in records means "never"."""

NEARLY_NS = 10.0  # left of a run that is done: rounding of the loop's seconds
RUNS_KEPT = 20_000  # some hours of one call


class VirtualClock:
    """Nanoseconds that pass only when they are told to."""

    def __init__(self, start_ns: int = START_NS) -> None:
        self._now_ns = start_ns

    def __call__(self) -> int:
        """Now, in ns."""
        return self._now_ns

    def advance(self, ns: int) -> None:
        """Let time pass; ValueError for time that runs back."""
        if ns < 0:
            raise ValueError("virtual time does not run back")
        self._now_ns += ns


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for the timeout, it makes it pass."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Events that are there; else, when a timer is set, jump to it; else wait as any selector does."""
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self._clock.advance(max(1, math.ceil(timeout * 1e9)))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in virtual time; `clock` gives the same time in ns. Use it with `asyncio.Runner`."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(_JumpingSelector(self.clock))

    def time(self) -> float:
        """Virtual seconds."""
        return self.clock() / 1e9


@dataclass(frozen=True, slots=True)
class Run:
    """What one task cost: ``charged_ns`` is what virtual time pays for it."""

    kind: str
    wall_ns: int
    cpu_ns: int
    charged_ns: int


def _run_delays() -> dict[str, int]:
    """By thread of this process: ns it was ready to run and had no processor. Empty where the kernel does not say."""
    delays: dict[str, int] = {}
    try:
        for thread in Path("/proc/self/task").iterdir():
            delays[thread.name] = int((thread / "schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):  # no Linux, no accounting, or a thread that has just ended
        return {}
    return delays


def measured(kind: str, threads: int, work: Callable[[], T]) -> tuple[T, Run]:
    """Do the work and say what it cost. What the work raises passes through."""
    before = _run_delays()
    wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    result = work()
    wall_ns, cpu_ns = time.perf_counter_ns() - wall_ns, time.process_time_ns() - cpu_ns
    waited_ns = max((ns - before.get(name, 0) for name, ns in _run_delays().items()), default=0) if before else 0
    return result, Run(kind, wall_ns, cpu_ns, charge_ns(wall_ns, cpu_ns, waited_ns, threads))


def charge_ns(wall_ns: int, cpu_ns: int, waited_ns: int, threads: int) -> int:
    """The rule of this module's head."""
    return min(wall_ns, cpu_ns, max(wall_ns - waited_ns, cpu_ns // max(1, threads), 0))


@dataclass(eq=False, slots=True)
class _Job:
    task: Task
    future: asyncio.Future[Done]


@dataclass(eq=False, slots=True)
class _Active:
    """A run under way: how much of its charge is left, at full speed, and how many cores it wants."""

    entry: Entry[_Job]
    outcome: Result | TaskFailed
    began_ns: int
    cpu_ns: int
    left_ns: float
    cores: float


class VirtualTicket:
    """A task on its way; see `gateway.speech.protocols.Ticket`."""

    def __init__(self, service: VirtualSpeech, entry: Entry[_Job]) -> None:
        self._service = service
        self._entry = entry

    async def result(self) -> Done:
        """Wait for the `Done`; the shield keeps the task when one who waits for it is cancelled."""
        return await asyncio.shield(self._entry.payload.future)

    def cancel(self) -> None:
        """Nobody wants the result any more."""
        self._service.scheduler.cancel(self._entry)
        self._entry.payload.future.cancel()

    def withdraw(self) -> bool:
        """Cancel it if it has not started, and only then."""
        withdrawn = self._service.scheduler.cancel(self._entry)
        if withdrawn:
            self._entry.payload.future.cancel()
        return withdrawn

    def promote(self, priority: Priority) -> None:
        """Raise its urgency while it waits."""
        self._service.scheduler.promote(self._entry, priority)


class VirtualSpeech:
    """`SpeechService` in virtual time. ``engines`` run in this process, in the loop's thread.

    ``measure`` does a task's work and says what it cost; tests script it. ``cores`` None takes this process's.
    """

    def __init__(
        self,
        engines: Engines,
        *,
        workers: int = 1,
        threads: int = 1,
        cores: int | None = None,
        bounds: Bounds | None = None,
        measure: Callable[[str, int, Callable[[], Result]], tuple[Result, Run]] = measured,
    ) -> None:
        if workers < 1:
            raise ValueError("a speech service needs a worker")
        self.scheduler: Scheduler[_Job] = Scheduler(bounds)
        self.runs: deque[Run] = deque(maxlen=RUNS_KEPT)
        self._engines = engines
        self._capabilities = engines.capabilities()
        self._workers = workers
        self._cores = cores or len(os.sched_getaffinity(0))
        self._active: list[_Active] = []
        self._speed = 1.0
        self._reckoned_ns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._threads = threads
        self._measure = measure
        self._counts: Counter[str] = Counter()
        self._closed = False

    async def start(self) -> None:
        """The engines are loaded already."""

    async def close(self) -> None:
        """What waits is lost."""
        self._closed = True
        for entry in self.scheduler.drain():
            _fail(entry.payload, WorkerLost("the speech service was closed"))

    def submit(self, leg: str, task: Task, priority: Priority) -> VirtualTicket:
        """Queue a task for a leg; raises QueueFull."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done] = loop.create_future()
        future.add_done_callback(_retrieve)
        entry, victim = self.scheduler.offer(leg, priority, _Job(task, future), _now_ns(loop))
        if victim is not None:
            _fail(victim.payload, QueueFull("shed for a more urgent task"))
        if self._closed:
            self.scheduler.cancel(entry)
            _fail(entry.payload, WorkerLost("the speech service was closed"))
        # not at once: of what is submitted in the same moment the most urgent goes first
        loop.call_soon(self._dispatch)
        return VirtualTicket(self, entry)

    def statistics(self) -> dict[str, Any]:
        """The scheduler's figures, and by kind what the runs cost in ms: charged, wall and CPU, mean of each."""
        by_kind: dict[str, list[Run]] = {}
        for run in self.runs:
            by_kind.setdefault(run.kind, []).append(run)
        return {**self.scheduler.statistics(), **self._counts, "runs": {k: _costs(r) for k, r in by_kind.items()}}

    def capabilities(self) -> dict[str, Any]:
        """What the engines offer."""
        return dict(self._capabilities)

    def _dispatch(self) -> None:
        loop = asyncio.get_running_loop()
        while len(self._active) < self._workers and (entry := self.scheduler.take(_now_ns(loop))) is not None:
            outcome, run = self._run(entry.payload.task)
            self.runs.append(run)
            self._reckon(loop)
            cores = run.cpu_ns / run.charged_ns if run.charged_ns else 1.0
            self._active.append(_Active(entry, outcome, _now_ns(loop), run.cpu_ns, run.charged_ns, cores))
            self._pace(loop)

    def _run(self, task: Task) -> tuple[Result | TaskFailed, Run]:
        kind, wall_ns = KINDS[type(task)], time.perf_counter_ns()
        try:
            return self._measure(kind, self._threads, lambda: self._engines.run(task))
        except Exception as error:  # noqa: BLE001, RUF100 - an engine may raise anything; the ticket tells it
            wall_ns = time.perf_counter_ns() - wall_ns
            return TaskFailed(f"{type(error).__name__}: {error}"), Run(kind, wall_ns, wall_ns, wall_ns)

    def _reckon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take what was done since the last reckoning off every run."""
        now_ns = _now_ns(loop)
        for active in self._active:
            active.left_ns -= (now_ns - self._reckoned_ns) * self._speed
        self._reckoned_ns = now_ns

    def _pace(self, loop: asyncio.AbstractEventLoop) -> None:
        """The runs under way have changed: so has their speed, and which is done next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._active:
            self._speed = min(1.0, self._cores / max(1e-9, sum(active.cores for active in self._active)))
            next_ns = max(0.0, min(active.left_ns for active in self._active)) / self._speed
            self._timer = loop.call_at((self._reckoned_ns + next_ns) / 1e9, self._arrived)

    def _arrived(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        self._reckon(loop)
        for active in [active for active in self._active if active.left_ns < NEARLY_NS]:
            self._active.remove(active)
            self._deliver(active, _now_ns(loop))
        self._pace(loop)
        self._dispatch()

    def _deliver(self, active: _Active, now_ns: int) -> None:
        job = active.entry.payload
        if job.future.done():
            self._counts["unheard"] += 1
        elif isinstance(active.outcome, TaskFailed):
            self._counts["failed"] += 1
            job.future.set_exception(active.outcome)
        else:
            self._counts["completed"] += 1
            job.future.set_result(
                Done(active.outcome, active.entry.queued_ns, active.began_ns, now_ns, active.cpu_ns, os.getpid())
            )


def virtual_speech(loaded: Loaded, engines: Engines, *, workers: int | None = None) -> VirtualSpeech:
    """The settings' workers, threads and bounds in virtual time."""
    speech = loaded.settings.speech
    return VirtualSpeech(
        engines,
        workers=workers or speech.workers,
        threads=engine_spec(loaded.settings).threads,
        bounds=Bounds(speech.queue_finals, speech.queue_clauses, speech.queue_prepares, speech.queue_previews),
    )


def local_engines(loaded: Loaded) -> Engines:
    """The settings' engines in this process, warmed. ModelMissing, with the remedy, when the store lacks one."""
    spec, store = engine_spec(loaded.settings), model_store(loaded)
    folders = {model: store.ensure_verified(model) for model in spec.models()}
    os.environ["OMP_NUM_THREADS"] = str(spec.threads)  # read when the engines' libraries are loaded
    engines = make_engines(spec, folders)
    engines.warm()
    return engines


def local_recognizer(loaded: Loaded) -> Recognizer:
    """The settings' recogniser alone, in this process."""
    spec, store = engine_spec(loaded.settings), model_store(loaded)
    os.environ["OMP_NUM_THREADS"] = str(spec.threads)
    recognizer: Recognizer = build(spec.recognizer, RECOGNIZERS, store.ensure_verified, spec.threads)
    return recognizer


@dataclass(slots=True)
class CpuMeter:
    """CPU seconds of this process, and of worker processes if there are any, since it was made."""

    pids: tuple[int, ...] = ()
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Take the first reading."""
        self._began_s = self._now_s()

    def spent_s(self) -> float:
        """CPU seconds since the first reading."""
        return self._now_s() - self._began_s

    def _now_s(self) -> float:
        return time.process_time() + sum(_cpu_s(pid) for pid in self.pids)


def worker_pids(statistics: Mapping[str, Any]) -> tuple[int, ...]:
    """The worker processes that a speech service tells of."""
    return tuple(worker["pid"] for worker in statistics.get("workers", ()) if worker["pid"])


def load_average() -> float:
    """How many tasks wanted a processor in the last minute, everybody's: above the cores, figures suffer."""
    return round(os.getloadavg()[0], 2)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5)


def _costs(runs: list[Run]) -> dict[str, float]:
    def mean_ms(values: list[int]) -> float:
        return round(sum(values) / len(values) / 1e6, 1)

    return {
        "count": len(runs),
        "charged_ms": mean_ms([run.charged_ns for run in runs]),
        "wall_ms": mean_ms([run.wall_ns for run in runs]),
        "cpu_ms": mean_ms([run.cpu_ns for run in runs]),
    }


def _now_ns(loop: asyncio.AbstractEventLoop) -> int:
    return round(loop.time() * 1e9)


def _fail(job: _Job, error: Exception) -> None:
    if not job.future.done():
        job.future.set_exception(error)


def _retrieve(future: asyncio.Future[Done]) -> None:
    """A result that nobody waits for any more is no fault."""
    if not future.cancelled():
        future.exception()
