# SPDX-License-Identifier: GPL-3.0-or-later
"""Finishes synthesized sound for a telephone: no silence at the head, one loudness, whole text spoken. Pure numpy.

Engines differ by up to 10 dB and put up to 0.3 s of silence in front, which a listener hears as latency. Long text
makes neural voices skip or garble words without an error (their decoders were trained on single sentences), so text
is spoken piece by piece, and a piece that came out much shorter or longer than this voice takes for so many phonemes
is spoken once again, in two halves (`pace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gateway.audio.loudness import active_level
from gateway.audio.pcm import limited
from gateway.audio.resample import resample
from gateway.audio.tempo import TempoReader
from gateway.speech.engines.alphabet import all_said, letters
from gateway.speech.engines.pace import Pace, left_to_do
from gateway.speech.engines.prose import halves, marks, pieces, speakable, transliterated
from gateway.speech.jobs import Speech
from gateway.text.reading import reading
from gateway.text.tags import base_language

Sound = npt.NDArray[np.float32]

LEVEL_DBFS = -19.0  # active level by ITU-T P.56; network speech is -26 to -15
HEAD_MS = 20
TAIL_MS = 120
PAUSE_MS = 140  # between two pieces, on top of head and tail
LONGEST_PIECE = 150  # characters, about 10 s: what the voices were trained on, and it bounds their memory
LEAST_STRETCH = 0.02  # less is not worth an overlap-add
_SILENT_BELOW_PEAK_DB = 42.0


@dataclass(frozen=True, slots=True)
class Traits:
    """What is particular to an engine, as measured."""

    steady: float = 0.0
    """Share of a clip that the engine's own tempo leaves as it is."""
    haste: float = 2.0
    """The most tempo that is asked of the engine itself."""
    open_tail_ms: int = TAIL_MS
    """Silence behind a piece whose sentence goes on."""

    def asked(self, tempo: float) -> float:
        """What the engine is asked for of a tempo."""
        return min(tempo, self.haste)


def ordered_voices(names: Iterable[str], first: str | None, model: str) -> tuple[str, ...]:
    """A model's voices, the one that the settings name first; LookupError when the model lacks it."""
    known = tuple(names)
    if first is not None and first not in known:
        raise LookupError(f"voice {first!r} is not in {model}: it has {', '.join(known)}")
    return tuple(sorted(known, key=lambda name: name != first))


def chosen_voice(voices: Mapping[str, Sequence[str]], language: str, name: str | None) -> tuple[str, str]:
    """The language's code and the voice to speak it in, of ``voices`` by code; LookupError says what there is."""
    code = base_language(language)
    if code not in voices:
        raise LookupError(f"this voice speaks {', '.join(voices)}, not {language!r}")
    if name is not None and name not in voices[code]:
        raise LookupError(f"voice {name!r} is not among {', '.join(voices[code])}")
    return code, name or voices[code][0]


def spoken(
    text: str,
    *,
    language: str,
    rate_hz: int,
    voice: str,
    tempo: float,
    pitch: float,
    speak: Callable[[str], Sound],
    units: Callable[[str], int],
    pace: Pace,
    traits: Traits,
    unsaid: Callable[[str], float] = all_said,
) -> Speech:
    """Speak any text with ``speak(piece)``, which returns float sound (−1..1) at ``rate_hz``, shape ``(n,)``.

    ``units(piece)`` counts its phonemes, ``pace`` knows the voice, ``traits`` its engine: what that does not give of
    the tempo is stretched here. Text without anything to say in the language gives empty PCM. ``unsaid(piece)`` is the
    share of the piece's letters that the voice's alphabet lacks.
    """

    def clip_of(piece: str) -> Sound:
        sound = repitched(speak(piece), rate_hz, pitch)
        sound = stretched(sound, rate_hz, left_to_do(tempo, traits.asked(tempo), traits.steady) / pitch)
        return finished(sound, rate_hz, tail_ms=traits.open_tail_ms if piece[-1].isalnum() else TAIL_MS)

    text, foreign = transliterated(text, language)
    sayable = speakable(text, language)
    words = reading(sayable, language)
    asked = [piece for piece in pieces(words, language, LONGEST_PIECE) if speakable(piece, language)]
    clips: list[Sound] = []
    respoken = 0
    for piece in asked:
        clip = clip_of(piece)
        length = (units(piece), marks(piece), tempo)
        if not pace.suspicious(len(clip) / rate_hz, *length):
            pace.learn(len(clip) / rate_hz, *length)
            clips.append(clip)
            continue
        again = [clip_of(half) for half in halves(piece) or ()]
        respoken += bool(again)
        clips += _nearer([clip], again, pace.expected_s(*length) * rate_hz)
    pause = np.zeros(rate_hz * PAUSE_MS // 1000, dtype=np.float32)
    line = [part for clip in clips if clip.size for part in (clip, pause)][:-1]
    pcm = _to_pcm(np.concatenate(line)) if line else b""
    lost = sum(unsaid(piece) * letters(piece) for piece in asked) / max(1, letters(words))
    kept = letters(sayable) / max(1, letters(text)) * (1.0 - lost) if letters(text) else 1.0
    return Speech(pcm=pcm, rate_hz=rate_hz, voice=voice, respoken=respoken, transliterated=foreign, unsaid=1.0 - kept)


def _nearer(whole: list[Sound], halved: list[Sound], expected: float) -> list[Sound]:
    """Of two ways to speak a text the one whose length is nearer to what is expected, in samples."""
    return min(whole, halved, key=lambda clips: abs(sum(map(len, clips)) - expected))


def repitched(sound: Sound, rate_hz: int, pitch: float) -> Sound:
    """The sound at another pitch, and as much shorter: the same samples, as if taken at another rate."""
    return sound if pitch == 1.0 else resample(sound, round(rate_hz * pitch), rate_hz)


def stretched(sound: Sound, rate_hz: int, ratio: float) -> Sound:
    """The sound ``ratio`` times as fast, pitch kept."""
    if abs(ratio - 1.0) < LEAST_STRETCH:
        return sound
    return TempoReader(sound, rate_hz).read(2 * len(sound), ratio)


def finished(sound: Sound, rate_hz: int, *, tail_ms: int = TAIL_MS) -> Sound:
    """Trim, level and limit one clip; a silent clip becomes empty."""
    return levelled(trimmed(sound, rate_hz, tail_ms), rate_hz)


def trimmed(sound: Sound, rate_hz: int, tail_ms: int = TAIL_MS) -> Sound:
    """Cut silence: at most 20 ms stay before the first sound and ``tail_ms`` after the last, with 5 ms fades."""
    size = max(rate_hz // 200, 1)  # 5 ms
    levels = _levels_db(sound, size)
    if levels.size == 0 or levels.max() < -70.0:
        return np.zeros(0, dtype=np.float32)
    loud = np.flatnonzero(levels > levels.max() - _SILENT_BELOW_PEAK_DB)
    first = max(int(loud[0]) * size - rate_hz * HEAD_MS // 1000, 0)
    last = min((int(loud[-1]) + 1) * size + rate_hz * tail_ms // 1000, len(sound))
    clip = sound[first:last].astype(np.float32, copy=True)
    ramp = np.linspace(0.0, 1.0, min(size, len(clip) // 2), dtype=np.float32)
    clip[: len(ramp)] *= ramp
    clip[len(clip) - len(ramp) :] *= ramp[::-1]
    return clip


def levelled(sound: Sound, rate_hz: int) -> Sound:
    """Bring the active speech level to −19 dBFS; peaks above −4 dBFS bend softly towards −1 dBFS."""
    return limited(sound * np.float32(10.0 ** ((LEVEL_DBFS - active_level(sound, rate_hz)) / 20.0)))


def _levels_db(sound: Sound, size: int) -> npt.NDArray[np.float64]:
    count = len(sound) // size
    blocks = np.square(sound[: count * size].reshape(count, size), dtype=np.float64)
    return np.asarray(10.0 * np.log10(blocks.mean(axis=1) + 1e-12)) if count else np.zeros(0)


def _to_pcm(sound: Sound) -> bytes:
    return np.round(np.clip(sound, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()
