# SPDX-License-Identifier: GPL-3.0-or-later
"""Blind transfer with the interpreter kept (SPEC A5): a party is replaced by somebody else, because it asks for that
by REFER (RFC 3515) or because the operator does.

    asked → the successor is dialled, and rings → it answers → it takes the place of the party: same side, same
    directions of speech, same language unless the operator names another; whose own leg is hung up

The SIP library sends the NOTIFYs about the new leg. The party that asked may hang up as soon as it likes: its place is
kept while the successor rings, and the other party hears it ring. If nobody answers, the party that asked goes on
talking, or the call ends with the reason if it has left. Where the operator asked, the other party hears the reason: it
was to talk to somebody else.

Where a party may be transferred to is the dial plan's choice, not the party's: see `DialPlan.leads_to`. What an
operator may dial is the API's affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from gateway.audio.frames import Frame
from gateway.audio.ring import FrameRing
from gateway.call import termination
from gateway.call.desk import Desk
from gateway.call.party import Party
from gateway.call.states import LegEvent, LegMachine, LegState
from gateway.call.termination import Ending
from gateway.sip.events import Answered, Ended, MediaActive, MediaHeld, Referred, Ringing, SipEvent

log = structlog.get_logger(__name__)

TRANSFERRED = {"Reason": 'SIP;cause=200;text="transferred"'}


class Continuation:
    """A sink that lets a new leg's sound go on where the old leg's ended: same name, same count of samples.

    The old leg's tap is closed before this one is bound, and both are called on the one clock thread.
    """

    def __init__(self, ring: FrameRing, leg: str) -> None:
        self._ring = ring
        self._leg = leg
        self._shift: int | None = None

    def put(self, frame: Frame) -> None:
        """Take one frame of the new leg."""
        if self._shift is None:
            self._shift = self._ring.next_sample - frame.first_sample
        self._ring.put(replace(frame, leg=self._leg, first_sample=frame.first_sample + self._shift))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whom the operator wants in a party's place."""

    uri: str
    language: str
    among: tuple[str, ...] = ()
    """What they may speak, where that is to be found out."""


@dataclass(slots=True)
class Successor:
    """The leg that is to take a party's place."""

    leg: str
    party: Party
    machine: LegMachine
    wanted: Wanted | None = None
    """What the operator asked for; None: the party asked."""
    codec: str = ""
    active: bool = False
    """Sound flows on it."""
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class TransferringCall(Protocol):
    """What a transfer needs of its call."""

    def replaced(self, party: Party, wanted: Wanted | None, *, active: bool) -> None:
        """The party is somebody else now; ``active`` when the new leg is not on hold."""

    def left_alone(self, party: Party, ending: Ending) -> None:
        """The party has left, and its successor does not come."""

    def other(self, party: Party) -> Party:
        """The other side."""

    def ring_back(self, party: Party, rings: Callable[[], bool], waits: Callable[[], bool]) -> None:
        """Let a party hear ring-back while somebody is awaited."""


class Transfers:
    """The transfers of one call: at most one under way for each party."""

    def __init__(self, call_id: str, desk: Desk, call: TransferringCall) -> None:
        self.legs: list[str] = []
        """Ids of all successors so far."""
        self._call_id = call_id
        self._desk = desk
        self._call = call
        self._coming: dict[str, Successor] = {}
        self._brought: dict[str, Wanted] = {}
        self._gone: set[str] = set()

    def permit(self, party: Party) -> None:
        """The party may ask to be replaced, by somebody whom the dial plan reaches in its language."""
        self._desk.user_agent.permit_transfer(party.leg, lambda uri: self._desk.leads_to(uri, party.language))

    def awaits(self, party: Party) -> bool:
        """Somebody is dialled who is to take this party's place."""
        return party.side in self._coming

    def has_brought(self, party: Party, wanted: Wanted) -> bool:
        """The operator's order was carried out, or is being: whoever was wanted is there, or is dialled."""
        coming = self._coming.get(party.side)
        return wanted == (coming.wanted if coming is not None else self._brought.get(party.side))

    def bring(self, party: Party, wanted: Wanted) -> str:
        """Dial somebody to take a party's place, for whom nobody is awaited yet: the new leg's id."""
        leg = f"{self._call_id}-{party.side}{len(self.legs) + 1}"
        self._desk.user_agent.dial(leg, wanted.uri)
        self._await(party, Successor(leg, party, LegMachine(leg), wanted))
        return leg

    def left(self, party: Party) -> bool:
        """The party has hung up, and only its successor is awaited."""
        return party.side in self._gone

    def on_sip(self, party_of: Callable[[str], Party | None], event: SipEvent) -> bool:
        """Take an event that concerns a transfer; False when it is none of ours."""
        if isinstance(event, Referred):
            party = party_of(event.leg)
            if party is not None:
                self._begin(party, event.successor)
            return True
        for successor in self._coming.values():
            if successor.leg == event.leg:
                self._follow(successor.party, successor, event)
                return True
        party = party_of(event.leg)
        if isinstance(event, Ended) and party is not None and party.side in self._coming:
            self._gone.add(party.side)  # as many telephones do at once: its place is kept for the successor
            return True
        return False

    def give_up(self, party: Party) -> bool:
        """The party is to be hung up: its successor too. True when nothing is left of the party's own leg."""
        successor = self._coming.pop(party.side, None)
        if successor is not None:
            self._drop(successor)
        gone = party.side in self._gone
        self._gone.discard(party.side)
        return gone

    # --- one transfer -----------------------------------------------------------------------------------------------

    def _begin(self, party: Party, leg: str) -> None:
        if party.machine.state is not LegState.UP or self.awaits(party):  # its hang-up, or another, crossed this one
            self.legs.append(leg)
            self._desk.user_agent.hangup(leg)
            return
        self._await(party, Successor(leg, party, LegMachine(leg)))

    def _await(self, party: Party, successor: Successor) -> None:
        self.legs.append(successor.leg)
        successor.machine.apply(LegEvent.DIAL)
        self._coming[party.side] = successor
        loop = asyncio.get_running_loop()
        successor.timer = loop.call_later(self._desk.limits.ring_timeout_s, self._too_late, party)
        self._tell(party, "trying")
        self._call.ring_back(
            self._call.other(party),
            lambda: successor.machine.state is LegState.RINGING and (party.held or self.left(party)),
            lambda: self._coming.get(party.side) is successor,
        )

    def _follow(self, party: Party, successor: Successor, event: SipEvent) -> None:
        match event:
            case Ringing():
                successor.machine.apply(LegEvent.RING)
            case MediaActive():
                successor.codec, successor.active = event.codec, True
            case MediaHeld():
                successor.active = False
            case Answered():
                self._take_over(party, successor)
            case Ended():
                self._fail(party, termination.callee_failure(event.code))

    def _take_over(self, party: Party, successor: Successor) -> None:
        del self._coming[party.side]
        self._stop_timer(successor)
        successor.machine.apply(LegEvent.CONFIRM)
        user_agent = self._desk.user_agent
        if party.side not in self._gone:
            user_agent.hangup(party.leg, headers=TRANSFERRED)
        self._gone.discard(party.side)
        party.playout.flush()  # it was said to somebody else
        party.leg, party.machine, party.codec = successor.leg, successor.machine, successor.codec
        user_agent.attach(party.leg, Continuation(party.ring, party.line), party.playout)
        self.permit(party)
        self._brought.pop(party.side, None)
        if successor.wanted is not None:
            self._brought[party.side] = successor.wanted
        self._tell(party, "done")
        self._call.replaced(party, successor.wanted, active=successor.active)

    def _fail(self, party: Party, ending: Ending) -> None:
        successor = self._coming.pop(party.side)
        self._stop_timer(successor)
        self._tell(party, "failed", ending.reason)
        if party.side in self._gone:
            self._gone.discard(party.side)
            self._call.left_alone(party, ending)
        elif successor.wanted is not None:
            waiting = self._call.other(party)
            waiting.prompt(ending.reason, self._desk.booth.prompts.clip(waiting.language, ending.reason))

    def _too_late(self, party: Party) -> None:
        successor = self._coming.get(party.side)
        if successor is not None:
            self._drop(successor)
            self._fail(party, termination.CALLEE_NO_ANSWER)

    def _drop(self, successor: Successor) -> None:
        self._stop_timer(successor)
        self._desk.user_agent.hangup(successor.leg)

    @staticmethod
    def _stop_timer(successor: Successor) -> None:
        if successor.timer is not None:
            successor.timer.cancel()

    def _tell(self, party: Party, state: str, reason: str | None = None) -> None:
        log.info("call_transfer", call=self._call_id, leg=party.side, state=state, reason=reason)
        self._desk.publish("call-transfer", self._call_id, leg=party.side, state=state, reason=reason)
