# SPDX-License-Identifier: GPL-3.0-or-later
"""Key presses as telephones really send them (RFC 4733, SIP INFO), on one agent for all tests."""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Iterator

import pytest
from g711 import tone
from sip_callee import Callee
from sip_harness import AgentProcess, until
from sip_peer import Peer

pytestmark = pytest.mark.sip

KEYS = "0123456789*#ABCD"


@pytest.fixture(scope="module")
def agent(worker_rtp: Iterator[int]) -> Iterator[AgentProcess]:
    one = AgentProcess(next(worker_rtp), auto_answer=True)
    yield one
    assert one.stop() == 0
    one.kill()


def press(
    peer: Peer | Callee, keys: str, kind: int, *, marker: bool = True, same_stamp: bool = False, ends: int = 3
) -> None:
    """Send each key as RFC 4733 events: 50 ms, the end packet repeated. The gap between keys is 60 ms."""
    for key in keys:
        code, stamp = KEYS.index(key), peer.rtp.timestamp
        for number in range(3 + ends):
            over = number >= 3
            payload = struct.pack("!BBH", code, (0x80 if over else 0) | 10, min(number + 1, 4) * 160)
            peer.rtp.timestamp = stamp
            peer.rtp.send(peer.remote_rtp, payload, kind, marker=marker and number == 0, step=0)
            threading.Event().wait(0.01)
        if not same_stamp:
            peer.rtp.timestamp = stamp + 960
        threading.Event().wait(0.06)


def heard(agent: AgentProcess, leg: str, count: int) -> str:
    def digits() -> list[str]:
        return [event["digit"] for event in agent.events("Digit") if event["leg"] == leg]

    until(lambda: len(digits()) >= count, 3)
    threading.Event().wait(0.15)  # one too many would come now
    return "".join(digits())


@pytest.mark.parametrize("kind", [96, 101, 102, 122])
def test_c01_digits_come_on_the_payload_type_that_the_peer_offered(agent: AgentProcess, kind: int) -> None:
    with Peer(agent.port, user=f"pt{kind}") as peer:
        offer = peer.sdp(formats="0").replace("RTP/AVP 0", f"RTP/AVP 0 {kind}")
        peer.invite(offer + f"a=rtpmap:{kind} telephone-event/8000\r\na=fmtp:{kind} 0-15\r\n")
        leg = agent.event("MediaActive", leg=agent.event("Incoming", caller=f"pt{kind}")["leg"])["leg"]
        press(peer, "19*0", kind)
        assert heard(agent, leg, 4) == "19*0"
        peer.bye()


def test_c02_a_lost_marker_and_lost_ends_cost_no_digit_and_double_none(agent: AgentProcess) -> None:
    with Peer(agent.port, user="nomark") as peer:
        peer.invite()
        leg = agent.event("MediaActive", leg=agent.event("Incoming", caller="nomark")["leg"])["leg"]
        press(peer, "55", 101, marker=False)
        press(peer, "7", 101, ends=0)
        press(peer, "#D", 101, ends=1)
        assert heard(agent, leg, 5) == "557#D"
        peer.bye()


def test_c03_three_keys_on_one_timestamp_are_three_digits(agent: AgentProcess) -> None:
    with Peer(agent.port, user="stamp") as peer:
        peer.invite()
        leg = agent.event("MediaActive", leg=agent.event("Incoming", caller="stamp")["leg"])["leg"]
        press(peer, "*01", 101, same_stamp=True)
        assert heard(agent, leg, 3) == "*01"
        peer.bye()


def test_digits_between_speech_are_no_sound(agent: AgentProcess) -> None:
    with Peer(agent.port, user="talk") as peer:
        peer.invite()
        leg = agent.event("MediaActive", leg=agent.event("Incoming", caller="talk")["leg"])["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(300, 1, 4000))
        threading.Event().wait(0.3)
        peer.rtp.silence()
        press(peer, "42", 101)
        assert heard(agent, leg, 2) == "42"
        assert agent.hear(leg)["gaps"] == 0
        peer.bye()


@pytest.mark.parametrize(
    ("kind", "body", "digit"),
    [
        ("application/dtmf-relay", "Signal=5\r\nDuration=160\r\n", "5"),
        ("application/dtmf-relay", "Signal= *\r\nDuration= 250\r\n", "*"),
        ("application/dtmf", "#", "#"),
        ("application/dtmf", "d\r\n", "D"),
    ],
)
def test_c06_digits_by_info(agent: AgentProcess, kind: str, body: str, digit: str) -> None:
    user = f"info{ord(digit)}"
    with Peer(agent.port, user=user) as peer:
        peer.invite()
        leg = agent.event("Answered", leg=agent.event("Incoming", caller=user)["leg"])["leg"]
        peer.request("INFO", body, f"Content-Type: {kind}\r\n")
        assert peer.final("INFO").code == 200
        assert heard(agent, leg, 1) == digit
        peer.bye()


@pytest.mark.parametrize(("kind", "body"), [("application/dtmf", "12"), ("text/plain", "5"), ("application/dtmf", "")])
def test_c06_an_info_that_is_no_key_is_no_digit(agent: AgentProcess, kind: str, body: str) -> None:
    with Peer(agent.port, user="noinfo") as peer:
        peer.invite()
        peer.request("INFO", body, f"Content-Type: {kind}\r\n")
        assert peer.final("INFO").code >= 400 or not body
        before = len(agent.events("Digit"))
        threading.Event().wait(0.2)
        assert len(agent.events("Digit")) == before
        assert peer.bye().code == 200


def test_k07_digits_are_not_in_the_log(agent: AgentProcess) -> None:
    assert len(agent.events("Digit")) > 10
    assert not [line for line in agent.errors if "digit" in line.lower() or "dtmf" in line.lower()]


def test_c01_an_answer_may_name_another_payload_type(agent: AgentProcess) -> None:
    """RFC 3264 section 5.1: a party sends with the numbers that the other one wrote."""
    with Callee() as callee:
        leg = "answer"
        agent.tell("dial", leg=leg, uri=f"sip:100@127.0.0.1:{callee.port}")
        invite = callee.expect("INVITE")
        ours = re.search(r"a=rtpmap:(\d+) telephone-event/8000", invite.body)
        assert ours
        answer = callee.sdp().replace("RTP/AVP 0", "RTP/AVP 0 97") + "a=rtpmap:97 telephone-event/8000\r\n"
        callee.respond(invite, 200, "OK", answer)
        callee.expect("ACK")
        callee.learn(invite.body)
        agent.event("MediaActive", leg=leg)
        press(callee, "8#", int(ours[1]))
        assert heard(agent, leg, 2) == "8#"
        agent.tell("hangup", leg=leg)
        callee.respond(callee.expect("BYE"), 200, "OK")
        agent.event("Ended", leg=leg)
