# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a leg and of a call, as two tables.

The first table says how one leg moves; the second says what the two legs' states make of the call, and which event
that forces on a leg. Nothing else in the gateway decides this. A pair that is not in a table is a programming error
and raises. The diagram in ``docs/architecture.md`` is drawn from these tables by `mermaid`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import structlog

log = structlog.get_logger(__name__)


class LegState(StrEnum):
    """Where a leg is in its life."""

    IDLE = "idle"
    OFFERED = "offered"
    DIALLING = "dialling"
    RINGING = "ringing"
    ANSWERING = "answering"
    UP = "up"
    ENDING = "ending"
    GONE = "gone"


class LegEvent(StrEnum):
    """What can happen to a leg."""

    OFFER = "offer"
    """An INVITE came in."""
    DIAL = "dial"
    """We sent an INVITE."""
    RING = "ring"
    """180/183 from the far end."""
    ANSWER = "answer"
    """We send 200."""
    CONFIRM = "confirm"
    """The ACK was seen or sent."""
    HANGUP = "hangup"
    """We end it: BYE, CANCEL or a final code."""
    END = "end"
    """It is over, whoever ended it."""


_S, _E = LegState, LegEvent

LEG_TABLE: dict[tuple[LegState, LegEvent], LegState] = {
    (_S.IDLE, _E.OFFER): _S.OFFERED,
    (_S.IDLE, _E.DIAL): _S.DIALLING,
    (_S.IDLE, _E.HANGUP): _S.GONE,
    (_S.OFFERED, _E.ANSWER): _S.ANSWERING,
    (_S.OFFERED, _E.HANGUP): _S.ENDING,
    (_S.OFFERED, _E.END): _S.GONE,
    (_S.ANSWERING, _E.CONFIRM): _S.UP,
    (_S.ANSWERING, _E.HANGUP): _S.ENDING,
    (_S.ANSWERING, _E.END): _S.GONE,
    (_S.DIALLING, _E.RING): _S.RINGING,
    (_S.DIALLING, _E.CONFIRM): _S.UP,
    (_S.DIALLING, _E.HANGUP): _S.ENDING,
    (_S.DIALLING, _E.END): _S.GONE,
    (_S.RINGING, _E.RING): _S.RINGING,
    (_S.RINGING, _E.CONFIRM): _S.UP,
    (_S.RINGING, _E.HANGUP): _S.ENDING,
    (_S.RINGING, _E.END): _S.GONE,
    (_S.UP, _E.CONFIRM): _S.UP,
    (_S.UP, _E.HANGUP): _S.ENDING,
    (_S.UP, _E.END): _S.GONE,
    # What crosses our own hang-up on the wire (a 200 that meets our CANCEL, CASES A06) changes nothing any more.
    (_S.ENDING, _E.RING): _S.ENDING,
    (_S.ENDING, _E.CONFIRM): _S.ENDING,
    (_S.ENDING, _E.HANGUP): _S.ENDING,
    (_S.ENDING, _E.END): _S.GONE,
    (_S.GONE, _E.HANGUP): _S.GONE,
}


class CallPhase(StrEnum):
    """What the call is doing, seen from outside."""

    SETUP = "setup"
    """The caller is there, and is being greeted."""
    CONNECTING = "connecting"
    """The called party is being dialled."""
    BRIDGED = "bridged"
    """Both hear each other's translation."""
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Forced:
    """The call's phase, and the event which that forces on a leg (None: leave it alone)."""

    phase: CallPhase
    on_a: LegEvent | None = None
    on_b: LegEvent | None = None
    after_speech: bool = False
    """The forced event waits until that leg has heard what is still to be said to it (SPEC B12: last words)."""


def _call_table() -> dict[tuple[LegState, LegState], Forced]:
    ringing = (_S.DIALLING, _S.RINGING)
    alive_a = (_S.OFFERED, _S.ANSWERING, _S.UP)
    alive_b = (*ringing, _S.UP)
    table: dict[tuple[LegState, LegState], Forced] = {}
    for a in (_S.IDLE, *ringing, *alive_a):  # a first party that is being dialled: click-to-call
        table[a, _S.IDLE] = Forced(CallPhase.SETUP)
    for a in (_S.IDLE, *alive_a):
        for b in ringing:
            table[a, b] = Forced(CallPhase.CONNECTING)
        table[a, _S.UP] = Forced(CallPhase.BRIDGED if a is _S.UP else CallPhase.CONNECTING)
    for a in alive_a:
        # The caller stays to hear the other party's last words, or why there is no other party.
        table[a, _S.ENDING] = Forced(CallPhase.ENDING)
        table[a, _S.GONE] = Forced(CallPhase.ENDING, on_a=_E.HANGUP, after_speech=a is _S.UP)
    for a in (_S.ENDING, _S.GONE):
        for b in alive_b:
            table[a, b] = Forced(CallPhase.ENDING, on_b=_E.HANGUP, after_speech=a is _S.GONE and b is _S.UP)
        for b in (_S.IDLE, _S.ENDING, _S.GONE):
            over = a is _S.GONE and b in (_S.IDLE, _S.GONE)
            table[a, b] = Forced(CallPhase.ENDED if over else CallPhase.ENDING)
    return table


CALL_TABLE = _call_table()


class UnknownTransition(RuntimeError):
    """A pair that no table has: a programming error, never a peer's doing."""


class LegMachine:
    """One leg's state. `apply` is its only setter."""

    def __init__(self, leg: str) -> None:
        self.leg = leg
        self.state = LegState.IDLE

    def apply(self, event: LegEvent) -> LegState:
        """Move by the table, log the move, return the new state."""
        try:
            new = LEG_TABLE[self.state, event]
        except KeyError:
            raise UnknownTransition(f"leg {self.leg}: {event} in state {self.state}") from None
        if new is not self.state:
            log.debug("leg_state", leg=self.leg, old=self.state.value, new=new.value, leg_event=event.value)
        self.state = new
        return new


def call_of(a: LegState, b: LegState) -> Forced:
    """What the legs' states make of the call."""
    try:
        return CALL_TABLE[a, b]
    except KeyError:
        raise UnknownTransition(f"call: leg A {a}, leg B {b}") from None


def mermaid() -> str:
    """The leg table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> idle"]
    arrows: dict[tuple[str, str], list[str]] = {}
    for (old, event), new in LEG_TABLE.items():
        if old is not new:
            arrows.setdefault((old.value, new.value), []).append(event.value)
    lines += [f"    {old} --> {new}: {' / '.join(events)}" for (old, new), events in arrows.items()]
    return "\n".join([*lines, "    gone --> [*]"])
