# SPDX-License-Identifier: GPL-3.0-or-later
"""Finishes synthesized sound for a telephone: no silence at the head, one loudness, whole text spoken. Pure numpy.

Engines differ by up to 10 dB and put up to 0.3 s of silence in front, which a listener hears as latency. Long text
makes neural voices skip or garble words without an error (their decoders were trained on single sentences), so text
is spoken piece by piece, and a piece that came out shorter than its letters allow is spoken again in two halves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gateway.audio.pcm import limited
from gateway.speech.engines.prose import halves, is_unspaced, pieces, speakable
from gateway.speech.jobs import Speech

Sound = npt.NDArray[np.float32]

LEVEL_DBFS = -19.0  # RMS of the voiced part; ITU-T P.56 active level of network speech is −26…−15
HEAD_MS = 20
TAIL_MS = 120
PAUSE_MS = 140  # between two pieces, on top of head and tail
LONGEST_PIECE = 150  # characters, about 10 s: what the voices were trained on, and it bounds their memory
MOST_SPLITS = 3
LETTERS_PER_S = 34.0  # faster than the fastest voice at tempo 1.3; below it words are missing
UNSPACED_LETTERS_PER_S = 12.0
_SILENT_BELOW_PEAK_DB = 42.0
_VOICED_BELOW_PEAK_DB = 25.0


def spoken(
    text: str, *, language: str, rate_hz: int, voice: str, tempo: float, speak: Callable[[str], Sound]
) -> Speech:
    """Speak any text with ``speak(piece)``, which returns float sound (−1..1) at ``rate_hz``, shape ``(n,)``.

    Text without anything to say in the language gives empty PCM.
    """
    clips = [
        clip
        for piece in pieces(speakable(text, language), language, LONGEST_PIECE)
        if speakable(piece, language)
        for clip in _whole(piece, language, rate_hz, tempo, speak, MOST_SPLITS)
        if clip.size
    ]
    pause = np.zeros(rate_hz * PAUSE_MS // 1000, dtype=np.float32)
    line = [part for clip in clips for part in (clip, pause)][:-1]
    pcm = _to_pcm(np.concatenate(line)) if line else b""
    return Speech(pcm=pcm, rate_hz=rate_hz, voice=voice)


def _whole(
    piece: str, language: str, rate_hz: int, tempo: float, speak: Callable[[str], Sound], splits: int
) -> list[Sound]:
    clip = finished(speak(piece), rate_hz)
    if len(clip) / rate_hz < shortest_s(piece, language, tempo) and splits > 0 and (parts := halves(piece)):
        return [part for half in parts for part in _whole(half, language, rate_hz, tempo, speak, splits - 1)]
    return [clip]


def shortest_s(text: str, language: str, tempo: float) -> float:
    """Seconds below which the text cannot have been spoken whole. Short answers get no bound (0)."""
    letters = sum(character.isalpha() for character in text)
    per_second = UNSPACED_LETTERS_PER_S if is_unspaced(language) else LETTERS_PER_S
    return letters / per_second / max(tempo, 1.0) if letters > 12 else 0.0


def finished(sound: Sound, rate_hz: int) -> Sound:
    """Trim, level and limit one clip; a silent clip becomes empty."""
    return levelled(trimmed(sound, rate_hz), rate_hz)


def trimmed(sound: Sound, rate_hz: int) -> Sound:
    """Cut silence: at most 20 ms stay before the first sound and 120 ms after the last, with 5 ms fades."""
    size = max(rate_hz // 200, 1)  # 5 ms
    levels = _levels_db(sound, size)
    if levels.size == 0 or levels.max() < -70.0:
        return np.zeros(0, dtype=np.float32)
    loud = np.flatnonzero(levels > levels.max() - _SILENT_BELOW_PEAK_DB)
    first = max(int(loud[0]) * size - rate_hz * HEAD_MS // 1000, 0)
    last = min((int(loud[-1]) + 1) * size + rate_hz * TAIL_MS // 1000, len(sound))
    clip = sound[first:last].astype(np.float32, copy=True)
    ramp = np.linspace(0.0, 1.0, min(size, len(clip) // 2), dtype=np.float32)
    clip[: len(ramp)] *= ramp
    clip[len(clip) - len(ramp) :] *= ramp[::-1]
    return clip


def levelled(sound: Sound, rate_hz: int) -> Sound:
    """Bring the RMS of the voiced 20 ms frames to −19 dBFS; peaks above −4 dBFS bend softly towards −1 dBFS."""
    size = max(rate_hz // 50, 1)
    levels = _levels_db(sound, size)
    if levels.size == 0:
        return sound
    voiced = levels[levels > levels.max() - _VOICED_BELOW_PEAK_DB]
    level = 10.0 * np.log10(np.mean(10.0 ** (voiced / 10.0)))
    return limited(sound * np.float32(10.0 ** ((LEVEL_DBFS - level) / 20.0)))


def _levels_db(sound: Sound, size: int) -> npt.NDArray[np.float64]:
    count = len(sound) // size
    blocks = np.square(sound[: count * size].reshape(count, size), dtype=np.float64)
    return np.asarray(10.0 * np.log10(blocks.mean(axis=1) + 1e-12)) if count else np.zeros(0)


def _to_pcm(sound: Sound) -> bytes:
    return np.round(np.clip(sound, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
