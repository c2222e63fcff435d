# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the answer, and calls that are given up at any moment (B18, A7, D10)."""

from __future__ import annotations

import random
import threading

import pytest
from g711 import peak_hz, talk
from sip_harness import Exchange, until
from sip_peer import Peer

pytestmark = pytest.mark.sip

RING_BACK_HZ = 425


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_b18_an_announcement_before_the_answer_is_ring_back_to_the_caller_and_is_not_translated(
    exchange: Exchange,
) -> None:
    b, start = exchange.callee, exchange.position()
    with Peer(exchange.agent.port, number="7001") as a:
        a.invite()
        invite = b.expect("INVITE")
        b.learn(invite.body)
        b.respond(invite, 183, "Session Progress", b.sdp())
        b.rtp.stream(b.remote_rtp, talk(10))  # "the number you have dialled…"
        assert until(lambda: len(a.rtp.received) > 40 and peak_hz(a.rtp.sound(0.4))[0] == pytest.approx(425, abs=8))
        pause(0.5)
        b.rtp.silence()
        b.invite = invite
        b.respond(invite, 200, "OK", b.sdp())
        b.expect("ACK")
        exchange.agent.event("call-phase", start=start, phase="bridged")
        pause(0.6)
        told = [line.get("event") for line in exchange.agent.lines[start:]]
        assert not {"heard", "utterance", "lost"} & set(told), "the announcement was interpreted"
        b.rtp.stream(b.remote_rtp, talk(10))
        pause(0.8)
        b.rtp.stream(b.remote_rtp, b"\xff" * 1600)
        assert exchange.agent.event("utterance", start=start, leg="b")["lost"] is None
        assert until(lambda: peak_hz(a.rtp.sound(0.4))[0] == pytest.approx(700, abs=8))
        assert a.bye().code == 200
        b.next("BYE")
        exchange.agent.event("call-ended", start=start)


def test_d10_calls_given_up_at_any_moment_leave_nothing(exchange: Exchange) -> None:
    chance, b = random.Random(11), exchange.callee
    for _ in range(12):
        start = exchange.position()
        with Peer(exchange.agent.port, number="7001") as a:
            a.request("INVITE", a.sdp())
            pause(chance.random() * 0.02)
            if chance.random() < 0.4:
                a.request("CANCEL", cseq=a.cseq)
            answer = a.final("INVITE")
            if answer.code == 200:
                a.answer, a.to = answer, answer.headers["to"]
                a.request("ACK", cseq=a.cseq)
                pause(chance.random() * 0.1)
                assert a.bye().code in (200, 481)
            while (message := b.receive(0.2)) is not None:  # whatever has been sent to the called party
                if message.first_line.startswith("INVITE"):
                    invite = message
                    b.respond(invite, 180, "Ringing")
                elif message.first_line.startswith("CANCEL"):
                    b.respond(message, 200, "OK")
                    b.respond(invite, 487, "Request Terminated")
            exchange.agent.event("call-ended", start=start)
    assert until(lambda: exchange.agent.statistics()["legs"] == 0)
    assert exchange.agent.statistics()["switchboard"]["live"] == 0
