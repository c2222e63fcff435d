# SPDX-License-Identifier: GPL-3.0-or-later
"""Access list, message text, frame copy, sample clock, settings: no sockets."""

from __future__ import annotations

import dataclasses

import pjsua2 as pj
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.frames import Frame
from gateway.sip.access import AccessList, Admission, Trunk, source_ip
from gateway.sip.brake import CallBrake
from gateway.sip.framecopy import IteratorCopy, PointerCopy, choose_copy, works
from gateway.sip.limits import library_facts, version_tuple
from gateway.sip.logbridge import split_sender
from gateway.sip.message import (
    extension_headers,
    header_value,
    info_digit,
    is_safe_uri,
    redact,
    request_uri,
    safe_headers,
    uri_user,
)
from gateway.sip.port import LATE_NS, LegTap
from gateway.sip.settings import SipSettings

FRAME_SAMPLES = 160
SILENCE = bytes(2 * FRAME_SAMPLES)

pytestmark = pytest.mark.unit

INVITE = (
    "INVITE sip:%2B4930;ext=1@10.0.0.1:5060;transport=udp SIP/2.0\r\n"
    'f: "A, <b>" <sip:+49301:secret@carrier.example>;tag=1\r\n'
    "To: <sip:other@10.0.0.1>\r\nX-Pair: en-pt\r\nx-PAIR: second\r\nX-Folded: a\r\n\tb\r\nX-Empty:\r\n"
    "Content-Length: 9\r\n\r\nX-Body: 1"
)


# --- access -----------------------------------------------------------------------------------------------------------


def test_only_listed_sources_are_admitted() -> None:
    trunks = (Trunk("wide", ("10.0.0.0/8",)), Trunk("narrow", ("10.1.2.0/24", "2001:db8::/32"), trusted=True))
    access = AccessList(trunks, allow_loopback=False)
    assert access.admit("10.9.9.9") == Admission("wide", trusted=False)
    assert access.admit("10.1.2.3") == Admission("narrow", trusted=True)
    assert access.admit("::ffff:10.1.2.3") == Admission("narrow", trusted=True)
    assert access.admit("2001:db8::1") == Admission("narrow", trusted=True)
    assert access.admit("127.0.0.1") is None
    assert access.admit("192.0.2.1") is None
    assert access.admit("not an address") is None


def test_loopback_is_a_choice() -> None:
    access = AccessList((), allow_loopback=True)
    assert access.admit("127.3.2.1") == Admission("loopback", trusted=True)
    assert access.admit("::1") == Admission("loopback", trusted=True)
    assert access.admit("128.0.0.1") is None


def test_a_bad_network_names_its_trunk() -> None:
    with pytest.raises(ValueError, match=r"trunk 'pbx': '10\.0\.0\.0/33' is not a network"):
        AccessList((Trunk("pbx", ("10.0.0.0/33",)),), allow_loopback=False)


@pytest.mark.parametrize(
    ("address", "ip"),
    [("127.0.0.1:5060", "127.0.0.1"), ("[2001:db8::1]:5060", "2001:db8::1"), ("10.0.0.1", "10.0.0.1")],
)
def test_source_ip(address: str, ip: str) -> None:
    assert source_ip(address) == ip


# --- message ----------------------------------------------------------------------------------------------------------


def test_names_in_an_invite() -> None:
    assert request_uri(INVITE) == "sip:%2B4930;ext=1@10.0.0.1:5060;transport=udp"
    assert uri_user(request_uri(INVITE)) == "+4930"
    assert header_value(INVITE, "from").startswith('"A, <b>"')
    assert extension_headers(INVITE) == {"x-pair": "en-pt", "x-folded": "a b", "x-empty": ""}


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("<sip:100@h>", "100"),
        ("sip:100@h;tag=1", "100"),
        ("<sip:h>", ""),
        ("<tel:+4930;phone-context=x>", "+4930"),
        ('"sip:fake@x" <sips:real@h>', "real"),
        ('"A <sip:fake@x>" <sip:real@h>', "real"),
        ("", ""),
        ("<sip:+49;isub=1:pw@h>", "+49"),
        ("Anonymous <sip:anonymous@anonymous.invalid>", "anonymous"),
    ],
)
def test_uri_user(text: str, user: str) -> None:
    assert uri_user(text) == user


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_odd_text_never_raises(text: str) -> None:
    for message in (text, INVITE.replace("en-pt", text), text + INVITE):
        extension_headers(message)
        uri_user(request_uri(message))
        uri_user(header_value(message, "from"))
        redact(message)


@pytest.mark.parametrize(
    ("kind", "body", "digit"),
    [
        ("dtmf", "5\r\n", "5"),
        ("DTMF;x=1", "d", "D"),
        ("dtmf", "55", ""),
        ("dtmf-relay", "Signal=5", ""),
        ("dtmf", "", ""),
    ],
)
def test_c06_bare_digit_of_an_info(kind: str, body: str, digit: str) -> None:
    assert info_digit(f"INFO sip:a@b SIP/2.0\r\nc: application/{kind}\r\n\r\n{body}") == digit


def test_headers_that_would_break_the_message_are_refused() -> None:
    wanted = {"Retry-After": "5", "X-A": "1\r\nVia: x", "X B": "1", "X-C": "\x00", "X-D": "ok ü"}
    assert safe_headers(wanted) == ([("Retry-After", "5"), ("X-D", "ok ü")], 3)
    assert safe_headers(None) == ([], 0)


def test_uris_that_would_break_the_message_are_refused() -> None:
    assert is_safe_uri("sip:100@127.0.0.1:5060;transport=tcp")
    for uri in ("", "100", "tel:1", "sip:1@x\r\nA: b", "sip:1@x> <sip:2@y", 'sip:"@x', "sip:1 2@x", "sip:1@x\n"):
        assert not is_safe_uri(uri), uri


def test_k07_redacted_lines_hold_no_number() -> None:
    line = 'Making call to sip:+4930998877@h via "Ann" <sip:ann:pw@h>, tel:+551199887766 To: Bob <sip:1@h> 4930998877'
    public = redact(line)
    for secret in ("998877", "Ann", "ann", "pw", "Bob"):
        assert secret not in public
    assert "@h" in public
    assert redact("Received DTMF digit 5") == ""


def test_log_sender_is_split_from_text() -> None:
    assert split_sender("        pjsua_core.c  ..SIP UDP started!\n") == ("pjsua_core.c", "SIP UDP started!")


# --- frames -----------------------------------------------------------------------------------------------------------


def test_d06_the_chosen_copy_works_and_is_not_the_slow_one() -> None:
    chosen = choose_copy()
    assert chosen is not IteratorCopy
    assert works(chosen())


@given(st.binary(max_size=700), st.integers(0, 640))
@settings(max_examples=100, deadline=None)
def test_d06_all_copies_agree_and_never_exceed_the_frame(pcm: bytes, room: int) -> None:
    for copy in (PointerCopy(), IteratorCopy(), choose_copy()()):
        frame = pj.MediaFrame()
        frame.size = room
        copy.write(frame, pcm)
        assert frame.size == min(room, len(pcm)) == frame.buf.size()
        assert bytes(frame.buf) == pcm[:room]
        assert copy.read(frame) == pcm[:room]


class Kept:
    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def put(self, frame: Frame) -> None:
        self.frames.append(frame)


class Says:
    def __init__(self, pcm: bytes) -> None:
        self.pcm, self.asked = pcm, 0

    def next_frame(self) -> bytes:
        self.asked += 1
        return self.pcm


class Clock:
    def __init__(self) -> None:
        self.now = 1

    def __call__(self) -> int:
        return self.now


def test_b08_empty_frames_are_silence_and_the_clock_goes_on() -> None:
    clock, sink = Clock(), Kept()
    tap = LegTap("a", clock, 8000)
    tap.sink = sink
    tap.received(b"\1\0" * FRAME_SAMPLES)
    assert sink.frames == [], "nothing is delivered before media is active"
    tap.set_active(True)
    for pcm in (b"\1\0" * FRAME_SAMPLES, b"", b"\2\0" * 80):
        clock.now += 20_000_000
        tap.received(pcm)
    assert [(f.first_sample, f.samples) for f in sink.frames] == [(0, 160), (160, 160), (320, 80)]
    assert sink.frames[1].pcm == SILENCE
    assert tap.statistics()["empty_frames"] == 1
    assert tap.statistics()["samples"] == 400


def test_sound_without_a_sink_is_counted_all_the_same() -> None:
    tap, sink = LegTap("a", Clock(), 8000), Kept()
    tap.set_active(True)
    tap.received(SILENCE)
    tap.sink = sink
    tap.received(SILENCE)
    assert sink.frames[0].first_sample == 160


def test_hold_stops_both_ways_and_is_no_late_frame() -> None:
    clock, sink, source = Clock(), Kept(), Says(SILENCE)
    tap = LegTap("a", clock, 8000)
    tap.sink, tap.source = sink, source
    tap.set_active(True)
    tap.received(SILENCE)
    tap.set_active(False)
    tap.received(SILENCE)
    assert tap.requested(320) is None
    clock.now += 10 * LATE_NS
    tap.set_active(True)
    tap.received(SILENCE)
    assert [f.first_sample for f in sink.frames] == [0, 160]
    assert (source.asked, tap.late_frames) == (0, 0)
    clock.now += LATE_NS + 1
    tap.received(SILENCE)
    assert tap.late_frames == 1
    assert tap.statistics()["worst_gap_ms"] == pytest.approx(LATE_NS / 1e6, abs=0.01)


@pytest.mark.parametrize("length", [0, 2, 318, 320, 322, 640])
def test_a_source_of_the_wrong_length_never_leaves_the_frame(length: int) -> None:
    tap = LegTap("a", Clock(), 8000)
    tap.set_active(True)
    assert tap.requested(320) == SILENCE
    tap.source = Says(b"\5" * length)
    pcm = tap.requested(320)
    assert pcm is not None
    assert len(pcm) == 320
    assert pcm == (b"\5" * length + bytes(320))[:320]
    assert tap.odd_frames == (length != 320)


# --- settings and library ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bind_address": "localhost"}, "bind_address"),
        ({"public_address": "x"}, "public_address"),
        ({"port": 70_000}, "port"),
        ({"transports": ()}, "transports"),
        ({"transports": ("tls",)}, "transports"),
        ({"codecs": ("G722",)}, "codecs"),
        ({"rtp_port_min": 10_001}, "rtp_port_min"),
        ({"rtp_port_min": 20_000, "rtp_port_max": 20_000}, "rtp_port_min"),
        ({"max_legs": 0}, "max_legs"),
    ],
)
def test_settings_that_cannot_work_are_named(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=rf"sip\.{said}"):
        dataclasses.replace(SipSettings(), **change)  # type: ignore[arg-type]


def test_settings_say_what_others_see() -> None:
    assert SipSettings(bind_address="0.0.0.0").advertised_address == "127.0.0.1"
    assert SipSettings(bind_address="0.0.0.0", public_address="192.0.2.1").advertised_address == "192.0.2.1"
    assert SipSettings(rtp_port_min=10_000, rtp_port_max=10_019).rtp_legs == 10


def test_l06_the_library_is_named_and_its_age_is_told() -> None:
    facts = library_facts()
    assert version_tuple(facts.version) >= (2, 10)
    old = version_tuple(facts.version) < (2, 17)
    assert any("security fixes" in warning for warning in facts.warnings) == old
    assert version_tuple("2.17-svn") == (2, 17)


def test_k07_of_a_message_that_could_not_be_read_nothing_is_logged() -> None:
    line = "Error processing packet from 192.0.2.1:5062: Missing required header(s) [code 171050]:"
    assert redact(f"{line}\nINFO sip:x SIP/2.0\r\nSignal=7") == line.replace("171050", "…")


def test_d07_no_more_calls_begin_than_the_library_has_sockets_for() -> None:
    brake, now, begun = CallBrake(64, legs=4), 0, []
    for _ in range(200):
        begun.append(now)
        now += brake.begun(now) + 1_000_000
    assert begun[23] == 23_000_000, "a rest before it was needed"
    half_a_second = 500_000_000
    most = max(sum(start <= at < start + half_a_second for at in begun) for start in begun)
    assert 2 * (most + 4) <= 64, "sockets of live and of closed calls"
    assert begun[-1] < 200 / 24 * 700_000_000, "more rest than needed"
