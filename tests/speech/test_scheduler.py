# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.speech.errors import QueueFull
from gateway.speech.jobs import Priority
from gateway.speech.scheduler import SHEDDABLE, Bounds, Entry, LoadMeter, Scheduler

pytestmark = pytest.mark.unit

SMALL = Bounds(final=3, clause=2, prepare=3, preview=4, total=7)


def fill(scheduler: Scheduler[str], leg: str, priority: Priority, count: int) -> list[Entry[str]]:
    return [scheduler.offer(leg, priority, f"{leg}{priority.name}{n}", 0)[0] for n in range(count)]


def taken(scheduler: Scheduler[str]) -> list[str]:
    order = []
    while (entry := scheduler.take(0)) is not None:
        order.append(entry.payload)
    return order


def test_urgent_first_and_a_leg_in_its_own_order() -> None:
    scheduler: Scheduler[str] = Scheduler()
    for priority in reversed(Priority):
        fill(scheduler, "a", priority, 2)
    assert taken(scheduler) == [f"a{priority.name}{n}" for priority in Priority for n in range(2)]


def test_a_leg_with_a_hundred_tasks_delays_another_by_one() -> None:
    scheduler: Scheduler[str] = Scheduler(Bounds(final=200, total=400))
    fill(scheduler, "hog", Priority.FINAL, 100)
    assert scheduler.take(0) is not None
    for n in range(20):
        scheduler.offer("meek", Priority.FINAL, f"meek{n}", 0)
        legs = [entry.leg for entry in (scheduler.take(0), scheduler.take(0)) if entry]
        assert "meek" in legs


@given(st.lists(st.sampled_from("abcde"), max_size=60))
def test_legs_take_turns(legs: list[str]) -> None:
    scheduler: Scheduler[int] = Scheduler(Bounds(final=60, total=200))
    for n, leg in enumerate(legs):
        scheduler.offer(leg, Priority.FINAL, n, 0)
    left = Counter(legs)
    while left:
        rotation = [entry for entry in (scheduler.take(0) for _ in range(len(left))) if entry]
        assert {entry.leg for entry in rotation} == set(left)
        left -= Counter(entry.leg for entry in rotation)
    assert scheduler.take(0) is None


def test_f12_full_sheds_newest_preview_then_prepare_and_never_a_final() -> None:
    """Nothing is taken, as while the engines are cold: what waits is bounded, and every loss is counted."""
    scheduler: Scheduler[str] = Scheduler(SMALL)
    fill(scheduler, "a", Priority.PREPARE, 2)
    fill(scheduler, "a", Priority.PREVIEW, 3)
    fill(scheduler, "b", Priority.CLAUSE, 2)
    victims = [scheduler.offer("b", Priority.FINAL, f"final{n}", 0)[1] for n in range(3)]
    assert [victim.payload for victim in victims if victim] == ["aPREVIEW2", "aPREVIEW1", "aPREVIEW0"]
    with pytest.raises(QueueFull):
        scheduler.offer("c", Priority.FINAL, "one too many", 0)
    with pytest.raises(QueueFull):  # full of what is more urgent
        scheduler.offer("c", Priority.PREVIEW, "preview", 0)
    with pytest.raises(QueueFull):  # equally urgent: the one that waits stays
        scheduler.offer("c", Priority.PREPARE, "prepare", 0)
    figures = scheduler.statistics()
    assert figures["shed"] == {"final": 0, "clause": 0, "prepare": 0, "preview": 3}
    assert figures["refused"] == {"final": 1, "clause": 0, "prepare": 1, "preview": 1}
    assert figures["queued_total"] == figures["queued_deepest"] == 7


def test_prepares_are_shed_when_no_preview_is_left() -> None:
    scheduler: Scheduler[str] = Scheduler(Bounds(final=2, clause=2, prepare=3, preview=1, total=4))
    fill(scheduler, "a", Priority.PREPARE, 3)
    fill(scheduler, "a", Priority.PREVIEW, 1)
    victims = [scheduler.offer("b", Priority.CLAUSE, "clause", 0)[1] for _ in range(2)]
    assert [victim.payload for victim in victims if victim] == ["aPREVIEW0", "aPREPARE2"]


def test_bounds_that_could_not_hold_every_final_and_clause_are_refused() -> None:
    with pytest.raises(ValueError, match="shed"):
        Bounds(final=10, clause=10, total=19)
    with pytest.raises(ValueError, match="at least one"):
        Bounds(preview=0)


def test_promoted_task_overtakes_and_keeps_its_place_in_its_leg() -> None:
    scheduler: Scheduler[str] = Scheduler()
    (early,) = fill(scheduler, "a", Priority.PREPARE, 1)
    fill(scheduler, "a", Priority.FINAL, 1)
    assert scheduler.promote(early, Priority.FINAL)
    assert not scheduler.promote(early, Priority.PREVIEW)
    assert taken(scheduler) == ["aPREPARE0", "aFINAL0"]
    assert not scheduler.promote(early, Priority.FINAL)


def test_promote_into_a_full_priority_leaves_the_task_where_it_was() -> None:
    scheduler: Scheduler[str] = Scheduler(SMALL)
    (prepare,) = fill(scheduler, "a", Priority.PREPARE, 1)
    fill(scheduler, "a", Priority.FINAL, 3)
    with pytest.raises(QueueFull):
        scheduler.promote(prepare, Priority.FINAL)
    assert scheduler.waits(prepare)
    assert prepare.priority is Priority.PREPARE


def test_requeued_task_comes_first_whatever_the_bounds() -> None:
    scheduler: Scheduler[str] = Scheduler(SMALL)
    fill(scheduler, "a", Priority.FINAL, 2)
    fill(scheduler, "b", Priority.FINAL, 1)
    lost = scheduler.take(0)
    assert lost is not None
    fill(scheduler, "c", Priority.FINAL, 1)
    scheduler.requeue(lost)
    with pytest.raises(ValueError, match="waits"):
        scheduler.requeue(lost)
    assert taken(scheduler) == ["aFINAL0", "bFINAL0", "cFINAL0", "aFINAL1"]


def test_waits_are_counted_from_acceptance_to_dispatch() -> None:
    scheduler: Scheduler[int] = Scheduler()
    for n in range(20):
        scheduler.offer("a", Priority.FINAL, n, 0)
    for n in range(20):
        scheduler.take((n + 1) * 1_000_000)
    figures = scheduler.statistics()
    assert figures["wait_ms"] == {"p50": 10.0, "p95": 19.0}
    assert figures["wait_ms_by_priority"]["preview"] == {"p50": 0.0, "p95": 0.0}


steps = st.one_of(
    st.tuples(st.just("offer"), st.sampled_from("abc"), st.sampled_from(Priority)),
    st.tuples(st.just("take"), st.just(""), st.just(0)),
    st.tuples(st.just("cancel"), st.just(""), st.integers(0, 40)),
    st.tuples(st.just("promote"), st.sampled_from(["FINAL", "CLAUSE", "PREPARE"]), st.integers(0, 40)),
    st.tuples(st.just("requeue"), st.just(""), st.integers(0, 40)),
)


@settings(max_examples=300)
@given(st.lists(steps, max_size=80))
def test_every_accepted_task_leaves_exactly_once(script: list[tuple[str, str, int]]) -> None:
    scheduler: Scheduler[int] = Scheduler(SMALL)
    accepted: list[Entry[int]] = []
    left: Counter[int] = Counter()
    running: list[Entry[int]] = []
    ends = Counter[str]()
    returned = 0
    for verb, name, value in script:
        finals = scheduler.statistics()["queued"]["final"]
        if verb == "offer":
            try:
                entry, victim = scheduler.offer(name, Priority(value), len(accepted), 0)
            except QueueFull:
                assert value != Priority.FINAL or finals >= SMALL.final
                continue
            accepted.append(entry)
            if victim is not None:
                assert victim.priority in SHEDDABLE
                assert victim.priority > entry.priority
                left[victim.number] += 1
                ends["shed"] += 1
        elif verb == "take":
            empty = len(scheduler) == 0
            taken_entry = scheduler.take(0)
            assert (taken_entry is None) == empty
            if taken_entry is not None:
                left[taken_entry.number] += 1
                ends["dispatched"] += 1
                running.append(taken_entry)
        elif verb == "requeue" and running and returned < 2:
            entry = running.pop(value % len(running))
            scheduler.requeue(entry)
            left[entry.number] -= 1
            returned += 1
        elif verb in {"cancel", "promote"} and accepted:
            entry = accepted[value % len(accepted)]
            waited = scheduler.waits(entry)
            if verb == "cancel":
                assert scheduler.cancel(entry) == waited
                left[entry.number] += waited
                ends["cancelled"] += waited
            else:
                try:
                    scheduler.promote(entry, Priority[name])
                except QueueFull:
                    assert scheduler.waits(entry)
        # Two requeued entries at most may stand above the bounds.
        assert len(scheduler) <= SMALL.total + 2
        waiting = {entry.number for entry in accepted if scheduler.waits(entry)}
        assert len(waiting) == len(scheduler)
        assert all(left[entry.number] == (entry.number not in waiting) for entry in accepted)
    figures = scheduler.statistics()
    assert figures["dispatched"] == ends["dispatched"]
    assert figures["cancelled"] == ends["cancelled"]
    assert sum(figures["shed"].values()) == ends["shed"]
    assert sum(figures["accepted"].values()) == len(accepted)
    rest = len(scheduler)
    assert [entry.number for entry in scheduler.drain()] == sorted(
        entry.number for entry in accepted if not left[entry.number]
    )
    assert rest + sum(left.values()) == len(accepted)
    assert scheduler.take(0) is None


def test_utilisation_is_busy_time_over_wall() -> None:
    meter = LoadMeter(2, 0, time_constant_s=10.0)
    meter.set_busy(1, 0)
    assert meter.utilisation(10_000_000_000) == pytest.approx(0.5 * (1 - math.exp(-1)))
    for second in range(11, 200):
        meter.set_busy(1, second * 1_000_000_000)
    assert meter.utilisation(200_000_000_000) == pytest.approx(0.5, abs=1e-6)
    meter.set_busy(0, 200_000_000_000)
    assert meter.utilisation(210_000_000_000) == pytest.approx(0.5 * math.exp(-1), abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**10)), max_size=30))
def test_utilisation_stays_a_share(changes: list[tuple[int, int]]) -> None:
    meter = LoadMeter(3, 0)
    for busy, at_ns in changes:  # also when stamps run backwards
        meter.set_busy(busy, at_ns)
        assert 0.0 <= meter.utilisation(at_ns) <= 1.0


def test_f08_real_time_factor_per_kind() -> None:
    meter = LoadMeter(1, 0)
    meter.add_run("recognize", 200_000_000, 1_000_000_000)
    meter.add_run("recognize", 400_000_000, 1_000_000_000)
    meter.add_run("translate", 10_000_000)
    figures = meter.statistics(0)
    assert figures["real_time_factor"] == {"recognize": pytest.approx(0.3)}
    assert figures["run_ms"]["recognize"] == {"done": 2, "mean": 300.0, "p50": 200.0, "p95": 400.0}
