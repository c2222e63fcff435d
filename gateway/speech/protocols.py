# SPDX-License-Identifier: GPL-3.0-or-later
"""The seams of the speech room. An engine is a class with one of these shapes plus a line in a registry.

What an engine cannot do is data (its capabilities), not an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.speech.jobs import Priority, Recognition, Speech, Task, Translation
from gateway.text.pronunciation import Spoken


@dataclass(frozen=True, slots=True)
class RecognizerCapabilities:
    """What a recogniser can do. ``languages`` are ISO 639-1 codes; empty means any."""

    languages: frozenset[str]
    identifies_language: bool
    hotwords: bool
    longest_s: float


@dataclass(frozen=True, slots=True)
class TranslatorCapabilities:
    """What a translator can do. ``pairs`` are directed; a route through a pivot is the translator's own affair."""

    pairs: frozenset[tuple[str, str]]
    target_prefix: bool
    batch: bool
    registers: frozenset[str] = frozenset()
    """The tones it can be asked for, such as ``formal``."""


@dataclass(frozen=True, slots=True)
class SynthesizerCapabilities:
    """What a synthesizer can do: its voices by language (first is the default) and its rate."""

    voices: Mapping[str, tuple[str, ...]]
    rate_hz: int
    streams: bool
    ipa: bool = False
    """Takes pronunciations in IPA."""


class Recognizer(Protocol):
    """Turns the sound of an utterance into text."""

    capabilities: RecognizerCapabilities

    def recognize(
        self,
        pcm: bytes,
        *,
        language: str | None,
        hotwords: Sequence[str] = (),
        context: str = "",
        words: bool = False,
        candidates: Sequence[str] = (),
    ) -> Recognition:
        """Recognise s16le 16 kHz mono; ``words`` asks for their times, ``candidates`` for each language's share.

        Odd sound, silence and noise give empty text.
        """


class Translator(Protocol):
    """Turns sentences into another language."""

    capabilities: TranslatorCapabilities

    def translate(self, texts: Sequence[str], *, source: str, target: str, register: str = "") -> Translation:
        """Translate each text; the answer has as many texts. LookupError names a pair without a route."""


class Synthesizer(Protocol):
    """Turns text into sound."""

    capabilities: SynthesizerCapabilities

    def synthesize(
        self,
        text: str,
        *,
        language: str,
        voice: str | None = None,
        tempo: float = 1.0,
        pitch: float = 1.0,
        pronounced: Sequence[Spoken] = (),
    ) -> Speech:
        """Speak the text. Text without anything to say gives empty PCM; LookupError names a missing voice.

        ``pronounced`` gives words of the text in IPA, to an engine that takes it.
        """


class Ticket(Protocol):
    """A task on its way. Only the holder may cancel it."""

    async def result(self) -> Any:
        """Wait for the `Done`; raises WorkerLost, TaskFailed, QueueFull (shed while it waited) or CancelledError."""

    def cancel(self) -> None:
        """Nobody wants the result any more. A task that has started runs on, unheard."""

    def withdraw(self) -> bool:
        """Cancel it if it has not started, and only then; True when it will never run."""

    def promote(self, priority: Priority) -> None:
        """Raise its urgency, e.g. from PREPARE to FINAL when silence was confirmed; QueueFull at the new bound."""


class SpeechService(Protocol):
    """Runs tasks on workers: fair across legs, urgent first, bounded."""

    async def start(self) -> None:
        """Load and warm the models; returns when every worker can answer."""

    async def close(self) -> None:
        """End the workers; tasks not done fail with WorkerLost."""

    def submit(self, leg: str, task: Task, priority: Priority) -> Ticket:
        """Queue a task for a leg; raises QueueFull (never for FINAL while the bound for finals holds)."""

    def statistics(self) -> dict[str, Any]:
        """Depths, counts, sheds, restarts, mean wait and run times, measured real-time factor."""

    def capabilities(self) -> dict[str, Any]:
        """Languages, pairs and voices that the loaded engines offer."""
