# SPDX-License-Identifier: GPL-3.0-or-later
"""Incoming calls on the wire: answer, refuse, cancel, hold, limits."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest
from g711 import peak_hz, tone
from sip_harness import AgentProcess, own_build, until
from sip_peer import Peer

from gateway.sip.limits import library_facts

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_a1_invite_is_answered_and_both_hear_the_right_tone(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        answer = peer.invite()
        assert answer.code == 200
        assert "PCMU/8000" in answer.body
        leg = agent.event("Answered")["leg"]
        assert agent.event("MediaActive")["codec"] == "PCMU"
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        assert until(lambda: len(peer.rtp.received) > 80)
        pause(1.0)
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1000, abs=3)
        assert heard["tone_share"] > 0.98
        assert heard["gaps"] == 0
        hz, share = peak_hz(peer.rtp.sound())
        assert hz == pytest.approx(440, abs=3)
        assert share > 0.98
        assert peer.bye().code == 200
    ended = agent.event("Ended", leg=leg)
    assert (ended["code"], ended["by_remote"]) == (200, True)


def test_a1_names_of_the_call_are_told(agent: AgentProcess) -> None:
    with Peer(agent.port, user="+4930123") as peer:
        peer.invite(extra="X-Pair: en-pt\r\nX-Long: a\r\n b\r\nSubject: no\r\n")
        incoming = agent.event("Incoming")
        assert incoming["source_ip"] == "127.0.0.1"
        assert incoming["trunk"] == "loopback"
        assert (incoming["dialled"], incoming["caller"]) == ("4711", "+4930123")
        assert incoming["headers"] == {"x-pair": "en-pt", "x-long": "a b"}
        peer.bye()


def test_a1_tcp_call(agent: AgentProcess) -> None:
    with Peer(agent.port, transport="TCP") as peer:
        assert peer.invite().code == 200
        leg = agent.event("Answered")["leg"]
        assert until(lambda: len(peer.rtp.received) > 20)
        assert peer.bye().code == 200
        agent.event("Ended", leg=leg, code=200)


def test_a04_delayed_offer(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        answer = peer.invite(body="")
        assert answer.code == 200
        assert "m=audio" in answer.body
        leg = agent.event("MediaActive")["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        assert until(lambda: len(peer.rtp.received) > 60)
        pause(0.8)
        assert agent.hear(leg)["peak_hz"] == pytest.approx(1000, abs=3)
        peer.bye()


def test_a05_cancel_gives_487(agents: Agents) -> None:
    agent = agents()
    with Peer(agent.port) as peer:
        peer.request("INVITE", peer.sdp())
        leg = agent.event("Incoming")["leg"]
        agent.tell("ring", leg=leg)
        codes = []
        while not codes or codes[-1] < 180:
            message = peer.receive()
            assert message is not None
            codes.append(message.code)
        assert codes == [100, 180]
        peer.request("CANCEL", cseq=peer.cseq)
        seen = {}
        for _ in range(2):
            message = peer.receive()
            assert message is not None
            seen[message.method] = message.code
        assert seen == {"CANCEL": 200, "INVITE": 487}
    ended = agent.event("Ended", leg=leg)
    assert (ended["code"], ended["by_remote"]) == (487, True)
    assert agent.statistics()["legs"] == 0


def test_a07_same_offer_again_keeps_the_sound(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        assert until(lambda: len(peer.rtp.received) > 50)
        for _ in range(3):
            assert peer.invite().code == 200
            pause(0.3)
        pause(0.5)
        heard = agent.hear(leg)
        assert len(agent.events("MediaActive")) == 1
        assert heard["gaps"] == 0
        assert heard["tone_share"] > 0.98
        packets = peer.rtp.received
        assert len({p.ssrc for p in packets}) == 1
        assert all((b.seq - a.seq) & 0xFFFF == 1 for a, b in itertools.pairwise(packets))
        assert all((b.timestamp - a.timestamp) == 160 for a, b in itertools.pairwise(packets))
        peer.bye()


@pytest.mark.parametrize("held", ["sendonly", "inactive"])
def test_a01_hold_and_resume(agent: AgentProcess, held: str) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        assert until(lambda: len(peer.rtp.received) > 30)
        answer = peer.invite(peer.sdp(held, version=2))
        assert answer.code == 200
        assert f"a={'recvonly' if held == 'sendonly' else 'inactive'}" in answer.body
        pause(0.2)
        before, packets = agent.hear(leg), len(peer.rtp.received)
        pause(0.5)
        after = agent.hear(leg)
        assert after["samples"] == before["samples"], "hold music reached the sink"
        assert after["asked"] == before["asked"], "the source was asked on hold"
        assert len(peer.rtp.received) - packets <= 2
        start = len(agent.lines)
        answer = peer.invite(peer.sdp("sendrecv", version=3).rstrip("\r\n"))  # the last line without its end
        assert answer.code == 200
        assert "a=sendrecv" in answer.body
        peer.rtp.silence()
        peer.rtp.stream(peer.remote_rtp, tone(1500, 1))
        agent.event("MediaActive", start=start, leg=leg)
        packets = len(peer.rtp.received)
        assert until(lambda: len(peer.rtp.received) - packets > 60)
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1500, abs=20)
        assert heard["gaps"] == 0
        assert peak_hz(peer.rtp.sound())[0] == pytest.approx(440, abs=3)
        peer.bye()


def test_a11_a_retransmitted_invite_is_one_call(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.request("INVITE", peer.sdp())
        for _ in range(2):
            peer.sip.sendall(peer.last_sent.encode())
        answer = peer.final("INVITE")
        peer.answer, peer.to = answer, answer.headers["to"]
        peer.request("ACK", cseq=peer.cseq)
        agent.event("Answered")
        pause(0.3)
        assert len(agent.events("Incoming")) == 1
        peer.bye()


def options_code(port: int, uri: str = "") -> int:
    with Peer(port) as asker:
        asker.request("OPTIONS", uri=uri)
        return asker.final("OPTIONS", 1).code


def test_a18_options_is_answered_idle_and_full(agents: Agents) -> None:
    """The packaged library knows 200 alone; the gateway's own build says 503 while there is no room for a call."""
    agent = agents(auto_answer=True, tone_hz=440, settings={"max_legs": 4})
    peers = [Peer(agent.port) for _ in range(4)]
    try:
        for target in ("", f"sip:nobody@127.0.0.1:{agent.port}"):
            assert options_code(agent.port, target) == 200
        assert [peer.invite().code for peer in peers] == [200] * 4
        if library_facts().own_build:
            assert until(lambda: options_code(agent.port) == 503)
        else:
            assert options_code(agent.port) == 200
    finally:
        for peer in peers:
            peer.bye()
            peer.__exit__(None, None, None)
    assert until(lambda: options_code(agent.port) == 200)


@own_build
def test_a18_options_is_503_while_no_calls_are_taken(agent: AgentProcess) -> None:
    assert options_code(agent.port) == 200
    agent.tell("accept", accepting=False)
    assert until(lambda: options_code(agent.port) == 503)
    with Peer(agent.port) as peer:
        assert peer.invite().code == 200, "offers are the listener's to refuse"
        peer.bye()
    agent.tell("accept", accepting=True)
    assert until(lambda: options_code(agent.port) == 200)


def test_a22_unsupported_codec_is_488(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        assert peer.invite(peer.sdp(formats="18")).code == 488
    with Peer(agent.port) as peer:
        assert peer.invite(peer.sdp(formats="9")).code == 488
    assert agent.statistics()["legs"] == 0


def test_a25_video_line_is_refused_and_audio_accepted(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        answer = peer.invite(peer.sdp() + "m=video 40000 RTP/AVP 34\r\na=rtpmap:34 H263/90000\r\n")
        assert answer.code == 200
        assert "m=video 0 " in answer.body
        agent.event("MediaActive")
        peer.bye()


def test_a22_hangup_code_and_headers_reach_the_caller(agents: Agents) -> None:
    agent = agents()
    with Peer(agent.port) as peer:
        peer.request("INVITE", peer.sdp())
        leg = agent.event("Incoming")["leg"]
        agent.tell("hangup", leg=leg, code=503, headers={"Retry-After": "7", "X-Bad": "a\r\nVia: evil"})
        answer = peer.final("INVITE")
        assert answer.code == 503
        assert answer.headers["retry-after"] == "7"
        assert "evil" not in answer.text
    ended = agent.event("Ended", leg=leg)
    assert (ended["code"], ended["by_remote"]) == (503, False)
    assert agent.statistics()["counts"]["unsafe_headers"] == 1


def test_source_outside_the_access_list_is_403(agents: Agents) -> None:
    trunk = {"name": "carrier", "networks": ["127.0.0.3/32"]}
    agent = agents(auto_answer=True, settings={"allow_loopback": False, "trunks": [trunk], "bind_address": "0.0.0.0"})
    for _ in range(6):  # more than the library has legs: a refused call must not keep its slot
        with Peer(agent.port, ip="127.0.0.2") as stranger:
            assert stranger.invite(extra="X-Trunk: carrier\r\n").code == 403
    assert agent.events("Incoming") == []
    with Peer(agent.port, ip="127.0.0.3") as friend:
        assert friend.invite(extra="X-Pair: en-pt\r\n").code == 200
        incoming = agent.event("Incoming")
        assert incoming["trunk"] == "carrier"
        assert incoming["headers"] == {}, "an untrusted trunk's headers were passed on"
        friend.bye()
    assert agent.statistics()["counts"]["refused"] == 6


def test_d07_six_invites_on_a_library_of_four(agent: AgentProcess) -> None:
    limit = agent.statistics()["max_legs"]
    peers = [Peer(agent.port) for _ in range(limit + 2)]
    try:
        codes = [peer.invite().code for peer in peers]
        assert codes == [200] * limit + [486] * 2
        assert agent.statistics()["free_legs"] == 0
        for peer in peers[:limit]:
            assert peer.bye().code == 200
        assert until(lambda: agent.statistics()["free_legs"] == limit)
        with Peer(agent.port) as late:
            assert late.invite().code == 200
            late.bye()
    finally:
        for peer in peers:
            peer.__exit__(None, None, None)


def test_a16_refer_is_refused(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("Answered")["leg"]
        peer.request("REFER", extra=f"Refer-To: <sip:other@127.0.0.1:{agent.port}>\r\n")
        assert peer.final("REFER").code in (405, 603)
        assert peer.bye().code == 200
    agent.event("Ended", leg=leg)
    assert len(agent.events("Incoming")) == 1


def test_d03_hangup_from_another_thread(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("Answered")["leg"]
        agent.tell("hangup", leg=leg)  # the driver reads lines on its main thread
        assert peer.wait_bye() is not None
    ended = agent.event("Ended", leg=leg)
    assert (ended["code"], ended["by_remote"]) == (200, False)
    agent.tell("hangup", leg="never-was")
    assert until(lambda: agent.statistics()["counts"]["unknown_leg"] >= 1)


def test_b08_clock_goes_on_when_the_peer_is_silent(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        pause(0.2)
        start, began = agent.hear(leg)["samples"], time.monotonic()
        pause(2.0)
        heard, passed = agent.hear(leg), time.monotonic() - began
        assert heard["samples"] - start == pytest.approx(8000 * passed, rel=0.08)
        assert heard["gaps"] == 0
        assert heard["level"] < 10
        peer.bye()


def test_a8_b03_b09_egress_is_fifty_packets_a_second(agents: Agents) -> None:
    agent = agents(auto_answer=True)  # a source of silence: nothing to say is said with packets as well
    with Peer(agent.port) as peer:
        peer.invite()
        assert until(lambda: len(peer.rtp.received) > 10)
        first = len(peer.rtp.received)
        pause(6.0)
        packets = peer.rtp.received[first:]
        seconds = (packets[-1].at_ns - packets[0].at_ns) / 1e9
        assert (len(packets) - 1) / seconds == pytest.approx(50, rel=0.005)
        assert all((b.seq - a.seq) & 0xFFFF == 1 for a, b in itertools.pairwise(packets))
        assert all(b.timestamp - a.timestamp == 160 for a, b in itertools.pairwise(packets))
        assert {len(p.payload) for p in packets} == {160}
        peer.bye()
