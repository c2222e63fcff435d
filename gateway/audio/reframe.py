# SPDX-License-Identifier: GPL-3.0-or-later
"""From frames of any size (ptime 10, 30, 40, 60, a 7 ms tail) to exact 20 ms frames (E01)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.audio.frames import Frame

MAX_FILL_MS = 500  # loss and jitter; a longer hole is a hold or a re-INVITE, and silence for it would be made-up time


class GapAction(StrEnum):
    """What was done about samples that are missing, or that came twice."""

    FILLED = "filled"  # a short gap: as many zeros
    RESTARTED = "restarted"  # a long gap: the frame in work was padded with zeros, the next starts behind the gap
    OVERLAP_DROPPED = "overlap-dropped"  # samples already seen
    TAIL_PADDED = "tail-padded"  # the stream ended in mid-frame


@dataclass(frozen=True, slots=True)
class FrameGap:
    """Samples [first_sample, first_sample + samples) of the leg are not what arrived; ``zeros`` were made up."""

    leg: str
    first_sample: int
    samples: int
    zeros: int
    action: GapAction


class Reframer:
    """Cuts a leg's frames into frames of exactly ``frame_samples``. Algorithmic delay: less than one frame.

    Nothing is filled silently: every sample made up or dropped is told by a FrameGap, which comes before the frame
    that holds it. Raises ValueError if leg or rate change: that is another stream.
    """

    def __init__(self, frame_samples: int, max_fill_ms: int = MAX_FILL_MS) -> None:
        if frame_samples < 1 or max_fill_ms < 0:
            raise ValueError("a frame holds at least one sample, and a fill cannot be negative")
        self._bytes = 2 * frame_samples
        self._max_fill_ms = max_fill_ms
        self._held = bytearray()
        self._first = 0  # sample index of the first byte held
        self._like: Frame | None = None  # leg, rate and stamp of the newest input
        self._counts = dict.fromkeys(("frames_in", "frames_out", "gaps", "zero_samples", "dropped_samples"), 0)

    def feed(self, frame: Frame) -> list[Frame | FrameGap]:
        """The frames that this one completes, and what was wrong on the way, in order."""
        if len(frame.pcm) % 2:
            raise ValueError(f"{len(frame.pcm)} bytes are not whole 16-bit samples")
        like = self._like
        if like is not None and (like.leg, like.rate_hz) != (frame.leg, frame.rate_hz):
            raise ValueError("another leg or rate: one reframer serves one stream")
        self._counts["frames_in"] += 1
        out: list[Frame | FrameGap] = []
        pcm = frame.pcm
        if like is None:
            self._first = frame.first_sample
        self._like = frame
        expected = self._first + len(self._held) // 2
        missing = frame.first_sample - expected
        if missing < 0:
            overlap = min(-missing, frame.samples)
            pcm = pcm[2 * overlap :]
            self._counts["dropped_samples"] += overlap
            out.append(self._gap(frame.first_sample, overlap, 0, GapAction.OVERLAP_DROPPED))
        elif missing * 1000 > self._max_fill_ms * frame.rate_hz:
            zeros = (-len(self._held) % self._bytes) // 2
            out.append(self._gap(expected, missing, zeros, GapAction.RESTARTED))
            self._held += bytes(2 * zeros)
            self._cut(out)
            self._first = frame.first_sample
        elif missing:
            out.append(self._gap(expected, missing, missing, GapAction.FILLED))
            self._held += bytes(2 * missing)
        self._held += pcm
        self._cut(out)
        return out

    def flush(self) -> list[Frame | FrameGap]:
        """The end of the stream: a tail is padded with zeros to a whole frame, and that is told. May be empty."""
        out: list[Frame | FrameGap] = []
        if self._held:
            zeros = (self._bytes - len(self._held)) // 2
            out.append(self._gap(self._first + len(self._held) // 2, zeros, zeros, GapAction.TAIL_PADDED))
            self._held += bytes(2 * zeros)
            self._cut(out)
        return out

    def statistics(self) -> dict[str, int]:
        """Frames in and out, gaps told, samples made up and dropped."""
        return dict(self._counts)

    def _gap(self, first_sample: int, samples: int, zeros: int, action: GapAction) -> FrameGap:
        assert self._like is not None
        self._counts["gaps"] += 1
        self._counts["zero_samples"] += zeros
        return FrameGap(self._like.leg, first_sample, samples, zeros, action)

    def _cut(self, out: list[Frame | FrameGap]) -> None:
        like = self._like
        assert like is not None
        whole = len(self._held) // self._bytes
        for index in range(whole):
            pcm = bytes(self._held[index * self._bytes : (index + 1) * self._bytes])
            out.append(Frame(like.leg, self._first, like.rate_hz, pcm, like.arrived_ns))
            self._first += self._bytes // 2
        del self._held[: whole * self._bytes]
        self._counts["frames_out"] += whole
