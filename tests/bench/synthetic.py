# SPDX-License-Identifier: GPL-3.0-or-later
"""Captures made of arithmetic: packets at known times with known samples."""

from __future__ import annotations

import numpy as np

from gateway.bench import g711
from gateway.bench.capture import Capture, Pcm, Track, build_track
from gateway.bench.rtp import RtpPacket

MS = 1_000_000
FRAME = 160


def silence(ms: int) -> Pcm:
    return np.zeros(ms * 8, np.int16)


def tone(ms: int, hz: float = 440, amplitude: int = 8000) -> Pcm:
    """Begins and ends with a loud sample (a cosine)."""
    return (amplitude * np.cos(2 * np.pi * hz * np.arange(ms * 8) / 8000)).astype(np.int16)


def packets_of(
    pcm: Pcm, start_ns: int, *, codec: str = "PCMU", ssrc: int = 7, sequence: int = 65_000, timestamp: int = 2**32 - 800
) -> list[tuple[int, RtpPacket]]:
    """One packet every 20 ms; numbers that wrap soon."""
    kind = {"PCMU": 0, "PCMA": 8}[codec]
    found = []
    for index in range(len(pcm) // FRAME):
        payload = g711.encode(codec, pcm[index * FRAME : (index + 1) * FRAME])
        packet = RtpPacket(kind, (sequence + index) % 2**16, (timestamp + index * FRAME) % 2**32, ssrc, payload)
        found.append((start_ns + index * 20 * MS, packet))
    return found


def track_of(pcm: Pcm, start_ns: int = 0) -> Track:
    return build_track(packets_of(pcm, start_ns))


def capture_of(sent: Pcm, received: Pcm, start_ns: int = 0, delay_ms: int = 0) -> Capture:
    return Capture(track_of(sent, start_ns), track_of(received, start_ns + delay_ms * MS), {"user": "test"})
