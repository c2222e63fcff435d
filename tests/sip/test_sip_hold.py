# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold and resume in an interpreted call: nobody is interpreted meanwhile, and the other leg stays as it is."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from g711 import peak_hz, talk
from sip_harness import Exchange, until
from sip_peer import Peer, RtpSocket

pytestmark = pytest.mark.sip


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def say(rtp: RtpSocket, to: tuple[str, int], seconds: float = 0.8) -> None:
    """An utterance, and the silence that ends it."""
    rtp.stream(to, talk(10))
    pause(seconds)
    rtp.stream(to, b"\xff" * 1600)


def spoken(exchange: Exchange, start: int, leg: str) -> dict[str, Any]:
    return exchange.agent.event("utterance", 8, start, leg=leg)


@pytest.mark.parametrize("held", ["sendonly", "inactive", "0.0.0.0"])
def test_a01_a02_hold_pauses_the_interpreter_and_leaves_the_other_leg_alone(exchange: Exchange, held: str) -> None:
    with Peer(exchange.agent.port, number="7001") as a:
        b, start = exchange.callee, exchange.position()
        a.invite()
        b.accept()
        exchange.agent.event("call-phase", start=start, phase="bridged")
        start = exchange.position()
        offer = a.sdp("sendrecv" if held == "0.0.0.0" else held, version=2)
        if held == "0.0.0.0":  # RFC 2543 section B.5
            offer = offer.replace("c=IN IP4 127.0.0.1", "c=IN IP4 0.0.0.0")
        assert a.invite(offer).code == 200
        assert exchange.agent.event("call-held", start=start)["leg"] == "a"
        a.rtp.stream(a.remote_rtp, talk(10))  # music on hold, which may well be sung
        say(b.rtp, b.remote_rtp)
        a.rtp.silence()
        pause(0.7)
        events = exchange.agent.lines[start:]
        assert not [line for line in events if line.get("event") in ("heard", "utterance", "lost")]
        before = len(b.rtp.received)
        assert until(lambda: len(b.rtp.received) > before + 20), "the other party's leg fell silent"
        assert b.receive(0) is None, "the other party was told of the hold by SIP"

        start = exchange.position()
        answer = a.invite(a.sdp("sendrecv", version=3).rstrip("\r\n"))  # the last line without its end
        assert (answer.code, "a=sendrecv" in answer.body) == (200, True)
        assert exchange.agent.event("call-resumed", start=start)["leg"] == "a"
        heard = len(a.rtp.received)
        say(b.rtp, b.remote_rtp)
        assert spoken(exchange, start, "b")["lost"] is None
        # in all that came since, because a busy machine may look before the translation, or behind it
        assert until(lambda: peak_hz(a.rtp.sound((len(a.rtp.received) - heard) / 50))[0] == pytest.approx(700, abs=5))
        a.bye()
        b.next("BYE")
        exchange.agent.event("call-ended", start=start)


def test_a01_who_hangs_up_on_a_held_party_ends_the_call_at_once(exchange: Exchange) -> None:
    with Peer(exchange.agent.port, number="7001") as a:
        b, start = exchange.callee, exchange.position()
        a.invite()
        b.accept()
        exchange.agent.event("call-phase", start=start, phase="bridged")
        assert a.invite(a.sdp("sendonly", version=2)).code == 200
        exchange.agent.event("call-held", start=start)
        assert b.request("BYE").code == 200
        assert a.wait_bye(3) is not None
        assert exchange.agent.event("call-ended", start=start)["reason"] == "callee-hung-up"
