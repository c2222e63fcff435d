# SPDX-License-Identifier: GPL-3.0-or-later
"""REFER: a party is replaced by somebody else, and the interpreter stays (A15 to A17)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from g711 import peak_hz, talk
from sip_callee import Callee
from sip_harness import Exchange, open_exchange, until
from sip_peer import Message, Peer, RtpSocket

pytestmark = pytest.mark.sip

TO_EN_HZ, TO_PT_HZ = 700, 1100


@contextmanager
def bridged(exchange: Exchange) -> Iterator[tuple[Peer, int]]:
    """A caller who speaks with the called party, and where the events of the call begin."""
    with Peer(exchange.agent.port, number="7001") as a:
        start = exchange.position()
        a.invite()
        exchange.callee.accept()
        exchange.agent.event("call-phase", start=start, phase="bridged")
        yield a, start


def refer(a: Peer, target: str) -> int:
    a.request("REFER", extra=f"Refer-To: <{target}>\r\nReferred-By: <sip:alice@127.0.0.1>\r\n")
    return a.final("REFER").code


def fragment(a: Peer) -> Message:
    """The next NOTIFY, confirmed."""
    message = a.receive(5)
    while message is not None and not message.first_line.startswith("NOTIFY"):
        message = a.receive(5)
    assert message is not None, "no NOTIFY"
    a.respond(message, 200, "OK")
    assert message.headers["content-type"].startswith("message/sipfrag")
    return message


def speaks(talker: RtpSocket, to: tuple[str, int], listener: RtpSocket, hz: int) -> bool:
    """What one says is heard by the other as translation into a language."""
    talker.stream(to, talk(10))
    threading.Event().wait(0.8)
    talker.stream(to, b"\xff" * 1600)
    return until(lambda: len(listener.received) > 40 and peak_hz(listener.sound(0.4))[0] == pytest.approx(hz, abs=8))


def story(exchange: Exchange, start: int) -> str:
    """What happened in the call, for the reader of a failure."""
    wanted = ("event", "leg", "outcome", "lost", "source_text", "clips", "reason", "state")
    return "\n".join(str({key: line[key] for key in wanted if key in line}) for line in exchange.agent.lines[start:])


def end(exchange: Exchange, first: Callee, second: Callee, start: int) -> None:
    assert first.request("BYE").code == 200
    second.next("BYE")
    assert exchange.agent.event("call-ended", start=start)["transfers"] == 1


def third_party(exchange: Exchange) -> str:
    return f"sip:9@127.0.0.1:{exchange.third.port}"


@pytest.mark.parametrize("leaves_at_once", [False, True])
def test_a15_blind_transfer_keeps_the_interpreter(exchange: Exchange, leaves_at_once: bool) -> None:
    b, c = exchange.callee, exchange.third
    with bridged(exchange) as (a, start):
        assert refer(a, third_party(exchange)) == 202
        assert fragment(a).body.startswith("SIP/2.0 100")
        if leaves_at_once:
            assert a.bye().code == 200
        invite = c.accept()
        assert "Referred-By" in invite.text or "referred-by" in invite.text.lower()
        if not leaves_at_once:
            last = fragment(a)
            while "active" in last.headers["subscription-state"]:
                last = fragment(a)
            assert last.body.startswith("SIP/2.0 200")
            assert a.wait_bye(2) is not None, "the leg of the one who is replaced is ended by rule"
        assert exchange.agent.event("call-transfer", start=start, state="done")["leg"] == "a"
        assert speaks(c.rtp, c.remote_rtp, b.rtp, TO_PT_HZ), story(exchange, start)
        # who answers while the translation still plays may be taken for its echo
        assert until(lambda: abs(b.rtp.sound(0.2).astype(float)).max() < 100)
        assert speaks(b.rtp, b.remote_rtp, c.rtp, TO_EN_HZ), story(exchange, start)
        assert b.receive(0) is None, "the other party was told of the transfer by SIP"
        for side in "ab":
            assert exchange.agent.event("utterance", start=start, leg=side)["lost"] is None
        end(exchange, c, b, start)
    assert exchange.agent.statistics()["legs"] == 0


def test_a15_who_comes_hears_nothing_that_was_said_to_who_left(exchange: Exchange) -> None:
    b, c = exchange.callee, exchange.third
    with bridged(exchange) as (a, start):
        assert refer(a, third_party(exchange)) == 202
        invite = c.expect("INVITE")
        assert speaks(b.rtp, b.remote_rtp, a.rtp, TO_EN_HZ)  # a second of it, just begun
        c.invite = invite
        c.respond(invite, 200, "OK", c.sdp())
        c.expect("ACK")
        exchange.agent.event("call-transfer", start=start, state="done")
        before = len(c.rtp.received)
        assert until(lambda: len(c.rtp.received) > before + 40)
        assert abs(c.rtp.sound(0.6).astype(float)).max() < 100, "the new one heard what was said to the old one"
        end(exchange, c, b, start)


def test_a15_a_transfer_that_fails_leaves_the_parties_together(exchange: Exchange) -> None:
    b, c = exchange.callee, exchange.third
    with bridged(exchange) as (a, start):
        assert refer(a, third_party(exchange)) == 202
        invite = c.expect("INVITE")
        c.respond(invite, 486, "Busy Here")
        c.expect("ACK")
        last = fragment(a)
        while "active" in last.headers["subscription-state"]:
            last = fragment(a)
        assert last.body.startswith("SIP/2.0 486")
        assert exchange.agent.event("call-transfer", start=start, state="failed")["reason"] == "callee-busy"
        assert speaks(a.rtp, a.remote_rtp, b.rtp, TO_PT_HZ)
        assert a.bye().code == 200
        b.next("BYE")
        assert exchange.agent.event("call-ended", start=start)["reason"] == "caller-hung-up"


def test_a15_nobody_is_left_hanging_when_the_successor_refuses(exchange: Exchange) -> None:
    b, c = exchange.callee, exchange.third
    with bridged(exchange) as (a, start):
        assert refer(a, third_party(exchange)) == 202
        assert a.bye().code == 200
        invite = c.expect("INVITE")
        c.respond(invite, 180, "Ringing")
        heard = len(b.rtp.received)
        assert until(
            lambda: len(b.rtp.received) > heard + 40 and peak_hz(b.rtp.sound(0.4))[0] == pytest.approx(425, abs=8)
        )
        c.respond(invite, 603, "Decline")
        c.expect("ACK")
        b.next("BYE")
        assert exchange.agent.event("call-ended", start=start)["reason"] == "callee-declined"


def test_a15_the_other_party_hangs_up_while_the_successor_rings(exchange: Exchange) -> None:
    b, c = exchange.callee, exchange.third
    with bridged(exchange) as (a, start):
        assert refer(a, third_party(exchange)) == 202
        assert a.bye().code == 200
        invite = c.expect("INVITE")
        c.respond(invite, 180, "Ringing")
        assert b.request("BYE").code == 200
        c.respond(c.expect("CANCEL"), 200, "OK")
        c.respond(invite, 487, "Request Terminated")
        assert exchange.agent.event("call-ended", start=start)["reason"] == "callee-hung-up"


@pytest.mark.parametrize(
    "target",
    [
        "sip:9@127.0.0.2:{third}",  # not an address of the dial plan
        "sip:9@127.0.0.1:9",
        "sip:9@127.0.0.1:{third};maddr=127.0.0.2",  # looks like one, and leads elsewhere
        "sip:9@127.0.0.1:{third}?Replaces=abc%3Bto-tag%3D1%3Bfrom-tag%3D2",
        "sip:55@127.0.0.1:{callee}",  # that address speaks another language
        "tel:+4930123456",
    ],
)
def test_a16_a17_what_the_dial_plan_does_not_allow_is_declined(exchange: Exchange, target: str) -> None:
    with bridged(exchange) as (a, start):
        assert refer(a, target.format(third=exchange.third.port, callee=exchange.callee.port)) == 603
        before = len(a.rtp.received)
        assert until(lambda: len(a.rtp.received) > before + 5), "the call has ended"
        assert a.bye().code == 200
        exchange.callee.next("BYE")
        exchange.agent.event("call-ended", start=start)


def test_a15_a_transfer_without_a_free_leg_fails_and_the_call_goes_on(worker_rtp: Iterator[int]) -> None:
    with open_exchange(next(worker_rtp), settings={"max_legs": 2}) as small, bridged(small) as (a, start):
        assert refer(a, third_party(small)) == 202  # what the library cannot place it tells by NOTIFY
        last = fragment(a)
        while "active" in last.headers["subscription-state"]:
            last = fragment(a)
        assert last.body.startswith("SIP/2.0 5")
        small.agent.event("call-transfer", start=start, state="failed")
        assert speaks(a.rtp, a.remote_rtp, small.callee.rtp, TO_PT_HZ)
        assert a.bye().code == 200
        small.callee.next("BYE")
        small.agent.event("call-ended", start=start)
