# SPDX-License-Identifier: GPL-3.0-or-later
"""A3: the gateway dials both parties itself. Telephones are scripted; real ones answer in the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.call import termination
from gateway.call.bridge import Call
from gateway.call.desk import Booth, CallLimits, Desk
from gateway.call.dialplan import DialPlan, Match, Route
from gateway.call.events import EventBus
from gateway.call.glossary import Glossaries
from gateway.call.party import LEG_RATE_HZ
from gateway.call.prompts import PromptBook
from gateway.call.states import CallPhase
from gateway.call.switchboard import Switchboard
from gateway.call.termination import Ending
from gateway.sip.events import Answered, Ended, SipEvent
from gateway.state.terms import Terms
from gateway.stream.plan import EndpointPlan
from tests.call.scripted import ScriptedSpeech, settle

pytestmark = pytest.mark.unit

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

    def hangup(self, leg: str, code: int = 0, *, headers: Mapping[str, str] | None = None) -> None:
        self.done.append(("hangup", leg))


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

    def __init__(self, free: int = 4, ring_timeout_s: float = 5.0) -> None:
        self.phones = Telephones(free)
        self.board = Switchboard(DialPlan(()))
        self.board.connect(self.phones)
        booth = Booth(
            speech=ScriptedSpeech(),
            prompts=PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent")),
            endpoint=EndpointPlan(),
        )
        desk = Desk(
            booth=booth,
            user_agent=self.phones,
            register=Nothing(),
            bus=EventBus(),
            glossaries=Glossaries(Nothing()),
            limits=CallLimits(ring_timeout_s=ring_timeout_s),
            disclosure=False,
        )
        self.board.open(desk, frozenset({("xx", "yy"), ("yy", "xx")}))

    def place(self) -> tuple[str, Call]:
        call_id = self.board.bridge(MATCH)
        assert isinstance(call_id, str)
        call = self.board.live(call_id)
        assert call is not None
        return call_id, call

    async def hear(self, *events: SipEvent) -> None:
        for event in events:
            self.board.on_sip(event)
        await settle(40)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


def test_a3_the_first_party_is_dialled_then_the_second_then_both_are_bridged() -> None:
    async def work() -> None:
        exchange = Exchange()
        call_id, call = exchange.place()
        a, b = call.legs()
        await settle(40)
        assert exchange.phones.done == [("dial", a)]
        await exchange.hear(Answered(a))
        assert exchange.phones.done == [("dial", a), ("dial", b)]
        await exchange.hear(Answered(b))
        assert call.phase is CallPhase.BRIDGED
        exchange.board.hang_up(call_id)
        await exchange.hear(Ended(a, 200, "OK", by_remote=False), Ended(b, 200, "OK", by_remote=False))
        assert call.ending is termination.OPERATOR_HUNG_UP
        await exchange.board.stop()

    run(work())


def test_a11_both_legs_are_reserved_before_either_is_dialled() -> None:
    async def work() -> None:
        exchange = Exchange(free=3)
        _, call = exchange.place()
        refused = exchange.board.bridge(MATCH)  # the first call has not dialled anything yet
        assert isinstance(refused, Ending) and refused is termination.NO_FREE_LEG
        await settle(40)
        assert exchange.phones.done == [("dial", call.a.leg)]
        assert exchange.board.bridge(MATCH) is termination.NO_FREE_LEG, "its second leg is still promised"
        await exchange.hear(Ended(call.a.leg, 486, "Busy Here", by_remote=True))
        await exchange.board.stop()

    run(work())


@pytest.mark.parametrize(("code", "reason"), [(486, "caller-busy"), (603, "caller-declined"), (404, "caller-unknown")])
def test_a_first_party_who_refuses_ends_the_call_and_the_second_is_not_rung(code: int, reason: str) -> None:
    async def work() -> None:
        exchange = Exchange()
        _, call = exchange.place()
        await settle(40)
        await exchange.hear(Ended(call.a.leg, code, "", by_remote=True))
        assert call.ending is not None
        assert (call.ending.result, call.ending.reason) == (termination.Result.UNANSWERED, reason)
        assert exchange.phones.done == [("dial", call.a.leg)]
        assert call.phase is CallPhase.ENDED
        await exchange.board.stop()

    run(work())


def test_a_first_party_who_does_not_answer_is_given_up() -> None:
    async def work() -> None:
        exchange = Exchange(ring_timeout_s=0.05)
        _, call = exchange.place()
        await asyncio.sleep(0.2)
        assert ("hangup", call.a.leg) in exchange.phones.done
        await exchange.hear(Ended(call.a.leg, 487, "Request Terminated", by_remote=False))
        assert call.ending is termination.CALLER_NO_ANSWER
        await exchange.board.stop()

    run(work())


def test_s1_18_a_partys_language_changes_both_directions() -> None:
    async def work() -> None:
        exchange = Exchange()
        _, call = exchange.place()
        call.set_language("b", "zz", voice="maria")
        there, back = call.a_to_b.wanted(), call.b_to_a.wanted()
        assert (there.source, there.target, there.voice) == ("xx", "zz", "maria")
        assert (back.source, back.target, back.voice) == ("zz", "xx", None)
        assert call.record()["languages"] == ["xx", "zz"]
        await settle(40)
        await exchange.hear(Ended(call.a.leg, 486, "Busy Here", by_remote=True))
        await exchange.board.stop()

    run(work())
