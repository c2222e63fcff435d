# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the voices are on this machine: it decides how short the first spoken piece has to be."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.speech.jobs import Priority, Speech, SynthesizeTask
from gateway.speech.protocols import SpeechService

SAMPLES = ("1, 2, 3, 4, 5.", "6, 7, 8, 9.", "10, 20, 30, 40, 50, 60.")
"""Digits are read in every language. Each is another length: engines are quicker with a length that they have seen."""
_LEG = "voices"


async def measure_speeds(speech: SpeechService, languages: Iterable[str]) -> dict[str, float]:
    """By language: seconds of work per second of speech, the best of three texts, one task at a time."""
    speeds: dict[str, float] = {}
    for language in languages:
        for sample in SAMPLES:
            done = await speech.submit(_LEG, SynthesizeTask(sample, language), Priority.CLAUSE).result()
            spoken = done.result
            assert isinstance(spoken, Speech)
            heard_s = len(spoken.pcm) / 2 / spoken.rate_hz
            if heard_s:
                speed = (done.done_ns - done.started_ns) / 1e9 / heard_s
                speeds[language] = min(speed, speeds.get(language, speed))
    return speeds
