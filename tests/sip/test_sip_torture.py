# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that arrives ends the process or the calls of others (B15, B16, RFC 4475)."""

from __future__ import annotations

import itertools
import random
import select
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from g711 import tone
from sip_harness import AgentProcess, until
from sip_peer import Peer
from torture import RFC_4475, Odd, broken_packets, fill, mutated

pytestmark = pytest.mark.sip


@pytest.fixture(scope="module")
def shared(worker_rtp: Iterator[int]) -> Iterator[AgentProcess]:
    one = AgentProcess(next(worker_rtp), tone_hz=440)
    yield one
    assert one.stop() == 0, "".join(one.errors[-20:])
    one.kill()


@pytest.fixture
def agent(shared: AgentProcess) -> Iterator[AgentProcess]:
    """Alive after the test, the same process, and the next call works."""
    pid = shared.process.pid
    yield shared
    assert shared.alive, f"exit {shared.process.poll()}: {''.join(shared.errors[-10:])}"
    told: set[str] = set()

    def at_rest() -> bool:  # a mutant may have made a call, and what is left of a stream is still being read
        ended = {event["leg"] for event in shared.events("Ended")}
        for leg in {event["leg"] for event in shared.events("Incoming")} - ended - told:
            told.add(leg)
            shared.tell("hangup", leg=leg, code=480)
        return bool(shared.statistics()["legs"] == 0)

    assert until(at_rest)
    with Peer(shared.port, user="next") as peer:
        up(shared, peer)
        assert until(lambda: len(peer.rtp.received) > 5)
        assert peer.bye().code == 200
    assert shared.process.pid == pid


def up(agent: AgentProcess, peer: Peer) -> str:
    """A call that is answered by hand, so that a mutant is not; its leg."""
    start = len(agent.lines)
    peer.request("INVITE", peer.sdp())
    leg = agent.event("Incoming", start=start, caller=peer.user)["leg"]
    agent.tell("answer", leg=leg)
    peer.take(peer.final("INVITE"))
    agent.event("MediaActive", start=start, leg=leg)
    return str(leg)


@pytest.fixture
def wire() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        yield one


def answers(wire: socket.socket, wait_s: float) -> list[int]:
    found = []
    while select.select([wire], [], [], wait_s)[0]:
        line = wire.recv(4096).partition(b"\r\n")[0].split(b" ")
        if line[0] == b"SIP/2.0" and int(line[1]) >= 200:
            found.append(int(line[1]))
            wait_s = 0.0
    return found


def test_rfc_4475_torture(agent: AgentProcess, wire: socket.socket) -> None:
    me, gateway = f"127.0.0.1:{wire.getsockname()[1]}", f"127.0.0.1:{agent.port}"
    wrong = {}
    for number, odd in enumerate(RFC_4475):
        wire.sendto(fill(odd.text, me=me, gateway=gateway, number=number), ("127.0.0.1", agent.port))
        codes = answers(wire, 0.15)
        if not set(codes or [None]) <= odd.codes:
            wrong[odd.name] = codes
    assert not wrong


def invite(peer: Peer) -> Odd:
    text = (
        "INVITE sip:4711@{gw} SIP/2.0\r\nVia: SIP/2.0/UDP {me};branch=z9hG4bK-{n};rport\r\nMax-Forwards: 70\r\n"
        "From: <sip:alice@{me}>;tag=t{n}\r\nTo: <sip:4711@{gw}>\r\nCall-ID: mutant-{n}\r\nCSeq: 1 INVITE\r\n"
        "Contact: <sip:alice@{me}>\r\nSupported: timer, 100rel, replaces\r\nSession-Expires: 90;refresher=uac\r\n"
        "Content-Type: application/sdp\r\nContent-Length: 300\r\n\r\n"
    )
    return Odd("invite", text + peer.sdp() + "a=fmtp:101 0-15\r\na=rtcp:4001 IN IP4 127.0.0.1\r\n", frozenset())


def test_b15_mutated_messages(agent: AgentProcess, wire: socket.socket) -> None:
    chance = random.Random(1717)
    me, gateway = f"127.0.0.1:{wire.getsockname()[1]}", f"127.0.0.1:{agent.port}"
    with Peer(agent.port) as peer:
        seeds = [invite(peer), *RFC_4475]
        for number in range(1500):
            seed = seeds[0] if number % 2 else chance.choice(seeds)
            whole = fill(seed.text, me=me, gateway=gateway, number=1000 + number)
            wire.sendto(mutated(whole, chance), ("127.0.0.1", agent.port))
            if number % 25 == 0:
                assert agent.alive
                threading.Event().wait(0.02)  # the socket's buffer is not what is tested
        assert until(lambda: agent.statistics()["commands"]["depth"] == 0)


def test_b15_mutated_messages_on_a_stream(agent: AgentProcess) -> None:
    chance = random.Random(42)
    with Peer(agent.port) as peer:
        seed = invite(peer)
        for number in range(60):
            with socket.create_connection(("127.0.0.1", agent.port)) as stream:
                data = fill(seed.text, me="127.0.0.1:9", gateway="127.0.0.1", number=5000 + number)
                stream.sendall(mutated(data.replace(b"/UDP", b"/TCP"), chance))
                if number % 3:
                    stream.sendall(b"\r\n\r\n" + chance.randbytes(500))


def test_b16_broken_rtp_and_rtcp_beside_a_call(agent: AgentProcess) -> None:
    chance = random.Random(16)
    with Peer(agent.port, user="media") as peer:
        leg = up(agent, peer)
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        host, port = peer.remote_rtp
        for number, packet in enumerate(broken_packets(10_000, chance)):
            peer.rtp.socket.sendto(packet, (host, port + (number % 2 == 0)))
            if number % 200 == 0:
                threading.Event().wait(0.01)
        assert agent.alive
        threading.Event().wait(1.3)
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1000, abs=3)
        assert heard["gaps"] == 0
        assert peer.bye().code == 200


@pytest.mark.parametrize("transport", ["UDP", "TCP"])
def test_d07_a_flood_of_calls_ends_nothing(agents: Callable[..., AgentProcess], transport: str) -> None:
    """The library gives each INVITE two sockets, a stranger's too, and may have places for few: a call that is there
    goes on, and the next one is taken when the flood is over."""
    trunks = [{"name": "known", "networks": ["127.0.0.2"]}]
    settings = {"allow_loopback": False, "trunks": trunks, "bind_address": "0.0.0.0"}
    agent = agents(auto_answer=True, tone_hz=440, settings=settings)
    with Peer(agent.port, ip="127.0.0.2") as here, Peer(agent.port, transport=transport) as flood:
        assert here.invite().code == 200
        for number in range(100):
            flood.call_id = flood.tag = f"flood{number}"
            flood.request("INVITE", flood.sdp())
        before = len(here.rtp.received)
        assert until(lambda: agent.statistics()["counts"]["refused"] == 100, 20), "the rest was lost"
        assert until(lambda: len(here.rtp.received) > before + 20)
        sound = here.rtp.received[before:]
        assert {b.seq - a.seq for a, b in itertools.pairwise(sound)} <= {1, -0xFFFF}, "the flood was heard"
        with Peer(agent.port, ip="127.0.0.2", user="next") as peer:
            assert peer.invite().code == 200
            assert peer.bye().code == 200
        assert here.bye().code == 200
