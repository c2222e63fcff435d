# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop, and what must not bring the process down."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from g711 import tone
from sip_harness import AgentProcess, until
from sip_peer import Peer

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_port_taken_is_told_with_the_remedy(agents: Agents, kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        port = other.getsockname()[1]
        agent = agents(settings={"port": port})
    assert agent.failure.startswith(f"port {port} is taken by another process")
    assert "sip.port" in agent.failure
    assert agent.process.wait(10) == 3


def test_d02_stop_with_three_live_calls_exits_0(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    peers = [Peer(agent.port) for _ in range(3)]
    assert [peer.invite().code for peer in peers] == [200] * 3
    for peer in peers:
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
    agent.tell("stop")
    assert all(peer.wait_bye() is not None for peer in peers)
    assert agent.process.wait(20) == 0
    assert len(agent.events("Ended")) == 3
    for peer in peers:
        peer.__exit__(None, None, None)


def test_d13_a_call_with_sound_touches_no_sound_device(agents: Agents) -> None:
    """As in a container without /dev/snd: the library's clock is all that drives the sound."""
    agent = agents(auto_answer=True, tone_hz=440)
    with Peer(agent.port) as peer:
        assert peer.invite().code == 200
        assert until(lambda: len(peer.rtp.received) > 10)
        opened = []
        for link in Path(f"/proc/{agent.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                opened.append(str(link.readlink()))
        assert opened and not [path for path in opened if path.startswith("/dev/snd")]
        peer.bye()


def test_d02_stop_while_a_call_is_unanswered(agents: Agents) -> None:
    agent = agents()
    with Peer(agent.port) as peer:
        peer.request("INVITE", peer.sdp())
        agent.event("Incoming")
        agent.tell("stop")
        assert peer.final("INVITE").code == 503
    assert agent.process.wait(20) == 0


def test_d02_exception_in_main_with_a_live_call_is_no_crash(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    with Peer(agent.port) as peer:
        assert peer.invite().code == 200
        agent.event("Answered")
        agent.tell("raise")
        assert peer.wait_bye() is not None
        assert agent.process.wait(20) == 1  # Python's own status for an exception; a crash would be negative
    agent.failure = "it ended itself"


def test_d01_calls_live_through_a_storm_of_garbage_collections(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440, gc_storm=True)
    for _ in range(25):
        with Peer(agent.port) as first, Peer(agent.port) as second:
            assert first.invite().code == 200
            assert second.invite().code == 200
            assert until(lambda peer=second: len(peer.rtp.received) > 3)  # type: ignore[misc]
            assert first.bye().code == 200
            assert second.bye().code == 200
    assert until(lambda: agent.statistics()["legs"] == 0)  # by then each end is counted
    counts = agent.statistics()["counts"]
    assert (counts["incoming"], counts["ended"], counts["callback_errors"]) == (50, 50, 0)
    assert agent.alive


def test_d10_bye_and_cancel_around_the_answer(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    for number in range(40):
        with Peer(agent.port) as peer:
            peer.request("INVITE", peer.sdp())
            threading.Event().wait(number % 8 / 1000)
            peer.request("CANCEL", cseq=peer.cseq)
            message = peer.final("INVITE")
            if message.code == 200:
                peer.answer, peer.to = message, message.headers["to"]
                peer.request("ACK", cseq=peer.cseq)
                assert peer.bye().code == 200
            else:
                assert message.code == 487
    assert until(lambda: agent.statistics()["legs"] == 0)


def test_d10_hangup_from_the_event_of_media(agents: Agents) -> None:
    agent = agents(auto_answer=True, hangup_on_media=True)
    for _ in range(10):
        with Peer(agent.port) as peer:
            assert peer.invite().code == 200
            assert peer.wait_bye() is not None
    assert until(lambda: agent.statistics()["legs"] == 0)


def test_b15_b16_broken_packets_change_nothing(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    with Peer(agent.port) as peer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wild:
        offer = peer.sdp()
        for body in (
            offer.replace("RTP/AVP 0", "RTP/AVP 4294967296"),
            offer + "a=fmtp:101 \0\r\n",
            "m=audio",
            "\0" * 40,
        ):
            with Peer(agent.port) as broken:
                broken.request("INVITE", body)
                message = broken.receive(1)
                while message is not None and message.code < 200:
                    message = broken.receive(1)
                if message is not None and message.code == 200:
                    broken.answer, broken.to = message, message.headers["to"]
                    broken.request("ACK", cseq=broken.cseq)
                    broken.bye()
        for junk in (b"\r\n\r\n", b"INVITE", b"\0" * 1400, b"SIP/2.0 200 OK\r\n\r\n", b"OPTIONS sip: SIP/2.0\r\n\r\n"):
            wild.sendto(junk, ("127.0.0.1", agent.port))
        assert until(lambda: agent.statistics()["legs"] == 0)
        assert peer.invite().code == 200
        agent.event("MediaActive")
        for size in range(0, 64):
            peer.rtp.socket.sendto(bytes([0x80 | size & 0x3F]) * size, peer.remote_rtp)
        assert until(lambda: len(peer.rtp.received) > 20)
        assert peer.bye().code == 200


def test_statistics_tell_library_limits_and_rtp(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        assert until(lambda: agent.statistics()["rtp"].get(leg, {}).get("rx_packets", 0) > 20)
        told = agent.statistics()
        assert told["rtp"][leg]["tx_packets"] > 20
        assert told["rtp"][leg]["rx_lost"] == 0
        assert told["library"]["version"][0].isdigit()
        assert told["max_legs"] >= 4
        assert told["commands"]["dropped"] == 0
        peer.bye()


def test_k07_no_digit_and_no_number_in_the_log(agents: Agents) -> None:
    agent = agents(auto_answer=True, settings={"log_level": 3})
    with Peer(agent.port, user="+4930998877") as peer:
        peer.invite()
        leg = agent.event("Answered")["leg"]
        peer.request("INFO", "Signal=7\r\nDuration=160\r\n", "Content-Type: application/dtmf-relay\r\n")
        peer.final("INFO")
        agent.event("Digit", leg=leg, digit="7")
        peer.bye()
        agent.event("Ended", leg=leg)
    agent.tell("dial", leg="b", uri="sip:+551199887766@127.0.0.1:1;transport=tcp")
    agent.event("Ended", leg="b")
    assert agent.stop() == 0
    logged = "".join(line for line in agent.errors if "pii." not in line)
    assert "pjsip_log" in logged
    assert not [line for line in agent.errors if "4930998877" in line or "551199887766" in line or "Signal" in line]


def test_a13_contact_and_sdp_carry_the_public_address(agents: Agents) -> None:
    agent = agents(auto_answer=True, settings={"bind_address": "0.0.0.0", "public_address": "192.0.2.7"})
    with Peer(agent.port) as peer:
        answer = peer.invite()
        assert answer.code == 200
        assert f"192.0.2.7:{agent.port}" in answer.headers["contact"]
        assert "c=IN IP4 192.0.2.7" in answer.body
        peer.answer = None  # the public address is not reachable here: the BYE goes to where the INVITE went
        assert peer.bye().code == 200


def test_commands_are_quick_without_a_udp_transport_too(agents: Agents) -> None:
    for transports in (["udp", "tcp"], ["tcp"]):
        agent = agents(settings={"transports": transports})
        latencies = agent.ask("latency", "latency_us", 20)["latency_us"]
        # the poll lasts 20 ms; what is woken waits far less, what polls waits 5 ms at most
        assert statistics.median(latencies) < 8000


def test_a23_ten_calls_at_once_after_start_get_100_and_an_answer(agents: Agents) -> None:
    agent = agents(auto_answer=True, settings={"max_legs": 4})
    peers = [Peer(agent.port) for _ in range(10)]
    for peer in peers:
        peer.request("INVITE", peer.sdp())
    codes = []
    for peer in peers:
        message = peer.final("INVITE")
        codes.append(message.code)
    assert sorted(set(codes)) == [200, 486]
    assert codes.count(200) == agent.statistics()["max_legs"]
    agent.tell("stop")
    assert agent.process.wait(20) == 0
    for peer in peers:
        peer.__exit__(None, None, None)
