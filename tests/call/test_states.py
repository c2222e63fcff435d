# SPDX-License-Identifier: GPL-3.0-or-later
"""The two tables: complete, closed, and what they force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.states import (
    CALL_TABLE,
    LEG_TABLE,
    CallPhase,
    LegEvent,
    LegMachine,
    LegState,
    UnknownTransition,
    call_of,
    mermaid,
)

pytestmark = pytest.mark.unit


def test_a_leg_that_is_gone_stays_gone() -> None:
    assert {new for (old, _), new in LEG_TABLE.items() if old is LegState.GONE} == {LegState.GONE}


def test_every_state_but_gone_can_be_hung_up() -> None:
    for state in LegState:
        assert (state, LegEvent.HANGUP) in LEG_TABLE


def test_a06_a_200_that_meets_our_cancel_changes_nothing() -> None:
    leg = LegMachine("x")
    for event in (LegEvent.DIAL, LegEvent.RING, LegEvent.HANGUP, LegEvent.CONFIRM):
        leg.apply(event)
    assert leg.state is LegState.ENDING
    assert leg.apply(LegEvent.END) is LegState.GONE


def test_an_unknown_pair_raises() -> None:
    leg = LegMachine("x")
    with pytest.raises(UnknownTransition, match="leg x: answer in state idle"):
        leg.apply(LegEvent.ANSWER)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(LegEvent))), max_size=30))
def test_every_reachable_pair_of_legs_is_in_the_call_table(steps: list[tuple[str, LegEvent]]) -> None:
    """The caller is offered first; the called party is dialled only then. Nothing else is assumed."""
    legs = {"a": LegMachine("a"), "b": LegMachine("b")}
    legs["a"].apply(LegEvent.OFFER)
    for name, event in steps:
        if name == "b" and event is LegEvent.OFFER:
            continue
        leg = legs[name]
        if (leg.state, event) in LEG_TABLE:
            leg.apply(event)
        assert call_of(legs["a"].state, legs["b"].state).phase in CallPhase


def test_when_one_leg_is_gone_the_other_is_always_forced_to_end() -> None:
    live = (LegState.DIALLING, LegState.RINGING, LegState.UP)
    for state in live:
        assert CALL_TABLE[LegState.GONE, state].on_b is LegEvent.HANGUP
    for state in (LegState.OFFERED, LegState.ANSWERING, LegState.UP):
        assert CALL_TABLE[state, LegState.GONE].on_a is LegEvent.HANGUP


def test_b12_only_a_party_that_is_up_is_kept_for_the_last_words() -> None:
    for (a, b), forced in CALL_TABLE.items():
        if forced.after_speech:
            kept = b if forced.on_b else a
            assert kept is LegState.UP


def test_the_call_has_ended_only_when_no_leg_is_left() -> None:
    for a, b in product(LegState, LegState):
        forced = CALL_TABLE.get((a, b))
        if forced is not None and forced.phase is CallPhase.ENDED:
            assert a is LegState.GONE and b in (LegState.GONE, LegState.IDLE)


def test_the_diagram_is_drawn_from_the_table() -> None:
    drawn = mermaid()
    for (old, event), new in LEG_TABLE.items():
        if old is not new:
            assert any(f"{old} --> {new}" in line and event.value in line for line in drawn.splitlines())
