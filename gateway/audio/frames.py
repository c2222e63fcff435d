# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of sound that travels through the gateway.

Samples are the timeline. A frame says which samples of which leg it holds; seconds are derived from that and
never stored. ``arrived_ns`` is a stamp of the monotonic clock for latency figures, not a position in the sound.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """A run of consecutive samples of one leg: signed 16-bit little-endian, mono."""

    leg: str
    first_sample: int
    rate_hz: int
    pcm: bytes
    arrived_ns: int

    @property
    def samples(self) -> int:
        """Number of samples in the frame."""
        return len(self.pcm) // 2

    @property
    def end_sample(self) -> int:
        """Index of the first sample behind the frame."""
        return self.first_sample + self.samples


def frame_samples(rate_hz: int, frame_ms: int) -> int:
    """Samples in ``frame_ms`` at ``rate_hz``; ValueError when that is not a whole number."""
    samples, rest = divmod(rate_hz * frame_ms, 1000)
    if rest:
        raise ValueError(f"{frame_ms} ms at {rate_hz} Hz is not a whole number of samples")
    return samples
