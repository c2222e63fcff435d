# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes or refuses what is offered, keeps the calls that live, and routes SIP events to them.

A call is refused before anything of it is answered, with the code that says why (CASES A22).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import structlog

from gateway.call import termination
from gateway.call.auto import with_candidates
from gateway.call.bridge import Call
from gateway.call.desk import Desk
from gateway.call.dialplan import DialPlan, Match
from gateway.call.menu import MENU_PROMPTS
from gateway.call.menu_plan import MenuPlan
from gateway.call.party import Party
from gateway.call.termination import Ending
from gateway.call.transfer import Wanted
from gateway.sip.events import Incoming, Referred, SipEvent

log = structlog.get_logger(__name__)


class LegCounter(Protocol):
    """The part of the user agent that admission needs."""

    def free_legs(self) -> int:
        """Legs that could still be made."""

    def hangup(self, leg: str, code: int = 0, *, headers: Mapping[str, str] | None = None) -> None:
        """Refuse an offer."""


class Switchboard:
    """All calls of this gateway. Lives on the asyncio loop."""

    def __init__(self, dialplan: DialPlan, *, trusted_trunks: frozenset[str] = frozenset()) -> None:
        self._dialplan = dialplan
        self._trusted = trusted_trunks
        self._desk: Desk | None = None
        self._pairs: frozenset[tuple[str, str]] = frozenset()
        self._user_agent: LegCounter | None = None
        self._draining = False
        self._calls: dict[str, Call] = {}
        self._by_leg: dict[str, Call] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._counts: Counter[str] = Counter()

    def connect(self, user_agent: LegCounter) -> None:
        """The user agent is up: offers may come, and are refused with 503 until `open`."""
        self._user_agent = user_agent

    def open(self, desk: Desk, pairs: frozenset[tuple[str, str]]) -> None:
        """Models are loaded: take calls in these directed language pairs."""
        self._desk, self._pairs = desk, pairs

    @property
    def ready(self) -> bool:
        """True when calls are taken."""
        return self._desk is not None and not self._draining

    def on_sip(self, event: SipEvent) -> None:
        """Take any event of the SIP room."""
        if isinstance(event, Incoming):
            self._offered(event)
            return
        call = self._by_leg.get(event.leg)
        if call is None:
            self._counts["events_without_call"] += 1
            if isinstance(event, Referred) and self._user_agent is not None:  # asked for at the last moment
                self._user_agent.hangup(event.successor)
            return
        if isinstance(event, Referred):
            self._by_leg[event.successor] = call
        call.on_sip(event)

    def _offered(self, offer: Incoming) -> None:
        verdict = self._route(offer)
        if isinstance(verdict, Ending):
            self._counts[f"refused-{verdict.reason}"] += 1
            log.info("call_refused", reason=verdict.reason, code=verdict.sip_code, trunk=offer.trunk)
            assert self._user_agent is not None
            self._user_agent.hangup(offer.leg, verdict.sip_code, headers=verdict.sip_headers())
            return
        assert self._desk is not None
        self._counts["taken"] += 1
        self._begin(verdict, offer.leg)

    def bridge(self, match: Match) -> str | Ending:
        """Dial the match's first party and then its destination: the call's id, or why there is no such call.

        Both legs are reserved before either telephone rings.
        """
        assert match.first is not None
        match = with_candidates(match, self._pairs)
        refusal = self._admit(match, legs=2)
        if refusal is not None:
            self._counts[f"refused-{refusal.reason}"] += 1
            log.info("bridge_refused", reason=refusal.reason)
            return refusal
        self._counts["placed"] += 1
        return self._begin(match, None)

    def _begin(self, match: Match, leg: str | None) -> str:
        assert self._desk is not None
        call_id = secrets.token_hex(6)
        call = Call(call_id, leg or f"{call_id}-a", match, self._desk)
        self._calls[call_id] = call
        self._by_leg.update(dict.fromkeys(call.legs(), call))
        self._tasks[call_id] = asyncio.create_task(self._live(call), name=f"call-{call_id}")
        return call_id

    def _route(self, offer: Incoming) -> Match | Ending:
        if not self.ready:
            return termination.DRAINING if self._draining else termination.NOT_READY
        try:
            match = self._dialplan.match(offer.dialled, offer.headers, trusted=offer.trunk in self._trusted)
        except LookupError:
            return termination.UNKNOWN_LANGUAGE
        if match is None:
            return termination.UNKNOWN_NUMBER
        match = with_candidates(match, self._pairs)
        # both legs, or none: the caller's is taken, the other one must be free
        return self._admit(match, legs=1) or replace(match, trunk=offer.trunk)

    def _admit(self, match: Match, *, legs: int) -> Ending | None:
        """Why a call that still has to dial ``legs`` legs cannot be; None when it can."""
        if not self.ready:
            return termination.DRAINING if self._draining else termination.NOT_READY
        if not all(self.serves(*pair) for pair in match.route.pairs()):
            return termination.UNKNOWN_LANGUAGE
        if match.route.menu is not None and not self._can_ask(match.route.menu):
            return termination.NOT_READY
        if self._user_agent is None or self._user_agent.free_legs() - self._promised_legs() < legs:
            return termination.NO_FREE_LEG
        return None

    def serves(self, source: str, target: str) -> bool:
        """Whether two parties with these languages can talk to each other; of one language, they are passed through."""
        if source == target:
            return any(source in pair for pair in self._pairs)
        return (source, target) in self._pairs and (target, source) in self._pairs

    def candidates(self, other: str) -> tuple[str, ...]:
        """What somebody may speak who talks to a party of this language."""
        return tuple(one for one in sorted({each for pair in self._pairs for each in pair}) if self.serves(one, other))

    def _can_ask(self, menu: MenuPlan) -> bool:
        """Whether everything that a menu says is there: prompts are made behind the start, the first time."""
        assert self._desk is not None
        return all(self._desk.booth.prompts.has(language, MENU_PROMPTS) for language in menu.languages)

    def _promised_legs(self) -> int:
        """Legs that calls in set-up will still need."""
        return sum(call.legs_to_dial for call in self._calls.values())

    async def _live(self, call: Call) -> None:
        try:
            await call.run()
        finally:
            self._calls.pop(call.call_id, None)
            for leg in call.legs():
                self._by_leg.pop(leg, None)
            self._tasks.pop(call.call_id, None)
            if call.ending is not None:
                self._counts[f"ended-{call.ending.result.value}"] += 1

    def hang_up(self, call_id: str) -> bool:
        """End one call for the operator; False when there is no such call."""
        call = self._calls.get(call_id)
        if call is not None:
            call.end(termination.OPERATOR_HUNG_UP)
        return call is not None

    def transfer(self, call: Call, party: Party, wanted: Wanted) -> Ending | None:
        """Dial somebody who is to take a party's place in a live call; why that cannot be, None when it rings."""
        if self._user_agent is None or self._user_agent.free_legs() - self._promised_legs() < 1:
            return termination.NO_FREE_LEG
        self._by_leg[call.transfers.bring(party, wanted)] = call
        return None

    def live(self, call_id: str) -> Call | None:
        """A call that lives here."""
        return self._calls.get(call_id)

    def drain(self) -> None:
        """Take no more calls; those that live go on."""
        self._draining = True

    async def stop(self, grace_s: float = 0.0) -> None:
        """Drain, give live calls ``grace_s`` to end by themselves, then end them."""
        self.drain()
        if self._tasks and grace_s:
            await asyncio.wait(list(self._tasks.values()), timeout=grace_s)
        self.end_all()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=5.0)
        for task in list(self._tasks.values()):
            task.cancel()

    def end_all(self) -> None:
        """End every live call now."""
        for call in list(self._calls.values()):
            call.end(termination.SHUTDOWN)

    def calls(self) -> dict[str, dict[str, Any]]:
        """The live calls' records by id."""
        return {call_id: call.record() for call_id, call in self._calls.items()}

    def statistics(self) -> dict[str, Any]:
        """Live calls, and counts of what was taken, refused and ended."""
        return {"live": len(self._calls), "ready": self.ready, "draining": self._draining, **self._counts}
