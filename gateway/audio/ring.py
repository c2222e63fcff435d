# SPDX-License-Identifier: GPL-3.0-or-later
"""The hand-over of received frames from PJSIP's clock thread to the pipeline's loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gateway.audio.frames import Frame


class FrameRing:
    """A bounded ring of frames between one writing and one reading thread, without a lock.

    ``put`` runs on the clock thread: it appends the frame (no copy of the sound) and calls ``wake``, which must be
    quick, for example ``lambda: loop.call_soon_threadsafe(event.set)``. When ``capacity_frames`` wait unread
    the oldest frame is dropped, because live sound is worth more than old sound. Single deque operations are atomic
    under CPython; drops are derived from counters that each have one writer, so the count stays exact.
    """

    def __init__(self, capacity_frames: int, wake: Callable[[], None] | None = None) -> None:
        if capacity_frames < 1:
            raise ValueError("a ring holds at least one frame")
        self._frames: deque[Frame] = deque(maxlen=capacity_frames)
        self._capacity = capacity_frames
        self._wake = wake
        self.next_sample = 0
        """The sample behind the newest frame; written by put only."""
        self._put = 0  # written by put only
        self._taken = 0  # written by drain only
        self._high_water = 0
        self._wake_errors = 0

    def put(self, frame: Frame) -> None:
        """Take one frame. Never blocks and never raises."""
        self._frames.append(frame)
        self.next_sample = frame.end_sample
        self._put += 1
        self._high_water = max(self._high_water, len(self._frames))
        if self._wake is not None:
            try:
                self._wake()
            except Exception:  # a closed loop while the call ends must not reach PJSIP's thread
                self._wake_errors += 1

    def drain(self) -> list[Frame]:
        """All frames that wait, oldest first; at most one ring full, so that the reader gets back to its loop."""
        frames: list[Frame] = []
        for _ in range(self._capacity):
            try:
                frames.append(self._frames.popleft())
            except IndexError:
                break
        self._taken += len(frames)
        return frames

    def statistics(self) -> dict[str, int]:
        """Counters in frames; ``frames_dropped`` is exact while neither side is in the middle of a call."""
        queued = len(self._frames)
        return {
            "capacity_frames": self._capacity,
            "queued_frames": queued,
            "high_water_frames": self._high_water,
            "frames_in": self._put,
            "frames_out": self._taken,
            "frames_dropped": max(0, self._put - self._taken - queued),
            "wake_errors": self._wake_errors,
        }
