# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a voice should take for a text: a clip that is far off has lost words, or babbles.

Neural voices fail silently. A decoder that stops early drops the rest of a sentence, one that loses its place repeats
itself until it runs out of steps. The count of phonemes tells the length of a clip closely, in any language and script:
on 47 texts each, clips of 25 phonemes and more took 0.86 to 1.21 times the voice's median per phoneme (Piper joe,
Kokoro jm_kumo); clips of 15 to 25 up to 1.8 times, when they were lists with a pause at each comma.
"""

from __future__ import annotations

import statistics
from collections import deque

LEAST_UNITS = 12  # shorter clips are made of their ends: nothing can be told from their length
USUAL_S = 0.068  # per phoneme, until the voice has shown its own
USUAL_SHORT, USUAL_LONG = 0.45, 2.5  # bounds while the voice is not known
KNOWN_SHORT, KNOWN_LONG = 0.7, 1.7  # half a sentence lost is 0.5
KNOWN_FROM = 5  # clips
REMEMBERED = 31
PAUSE_S = 0.25  # at a punctuation mark
SLACK_S = 0.8  # of an odd beginning or ending; a babbling voice goes on for seconds


class Pace:
    """One voice's seconds per phoneme, learnt from the clips it makes."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def unit_s(self) -> float:
        """Seconds per phoneme at the voice's own tempo."""
        return statistics.median(self._seen) if len(self._seen) >= KNOWN_FROM else USUAL_S

    def expected_s(self, units: int, marks: int, tempo: float) -> float:
        """Length of a clip of so many phonemes and so many punctuation marks inside it."""
        return (units * self.unit_s + marks * PAUSE_S / 2) / tempo

    def suspicious(self, seconds: float, units: int, marks: int, tempo: float) -> bool:
        """Whether the clip is too short to hold the text, or far too long for it."""
        if units < LEAST_UNITS:
            return False
        known = len(self._seen) >= KNOWN_FROM
        shortest = (KNOWN_SHORT if known else USUAL_SHORT) * units * self.unit_s / tempo
        longest = (KNOWN_LONG if known else USUAL_LONG) * units * self.unit_s + marks * PAUSE_S + SLACK_S
        return not shortest <= seconds <= longest / min(tempo, 1.0)

    def learn(self, seconds: float, units: int, marks: int, tempo: float) -> None:
        """Take a sound clip's length into account."""
        if units >= LEAST_UNITS:
            self._seen.append(max(0.0, seconds * tempo - marks * PAUSE_S / 2) / units)


def left_to_do(tempo: float, asked: float, steady: float) -> float:
    """What a clip still has to be stretched by to have ``tempo`` when its engine was asked for ``asked``.

    ``steady`` is the share of a clip's length that the engine leaves as it is: it rounds every phoneme up to whole
    frames of 12 ms and more.
    """
    return tempo * (steady + (1.0 - steady) / asked)
