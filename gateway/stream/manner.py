# SPDX-License-Identifier: GPL-3.0-or-later
"""How somebody says an utterance, against how they usually speak: faster or slower, louder or softer.

The interpreter's voice follows in speed and level. Both are taken against the talker's own running median, so that
nothing has to be known of the language, the telephone or the person; the first utterances only teach.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass

from gateway.stream.events import VoiceFrame

KEPT_FRAMES = 3000  # a minute of 20 ms: more than the longest utterance
REMEMBERED = 15  # utterances
LEAST_KNOWN = 3
LEAST_UNITS = 12  # letters; "yes" has no speed
LEAST_SPEECH_S = 0.5
SLOWEST, FASTEST = 0.85, 1.2
MOST_GAIN_DB = 4.0
MOST_MATCH_DB = 12.0  # more would lift the line's noise along


@dataclass(frozen=True, slots=True)
class Manner:
    """What the interpreter's voice takes over: a tempo, and a gain in dB."""

    tempo: float = 1.0
    gain_db: float = 0.0


USUAL = Manner()


class Talker:
    """One talker's habits. Feed every verdict; ask with an utterance's span and its text."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._frames: deque[VoiceFrame] = deque(maxlen=KEPT_FRAMES)
        self._speeds: deque[float] = deque(maxlen=REMEMBERED)
        self._levels: deque[float] = deque(maxlen=REMEMBERED)

    def feed(self, frame: VoiceFrame) -> None:
        """The next verdict."""
        self._frames.append(frame)

    def manner(self, first_sample: int, end_sample: int, text: str) -> Manner:
        """How the utterance is said; `USUAL` when it is too short, or the talker not known yet."""
        measured = self._measured(first_sample, end_sample, text)
        if measured is None or len(self._speeds) < LEAST_KNOWN:
            return USUAL
        speed, level = measured
        tempo = speed / statistics.median(self._speeds)
        gain_db = level - statistics.median(self._levels)
        return Manner(
            round(min(max(tempo, SLOWEST), FASTEST), 3), round(min(max(gain_db, -MOST_GAIN_DB), MOST_GAIN_DB), 1)
        )

    def gain_to(self, level_dbfs: float) -> float:
        """The gain in dB that brings the talker's usual speech to a level; 0 while that is not known."""
        if not self._levels:
            return 0.0
        return min(max(level_dbfs - statistics.median(self._levels), -MOST_MATCH_DB), MOST_MATCH_DB)

    def voiced(self, first_sample: int, end_sample: int) -> tuple[int, int]:
        """From the first voiced sample of a span to behind the last; the span itself when none is."""
        voiced = [f for f in self._frames if f.is_speech and first_sample <= f.first_sample < end_sample]
        return (voiced[0].first_sample, voiced[-1].end_sample) if voiced else (first_sample, end_sample)

    def learn(self, first_sample: int, end_sample: int, text: str) -> None:
        """The utterance is final: it counts among the talker's habits."""
        measured = self._measured(first_sample, end_sample, text)
        if measured is not None:
            self._speeds.append(measured[0])
            self._levels.append(measured[1])

    def _measured(self, first_sample: int, end_sample: int, text: str) -> tuple[float, float] | None:
        """Letters per second of speech, and the mean level of the speech in dB of full scale."""
        units = sum(character.isalnum() for character in text)
        spoken = [
            frame
            for frame in self._frames
            if frame.is_speech and first_sample <= frame.first_sample and frame.end_sample <= end_sample
        ]
        seconds = sum(frame.samples for frame in spoken) / self._rate_hz
        if units < LEAST_UNITS or seconds < LEAST_SPEECH_S:
            return None
        power = statistics.fmean(10 ** (frame.level_dbfs / 10) for frame in spoken)
        return units / seconds, 10 * math.log10(power)
