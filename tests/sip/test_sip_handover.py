# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfers that the operator asks for: with the interpreter kept, and without it by a REFER of ours (A5, A15, A17)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from g711 import peak_hz
from sip_harness import Exchange, open_exchange, until
from sip_peer import Message, Peer

pytestmark = pytest.mark.sip

PROMPT_EN_HZ = 500
PATIENCE_S = 2


@pytest.fixture(scope="module")
def operated(worker_rtp: Iterator[int]) -> Iterator[Exchange]:
    """A gateway that speaks, and does not wait long."""
    with open_exchange(next(worker_rtp), prompts=True, limits={"ring_timeout_s": PATIENCE_S}) as one:
        yield one


@contextmanager
def bridged(exchange: Exchange) -> Iterator[tuple[Peer, str, int]]:
    """A caller who speaks with the called party, the call's id, and where its events begin."""
    with Peer(exchange.agent.port, number="7001") as a:
        start = exchange.position()
        a.invite()
        exchange.callee.accept()
        call = exchange.agent.event("call-phase", start=start, phase="bridged")["call"]
        yield a, call, start
        exchange.agent.event("call-ended", start=start, call=call)
    assert exchange.agent.statistics()["legs"] == 0


def refer_of(a: Peer) -> Message:
    """The REFER that comes to the caller."""
    while (message := a.receive(5)) is not None:
        if message.first_line.startswith("REFER "):
            return message
    raise AssertionError("no REFER")


def notify(a: Peer, line: str, *, over: bool = False) -> None:
    """Tell the gateway what became of its REFER."""
    state = "terminated;reason=noresource" if over else "active;expires=60"
    extra = f"Event: refer\r\nSubscription-State: {state}\r\nContent-Type: message/sipfrag;version=2.0\r\n"
    a.request("NOTIFY", f"{line}\r\n", extra)
    assert a.final("NOTIFY").code == 200


def hand_over(exchange: Exchange, call: str, to: str = "sip:201@127.0.0.1:9") -> None:
    exchange.agent.tell("transfer", call=call, party="a", to=to, interpreted=False)


def hears_a_prompt(a: Peer) -> bool:
    start = len(a.rtp.received)
    return until(
        lambda: len(a.rtp.received) > start + 10 and peak_hz(a.rtp.sound(0.2))[0] == pytest.approx(PROMPT_EN_HZ, abs=8)
    )


def goes_on(exchange: Exchange, a: Peer) -> None:
    """The call lives: sound comes, and the caller ends it."""
    before = len(a.rtp.received)
    assert until(lambda: len(a.rtp.received) > before + 10), "the call has ended"
    assert a.bye().code == 200
    exchange.callee.next("BYE")


def failed(exchange: Exchange, start: int) -> str:
    told = exchange.agent.event("call-handover", start=start, state="failed")
    assert told["leg"] == "a"
    return str(told["reason"])


def test_a5_a_party_is_handed_over_and_the_gateway_leaves(operated: Exchange) -> None:
    with bridged(operated) as (a, call, start):
        hand_over(operated, call, "sip:201@127.0.0.1:9;transport=tcp")
        refer = refer_of(a)
        assert refer.headers["refer-to"] == "<sip:201@127.0.0.1:9;transport=tcp>"
        assert "sip:" in refer.headers["referred-by"]
        a.respond(refer, 202, "Accepted")
        notify(a, "SIP/2.0 100 Trying")
        notify(a, "SIP/2.0 180 Ringing")
        assert not [one for one in operated.agent.events("call-handover") if one["state"] == "done"]
        notify(a, "SIP/2.0 200 OK", over=True)
        bye = a.wait_bye()
        assert bye is not None and "handed-over" in bye.headers["reason"]
        operated.callee.next("BYE")
        assert operated.agent.event("call-handover", start=start, state="done")["leg"] == "a"
        ended = operated.agent.event("call-ended", start=start)
        assert (ended["result"], ended["reason"]) == ("completed", "handed-over")


def test_a5_a_telephone_that_hangs_up_behind_its_consent_has_arrived(operated: Exchange) -> None:
    with bridged(operated) as (a, call, start):
        hand_over(operated, call)
        a.respond(refer_of(a), 202, "Accepted")
        notify(a, "SIP/2.0 100 Trying")
        assert a.bye().code == 200
        operated.callee.next("BYE")
        assert operated.agent.event("call-ended", start=start)["reason"] == "handed-over"


def test_a5_a_refused_hand_over_leaves_the_parties_together(operated: Exchange) -> None:
    with bridged(operated) as (a, call, start):
        hand_over(operated, call)
        a.respond(refer_of(a), 603, "Decline")
        assert failed(operated, start) == "callee-declined"
        assert hears_a_prompt(a)
        goes_on(operated, a)


def test_a5_a_busy_number_is_told_and_another_may_be_tried(operated: Exchange) -> None:
    with bridged(operated) as (a, call, start):
        hand_over(operated, call)
        a.respond(refer_of(a), 202, "Accepted")
        notify(a, "SIP/2.0 486 Busy Here", over=True)
        assert failed(operated, start) == "callee-busy"
        assert hears_a_prompt(a)
        hand_over(operated, call, "sip:202@127.0.0.1:9")
        again = refer_of(a)
        assert "202" in again.headers["refer-to"]
        a.respond(again, 202, "Accepted")
        notify(a, "SIP/2.0 200 OK", over=True)
        assert a.wait_bye() is not None
        operated.callee.next("BYE")


@pytest.mark.parametrize("late", [False, True])
def test_a5_who_tells_nothing_is_not_waited_for(operated: Exchange, late: bool) -> None:
    with bridged(operated) as (a, call, start):
        hand_over(operated, call)
        a.respond(refer_of(a), 202, "Accepted")
        assert failed(operated, start) == "callee-no-answer"
        assert hears_a_prompt(a)
        if late:  # the party has gone all the same
            notify(a, "SIP/2.0 200 OK", over=True)
            assert a.wait_bye() is not None
            operated.callee.next("BYE")
        else:
            goes_on(operated, a)


def test_a17_a_hang_up_that_crosses_the_refer_is_a_hang_up(operated: Exchange) -> None:
    with bridged(operated) as (a, call, start):
        hand_over(operated, call)
        refer = refer_of(a)
        assert a.bye().code == 200
        a.respond(refer, 481, "Call/Transaction Does Not Exist")
        operated.callee.next("BYE")
        assert operated.agent.event("call-ended", start=start)["reason"] == "caller-hung-up"


def test_a5_the_operator_puts_the_caller_through_and_the_interpreter_stays(operated: Exchange) -> None:
    b, c = operated.callee, operated.third
    with bridged(operated) as (a, call, start):
        operated.agent.tell("transfer", call=call, party="a", to=f"sip:9@127.0.0.1:{c.port}", interpreted=True)
        c.accept()
        b.next("BYE")
        assert operated.agent.event("call-transfer", start=start, state="done")["leg"] == "b"
        before = len(c.rtp.received)
        assert until(lambda: len(c.rtp.received) > before + 10)
        assert a.bye().code == 200
        c.next("BYE")
        ended = operated.agent.event("call-ended", start=start)
        assert (ended["reason"], ended["transfers"], ended["languages"]) == ("caller-hung-up", 1, ["en", "pt"])


def test_a5_the_caller_hears_that_the_one_they_were_put_through_to_is_busy(operated: Exchange) -> None:
    c = operated.third
    with bridged(operated) as (a, call, start):
        operated.agent.tell("transfer", call=call, party="a", to=f"sip:9@127.0.0.1:{c.port}", interpreted=True)
        c.respond(c.expect("INVITE"), 486, "Busy Here")
        c.expect("ACK")
        assert operated.agent.event("call-transfer", start=start, state="failed")["reason"] == "callee-busy"
        assert hears_a_prompt(a)
        goes_on(operated, a)
