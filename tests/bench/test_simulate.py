# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual time: the clock jumps, the order of service is the scheduler's, and a run costs what it was measured at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.simulate import (
    START_NS,
    Run,
    VirtualClock,
    VirtualLoop,
    VirtualSpeech,
    VirtualTicket,
    charge_ns,
    measured,
)
from gateway.speech.errors import QueueFull, TaskFailed, WorkerLost
from gateway.speech.jobs import Done, Priority, Result, Speech, SynthesizeTask, Task
from gateway.speech.scheduler import Bounds

pytestmark = pytest.mark.unit

MS = 1_000_000


class ScriptedEngines:
    """Answers each text with itself; ``fail`` raises. Keeps the order of the runs."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def warm(self) -> None:
        """Nothing to do."""

    def capabilities(self) -> dict[str, Any]:
        return {"pairs": []}

    def run(self, task: Task) -> Result:
        assert isinstance(task, SynthesizeTask)
        self.ran.append(task.text)
        if task.text == "fail":
            raise LookupError("no such voice")
        return Speech(b"", 8000, task.text)


def scripted(
    costs_ms: dict[str, int], cores: int = 1
) -> Callable[[str, int, Callable[[], Result]], tuple[Result, Run]]:
    def measure(kind: str, threads: int, work: Callable[[], Result]) -> tuple[Result, Run]:
        result = work()
        assert isinstance(result, Speech)
        cost = costs_ms.get(result.voice, 100) * MS
        return result, Run(kind, cost, cost * cores, cost)

    return measure


def task(text: str) -> SynthesizeTask:
    return SynthesizeTask(text, "xx")


def in_virtual(act: Callable[[VirtualLoop], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return await act(loop)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


async def ended_at_ms(loop: VirtualLoop, ticket: VirtualTicket) -> float:
    await ticket.result()
    return (loop.clock() - START_NS) / MS


def service(costs_ms: dict[str, int] | None = None, *, workers: int = 1, bounds: Bounds | None = None) -> VirtualSpeech:
    return VirtualSpeech(
        ScriptedEngines(), workers=workers, cores=workers, bounds=bounds, measure=scripted(costs_ms or {})
    )


def test_an_hour_of_sleep_costs_nothing_and_is_an_hour() -> None:
    async def act(loop: VirtualLoop) -> int:
        await asyncio.sleep(3600)
        return loop.clock()

    assert in_virtual(act) == pytest.approx(START_NS + 3600 * 10**9, abs=2)


def test_timers_fire_in_order_at_their_time() -> None:
    async def act(loop: VirtualLoop) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, round((loop.clock() - START_NS) / MS)))

        await asyncio.gather(wait("late", 2.5), wait("early", 0.02), wait("middle", 1.0))
        return seen

    assert in_virtual(act) == [("early", 20), ("middle", 1000), ("late", 2500)]


def test_a_timeout_keeps_its_meaning() -> None:
    async def act(loop: VirtualLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.Event().wait()
        return loop.time()

    assert in_virtual(act) == pytest.approx(START_NS / 1e9 + 7)


def test_frames_of_20_ms_do_not_drift_over_ten_minutes() -> None:
    async def act(loop: VirtualLoop) -> int:
        began = loop.time()
        for frame in range(30_000):
            await asyncio.sleep(began + (frame + 1) * 0.02 - loop.time())
        return loop.clock() - START_NS

    assert in_virtual(act) == pytest.approx(600 * 10**9, abs=1000)


def test_time_does_not_run_back() -> None:
    with pytest.raises(ValueError, match="back"):
        VirtualClock().advance(-1)


def test_one_worker_runs_one_task_after_the_other() -> None:
    async def act(loop: VirtualLoop) -> list[float]:
        speech = service({"a": 100, "b": 250})
        tickets = [speech.submit("leg", task(name), Priority.FINAL) for name in ("a", "b")]
        return list(await asyncio.gather(*(ended_at_ms(loop, ticket) for ticket in tickets)))

    assert in_virtual(act) == [pytest.approx(100), pytest.approx(350)]


def test_two_workers_run_two_at_a_time() -> None:
    async def act(loop: VirtualLoop) -> list[float]:
        speech = service({"a": 100, "b": 250, "c": 50}, workers=2)
        tickets = [speech.submit("leg", task(name), Priority.FINAL) for name in ("a", "b", "c")]
        return list(await asyncio.gather(*(ended_at_ms(loop, ticket) for ticket in tickets)))

    assert in_virtual(act) == [pytest.approx(100), pytest.approx(250), pytest.approx(150)]


def test_runs_that_want_more_cores_than_there_are_slow_each_other_down() -> None:
    """Two cores. a (100 ms) and b (250 ms) want two each: at half speed a is done at 200, then b has 150 ms left."""

    async def act(loop: VirtualLoop) -> list[float]:
        measure = scripted({"a": 100, "b": 250}, cores=2)
        speech = VirtualSpeech(ScriptedEngines(), workers=2, threads=2, cores=2, measure=measure)
        tickets = [speech.submit("leg", task(name), Priority.FINAL) for name in ("a", "b")]
        return list(await asyncio.gather(*(ended_at_ms(loop, ticket) for ticket in tickets)))

    assert in_virtual(act) == [pytest.approx(200, abs=0.01), pytest.approx(350, abs=0.01)]


def test_a_run_that_comes_later_slows_down_what_is_left() -> None:
    """a runs alone for 60 of its 100 ms, its last 40 ms take 80; b (250 ms) has done 40 of its 250 by then."""

    async def act(loop: VirtualLoop) -> list[float]:
        measure = scripted({"a": 100, "b": 250}, cores=2)
        speech = VirtualSpeech(ScriptedEngines(), workers=2, threads=2, cores=2, measure=measure)
        first = speech.submit("leg", task("a"), Priority.FINAL)
        await asyncio.sleep(0.06)
        second = speech.submit("leg", task("b"), Priority.FINAL)
        return list(await asyncio.gather(ended_at_ms(loop, first), ended_at_ms(loop, second)))

    assert in_virtual(act) == [pytest.approx(140, abs=0.01), pytest.approx(350, abs=0.01)]


def test_of_one_moment_the_most_urgent_goes_first() -> None:
    async def act(loop: VirtualLoop) -> list[str]:
        engines = ScriptedEngines()
        speech = VirtualSpeech(engines, measure=scripted({}))
        tickets = [
            speech.submit("leg", task(priority.name), priority)
            for priority in (Priority.PREVIEW, Priority.PREPARE, Priority.CLAUSE, Priority.FINAL)
        ]
        await asyncio.gather(*(ticket.result() for ticket in tickets))
        return engines.ran

    assert in_virtual(act) == ["FINAL", "CLAUSE", "PREPARE", "PREVIEW"]


def test_what_runs_is_not_interrupted_by_the_more_urgent() -> None:
    async def act(loop: VirtualLoop) -> tuple[float, float]:
        speech = service({"long": 900, "final": 100})
        long = speech.submit("leg", task("long"), Priority.PREVIEW)
        await asyncio.sleep(0.3)
        final = speech.submit("leg", task("final"), Priority.FINAL)
        first = await ended_at_ms(loop, long)
        return first, await ended_at_ms(loop, final)

    assert in_virtual(act) == (pytest.approx(900), pytest.approx(1000))


def test_a_worker_takes_its_next_task_before_the_waiter_asks_for_more() -> None:
    """As the real service: its worker looks at the queue in the step in which it delivers."""

    async def act(loop: VirtualLoop) -> list[str]:
        engines = ScriptedEngines()
        speech = VirtualSpeech(engines, measure=scripted({}))

        async def chain() -> None:
            await speech.submit("one", task("first"), Priority.FINAL).result()
            await speech.submit("one", task("second"), Priority.FINAL).result()

        waiting = asyncio.ensure_future(chain())
        await asyncio.sleep(0.05)
        other = speech.submit("two", task("preview"), Priority.PREVIEW)
        await asyncio.gather(waiting, other.result())
        return engines.ran

    assert in_virtual(act) == ["first", "preview", "second"]


def test_promotion_moves_a_waiting_task_forward() -> None:
    async def act(loop: VirtualLoop) -> list[str]:
        engines = ScriptedEngines()
        speech = VirtualSpeech(engines, measure=scripted({}))
        running = speech.submit("leg", task("running"), Priority.FINAL)
        await asyncio.sleep(0.01)
        prepared = speech.submit("leg", task("prepared"), Priority.PREPARE)
        clause = speech.submit("leg", task("clause"), Priority.CLAUSE)
        prepared.promote(Priority.FINAL)
        await asyncio.gather(running.result(), prepared.result(), clause.result())
        return engines.ran

    assert in_virtual(act) == ["running", "prepared", "clause"]


def test_cancelling_what_waits_spares_the_run_and_what_runs_is_unheard() -> None:
    async def act(loop: VirtualLoop) -> tuple[bool, bool, list[str], int]:
        engines = ScriptedEngines()
        speech = VirtualSpeech(engines, measure=scripted({}))
        running = speech.submit("leg", task("running"), Priority.FINAL)
        await asyncio.sleep(0.01)
        waiting = speech.submit("leg", task("waiting"), Priority.FINAL)
        cancelled = waiting.withdraw(), running.withdraw()
        running.cancel()
        await asyncio.sleep(5)
        return *cancelled, engines.ran, speech.statistics()["unheard"]

    assert in_virtual(act) == (True, False, ["running"], 1)


def test_a_full_queue_sheds_the_preview_and_tells_its_holder() -> None:
    async def act(loop: VirtualLoop) -> None:
        speech = service(bounds=Bounds(1, 1, 1, 1, total=2))
        speech.submit("leg", task("running"), Priority.FINAL)
        await asyncio.sleep(0.01)
        preview = speech.submit("leg", task("preview"), Priority.PREVIEW)
        speech.submit("leg", task("clause"), Priority.CLAUSE)
        final = speech.submit("leg", task("final"), Priority.FINAL)
        with pytest.raises(QueueFull):
            await preview.result()
        with pytest.raises(QueueFull):
            speech.submit("leg", task("more"), Priority.FINAL)
        assert isinstance(await final.result(), Done)

    in_virtual(act)


def test_an_engines_error_is_told_and_the_worker_goes_on() -> None:
    async def act(loop: VirtualLoop) -> None:
        speech = service()
        failing = speech.submit("leg", task("fail"), Priority.FINAL)
        good = speech.submit("leg", task("good"), Priority.FINAL)
        with pytest.raises(TaskFailed, match="LookupError"):
            await failing.result()
        assert isinstance(await good.result(), Done)

    in_virtual(act)


def test_closing_loses_what_waits() -> None:
    async def act(loop: VirtualLoop) -> None:
        speech = service()
        running = speech.submit("leg", task("running"), Priority.FINAL)
        await asyncio.sleep(0.01)
        waiting = speech.submit("leg", task("waiting"), Priority.FINAL)
        await speech.close()
        with pytest.raises(WorkerLost):
            await waiting.result()
        assert isinstance(await running.result(), Done)
        with pytest.raises(WorkerLost):
            await speech.submit("leg", task("late"), Priority.FINAL).result()

    in_virtual(act)


@given(st.lists(st.tuples(st.integers(1, 500), st.sampled_from(list(Priority))), min_size=1, max_size=20))
def test_one_worker_is_never_idle_while_something_waits(jobs: list[tuple[int, Priority]]) -> None:
    """Whatever the order: the last result comes when the sum of all runs has passed, and runs never overlap."""

    async def act(loop: VirtualLoop) -> list[Done]:
        speech = service({str(index): cost for index, (cost, _) in enumerate(jobs)})
        tickets = [speech.submit("leg", task(str(index)), priority) for index, (_, priority) in enumerate(jobs)]
        return list(await asyncio.gather(*(ticket.result() for ticket in tickets)))

    done = sorted(in_virtual(act), key=lambda each: each.started_ns)
    assert done[-1].done_ns - START_NS == pytest.approx(sum(cost for cost, _ in jobs) * MS, abs=100)
    assert all(before.done_ns <= after.started_ns for before, after in pairwise(done))


@given(st.integers(0, 10**10), st.integers(0, 10**10), st.integers(0, 10**10), st.integers(1, 8))
def test_a_charge_lies_between_the_cpus_share_and_the_wall(wall: int, cpu: int, waited: int, threads: int) -> None:
    charged = charge_ns(wall, cpu, waited, threads)
    assert 0 <= charged <= min(wall, cpu)
    assert charged >= min(wall, cpu // threads)
    assert charged >= min(wall - waited, cpu)


def test_a_process_that_was_stopped_meanwhile_is_not_charged_for_it() -> None:
    """Stopped is not "ready to run", so no wait for a processor is told; the CPU time tells."""
    assert charge_ns(600_000_000_000, 400_000_000, 0, 2) == 400_000_000


def test_a_measured_run_is_not_charged_more_than_the_wall() -> None:
    result, run = measured("recognize", 1, lambda: sum(range(200_000)))
    assert result == 19_999_900_000
    assert 0 < run.charged_ns <= run.wall_ns
    assert run.charged_ns == min(run.cpu_ns, run.wall_ns)
