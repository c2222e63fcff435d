# SPDX-License-Identifier: GPL-3.0-or-later
"""Is what a party's telephone sends only what the party was given to hear?

A loudspeaker telephone without echo cancellation sends back what it plays: the translation, or the other's own voice.
Taken for speech it would be interpreted once more. Such sound rises and falls exactly as what was played did, some
frames later and softer. That holds whatever the room and the codec do to it, and it needs no word to be understood.

Measured with human prompts of 1.1 s and more (with line noise around them), against continuous speech that is played
at the same time: of 1500 that had nothing to do with it 0.3 to 1.5 % reach the correlation below at the best of all
delays, the longer the fewer; of their echoes, 8 to 25 dB softer and with noise of -66 or -55 dBFS, 99.8 %.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gateway.stream.events import VoiceFrame

LIKE = 0.8  # correlation of the levels
LEAST_FRAMES = 50  # 1 s of 20 ms frames: shorter sound looks like anything
MOST_DELAY_FRAMES = 30  # two jitter buffers and a satellite hop
EARLY_FRAMES = 3  # what is not known of the start of either count
SOFTER_DB = 3.0
SILENT_DBFS = -60.0  # levels below tell nothing
KEPT_FRAMES = 1500  # 30 s, as the play-out keeps


class Played(Protocol):
    """What a party is given to hear; its samples are counted from the first one on."""

    @property
    def egress_samples(self) -> int:
        """Samples given out so far."""

    def levels_from(self, first_sample: int, frames: int) -> Sequence[float]:
        """Levels in dBFS of so many frames from a sample on; -127 for what is not known any more, or not yet."""


class EchoWatch:
    """Feed every verdict on what a party says; ask about a span of it. Pure.

    Verdicts are compared with the play-out's frames of 20 ms: those of another length find nothing.
    """

    def __init__(self, played: Played) -> None:
        self._played = played
        self._frames: deque[VoiceFrame] = deque(maxlen=KEPT_FRAMES)
        self._offset: int | None = None
        self.found = 0
        """Spans that were echoes."""

    def feed(self, verdict: VoiceFrame) -> None:
        """The next verdict. Both counts come from one clock; the least late verdict tells how they lie."""
        if self._frames and verdict.first_sample < self._frames[-1].first_sample:
            self._frames.clear()  # another telephone in the same place
            self._offset = None
        self._frames.append(verdict)
        offset = self._played.egress_samples - verdict.end_sample
        self._offset = offset if self._offset is None else min(self._offset, offset)

    def is_echo(self, first_sample: int, end_sample: int) -> bool:
        """Whether the sound between the two samples is what was played; False when it is shorter than a second."""
        span = [one for one in self._frames if first_sample <= one.first_sample and one.end_sample <= end_sample]
        if len(span) < LEAST_FRAMES or self._offset is None:
            return False
        size = span[0].samples
        begin = span[0].first_sample + self._offset - MOST_DELAY_FRAMES * size
        around = self._played.levels_from(begin, len(span) + MOST_DELAY_FRAMES + EARLY_FRAMES)
        played = np.maximum(np.array(around), SILENT_DBFS)
        heard = np.maximum(np.array([one.level_dbfs for one in span]), SILENT_DBFS)
        if heard.std() < 1:
            return False
        windows = np.lib.stride_tricks.sliding_window_view(played, heard.size)
        spread = windows.std(axis=1)
        likeness = (windows * (heard - heard.mean())).mean(axis=1) / np.maximum(spread * heard.std(), 1.0)
        best = int(np.argmax(likeness))
        softer_db = np.percentile(windows[best], 90) - np.percentile(heard, 90)
        found = bool(likeness[best] > LIKE and softer_db >= SOFTER_DB)
        self.found += found
        return found
