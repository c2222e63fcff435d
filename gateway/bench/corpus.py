# SPDX-License-Identifier: GPL-3.0-or-later
"""Human telephone speech with its words, laid out as one continuous line.

The recordings are Debian's ``asterisk-core-sounds-LANGUAGE-wav`` (8 kHz, CC-BY-SA), the words those of
``asterisk-core-sounds-LANGUAGE``; without the latter only the prompts that a bundled dialogue quotes have words.
Nothing is shipped here: what is not installed is named together with the remedy.

Where an utterance begins and ends is read off the recording itself, at the level that counts as speech (-45 dBFS),
never from a voice detector: the figures must not depend on what they judge.
"""

from __future__ import annotations

import gzip
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import soundfile

from gateway.audio.resample import resample
from gateway.bench.capture import SPEECH_DBFS, Pcm, threshold_amplitude
from gateway.bench.dialogue import SCRIPTS, load_script
from gateway.bench.sdp import RATE_HZ
from gateway.text.normal import normal_words

SOUNDS = Path("/usr/share/asterisk/sounds")
DOCUMENTS = Path("/usr/share/doc")

SHORTEST_S, LONGEST_S = 0.9, 10.0
LEAST_WORDS = 3
LINE_NOISE_DBFS = -66.0  # a quiet telephone line; digital silence would flatter a voice detector
LAST_MS = 200  # of line noise behind the last utterance: less than any end window, so the end comes by stop
FOLDERS_WITHOUT_SENTENCES = frozenset({"digits", "letters", "phonetic"})

NUMBER_WORDS = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve twenty thirty hundred thousand first "
    "second third",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce veinte treinta cien mil primero",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze vingt trente cent mille",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici venti trenta cento mille",
    "ru": "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать двадцать сто",
}
"""Utterances with numbers are left out: "one" or "1" is a matter of spelling, not of hearing."""


class CorpusMissing(ValueError):
    """The recordings are not installed; the message names the remedy."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """One recorded utterance: its words, and its sound at 8 kHz with what the recording has around the speech."""

    name: str
    text: str
    pcm: Pcm

    @cached_property
    def loud(self) -> tuple[int, int]:
        """The first and the last sample above the level of speech; (0, -1) when there is none."""
        above = np.flatnonzero(np.abs(self.pcm.astype(np.int32)) > threshold_amplitude(SPEECH_DBFS))
        return (int(above[0]), int(above[-1])) if above.size else (0, -1)

    @property
    def samples(self) -> int:
        """Length of the speech."""
        return self.loud[1] + 1 - self.loud[0]

    @property
    def ending_db(self) -> float:
        """Level of the last 100 ms of the speech against all of it: the lower, the weaker the final sound."""
        first, last = self.loud
        speech = self.pcm[first : last + 1].astype(np.float64)
        return 10 * math.log10((np.mean(speech[-RATE_HZ // 10 :] ** 2) + 1) / (np.mean(speech**2) + 1))


@dataclass(frozen=True, slots=True)
class Placed:
    """An utterance on a line: the first and the last sample above the level of speech, in the line's samples."""

    name: str
    text: str
    first_sample: int
    last_sample: int

    @property
    def first_s(self) -> float:
        """Where its sound begins, seconds on the line."""
        return self.first_sample / RATE_HZ

    @property
    def end_s(self) -> float:
        """Where its sound has ended, seconds on the line: behind the last sample above the level of speech."""
        return (self.last_sample + 1) / RATE_HZ


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One leg's sound from end to end, and what is said on it."""

    pcm: Pcm
    placed: tuple[Placed, ...]

    @property
    def seconds(self) -> float:
        """Length of the line."""
        return self.pcm.size / RATE_HZ

    @property
    def speech_s(self) -> float:
        """Length of the utterances on it."""
        return sum(one.end_s - one.first_s for one in self.placed)


def human_prompts(language: str, *, sounds: Path = SOUNDS, documents: Path = DOCUMENTS) -> list[Prompt]:
    """Every usable recorded sentence of a language, by name. CorpusMissing names the packages to install."""
    folders = sorted(sounds.glob(f"{language}_*"))
    if not folders:
        raise CorpusMissing(
            f"no recorded speech of {language!r} under {sounds}: apt-get install asterisk-core-sounds-{language}-wav"
        )
    texts = _texts(language, documents)
    prompts = []
    for name, text in sorted(texts.items()):
        path = folders[0] / f"{name}.wav"
        if usable(text, language) and name.partition("/")[0] not in FOLDERS_WITHOUT_SENTENCES and path.is_file():
            sound, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
            pcm = np.ascontiguousarray(sound[:, 0])
            prompt = Prompt(name, text, pcm if rate_hz == RATE_HZ else resample(pcm, rate_hz, RATE_HZ))
            if SHORTEST_S <= prompt.samples / RATE_HZ <= LONGEST_S:
                prompts.append(prompt)
    if not prompts:
        raise CorpusMissing(f"no words to the recordings: apt-get install asterisk-core-sounds-{language}")
    return prompts


def usable(text: str, language: str) -> bool:
    """Whether a text is a sentence that can be scored: words only and enough of them, no numbers, no spelling, no
    stage directions, no fragment that is made to be continued by another ("...")."""
    words = normal_words(text, language)
    numbers = set(NUMBER_WORDS.get(language, "").split())
    plain = not re.search(r"[\[\](){}<>*#\d…]|\.\.|(\b\w\s+){2}\w\b", text)
    return plain and len(words) >= LEAST_WORDS and not numbers.intersection(words)


def read_transcript(lines: Sequence[str]) -> dict[str, str]:
    """Texts by name from ``name: text`` lines; ``;`` begins a comment."""
    pairs = (line.partition(":") for line in lines if not line.startswith(";"))
    return {name.strip(): text.strip() for name, colon, text in pairs if colon and text.strip()}


def _texts(language: str, documents: Path) -> dict[str, str]:
    for path in sorted(documents.glob(f"asterisk-core-sounds-{language}*/core-sounds-{language}.txt*")):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return read_transcript(raw.decode("utf-8").splitlines())
    turns = (turn for script in SCRIPTS for turn in load_script(script).turns)
    return {turn.prompt: turn.text for turn in turns if turn.prompt and turn.language == language}


def lay(
    prompts: Sequence[Prompt],
    *,
    seconds: float | None = None,
    utterances: int | None = None,
    pause_ms: tuple[int, int],
    seed: int,
    legs: int = 1,
    noise_dbfs: float = LINE_NOISE_DBFS,
) -> list[Line]:
    """Lay utterances on one line per leg, in turns, until either limit is reached; the legs share one time axis.

    The order of the utterances and the pauses between them are pseudo-random, and the same for the same seed. Pauses
    are between speech and speech: what a recording has around its speech lies in them, and adds to the line's noise.
    """
    if not prompts or (seconds is None and utterances is None):
        raise ValueError("a line needs prompts and an end")
    chance = random.Random(seed)  # noqa: S311 - a reproducible order, no secret
    gap = _pauses(chance, pause_ms)
    parts: list[tuple[int, int, Prompt]] = []
    at = next(gap)
    for index, prompt in enumerate(_for_ever(chance, prompts)):
        enough = utterances is not None and index >= utterances
        if enough or (seconds is not None and index and at + prompt.samples > seconds * RATE_HZ):
            break
        parts.append((index % legs, at, prompt))
        at += prompt.samples + next(gap)
    end = max(at + prompt.samples for _, at, prompt in parts) + LAST_MS * RATE_HZ // 1000
    return [
        _line([(at, prompt) for leg, at, prompt in parts if leg == each], end, seed + each, noise_dbfs)
        for each in range(legs)
    ]


def _for_ever(chance: random.Random, prompts: Sequence[Prompt]) -> Iterator[Prompt]:
    while True:
        yield from chance.sample(list(prompts), len(prompts))


def _pauses(chance: random.Random, pause_ms: tuple[int, int]) -> Iterator[int]:
    while True:
        yield chance.randint(*pause_ms) * RATE_HZ // 1000


def _line(parts: Sequence[tuple[int, Prompt]], samples: int, seed: int, noise_dbfs: float) -> Line:
    chance = np.random.default_rng(seed)
    sound = np.rint(chance.standard_normal(samples) * threshold_amplitude(noise_dbfs)).astype(np.int32)
    placed = []
    for at, prompt in parts:
        first, last = prompt.loud
        begin = max(0, at - first)
        own = prompt.pcm[begin - (at - first) :][: samples - begin]
        sound[begin : begin + own.size] += own
        placed.append(Placed(prompt.name, prompt.text, at, at + last - first))
    return Line(np.clip(sound, -32768, 32767).astype(np.int16), tuple(placed))
