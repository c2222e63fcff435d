# SPDX-License-Identifier: GPL-3.0-or-later
"""RTP: round trip, header parts that are stepped over, and B16: lengths that lie."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.rtp import (
    DIGITS,
    BadRtp,
    RtpPacket,
    TelephoneEvent,
    pack,
    pack_event,
    parse,
    parse_event,
)

pytestmark = pytest.mark.unit


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 71),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=200),
    st.booleans(),
)
def test_round_trip(kind: int, sequence: int, timestamp: int, ssrc: int, payload: bytes, marker: bool) -> None:
    packet = RtpPacket(kind, sequence, timestamp, ssrc, payload, marker)
    assert parse(pack(packet)) == packet


def test_golden_packet() -> None:
    packet = RtpPacket(8, 0x1234, 0x01020304, 0xCAFEBABE, b"\xd5", marker=True)
    assert pack(packet) == bytes.fromhex("80 88 1234 01020304 cafebabe d5")


def test_csrc_extension_and_padding_are_stepped_over() -> None:
    data = bytes.fromhex("b1 00 0001 00000002 00000003") + b"CSRC" + bytes.fromhex("bede 0001") + b"EXTN"
    assert parse(data + b"sound" + b"\0\0\3").payload == b"sound"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80" * 11,
        b"\x40" + bytes(11),  # version 1
        bytes.fromhex("80c8 0006 00000000 00000000"),  # RTCP sender report
        b"\x8f" + bytes(11),  # fifteen CSRCs, none there
        b"\x90" + bytes(11),  # extension without a header
        b"\x90" + bytes(11) + b"\0\0\xff\xff",  # extension longer than the datagram
        b"\xa0" + bytes(11),  # padding of nothing
        b"\xa0" + bytes(11) + b"\xff",  # padding longer than the datagram
    ],
)
def test_b16_lengths_that_lie(data: bytes) -> None:
    with pytest.raises(BadRtp):
        parse(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40))
def test_b16_noise_raises_nothing_else(data: bytes) -> None:
    for attempt in (data, b"\x80\x00" + data, b"\xbf\x00" + data):
        try:
            packet = parse(attempt)
        except BadRtp:
            continue
        assert len(packet.payload) <= len(attempt) - 12


@pytest.mark.parametrize("digit", DIGITS)
def test_telephone_events(digit: str) -> None:
    event = TelephoneEvent(digit, True, 10, 1280)
    assert parse_event(pack_event(event)) == event


@pytest.mark.parametrize("payload", [b"", b"\x01\x0a\x00", b"\x10\x0a\x00\xa0"])
def test_what_is_no_key(payload: bytes) -> None:
    with pytest.raises(BadRtp):
        parse_event(payload)
