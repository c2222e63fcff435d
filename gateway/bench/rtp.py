# SPDX-License-Identifier: GPL-3.0-or-later
"""RTP packets and telephone events as values (RFC 3550 section 5.1, RFC 4733 section 2.3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

DIGITS = "0123456789*#ABCD"
_EVENT_END = 0x80


class BadRtp(ValueError):
    """The datagram is not an RTP packet."""


@dataclass(frozen=True, slots=True)
class RtpPacket:
    """One packet. Sequence is modulo 2**16, timestamp modulo 2**32."""

    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes
    marker: bool = False


@dataclass(frozen=True, slots=True)
class TelephoneEvent:
    """A key press in progress: ``duration_samples`` grows until ``end``."""

    digit: str
    end: bool
    volume: int
    duration_samples: int


def pack(packet: RtpPacket) -> bytes:
    """The datagram of a packet without CSRCs or extension."""
    second = (0x80 if packet.marker else 0) | packet.payload_type
    head = struct.pack("!BBHII", 0x80, second, packet.sequence & 0xFFFF, packet.timestamp & 0xFFFFFFFF, packet.ssrc)
    return head + packet.payload


def parse(datagram: bytes) -> RtpPacket:
    """Read a datagram; CSRCs, extension and padding are stepped over.

    Raises:
        BadRtp: too short, another version, RTCP (payload types 72-76), or lengths that the datagram does not hold.
    """
    if len(datagram) < 12 or datagram[0] >> 6 != 2:
        raise BadRtp("no RTP header")
    first, second, sequence, timestamp, ssrc = struct.unpack_from("!BBHII", datagram)
    payload_type = second & 0x7F
    if 72 <= payload_type <= 76:
        raise BadRtp("RTCP")  # RFC 5761 section 4
    begin = 12 + 4 * (first & 0x0F)
    if first & 0x10:
        if len(datagram) < begin + 4:
            raise BadRtp("extension is cut")
        begin += 4 + 4 * int.from_bytes(datagram[begin + 2 : begin + 4], "big")
    end = len(datagram)
    if first & 0x20:
        padding = datagram[-1]
        if padding == 0:
            raise BadRtp("padding of no bytes")
        end -= padding
    if begin > end:
        raise BadRtp("lengths exceed the datagram")
    return RtpPacket(payload_type, sequence, timestamp, ssrc, datagram[begin:end], bool(second & 0x80))


def pack_event(event: TelephoneEvent) -> bytes:
    """The four bytes of a telephone event."""
    flags = (_EVENT_END if event.end else 0) | (event.volume & 0x3F)
    return struct.pack("!BBH", DIGITS.index(event.digit), flags, min(event.duration_samples, 0xFFFF))


def parse_event(payload: bytes) -> TelephoneEvent:
    """Read a telephone event; BadRtp when it is short or no key."""
    if len(payload) < 4 or payload[0] >= len(DIGITS):
        raise BadRtp("telephone event")
    code, flags, duration = struct.unpack_from("!BBH", payload)
    return TelephoneEvent(DIGITS[code], bool(flags & _EVENT_END), flags & 0x3F, duration)
