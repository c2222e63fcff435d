# SPDX-License-Identifier: GPL-3.0-or-later
"""Blind transfer without the interpreter (RFC 3515, RFC 5589): a party is sent to call somebody else by itself.

    REFER to the party's leg → its PBX calls, and tells by NOTIFY → reached: both legs are hung up
                                                                  → not reached: the party hears why, the call goes on

The wait is bounded: nobody is left waiting for a PBX that takes a REFER and never says what became of it. What it says
too late still counts, because then the party is with somebody else. A party that hangs up behind its consent is taken
to have arrived: many telephones do that instead of telling.

Where a party may be sent is the asker's affair to know.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from gateway.call import termination
from gateway.call.desk import Desk
from gateway.call.party import Party
from gateway.call.termination import Ending
from gateway.sip.events import Ended, ReferProgress, SipEvent

log = structlog.get_logger(__name__)


class HandingCall(Protocol):
    """What a hand-over needs of its call."""

    def handed_over(self, party: Party, *, here: bool) -> None:
        """The party talks to somebody else now; ``here`` when its leg is still up."""


class Handovers:
    """The hand-overs of one call, one at a time."""

    def __init__(self, call_id: str, desk: Desk, call: HandingCall) -> None:
        self._call_id = call_id
        self._desk = desk
        self._call = call
        self._party: Party | None = None
        """Who was sent elsewhere, and has not been heard to have failed."""
        self._uri = ""
        self._agreed = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def under_way(self) -> tuple[str, str] | None:
        """Side of the party that is being handed over, and the address it is sent to."""
        return (self._party.side, self._uri) if self._party is not None and self._timer is not None else None

    def begin(self, party: Party, uri: str) -> None:
        """Send a party to call an address. Asked again while it is under way, it changes nothing."""
        if self.under_way is not None:
            return
        self._party, self._uri, self._agreed = party, uri, False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._desk.limits.ring_timeout_s, self._too_late)
        self._desk.user_agent.refer(party.leg, uri)
        self._tell(party, "trying")

    def on_sip(self, event: SipEvent) -> bool:
        """Take an event of the party that was sent elsewhere; False when somebody else has to."""
        party = self._party
        if party is None or event.leg != party.leg:
            return isinstance(event, ReferProgress)
        match event:
            case ReferProgress(code=code) if code < 200:
                self._agreed = True
            case ReferProgress(code=code) if code < 300:
                self._arrived(party, here=True)
            case ReferProgress(code=code):
                self._failed(party, termination.callee_failure(code))
            case Ended() if self._agreed and self.under_way is not None:
                self._arrived(party, here=False)
            case Ended():
                self.close()
                return False
            case _:
                return False
        return True

    def close(self) -> None:
        """The party, or the call, is gone: wait for nothing."""
        self._stop_timer()
        self._party = None

    def _arrived(self, party: Party, *, here: bool) -> None:
        self._stop_timer()
        self._party = None
        self._tell(party, "done")
        self._call.handed_over(party, here=here)

    def _failed(self, party: Party, ending: Ending) -> None:
        told = self._timer is None  # that it takes too long
        self._stop_timer()
        self._party = None
        if not told:
            self._say_why(party, ending)

    def _too_late(self) -> None:
        self._timer = None
        if self._party is not None:
            self._say_why(self._party, termination.CALLEE_NO_ANSWER)

    def _say_why(self, party: Party, ending: Ending) -> None:
        self._tell(party, "failed", ending.reason)
        party.prompt(ending.reason, self._desk.booth.prompts.clip(party.language, ending.reason))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, party: Party, state: str, reason: str | None = None) -> None:
        log.info("call_handover", call=self._call_id, leg=party.side, state=state, reason=reason)
        self._desk.publish("call-handover", self._call_id, leg=party.side, state=state, reason=reason)
