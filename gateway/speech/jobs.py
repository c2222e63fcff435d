# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a speech worker and what it answers: immutable values that cross a process border.

A task holds all it needs (sound or text, plus the plan's choices), so that a worker has no memory of calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gateway.text.pronunciation import Spoken

MODEL_RATE_HZ = 16_000
"""Every recogniser here is fed 16 kHz mono."""


class Priority(IntEnum):
    """Order of service, most urgent first. Under load the last is shed first; finals are never shed."""

    FINAL = 0
    CLAUSE = 1
    PREPARE = 2
    PREVIEW = 3


@dataclass(frozen=True, slots=True)
class RecognizeTask:
    """Sound to text. ``pcm`` is signed 16-bit little-endian mono at 16 kHz; ``language`` None asks to identify it."""

    pcm: bytes
    language: str | None
    hotwords: tuple[str, ...] = ()
    context: str = ""
    words: bool = False
    """Ask for the words' times as well, where the engine knows them."""
    candidates: tuple[str, ...] = ()
    """Ask which of these languages it is, too; an unknown language is then one of them."""


@dataclass(frozen=True, slots=True)
class TranslateTask:
    """Sentences to translate, each on its own; languages are ISO 639-1 codes."""

    texts: tuple[str, ...]
    source: str
    target: str
    register: str = ""
    """The tone wanted, such as ``formal``, for translators that have it."""


@dataclass(frozen=True, slots=True)
class SynthesizeTask:
    """Text to sound. ``voice`` None takes the language's default voice; ``tempo`` 1.0 is the voice's own."""

    text: str
    language: str
    voice: str | None = None
    tempo: float = 1.0
    pitch: float = 1.0
    """A factor on the voice's own pitch."""
    pronounced: tuple[Spoken, ...] = ()
    """How words of the text are spoken."""


Task = RecognizeTask | TranslateTask | SynthesizeTask


@dataclass(frozen=True, slots=True)
class HeardWord:
    """A recognised word: its samples at 16 kHz from the start of the task's sound, and its confidence, 0..1."""

    text: str
    first_sample: int
    end_sample: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Recognition:
    """A hypothesis for a whole span. ``confidence`` is exp(mean log-probability of the tokens), 0..1."""

    text: str
    language: str
    confidence: float
    no_speech: float = 0.0
    window_fallback: bool = False
    rejected: str | None = None
    """Why the text was cut or emptied (``loop``, ``no-speech``, ``boiler-plate``, ``speech-rate``), if it was."""
    words: tuple[HeardWord, ...] = ()
    """The words with their times, when the task asked for them and the engine knows them."""
    languages: tuple[tuple[str, float], ...] = ()
    """The task's candidates with their shares, which sum to 1; empty when none were asked for, or nothing was said."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation per text of the task; ``route`` names the models' language path, e.g. ``("pt", "en")``."""

    texts: tuple[str, ...]
    route: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Speech:
    """Synthesized sound: signed 16-bit little-endian mono at ``rate_hz``, the engine's own rate."""

    pcm: bytes
    rate_hz: int
    voice: str
    respoken: int = 0
    """Pieces that came out too short or too long for their text, and were spoken again in two halves."""
    transliterated: int = 0
    """Words of a script that the voice does not read, said by their letters in Latin."""
    unsaid: float = 0.0
    """Share (0..1) of the text's letters that are missing in the sound: the voice's language or alphabet lacks them."""


Result = Recognition | Translation | Speech


@dataclass(frozen=True, slots=True)
class Done:
    """A task's result with its stamps on the machine's monotonic clock and the worker's CPU seconds."""

    result: Result
    queued_ns: int
    started_ns: int
    done_ns: int
    cpu_ns: int
    worker_pid: int
