# SPDX-License-Identifier: GPL-3.0-or-later
"""A leg's sound: the port in pjsua2's bridge that turns its frames into ours, and ours into its.

The bridge's clock thread calls every port each 20 ms, one after the other. The callbacks copy, stamp and put;
a stall in one is a stall of every leg.

The leg's clock: from the first time media is active, each 20 ms of active media is 20 ms of samples, whether the peer
sent sound, comfort noise or nothing. Where the bridge has nothing (an empty frame), silence is delivered in its
place, so that the recogniser's clock goes on (a peer with silence suppression may be quiet for minutes). On hold
nothing is delivered and the count stands still: hold music is not part of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pjsua2 as pj

from gateway.audio.frames import Frame, frame_samples
from gateway.sip.clockthread import ClockThread
from gateway.sip.framecopy import FrameCopy
from gateway.sip.protocols import FrameSink, FrameSource

FRAME_MS = 20
LATE_NS = 40_000_000
"""Two frames at once: the peer's jitter buffer (usually 40 ms) ran dry while the clock thread was held up."""


class LegTap:
    """One leg's sink, source, sample clock and counters. Touched by the clock thread; bound by the owner thread."""

    def __init__(self, leg: str, clock: Callable[[], int], rate_hz: int) -> None:
        self.leg = leg
        self.rate_hz = rate_hz
        self.silence = bytes(2 * frame_samples(rate_hz, FRAME_MS))
        self.active = False
        self.sink: FrameSink | None = None
        self.source: FrameSource | None = None
        self.next_sample = 0
        self.empty_frames = 0
        self.odd_frames = 0
        self.errors = 0
        self.late_frames = 0
        self.worst_gap_ns = 0
        self._clock = clock
        self._last_ns = 0

    def set_active(self, active: bool) -> None:
        """Open or close the tap; the gap between two openings is not a late frame."""
        self._last_ns = 0
        self.active = active

    def received(self, pcm: bytes) -> None:
        """Take what the bridge got from the peer: one frame, or nothing."""
        if not self.active:
            return
        now_ns = self._clock()
        if self._last_ns:
            gap_ns = now_ns - self._last_ns
            self.worst_gap_ns = max(self.worst_gap_ns, gap_ns)
            if gap_ns > LATE_NS:
                self.late_frames += 1
        self._last_ns = now_ns
        if not pcm:
            self.empty_frames += 1
            pcm = self.silence
        first = self.next_sample
        self.next_sample = first + len(pcm) // 2
        sink = self.sink
        if sink is not None:
            sink.put(Frame(self.leg, first, self.rate_hz, pcm, now_ns))

    def requested(self, size_bytes: int) -> bytes | None:
        """What goes to the peer: a frame of the asked size, or None on hold. Silence while nothing is attached."""
        if not self.active:
            return None
        source = self.source
        pcm = source.next_frame() if source is not None else self.silence
        if len(pcm) != size_bytes:
            self.odd_frames += 1
            pcm = pcm[:size_bytes] + bytes(max(0, size_bytes - len(pcm)))
        return pcm

    def statistics(self) -> dict[str, float]:
        """Counters of the leg's media callbacks."""
        return {
            "samples": self.next_sample,
            "empty_frames": self.empty_frames,
            "odd_frames": self.odd_frames,
            "callback_errors": self.errors,
            "late_frames": self.late_frames,
            "worst_gap_ms": self.worst_gap_ns / 1e6,
        }


class LegPort(pj.AudioMediaPort):  # type: ignore[misc]  # pjsua2 has no types
    """The port in the bridge. Made and destroyed on the owner thread, called on the clock thread."""

    def __init__(self, tap: LegTap, copy: FrameCopy, clock: ClockThread) -> None:
        pj.AudioMediaPort.__init__(self)
        self._tap = tap
        self._copy = copy
        self._clock = clock
        self._audio = pj.PJMEDIA_FRAME_TYPE_AUDIO
        self._none = pj.PJMEDIA_FRAME_TYPE_NONE
        form = pj.MediaFormatAudio()
        form.init(pj.PJMEDIA_FORMAT_PCM, tap.rate_hz, 1, FRAME_MS * 1000, 16)
        self.createPort(f"leg-{tap.leg}"[:32], form)

    def onFrameReceived(self, frame: Any) -> None:
        try:
            self._clock.keep()
            self._tap.received(self._copy.read(frame) if frame.size else b"")
        except BaseException:  # what a callback raises would end in C, SystemExit would end the process
            self._tap.errors += 1

    def onFrameRequested(self, frame: Any) -> None:
        try:
            self._clock.keep()
            pcm = self._tap.requested(frame.size)
            if pcm is not None:
                self._copy.write(frame, pcm)
                frame.type = self._audio
                return
        except BaseException:
            self._tap.errors += 1
        frame.type = self._none

    def destroy(self) -> None:
        """Take the port out of the bridge while it is still referenced.

        Left to the reference count it dies under the clock thread: a segmentation fault.
        """
        self._tap.set_active(False)
        pj.AudioMediaPort.__swig_destroy__(self)
