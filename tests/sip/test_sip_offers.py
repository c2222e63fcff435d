# SPDX-License-Identifier: GPL-3.0-or-later
"""Odd offers, answers and crossings, each against one agent that goes on afterwards."""

from __future__ import annotations

import itertools
import random
import re
import threading
from collections.abc import Iterator

import pytest
from g711 import encode_alaw, peak_hz, tone
from sip_callee import Callee
from sip_harness import AgentProcess, until
from sip_peer import Message, Peer

pytestmark = pytest.mark.sip


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@pytest.fixture(scope="module")
def shared(worker_rtp: Iterator[int]) -> Iterator[AgentProcess]:
    one = AgentProcess(next(worker_rtp), auto_answer=True, tone_hz=440)
    yield one
    assert one.stop() == 0
    one.kill()


@pytest.fixture
def agent(shared: AgentProcess) -> Iterator[AgentProcess]:
    """The shared agent, which has to be as free after a test as before, and answers the next call."""
    pid = shared.process.pid
    yield shared
    assert until(lambda: shared.statistics()["legs"] == 0), "a leg was left behind"
    with Peer(shared.port) as next_one:
        assert next_one.invite().code == 200
        assert next_one.bye().code == 200
    assert (shared.process.pid, shared.alive) == (pid, True)


def leg_of(agent: AgentProcess, peer: Peer) -> str:
    return str(agent.event("Incoming", caller=peer.user)["leg"])


def test_a04_an_ack_without_an_answer_ends_the_call(agent: AgentProcess) -> None:
    with Peer(agent.port, user="noanswer") as peer:
        peer.request("INVITE")
        answer = peer.final("INVITE")
        assert (answer.code, "m=audio" in answer.body) == (200, True)
        peer.answer, peer.to = answer, answer.headers["to"]
        peer.request("ACK", cseq=peer.cseq)
        assert peer.wait_bye(5) is not None, "a zombie"
        agent.event("Ended", leg=leg_of(agent, peer), by_remote=False)


@pytest.mark.parametrize("direction", ["sendonly", "inactive"])
def test_a01_a_call_may_begin_on_hold(agent: AgentProcess, direction: str) -> None:
    with Peer(agent.port, user=f"first{direction}") as peer:
        assert peer.invite(peer.sdp(direction)).code == 200
        leg = leg_of(agent, peer)
        agent.event("Answered", leg=leg)
        agent.event("MediaHeld", leg=leg)
        pause(0.3)
        assert not [event for event in agent.events("Ended") if event["leg"] == leg]
        assert peer.invite(peer.sdp("sendrecv", version=2)).code == 200
        agent.event("MediaActive", leg=leg)
        assert until(lambda: len(peer.rtp.received) > 20)
        assert peer.bye().code == 200


def test_a11_the_same_call_over_another_path_is_refused(agent: AgentProcess) -> None:
    """RFC 3261 section 8.2.2.2: same Call-ID, From tag and CSeq with another branch is a merged request."""
    with Peer(agent.port, user="merged") as peer:
        peer.request("INVITE", peer.sdp())
        first = peer.branch
        peer.sip.sendall(peer.last_sent.replace(first, first + "x").encode())
        codes = sorted(message.code for message in (peer.final("INVITE"), peer.final("INVITE")))
        assert codes[0] == 200 and codes[1] in (482, 500)
        agent.event("Incoming", caller="merged")  # told beside the answer, maybe behind it
        assert len([event for event in agent.events("Incoming") if event["caller"] == "merged"]) == 1
        agent.tell("hangup", leg=leg_of(agent, peer))


def test_a_re_invite_may_change_the_codec(agent: AgentProcess) -> None:
    with Peer(agent.port, user="codec") as peer:
        peer.invite(peer.sdp(formats="0"))
        leg = leg_of(agent, peer)
        agent.event("MediaActive", leg=leg, codec="PCMU")
        assert peer.invite(peer.sdp(formats="8", version=2)).code == 200
        agent.event("MediaActive", leg=leg, codec="PCMA")
        sound = encode_alaw(tone_hz=1000)
        for at in range(0, 8000, 160):
            peer.rtp.send(peer.remote_rtp, sound[at : at + 160], 8)
            pause(0.02)
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1000, abs=3)
        assert heard["gaps"] == 0
        assert {packet.payload_type for packet in peer.rtp.received[-20:]} == {8}
        peer.bye()


def test_a_re_invite_from_another_port_moves_the_sound(agent: AgentProcess) -> None:
    with Peer(agent.port, user="moves") as peer, Peer(agent.port) as elsewhere:
        peer.invite()
        leg = leg_of(agent, peer)
        offer = peer.sdp(version=2).replace(f"m=audio {peer.rtp.port}", f"m=audio {elsewhere.rtp.port}")
        assert peer.invite(offer).code == 200
        assert until(lambda: len(elsewhere.rtp.received) > 20)
        elsewhere.rtp.stream(peer.remote_rtp, tone(1200, 1))
        pause(1.2)
        assert agent.hear(leg)["peak_hz"] == pytest.approx(1200, abs=5)
        peer.bye()


def test_b14_the_peer_may_send_any_codec_that_was_agreed(agent: AgentProcess) -> None:
    """It lists PCMA first and sends PCMU; telephone-event stands in front of both."""
    with Peer(agent.port, user="asym") as peer:
        answer = peer.invite(peer.sdp(formats="96 8 0").replace("X-UNKNOWN", "telephone-event"))
        assert answer.code == 200
        leg = leg_of(agent, peer)
        agreed = re.search(r"m=audio \d+ RTP/AVP (.*)", answer.body)
        assert agreed
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        pause(1.3)
        heard = agent.hear(leg)
        if "0" in agreed[1].split():
            assert heard["peak_hz"] == pytest.approx(1000, abs=3)
            assert heard["tone_share"] > 0.95
        else:  # an agreement on one codec: the peer broke it, and only its own sound suffers
            assert heard["gaps"] == 0
        peer.bye()


@pytest.mark.parametrize("ptime_ms", [10, 20, 30, 40, 60])
def test_j03_packets_have_the_time_that_was_asked_for(agent: AgentProcess, ptime_ms: int) -> None:
    with Peer(agent.port, user=f"ptime{ptime_ms}") as peer:
        peer.invite(peer.sdp().replace("a=ptime:20", f"a=ptime:{ptime_ms}\r\na=maxptime:{ptime_ms}"))
        leg_of(agent, peer)
        assert until(lambda: len(peer.rtp.received) > 12)
        pause(0.6)
        packets = peer.rtp.received[5:]
        assert {len(packet.payload) for packet in packets} == {8 * ptime_ms}
        assert {b.timestamp - a.timestamp for a, b in itertools.pairwise(packets)} == {8 * ptime_ms}
        assert peak_hz(peer.rtp.sound(0.5))[0] == pytest.approx(440, abs=5)
        peer.bye()


@pytest.mark.parametrize(
    ("kind", "body", "codes"),
    [
        ("multipart/mixed;boundary=x", "--x\r\nContent-Type: application/sdp\r\n\r\n{sdp}\r\n--x\r\n"
         "Content-Type: application/ISUP;version=itu-t92+\r\n\r\n\x01\x11\x00\r\n--x--\r\n", {200}),
        ("application/x-unknown", "hello", {200, 415, 400, 488}),
        ("application/sdp", "v=0\r\n", {400, 488}),
        ("application/sdp", "", {200}),
        ("application/sdp", "{sdp}m=image 4000 udptl t38\r\nm=application 4001 TCP/BFCP *\r\n", {200}),
        ("application/sdp", "{sdp}a=crypto:1 NONSENSE inline:xyz\r\na=fingerprint:sha-1 00\r\na=ice-lite\r\n", {200}),
    ],
)  # fmt: skip
def test_a25_odd_bodies(agent: AgentProcess, kind: str, body: str, codes: set[int]) -> None:
    with Peer(agent.port, user="odd") as peer:
        answer = (
            peer.invite(body.replace("{sdp}", peer.sdp()), f"Content-Type: {kind}\r\n") if body else peer.invite("")
        )
        assert answer.code in codes, answer.first_line
        if answer.code == 200:
            others = re.findall(r"m=(?!audio)\w+ (\d+)", answer.body)
            assert set(others) <= {"0"}, "another medium than sound was accepted"
            if kind.startswith("application/x"):
                assert peer.wait_bye(5) is not None or peer.bye().code == 200
            else:
                assert peer.bye().code == 200


@pytest.mark.parametrize("size", [3_000, 60_000])
@pytest.mark.parametrize("transport", ["UDP", "TCP"])
def test_size_limits(agent: AgentProcess, transport: str, size: int) -> None:
    """What is too long may be refused or ignored; nobody else notices."""
    with Peer(agent.port, user="long", transport=transport) as peer:
        peer.request("INVITE", peer.sdp(), "".join(f"X-{n}: {'y' * 990}\r\n" for n in range(size // 1000)))
        message = peer.receive(1)
        while message is not None and message.code < 200:
            message = peer.receive(1)
        if message is not None and message.code == 200:
            peer.answer, peer.to = message, message.headers["to"]
            peer.request("ACK", cseq=peer.cseq)
            assert peer.bye().code == 200


def test_d10_bye_at_any_moment(agent: AgentProcess) -> None:
    chance = random.Random(7)
    for _ in range(15):
        with Peer(agent.port, user="anytime") as peer:
            peer.request("INVITE", peer.sdp())
            answer = peer.final("INVITE")
            peer.answer, peer.to = answer, answer.headers["to"]
            order = ["ACK", "BYE"] if chance.random() < 0.7 else ["BYE", "ACK"]
            cseq = peer.cseq
            for method in order:
                pause(chance.random() * 0.03)
                peer.request(method, cseq=cseq if method == "ACK" else None)
            assert peer.final("BYE").code in (200, 481)


def test_a16_an_invite_that_replaces_a_call_hijacks_nothing(agent: AgentProcess) -> None:
    """RFC 3891: whoever knows the dialog's tags could take a party's place."""
    with Peer(agent.port, user="victim") as victim, Peer(agent.port, user="thief") as thief:
        victim.invite()
        leg, there = leg_of(agent, victim), victim.to.partition("tag=")[2]
        replaces = f"Replaces: {victim.call_id};to-tag={there};from-tag={victim.tag}\r\n"
        assert thief.invite(extra=f"{replaces}Require: replaces\r\n").code in (420, 481, 486, 603)
        heard = len(victim.rtp.received)
        assert until(lambda: len(victim.rtp.received) > heard + 10)
        assert victim.bye().code == 200
        agent.event("Ended", leg=leg, code=200)


# --- calls that the gateway places ------------------------------------------------------------------------------------


def dialled(agent: AgentProcess, callee: Callee, leg: str) -> Message:
    agent.tell("dial", leg=leg, uri=f"sip:100@127.0.0.1:{callee.port}")
    return callee.expect("INVITE")


def test_a_redirection_is_not_followed(agent: AgentProcess) -> None:
    """302 to a number of the callee's choice would be toll fraud by invitation: the dial plan alone chooses."""
    with Callee() as callee, Callee() as elsewhere:
        invite = dialled(agent, callee, "moved")
        callee.respond(invite, 302, "Moved Temporarily", extra=f"Contact: <sip:900@127.0.0.1:{elsewhere.port}>")
        callee.expect("ACK")
        assert agent.event("Ended", leg="moved")["code"] == 302
        assert elsewhere.receive(0.3) is None


def test_forked_provisional_answers_and_the_one_that_wins(agent: AgentProcess) -> None:
    with Callee() as callee:
        invite = dialled(agent, callee, "forked")
        for tag in ("one", "two", "three"):
            callee.tag = tag
            callee.respond(invite, 180, "Ringing")
        callee.tag = "two"
        callee.respond(invite, 200, "OK", callee.sdp())
        ack = callee.expect("ACK")
        assert "tag=two" in ack.headers["to"]
        agent.event("Answered", leg="forked")
        assert until(lambda: len(callee.rtp.received) > 20)
        agent.tell("hangup", leg="forked")
        callee.respond(callee.expect("BYE"), 200, "OK")
        agent.event("Ended", leg="forked", code=200)


def test_a_second_200_of_a_fork_is_ended(agent: AgentProcess) -> None:
    """RFC 3261 section 13.2.2.4: every 200 is acknowledged, and the ones that lost get BYE."""
    with Callee() as callee:
        invite = dialled(agent, callee, "twice")
        for tag in ("one", "two"):
            callee.tag = tag
            callee.respond(invite, 200, "OK", callee.sdp())
        seen: dict[str, set[str]] = {"one": set(), "two": set()}
        for _ in range(8):
            message = callee.receive(1)
            if message is None:
                break
            tag = "one" if "tag=one" in message.headers.get("to", "") else "two"
            seen[tag].add(message.first_line.split()[0])
            if message.first_line.startswith("BYE"):
                callee.respond(message, 200, "OK")
            if seen["two"] >= {"ACK", "BYE"}:
                break
        assert "ACK" in seen["one"] and "BYE" not in seen["one"]
        assert seen["two"] >= {"ACK", "BYE"}, "a ghost call"
        agent.tell("hangup", leg="twice")
        callee.tag = "one"
        callee.respond(callee.expect("BYE"), 200, "OK")
        agent.event("Ended", leg="twice")


@pytest.mark.parametrize("body", ["", "v=0\r\n", "m=audio"])
def test_an_answer_that_is_none_ends_the_call(agent: AgentProcess, body: str) -> None:
    with Callee() as callee:
        leg = f"bad{len(body)}"
        invite = dialled(agent, callee, leg)
        callee.respond(invite, 200, "OK", body)
        callee.expect("ACK")
        callee.respond(callee.expect("BYE"), 200, "OK")
        agent.event("Ended", leg=leg)
