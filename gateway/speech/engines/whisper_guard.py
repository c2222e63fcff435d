# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides whether what the recogniser wrote was really said. Pure: sound levels and text in, verdict out.

Whisper always writes something. On silence it writes what video subtitles end with, on noise it loops, and it does
so with good confidence. Three kinds of evidence are held against it:

* the **sound**: nothing loud enough, nothing that changes like speech (a steady hum or hiss), or line tones;
* the **text alone**: a phrase in a row, more words than a mouth can say in the time, known boiler-plate;
* **both**: short courtesies ("thank you") that people do say, so they go only when the sound or the model doubts.

Method of the loop test: consecutive repeats of an n-gram, as in the repetition checks of whisper.cpp and
faster-whisper (compression ratio), but it keeps honest repeats ("no, no, no", "five five").
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz

from gateway.speech.engines.prose import is_unspaced

Samples = npt.NDArray[np.float32]

FRAME_MS = 20
QUIETEST_SPEECH_DBFS = -58.0  # a 20 ms frame; 8 kHz G.711 idle noise lies below -65 dBFS, quiet talkers peak near -40
STEADY_SPREAD_DB = 4.0  # 5th..95th percentile of 20 ms levels: white noise and hum stay below 3.5, speech is above 12
ACTIVE_BELOW_PEAK_DB = 30.0
WORDS_PER_S = 7.0  # fastest conversational speech is about 6 words/s
CHARACTERS_PER_S = 32.0
UNSPACED_CHARACTERS_PER_S = 13.0
NO_SPEECH_LOGPROB = -0.25
LONGEST_GRAM = 12
_STUTTER = re.compile(r"([^\W\d]{1,6}?)(?:\W?\1){5,}", re.IGNORECASE)  # inside a word: "aaaaaaa", "m-m-m-m-m-m-m"
LOOP_RUNS: Mapping[int, int] = {1: 7, 2: 5, 3: 4}  # n-gram length → repeats in a row that no talker makes; else 3


@dataclass(frozen=True, slots=True)
class SoundPortrait:
    """What the levels say about a stretch of sound. Seconds of ``active_s`` are frames near the loudest."""

    duration_s: float
    peak_dbfs: float
    spread_db: float
    active_s: float
    tonal: bool

    @property
    def speechless(self) -> bool:
        """Nothing in it can be speech: too quiet, steady for its whole length, or a line tone."""
        if self.peak_dbfs < QUIETEST_SPEECH_DBFS:
            return True
        steady = self.duration_s >= 0.3 and self.spread_db < STEADY_SPREAD_DB
        return steady or self.tonal


def portrait(samples: Samples, rate_hz: int) -> SoundPortrait:
    """Measure float samples (−1..1, DC removed). Shape ``(n,)``; n may be 0."""
    size = rate_hz * FRAME_MS // 1000
    count = len(samples) // size
    if count == 0:
        return SoundPortrait(len(samples) / rate_hz, -120.0, 0.0, 0.0, False)
    frames = samples[: count * size].reshape(count, size)
    levels = 10.0 * np.log10(np.mean(np.square(frames, dtype=np.float64), axis=1) + 1e-12)
    low, high = np.percentile(levels, (5, 95))
    active = levels > max(levels.max() - ACTIVE_BELOW_PEAK_DB, QUIETEST_SPEECH_DBFS - 10.0)
    return SoundPortrait(
        duration_s=len(samples) / rate_hz,
        peak_dbfs=float(levels.max()),
        spread_db=float(high - low),
        active_s=float(active.sum()) * FRAME_MS / 1000,
        tonal=_is_tonal(frames[active]),
    )


def _is_tonal(frames: npt.NDArray[np.float32]) -> bool:
    """Whether nearly all active frames hold one and the same set of one to three pure tones (dial, busy, DTMF, hum).

    A vowel also has few strong lines, but they move: the strongest bin of a talker's frames is spread over many bins.
    """
    if len(frames) < 8:
        return False
    power = np.abs(np.fft.rfft(frames * np.hanning(frames.shape[1]).astype(np.float32), axis=1)) ** 2
    total = power.sum(axis=1) + 1e-12
    # three tones of a Hann window fill at most 3 × 4 bins of 50 Hz each; two is what telephone tones have
    strongest = np.sort(power, axis=1)[:, -8:].sum(axis=1) / total
    peak_bin = power.argmax(axis=1)
    common = np.bincount(peak_bin).argsort()[-4:]
    in_common = np.isin(peak_bin, common)
    return bool(np.mean(strongest > 0.97) > 0.9 and in_common.mean() > 0.95)


def compression_ratio(text: str) -> float:
    """Bytes of the text over its zlib size: above 2.2 it repeats itself."""
    raw = text.encode("utf-8")
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0


def units(text: str, language: str) -> list[str]:
    """Words, or characters where the language writes no spaces."""
    if is_unspaced(language):
        return [character for character in text if not character.isspace()]
    return text.split()


def cut_loop(text: str, language: str) -> tuple[str, bool]:
    """The text up to and including the first round of a loop, and whether there was one.

    A loop is an n-gram said at least `LOOP_RUNS` times in a row; what follows it is lost ground and goes too.
    """
    if match := _STUTTER.search(text):
        return text[: match.end(1)], True
    said = units(text, language)
    keys = [re.sub(r"\W+", "", unit).casefold() or unit for unit in said]
    for start in range(len(keys)):
        for size in range(1, min(LONGEST_GRAM, (len(keys) - start) // 3) + 1):
            gram = keys[start : start + size]
            runs = 1
            while keys[start + runs * size : start + (runs + 1) * size] == gram:
                runs += 1
            if runs >= LOOP_RUNS.get(size, 3) and any(key.isalnum() for key in gram):
                if _is_number(gram) and runs < 12:
                    continue  # "zero zero zero zero": people read such numbers out
                glue = "" if is_unspaced(language) else " "
                return glue.join(said[: start + size]).rstrip(",;:-"), True
    return text, False


def repeats_phrase(text: str, language: str) -> bool:
    """Whether some phrase of three words or more stands twice in a row: worth a second look, not yet a loop."""
    keys = [normalized(unit) or unit for unit in units(text, language)]
    for size in range(3 if not is_unspaced(language) else 5, len(keys) // 2 + 1):
        for start in range(len(keys) - 2 * size + 1):
            gram = keys[start : start + size]
            if gram == keys[start + size : start + 2 * size] and not _is_number(gram):
                return True
    return False


def _is_number(gram: list[str]) -> bool:
    return all(any(character.isdigit() for character in key) for key in gram)


def too_fast(text: str, language: str, active_s: float) -> bool:
    """More than a mouth can say in the active time (half a second and two words of grace for short answers)."""
    time_s = active_s + 0.5
    if is_unspaced(language):
        return len(units(text, language)) > UNSPACED_CHARACTERS_PER_S * time_s
    words = len(text.split())
    return words > WORDS_PER_S * time_s + 2 or len(text) > CHARACTERS_PER_S * time_s + 12


@cache
def _boilerplate() -> tuple[frozenset[str], frozenset[str]]:
    data = json.loads((Path(__file__).parent / "boilerplate.json").read_text(encoding="utf-8"))
    never = frozenset(normalized(phrase) for lists in data.values() for phrase in lists["never_spoken"])
    doubtful = frozenset(normalized(phrase) for lists in data.values() for phrase in lists["doubtful"])
    return never, doubtful


def normalized(text: str) -> str:
    """Lower case, letters and digits only, single spaces: two spellings of one utterance compare equal."""
    return " ".join(re.sub(r"[\W_]+", " ", text.casefold()).split())


def never_spoken(text: str) -> bool:
    """The whole utterance is a subtitle credit or a channel's sign-off, which nobody says on a telephone."""
    return normalized(text) in _boilerplate()[0]


def doubtful(text: str) -> bool:
    """The whole utterance is one of the phrases that the model makes up on noise, though people say them too."""
    phrase = normalized(text)
    if phrase in _boilerplate()[1]:
        return True
    words = phrase.split()
    # "thank you. thank you." is as doubtful as one of them
    half = len(words) // 2
    return len(words) > 1 and words[:half] == words[half:] and " ".join(words[:half]) in _boilerplate()[1]


def rejection(
    text: str, portrait_: SoundPortrait, no_speech: float, logprob: float, *, looped: bool = False
) -> str | None:
    """Why a decoded text is not to be believed, or None. ``logprob`` is the mean over its tokens."""
    if looped and (no_speech > 0.3 or logprob < -0.7):
        return "loop"
    if never_spoken(text):
        return "boiler-plate"
    # 60 clean telephone prompts: no_speech at most 0.28; 90 stretches of music and noise: at least 0.49 with text
    if no_speech > 0.42 and logprob < NO_SPEECH_LOGPROB:
        return "no-speech"
    if doubtful(text) and (no_speech > 0.3 or logprob < -0.7 or portrait_.peak_dbfs < -45 or portrait_.active_s < 0.12):
        return "boiler-plate"
    if logprob < -1.2 and (no_speech > 0.25 or logprob < -1.6):  # below a confidence of 0.3 no word is right
        return "no-speech"
    return None


def mentions(text: str, hotwords: tuple[str, ...]) -> bool:
    """Whether any of the hotwords stands in the text."""
    said = f" {normalized(text)} "
    return any(f" {normalized(hotword)} " in said for hotword in hotwords if normalized(hotword))


def similarity(one: str, other: str) -> float:
    """How alike two texts are, 0..100."""
    return fuzz.ratio(normalized(one), normalized(other))
