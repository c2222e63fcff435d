# SPDX-License-Identifier: GPL-3.0-or-later
"""The telephone's signalling on a virtual wire: whole calls, every loss, and requests from strangers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.wire import SECOND, Wire, describe
from gateway.bench import sdp
from gateway.bench.sip_message import Response, parse_address
from gateway.bench.ua import CallEnded, Established, Event, Incoming, MediaChanged, Ringing

pytestmark = pytest.mark.unit

Kind = TypeVar("Kind")
B = "sip:b@127.0.0.1:5002"


def only(kind: type[Kind], events: Sequence[Event]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


def established(wire: Wire) -> Wire:
    wire.a.invite(B, wire.now_ns, headers={"X-Test": "yes"})
    wire.run(0.1)
    wire.events["b"] += wire.b.answer(wire.now_ns)
    wire.run(0.1)
    assert (wire.a.stage, wire.b.stage) == ("confirmed", "confirmed")
    return wire


def test_a_whole_call() -> None:
    wire = Wire()
    established(wire)
    assert only(Incoming, wire.events["b"]) == [Incoming("a", "b", {"x-test": "yes"})]
    assert only(Ringing, wire.events["a"]) == [Ringing(180)]
    media = {name: only(MediaChanged, events)[0].media for name, events in wire.events.items()}
    assert media["a"].remote == ("127.0.0.1", 6002)
    assert media["b"].remote == ("127.0.0.1", 6001)
    assert len(only(Established, wire.events["a"])) == len(only(Established, wire.events["b"])) == 1
    wire.a.hangup(wire.now_ns)
    wire.run(0.1)
    assert wire.events["a"][-1] == CallEnded(200, "OK", False)
    assert wire.events["b"][-1] == CallEnded(200, "OK", True)
    assert [what for _, what in wire.log] == [
        "INVITE",
        "180 INVITE",
        "200 INVITE",
        "ACK",
        "BYE",
        "200 BYE",
    ]
    wire.run(40)
    assert (wire.a.statistics()["clients"], wire.b.statistics()["servers"]) == (0, 0)


@pytest.mark.parametrize("what", ["INVITE", "180 INVITE", "200 INVITE", "ACK", "BYE", "200 BYE"])
@pytest.mark.parametrize("times", [1, 3])
def test_each_message_may_be_lost(what: str, times: int) -> None:
    wire = Wire(lambda one, before: one == what and before < times)
    wire.a.invite(B, 0)
    wire.run(10)
    wire.events["b"] += wire.b.answer(wire.now_ns)
    wire.run(10)
    wire.a.hangup(wire.now_ns)
    wire.run(10)
    for name in "ab":
        assert len(only(Established, wire.events[name])) == 1
        assert [event.code for event in only(CallEnded, wire.events[name])] == [200]
    assert len(only(Incoming, wire.events["b"])) == 1
    assert (what, times + 1) == (what, min(times + 1, sum(one == what for _, one in wire.log)))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 25), max_size=12))
def test_any_pattern_of_loss_ends_in_rest(lost: set[int]) -> None:
    counted = iter(range(10_000))
    wire = Wire(lambda what, before: next(counted) in lost)
    wire.a.invite(B, 0)
    wire.run(5)
    if wire.b.stage == "ringing":
        wire.events["b"] += wire.b.answer(wire.now_ns)
    wire.run(20)
    wire.a.hangup(wire.now_ns)
    wire.run(300)
    wire.b.hangup(wire.now_ns)
    wire.run(300)
    assert (wire.a.stage, wire.b.stage) == ("idle", "idle")
    for events in wire.events.values():
        assert len(only(CallEnded, events)) <= 1
    assert wire.a.statistics()["clients"] == wire.b.statistics()["clients"] == 0


def test_invite_is_repeated_with_doubling_intervals_until_408() -> None:
    wire = Wire(lambda what, before: True)
    wire.a.invite(B, 0)
    wire.run(31)
    # T1 = 0.5 s: at 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 (RFC 3261 section 17.1.1.2)
    assert [what for _, what in wire.log] == ["INVITE"] * 6
    wire.run(2)
    assert wire.events["a"] == [CallEnded(408, "Request Timeout", True)]


def test_a13_a_200_that_is_never_acknowledged_ends_in_bye() -> None:
    wire = Wire(lambda what, before: what == "ACK")
    wire.a.invite(B, 0)
    wire.run(0.1)
    wire.events["b"] += wire.b.answer(wire.now_ns)
    wire.run(31)
    assert wire.b.stage == "answered"
    wire.run(2)
    assert ("b", "BYE") in wire.log
    assert wire.events["a"][-1] == CallEnded(200, "OK", True)
    assert wire.b.stage == "idle"


def test_a05_cancel_while_ringing() -> None:
    wire = Wire()
    wire.a.invite(B, 0)
    wire.run(1)
    wire.a.hangup(wire.now_ns)
    wire.run(1)
    assert [what for _, what in wire.log][2:] == ["CANCEL", "200 CANCEL", "487 INVITE", "ACK"]
    assert wire.events["a"][-1] == CallEnded(487, "Request Terminated", False)
    assert wire.events["b"][-1] == CallEnded(487, "Request Terminated", True)


def test_cancel_waits_for_a_provisional_answer() -> None:
    wire = Wire(lambda what, before: what == "180 INVITE" and before < 1)
    wire.a.invite(B, 0)
    wire.run(0.1)
    wire.a.hangup(wire.now_ns)
    wire.run(0.1)
    assert "CANCEL" not in [what for _, what in wire.log]
    wire.run(5)  # the repeated INVITE brings the 180 again
    assert wire.events["a"][-1] == CallEnded(487, "Request Terminated", False)


def test_a06_a_200_that_crosses_the_cancel_is_acknowledged_and_ended() -> None:
    wire = Wire(lambda what, before: what == "CANCEL" and before < 1)
    wire.a.invite(B, 0)
    wire.run(0.1)
    wire.a.hangup(wire.now_ns)
    wire.run(0.1)
    wire.events["b"] += wire.b.answer(wire.now_ns)
    wire.run(5)
    sent = [what for name, what in wire.log if name == "a"]
    assert sent.index("ACK") < sent.index("BYE")
    assert not only(Established, wire.events["a"])
    assert (wire.a.stage, wire.b.stage) == ("idle", "idle")


@pytest.mark.parametrize("code", [404, 486, 503, 603])
def test_refusals_are_acknowledged(code: int) -> None:
    wire = Wire(lambda what, before: what == "ACK" and before < 2)
    wire.a.invite(B, 0)
    wire.run(0.1)
    wire.events["b"] += wire.b.reject(code, wire.now_ns)
    wire.run(10)
    assert [event.code for event in only(CallEnded, wire.events["a"])] == [code]
    assert sum(what == f"{code} INVITE" for _, what in wire.log) == 3  # until the third ACK got through


def test_hold_and_resume_by_re_invite() -> None:
    wire = established(Wire())
    for direction, mirrored in (("sendonly", "recvonly"), ("sendrecv", "sendrecv")):
        wire.a.hold(direction, wire.now_ns)
        wire.run(0.2)
        assert only(MediaChanged, wire.events["a"])[-1].media.direction == direction
        assert only(MediaChanged, wire.events["b"])[-1].media.direction == mirrored
    assert len(only(Established, wire.events["a"])) == 1


def _invite(body: bytes = b"", *, branch: str = "z9hG4bKs", call_id: str = "s1", extra: str = "") -> bytes:
    return (
        f"INVITE sip:b@127.0.0.1:5002 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5099;branch={branch};rport\r\n"
        f"From: <sip:s@127.0.0.1>;tag=f\r\nTo: <sip:b@127.0.0.1>\r\nCall-ID: {call_id}\r\nCSeq: 1 INVITE\r\n"
        f"Contact: <sip:s@127.0.0.1:5099>\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _in_dialog(wire: Wire, answered: Response, method: str, cseq: int, body: bytes = b"", branch: str = "") -> None:
    tag = parse_address(answered.first("To")).tag
    wire.say(
        (
            f"{method} sip:b@127.0.0.1:5002 SIP/2.0\r\n"
            f"Via: SIP/2.0/UDP 127.0.0.1:5099;branch={branch or f'z9hG4bK{method}{cseq}'};rport\r\n"
            f"From: <sip:s@127.0.0.1>;tag=f\r\nTo: <sip:b@127.0.0.1>;tag={tag}\r\nCall-ID: s1\r\n"
            f"CSeq: {cseq} {method}\r\nContact: <sip:s@127.0.0.1:5099>\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
        + body
    )


def _answers(wire: Wire) -> list[Response]:
    found = wire.sent_to(5099)
    assert all(isinstance(message, Response) for message in found)
    return [message for message in found if isinstance(message, Response)]


OFFER = sdp.offer("127.0.0.1", 9000, ("PCMA",), version=1)


def test_a04_delayed_offer() -> None:
    wire = Wire()
    wire.say(_invite())
    wire.events["b"] += wire.b.answer(wire.now_ns)
    answered = _answers(wire)[-1]
    offered = sdp.parse_sdp(answered.body)
    assert [name for _, name in offered.codecs] == ["PCMU", "PCMA"]
    assert not only(MediaChanged, wire.events["b"])
    body, _ = sdp.answer(offered, "127.0.0.1", 9000, ("PCMA",), version=1)
    _in_dialog(wire, answered, "ACK", 1, body)
    assert only(MediaChanged, wire.events["b"])[0].media.codec == "PCMA"
    assert only(Established, wire.events["b"])


def test_a04_delayed_offer_without_an_answer_is_ended() -> None:
    wire = Wire()
    wire.say(_invite())
    wire.b.answer(wire.now_ns)
    answered = _answers(wire)[-1]
    _in_dialog(wire, answered, "ACK", 1, b"v=0\r\nm=audio 9 RTP/AVP 18\r\n")
    assert [describe(message) for message in wire.sent_to(5099)] == ["BYE"]


def test_a11_the_same_invite_again_and_over_another_path() -> None:
    wire = Wire()
    for _ in range(3):
        wire.say(_invite(OFFER))
    wire.say(_invite(OFFER, branch="z9hG4bKother"))
    wire.say(_invite(OFFER, branch="z9hG4bKthird", call_id="s2"))
    assert [answer.code for answer in _answers(wire)] == [180, 180, 180, 482, 486]
    assert len(only(Incoming, wire.events["b"])) == 1


@pytest.mark.parametrize(
    ("datagram", "code"),
    [
        (_invite(b"v=0\r\nm=audio 9 RTP/AVP 18\r\n"), 488),
        (_invite(b"nonsense"), 400),
        (_invite(OFFER, extra="Require: 100rel\r\n"), 420),
        (_invite(OFFER).replace(b"Contact: <sip:s@127.0.0.1:5099>\r\n", b""), 400),
        (_invite(OFFER).replace(b"Contact: <sip:s@127.0.0.1:5099>", b"Contact: <tel:5>"), 400),
        (_invite().replace(b"INVITE", b"OPTIONS"), 200),
        (_invite().replace(b"INVITE", b"BYE"), 481),
        (_invite().replace(b"INVITE", b"CANCEL"), 481),
        (_invite().replace(b"INVITE", b"SUBSCRIBE"), 405),
        (_invite(OFFER).replace(b"To: <sip:b@127.0.0.1>", b"To: <sip:b@127.0.0.1>;tag=unknown"), 481),
    ],
)
def test_answers_to_strangers(datagram: bytes, code: int) -> None:
    wire = Wire()
    wire.say(datagram)
    answers = _answers(wire)
    assert [answer.code for answer in answers] == [code]
    assert parse_address(answers[0].first("To")).tag
    assert answers[0].top_via.params["rport"] == "5099"
    assert wire.b.stage == "idle"


def test_update_re_invite_and_old_requests_in_a_dialog() -> None:
    wire = Wire()
    wire.say(_invite(OFFER))
    wire.events["b"] += wire.b.answer(wire.now_ns)
    answered = _answers(wire)[-1]
    _in_dialog(wire, answered, "ACK", 1)
    _in_dialog(wire, answered, "UPDATE", 2)
    _in_dialog(wire, answered, "UPDATE", 3, OFFER.replace(b"sendrecv", b"sendonly"))
    _in_dialog(wire, answered, "INFO", 4)
    _in_dialog(wire, answered, "BYE", 3)  # older than what was seen
    _in_dialog(wire, answered, "INVITE", 5, OFFER)
    _in_dialog(wire, answered, "INVITE", 6, OFFER)  # before the ACK
    _in_dialog(wire, answered, "ACK", 5)
    _in_dialog(wire, answered, "BYE", 7)
    assert [answer.code for answer in _answers(wire)] == [200, 200, 200, 500, 200, 491, 200]
    directions = [event.media.direction for event in only(MediaChanged, wire.events["b"])]
    assert directions == ["sendrecv", "recvonly", "sendrecv"]
    assert wire.events["b"][-1] == CallEnded(200, "OK", True)


def test_in_dialog_requests_follow_the_recorded_route() -> None:
    wire = Wire()
    wire.say(_invite(OFFER, extra="Record-Route: <sip:127.0.0.1:5099;lr>\r\nRecord-Route: <sip:192.0.2.1;lr>\r\n"))
    wire.b.answer(wire.now_ns)
    answered = _answers(wire)[-1]
    assert answered.all("Record-Route") == ("<sip:127.0.0.1:5099;lr>", "<sip:192.0.2.1;lr>")
    _in_dialog(wire, answered, "ACK", 1)
    wire.b.hangup(wire.now_ns)
    bye = wire.sent_to(5099)[0]
    assert bye.all("Route") == ("<sip:127.0.0.1:5099;lr>", "<sip:192.0.2.1;lr>")


def test_malformed_datagrams_are_counted_and_keep_alives_are_not() -> None:
    wire = Wire()
    for data in (b"\r\n\r\n", b"\0\0\0\0", b"GET / HTTP/1.0\r\n\r\n", _invite(OFFER)[:80]):
        wire.say(data)
    assert wire.b.statistics()["malformed"] == 2
    assert not wire.b.outgoing()


def test_a_flood_of_strangers_is_bounded() -> None:
    wire = Wire()
    for number in range(500):
        wire.say(_invite().replace(b"INVITE", b"OPTIONS").replace(b"z9hG4bKs", f"z9hG4bK{number}".encode()))
    assert wire.b.statistics()["servers"] <= 64
    assert wire.b.statistics()["refused"] >= 400
    assert len(wire.sent_to(5099)) <= 64
    wire.run(40)
    assert wire.b.statistics()["servers"] == 0


def test_busy_telephones_say_so() -> None:
    wire = established(Wire())
    with pytest.raises(RuntimeError):
        wire.a.invite(B, wire.now_ns)
    with pytest.raises(RuntimeError):
        wire.b.answer(wire.now_ns)
    with pytest.raises(ValueError, match="direction"):
        wire.a.hold("sideways", wire.now_ns)
    assert wire.now_ns < SECOND
