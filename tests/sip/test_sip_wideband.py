# SPDX-License-Identifier: GPL-3.0-or-later
"""G.722: sound above 4 kHz reaches the sink, and G.711 goes on beside it (A1)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
from g711 import peak_hz, talk
from sip_harness import AgentProcess, open_exchange, until
from sip_peer import Peer

from gateway.sip.settings import SipSettings

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]
WIDE = {"media_rate_hz": 16_000, "codecs": ["G722", "PCMU", "PCMA"]}


def test_a1_g722_carries_what_g711_cannot(agents: Agents) -> None:
    left = agents(auto_answer=True, tone_hz=5200, settings=WIDE)
    right = agents(tone_hz=6100, settings=WIDE)
    right.tell("dial", leg="out", uri=f"sip:5@127.0.0.1:{left.port}")
    assert right.event("MediaActive", leg="out")["rate_hz"] == 16_000
    assert left.event("MediaActive")["codec"] == "G722"
    leg = left.event("Incoming")["leg"]
    assert until(lambda: right.hear("out")["samples"] > 24_000)
    for heard, hz in ((right.hear("out"), 5200), (left.hear(leg), 6100)):
        assert heard["peak_hz"] == pytest.approx(hz, abs=3)
        assert heard["tone_share"] > 0.95
        assert heard["gaps"] == 0
        assert heard["samples"] == 320 * heard["frames"]
    right.tell("hangup", leg="out")
    left.event("Ended", leg=leg)


def test_a1_g711_and_its_digits_on_a_wide_bridge(agents: Agents) -> None:
    """RFC 3551 section 4.5.2: G.722's RTP clock says 8000; telephone-event's too (C07)."""
    agent = agents(auto_answer=True, tone_hz=440, settings=WIDE)
    with Peer(agent.port) as peer:
        answer = peer.invite(peer.sdp(formats="9 0 101"))
        assert "G722/8000" in answer.body and "telephone-event/8000" in answer.body
        peer.bye()
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive", codec="PCMU")["leg"]
        assert until(lambda: len(peer.rtp.received) > 60)
        assert peak_hz(peer.rtp.sound(0.5))[0] == pytest.approx(440, abs=5)
        packets = peer.rtp.received
        assert all(b.timestamp - a.timestamp == 160 for a, b in itertools.pairwise(packets))
        peer.bye()
        agent.event("Ended", leg=leg)


def test_a1_the_pipeline_hears_at_16_khz(worker_rtp: Iterator[int]) -> None:
    with open_exchange(next(worker_rtp), settings=WIDE) as site, Peer(site.agent.port, number="7001") as a:
        a.invite()
        site.callee.accept()
        started = site.agent.event("call-started")
        assert started["effective"]["endpoint"]["rate_hz"] == 16_000
        site.agent.event("call-phase", phase="bridged")
        a.rtp.stream(a.remote_rtp, talk(10))
        threading.Event().wait(0.8)
        a.rtp.stream(a.remote_rtp, b"\xff" * 1600)
        spoken = site.agent.event("utterance", leg="a")
        first, end = spoken["source_span"]
        assert 0.8 < (end - first) / 16_000 < 2.0
        b = site.callee
        assert until(lambda: peak_hz(b.rtp.sound(0.4))[0] == pytest.approx(1100, abs=8))
        a.bye()
        b.next("BYE")
        site.agent.event("call-ended")


def test_g722_on_a_narrow_bridge_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="media_rate_hz to 16000"):
        SipSettings(codecs=("G722", "PCMU"))
