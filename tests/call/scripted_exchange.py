# SPDX-License-Identifier: GPL-3.0-or-later
"""A switchboard that takes calls, with telephones and engines that do what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.call.bridge import Call
from gateway.call.desk import Booth, CallLimits, CallRegister, Desk
from gateway.call.dialplan import DialPlan, Match, Route
from gateway.call.events import EventBus
from gateway.call.glossary import Glossaries, TermSource
from gateway.call.party import LEG_RATE_HZ
from gateway.call.prompts import PromptBook
from gateway.call.switchboard import Switchboard
from gateway.sip.events import Incoming, SipEvent
from gateway.state.terms import Terms
from gateway.stream.plan import EndpointPlan
from tests.call.scripted import ScriptedSpeech, settle

MATCH = Match(Route("both", "xx", "yy", "sip:b@host"), "sip:b@host", first="sip:a@host")


class Telephones:
    """A user agent whose far ends do what the test says."""

    def __init__(self, free: int = 4) -> None:
        self.free = free
        self.done: list[tuple[str, str]] = []

    def free_legs(self) -> int:
        return self.free

    def dial(self, leg: str, uri: str, *, headers: Mapping[str, str] | None = None) -> None:
        self.free -= 1
        self.done.append(("dial", leg))

    def answer(self, leg: str) -> None:
        self.done.append(("answer", leg))

    def ring(self, leg: str) -> None:
        self.done.append(("ring", leg))

    def attach(self, leg: str, sink: Any, source: Any) -> None:
        pass

    def permit_transfer(self, leg: str, allowed: Any) -> None:
        pass

    def refer(self, leg: str, uri: str) -> None:
        self.done.append((f"refer-{uri}", leg))

    def hangup(self, leg: str, code: int = 0, *, headers: Mapping[str, str] | None = None) -> None:
        self.done.append(("hangup", leg))

    def send_digits(self, leg: str, digits: str) -> None:
        self.done.append((f"digits-{digits}", leg))


class Nothing:
    """A register and a term source that hold nothing."""

    def put_call(self, call_id: str, record: Mapping[str, Any]) -> None:
        pass

    def end_call(self, call_id: str) -> None:
        pass

    def terms(self, scope: str) -> Terms:
        return Terms()


class Exchange:
    """A switchboard that takes calls, with scripted telephones and engines."""

    def __init__(
        self,
        free: int = 4,
        ring_timeout_s: float = 5.0,
        *,
        dialplan: DialPlan | None = None,
        register: CallRegister | None = None,
        terms: TermSource | None = None,
        prompts: PromptBook | None = None,
        disclosure: bool = False,
        **choices: Any,
    ) -> None:
        self.phones = Telephones(free)
        self.bus = EventBus()
        self.board = Switchboard(dialplan or DialPlan(()))
        self.board.connect(self.phones)
        booth = Booth(
            speech=ScriptedSpeech(),
            prompts=prompts or PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent")),
            endpoint=EndpointPlan(),
        )
        desk = Desk(
            booth=booth,
            user_agent=self.phones,
            register=register or Nothing(),
            bus=self.bus,
            glossaries=Glossaries(terms or Nothing()),
            limits=CallLimits(ring_timeout_s=ring_timeout_s),
            disclosure=disclosure,
            **choices,
        )
        self.board.open(desk, frozenset({("xx", "yy"), ("yy", "xx")}))

    def place(self) -> tuple[str, Call]:
        call_id = self.board.bridge(MATCH)
        assert isinstance(call_id, str)
        call = self.board.live(call_id)
        assert call is not None
        return call_id, call

    async def take(self, dialled: str) -> Call:
        """A telephone dials this number, and the offer is taken."""
        before = set(self.board.calls())
        await self.hear(Incoming("leg-a", "127.0.0.1", "", dialled, "somebody"))
        (call_id,) = set(self.board.calls()) - before
        call = self.board.live(call_id)
        assert call is not None
        return call

    async def hear(self, *events: SipEvent) -> None:
        for event in events:
            self.board.on_sip(event)
        await settle(40)
