# SPDX-License-Identifier: GPL-3.0-or-later
"""A call's four tracks on one time line: what each party said, and what each was given to hear.

Off by default. Both halves of a leg count their samples from the same tick of PJSIP's clock; the legs are laid
beside each other by the arrival of their first frames.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np

from gateway.audio.frames import Frame
from gateway.audio.recorder import TrackRecorder

TRACKS = ("a-said", "b-heard", "b-said", "a-heard")
_SAID = {"a": 0, "b": 2}
_HEARD = {"a": 3, "b": 1}
BACKLOG_FRAMES = 500  # per side, 10 s between two ticks: far beyond any stall that a call would survive


class CallRecorder:
    """Writes ``CALL.wav``: 4 channels, 16-bit, at the legs' rate."""

    def __init__(self, directory: Path, call_id: str, rate_hz: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._rate_hz = rate_hz
        self._recorder = TrackRecorder(directory / f"{call_id}.wav", rate_hz, tracks=len(TRACKS))
        self._origin_ns = 0
        self._offset: dict[str, int] = {}
        self._backlog: dict[str, deque[tuple[int, bytes]]] = {
            "a": deque(maxlen=BACKLOG_FRAMES),
            "b": deque(maxlen=BACKLOG_FRAMES),
        }

    def said(self, side: str, frame: Frame) -> None:
        """A frame that came from a party."""
        if side not in self._offset:
            starts_ns = frame.arrived_ns - frame.first_sample * 1_000_000_000 // frame.rate_hz
            self._origin_ns = self._origin_ns or starts_ns
            self._offset[side] = max(0, (starts_ns - self._origin_ns) * self._rate_hz // 1_000_000_000)
        self._write(_SAID[side], side, frame.first_sample, frame.pcm)

    def heard(self, side: str, pcm: bytes, first_sample: int) -> None:
        """A frame that was given to a party; called on the clock thread, so it is only noted."""
        self._backlog[side].append((first_sample, pcm))

    def tick(self) -> None:
        """Write what was noted."""
        for side, backlog in self._backlog.items():
            if side in self._offset:
                while backlog:
                    first_sample, pcm = backlog.popleft()
                    self._write(_HEARD[side], side, first_sample, pcm)

    def close(self) -> None:
        """Finish the file."""
        self.tick()
        self._recorder.close()

    def _write(self, track: int, side: str, first_sample: int, pcm: bytes) -> None:
        self._recorder.write(track, self._offset[side] + first_sample, np.frombuffer(pcm, np.int16))
