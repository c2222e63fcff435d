# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stream.lag import LagAction, LagBudget, LagPolicy, Waiting

pytestmark = pytest.mark.unit

MS = 1_000_000
GAP_MS = 250
MINUTES_10 = 600_000


def waiting(*lengths_ms: int) -> list[Waiting]:
    return [Waiting(f"c{at}", length) for at, length in enumerate(lengths_ms)]


@dataclass(frozen=True)
class Talk:
    actions: list[LagAction]
    lags_ms: list[int]
    spoken: list[str]


def talk(policy: LagPolicy, clauses: list[tuple[int, int]]) -> Talk:
    """Plays clauses (arrival_ms, speech_ms) one after the other, by the policy, on a virtual clock."""
    actions, lags, spoken = [], [], []
    queue: list[Waiting] = []
    now_ms, arrived = 0, 0
    while arrived < len(clauses) or queue:
        if not queue:
            now_ms = max(now_ms, clauses[arrived][0])
        while arrived < len(clauses) and clauses[arrived][0] <= now_ms:
            queue.append(Waiting(str(arrived), clauses[arrived][1]))
            arrived += 1
        lags.append(sum(each.speech_ms for each in queue[:-1]))
        action = policy.next(queue, now_ms * MS)
        actions.append(action)
        assert [each.clause_id for each in queue[: len(action.drop)]] == list(action.drop)
        queue = queue[len(action.drop) :]
        count = max(len(action.merge), 1)
        now, queue = queue[:count], queue[count:]
        spoken += [each.clause_id for each in now]
        now_ms += round(sum(each.speech_ms for each in now) / action.tempo + GAP_MS * action.gap_factor)
    return Talk(actions, lags, spoken)


def arrivals(chance: random.Random, load: float, until_ms: int, *, with_gap: bool = False) -> list[tuple[int, int]]:
    """Clauses of 1..5 s of speech that arrive so that speech comes ``load`` times as fast as time passes."""
    clauses, at_ms = [], 0.0
    while at_ms < until_ms:
        speech_ms = chance.randrange(1000, 5000)
        at_ms += (speech_ms + GAP_MS * with_gap) / load
        clauses.append((round(at_ms), speech_ms))
    return clauses


def test_b5_steps_are_taken_in_order() -> None:
    assert LagPolicy().next(waiting(8000), 0) == LagAction((), False, (), 1.0, 1.0)
    assert LagPolicy().next(waiting(700, 8000), 0) == LagAction((), False, (), 1.0, 1.0)
    assert LagPolicy().next(waiting(1600, 500), 0) == LagAction((), False, (), 1.1, 1.0)
    assert LagPolicy().next(waiting(1000, 700, 500), 0) == LagAction((), False, (), 1.1, 0.75)
    assert LagPolicy().next(waiting(3000, 2000, 500, 9), 0) == LagAction((), False, ("c0", "c1", "c2"), 1.1, 0.75)
    late = LagPolicy().next(waiting(4000, 5000, 3000, 500, 9), 0)
    assert late == LagAction(("c0", "c1"), True, (), 1.1, 0.75)


def test_b5_nothing_is_dropped_at_the_hard_bound_and_never_the_newest() -> None:
    assert LagPolicy().next(waiting(8000, 4000, 9000), 0).drop == ()
    assert LagPolicy().next(waiting(8000, 4001, 9000), 0).drop == ("c0",)
    assert LagPolicy().next(waiting(30_000), 0, playing_ms=30_000).drop == ()
    assert LagPolicy().next(waiting(30_000, 30_000), 0, playing_ms=3000).drop == ("c0",)


def test_b5_drops_close_together_are_told_once() -> None:
    policy = LagPolicy()
    told = [policy.next(waiting(5000, 5000, 5000, 5000), at * 1000 * MS).notice for at in (0, 5, 19, 20)]
    assert told == [True, False, False, True]
    counts = policy.statistics()
    assert (counts["dropped_clauses"], counts["dropped_ms"], counts["notices"]) == (8, 40_000, 2)


def test_b5_a_step_is_given_back_only_after_calm() -> None:
    policy = LagPolicy()
    assert [policy.next(waiting(3000, 1), 0).tempo for _ in range(5)] == [1.1, 1.2, 1.3, 1.3, 1.3]
    # between the limits nothing moves
    assert policy.next(waiting(1000, 1), 10_000 * MS).tempo == 1.3
    assert policy.next(waiting(100, 1), 11_000 * MS).tempo == 1.3
    assert policy.next(waiting(100, 1), 16_999 * MS).tempo == 1.3
    assert policy.next(waiting(100, 1), 17_000 * MS).tempo == 1.2
    # a slower tempo has a limit of its own
    assert policy.next(waiting(800, 1), 17_001 * MS).tempo == 1.2
    assert policy.next(waiting(700, 1), 18_000 * MS).tempo == 1.2
    assert policy.next(waiting(700, 1), 24_000 * MS).tempo == 1.1
    assert policy.next(waiting(700, 1), 40_000 * MS).tempo == 1.1, "what every clause needs is no haste to give back"


def test_b5_one_who_is_behind_hurries_though_nothing_queues() -> None:
    """A translation a little longer than the talk: one clause waits at a time, and each waits longer."""
    policy = LagPolicy()
    actions = [policy.next(waiting(2000), at * 1000 * MS, behind_ms=at * 500) for at in range(9)]
    assert [action.tempo for action in actions[:3]] == [1.0, 1.0, 1.1]
    assert actions[-1].tempo == 1.3 and actions[-1].gap_factor < 1.0
    # what is late is not left out or thrown together for being late
    assert all(not action.drop and not action.merge for action in actions)
    late = policy.next(waiting(2000), 10_000 * MS, behind_ms=60_000)
    assert (late.drop, late.merge) == ((), ())
    calm = [policy.next(waiting(2000), (20 + at) * 1000 * MS).tempo for at in range(12)]
    assert calm[0] == 1.3 and calm[-1] == 1.0


def test_limits_must_rise_and_something_must_wait() -> None:
    with pytest.raises(ValueError, match="must rise"):
        LagBudget(tempo_ms=5000)
    with pytest.raises(ValueError, match="no clause waits"):
        LagPolicy().next([], 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 299))
def test_b5_j07_at_1_2_times_real_time_ten_minutes_stay_bounded_without_a_drop(seed: int) -> None:
    policy = LagPolicy()
    heard = talk(policy, arrivals(random.Random(seed), 1.2, MINUTES_10))
    assert max(heard.lags_ms) <= policy.budget.hard_ms
    assert policy.statistics()["dropped_clauses"] == 0
    assert heard.spoken == sorted(heard.spoken, key=int)
    half = len(heard.lags_ms) // 2
    # it does not grow: the second five minutes are no worse than the first, give or take a clause
    assert max(heard.lags_ms[half:]) <= max(heard.lags_ms[:half]) + 5000


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(1.4, 3.0))
def test_b5_even_beyond_all_tempo_the_lag_is_bounded_and_every_loss_is_counted(seed: int, load: float) -> None:
    policy = LagPolicy()
    clauses = arrivals(random.Random(seed), load, MINUTES_10)
    heard = talk(policy, clauses)
    # between two questions at most the sound of one synthesis (three clauses) passes, in which more arrives
    assert max(heard.lags_ms) <= policy.budget.hard_ms + load * 15_000
    dropped = [each for action in heard.actions for each in action.drop]
    assert sorted(heard.spoken + dropped, key=int) == [str(at) for at in range(len(clauses))]
    assert policy.statistics()["dropped_clauses"] == len(dropped)
    assert (policy.statistics()["notices"] > 0) == bool(dropped)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.3, 1.0))
def test_b5_at_real_time_nothing_is_dropped_and_the_tempo_returns(seed: int, load: float) -> None:
    policy = LagPolicy()
    chance = random.Random(seed)
    clauses = arrivals(chance, load, MINUTES_10, with_gap=True)
    # a burst in the beginning, so that there is something to return from
    heard = talk(policy, [(0, 1500), (0, 1500), (0, 1500), *clauses])
    assert policy.statistics()["dropped_clauses"] == 0
    assert heard.actions[0].tempo > 1.0
    calm = talk(policy, [(MINUTES_10 * 2 + at * 6000, 2000) for at in range(12)])
    assert (calm.actions[-1].tempo, calm.actions[-1].gap_factor, calm.actions[-1].merge) == (1.0, 1.0, ())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4000), st.lists(st.integers(0, 9000), min_size=1, max_size=8)), max_size=40))
def test_b5_tempo_and_gaps_move_in_small_steps_and_never_drop_under_the_bound(
    questions: list[tuple[int, list[int]]],
) -> None:
    policy = LagPolicy()
    now_ms, tempo = 0, 1.0
    for passed_ms, lengths in questions:
        now_ms += passed_ms
        action = policy.next(waiting(*lengths), now_ms * MS)
        assert abs(action.tempo - tempo) <= 0.1 + 1e-9
        assert 1.0 <= action.tempo <= 1.3
        assert 0.25 <= action.gap_factor <= 1.0
        assert bool(action.drop) == (sum(lengths[:-1]) > policy.budget.hard_ms)
        assert not set(action.drop) & set(action.merge)
        tempo = action.tempo
