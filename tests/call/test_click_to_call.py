# SPDX-License-Identifier: GPL-3.0-or-later
"""A3: the gateway dials both parties itself. Telephones are scripted; real ones answer in the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.call import termination
from gateway.call.dialplan import DialPlan, Route
from gateway.call.states import CallPhase
from gateway.call.termination import Ending
from gateway.sip.events import Answered, Ended, Incoming
from tests.call.scripted import settle, until
from tests.call.scripted_exchange import MATCH, Exchange

pytestmark = pytest.mark.unit


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


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
        await until(lambda: ("hangup", call.a.leg) in exchange.phones.done)
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


def test_a05_a_caller_who_cancels_before_the_call_has_begun_leaves_nothing() -> None:
    """The INVITE and its CANCEL are told in one breath, before any task has run."""

    async def work() -> None:
        exchange = Exchange(dialplan=DialPlan((Route("one", "xx", "yy", "sip:b@host", number="1"),)))
        exchange.board.on_sip(Incoming("leg", "192.0.2.1", "trunk", "1", "caller"))
        exchange.board.on_sip(Ended("leg", 487, "Request Terminated", by_remote=True))
        await until(lambda: not exchange.board.statistics()["live"])
        assert exchange.board.statistics()["ended-cancelled"] == 1
        assert exchange.phones.done == [], "a dead leg was answered, or somebody was dialled"

    run(work())
