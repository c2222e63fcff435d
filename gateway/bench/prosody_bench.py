# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench prosody``: does the interpreter's voice sound more like the talker when it follows them (SPEC S1.3)?

Human prompts that were recorded in two languages are spoken again in the second by the gateway's voice, once as it
speaks by itself and once as `stream.manner` steers it. Both are compared with the recording in the first language. The
human recording in the second language says what an interpreter of flesh and blood does: it is the yardstick, not 1.0.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gateway.audio.loudness import active_level, amplified
from gateway.audio.pcm import Int16, level_dbfs, to_float32
from gateway.audio.resample import resample
from gateway.bench.corpus import Prompt, human_prompts
from gateway.bench.demo import Say
from gateway.bench.prosody import Contour, contour, distance
from gateway.bench.sdp import RATE_HZ
from gateway.runtime import model_store, worker_threads
from gateway.settings import Loaded
from gateway.speech.engines.registry import SYNTHESIZERS, build
from gateway.speech.protocols import Synthesizer
from gateway.stream.events import VoiceFrame
from gateway.stream.manner import LEAST_KNOWN, USUAL, Manner, Talker

FRAME = RATE_HZ // 50
SPEECH_BELOW_PEAK_DB = 35.0
SHORTEST_S, LONGEST_S = 1.5, 7.0


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """One way to say a prompt: its contour, its speed in letters per second of speech, and its level."""

    contour: Contour
    speed: float
    level_db: float


def bench_prosody(loaded: Loaded, *, source: str, target: str, prompts: int, say: Say) -> dict[str, Any]:
    """ValueError when the recordings are missing or the target has no voice."""
    line = loaded.settings.speech.voices.get(target)
    if line is None:
        raise ValueError(f"no voice speaks {target!r}: add it to speech.voices")
    pairs = _pairs(source, target, prompts)
    synthesizer: Synthesizer = build(
        line, SYNTHESIZERS, model_store(loaded).ensure_verified, worker_threads(loaded.settings)
    )
    talker = Talker(RATE_HZ)
    at = 0
    ways: dict[str, list[Said]] = {"source": [], "human": [], "voice": [], "voice_following": []}
    for number, (first, second) in enumerate(pairs):
        span, at = (at, at + first.pcm.size), at + first.pcm.size
        for frame in _verdicts(first.pcm, span[0]):
            talker.feed(frame)
        manner = talker.manner(*span, first.text)
        talker.learn(*span, first.text)
        if number < LEAST_KNOWN:
            continue
        ways["source"].append(_said(first.pcm, first.text))
        ways["human"].append(_said(second.pcm, second.text))
        ways["voice"].append(_spoken(synthesizer, second.text, target, USUAL))
        ways["voice_following"].append(_spoken(synthesizer, second.text, target, manner))
        say(f"{number + 1} of {len(pairs)}: {manner}")
    return {
        "source": source,
        "target": target,
        "voice": line,
        "prompts": len(ways["source"]),
        "against_source": {
            name: _likeness(ways["source"], ways[name]) for name in ("human", "voice", "voice_following")
        },
    }


def _pairs(source: str, target: str, count: int) -> list[tuple[Prompt, Prompt]]:
    """The same prompts in both languages, of a length that has a melody."""
    theirs: Mapping[str, Prompt] = {prompt.name: prompt for prompt in human_prompts(target)}
    both = [(one, theirs[one.name]) for one in human_prompts(source) if one.name in theirs]
    fitting = [pair for pair in both if all(SHORTEST_S <= each.samples / RATE_HZ <= LONGEST_S for each in pair)]
    if len(fitting) <= LEAST_KNOWN + 1:
        raise ValueError(f"too few prompts are recorded in both {source!r} and {target!r}")
    return fitting[:: max(1, len(fitting) // count)][:count]


def _verdicts(pcm: Int16, at: int) -> list[VoiceFrame]:
    levels = [level_dbfs(pcm[first : first + FRAME]) for first in range(0, pcm.size - FRAME + 1, FRAME)]
    return [
        VoiceFrame(at + number * FRAME, FRAME, level > max(levels) - SPEECH_BELOW_PEAK_DB, level)
        for number, level in enumerate(levels)
    ]


def _spoken(synthesizer: Synthesizer, text: str, language: str, manner: Manner) -> Said:
    speech = synthesizer.synthesize(text, language=language, tempo=manner.tempo)
    pcm = np.frombuffer(amplified(speech.pcm, manner.gain_db), np.int16)
    return _said(resample(pcm, speech.rate_hz, RATE_HZ), text)


def _said(pcm: Int16, text: str) -> Said:
    how = contour(pcm, RATE_HZ)
    letters = sum(character.isalnum() for character in text)
    return Said(how, letters / how.speech_s, active_level(to_float32(pcm), RATE_HZ))


def _likeness(source: Sequence[Said], other: Sequence[Said]) -> dict[str, float]:
    """Correlations over the prompts, and the mean distance of the contours: less is more alike."""
    pairs = list(zip(source, other, strict=True))
    return {
        "speed_correlation": round(statistics.correlation([a.speed for a, _ in pairs], [b.speed for _, b in pairs]), 3),
        "level_correlation": round(
            statistics.correlation([a.level_db for a, _ in pairs], [b.level_db for _, b in pairs]), 3
        ),
        "contour_distance": round(statistics.fmean(distance(a.contour, b.contour) for a, b in pairs), 3),
    }
