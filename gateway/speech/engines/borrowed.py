# SPDX-License-Identifier: GPL-3.0-or-later
"""A makeshift voice: a language that has none is spoken in the voice of another, by its letters (SPEC S1.27).

The text is written in Latin letters (`anyascii`), its numbers in words of its own language where they are known, and
read out by the other language's voice with that language's sounds. It is understood after a fashion, which is better
than nothing, and has to be said so (`gateway.call.fallback`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.speech.engines.prose import in_latin, scripts_of
from gateway.speech.jobs import Speech
from gateway.speech.protocols import Synthesizer, SynthesizerCapabilities
from gateway.text.pronunciation import Spoken
from gateway.text.reading import reading
from gateway.text.tags import base_language

BORROWED = "borrowed"


def lender_of(line: str) -> str | None:
    """The language whose voice a line of the settings borrows: ``borrowed:en`` gives ``en``; None for an own voice."""
    engine, _, language = line.partition(":")
    return language if engine == BORROWED else None


class BorrowedVoice:
    """A language behind the `Synthesizer` protocol, spoken by the voice of ``lender``."""

    def __init__(self, language: str, lender: str, voice: Synthesizer) -> None:
        """LookupError where the lender is not written in Latin letters."""
        if "LATIN" not in scripts_of(lender):
            raise LookupError(f"{language!r} cannot borrow the voice of {lender!r}: that reads no Latin letters")
        self._language, self._lender, self._voice = base_language(language), base_language(lender), voice
        lent = voice.capabilities
        self.capabilities = SynthesizerCapabilities(
            voices={self._language: lent.voices[self._lender]}, rate_hz=lent.rate_hz, streams=lent.streams
        )

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
        """Speak in the lender's sounds; `Speech.transliterated` counts the words that were written in Latin letters."""
        latin, words = in_latin(reading(text, self._language), self._lender)
        spoken = self._voice.synthesize(
            latin, language=self._lender, voice=voice, tempo=tempo, pitch=pitch, pronounced=pronounced
        )
        return replace(spoken, transliterated=spoken.transliterated + words)
