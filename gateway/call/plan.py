# SPDX-License-Identifier: GPL-3.0-or-later
"""What one direction of a call works under: an immutable snapshot, swapped only between utterances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from gateway.call.delivery import Delivery
from gateway.call.glossary import Glossary, Lexicon
from gateway.speech.jobs import SynthesizeTask, TranslateTask
from gateway.text.safety import SafetyWords, safety_words


@dataclass(frozen=True, slots=True)
class DirectionPlan:
    """Languages, voice, mode and terms of one direction. Two plans of one version are equal (SPEC S4.5, S4.8)."""

    version: int
    source: str
    target: str
    mode: str = "consecutive"
    voice: str | None = None
    register: str = ""
    """The tone asked of the translator, such as ``formal``; one that has none translates as ever."""
    lexicon: Lexicon = field(default_factory=Lexicon)
    """Hotwords, rules, idioms, terms and pronunciations."""
    glossary_version: tuple[int, ...] = ()
    safety: bool = False
    """Nothing but safety words is listened for and translated."""
    delivery: Delivery = field(default_factory=Delivery)
    """The style in which the voice speaks."""
    varies: bool = False
    """Speak each utterance a little differently."""
    first_chars: int = 0
    """Characters of the first piece given to the synthesizer, so that sound starts early; 0: all at once."""

    temperature: float = 1.0
    """Calibrates the recogniser's confidence: raw ** (1 / temperature) is how often such an utterance is right."""
    repeat_below: float = 0.0
    """Calibrated confidence below which the talker is asked to repeat instead of speaking a guess (B10); 0 never."""

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source, self.target

    @property
    def safety_words(self) -> SafetyWords | None:
        """The only words that are translated; None: all are."""
        return safety_words(self.source, self.target) if self.safety else None

    @property
    def hotwords(self) -> tuple[str, ...]:
        """What the recogniser listens for."""
        words = self.safety_words
        return self.lexicon.hotwords if words is None else words.hotwords

    def with_glossary(self, glossary: Glossary) -> DirectionPlan:
        """The plan with what a glossary holds for its languages; the version is the caller's affair."""
        return replace(
            self,
            lexicon=glossary.lexicon(self.source, self.target),
            glossary_version=glossary.version,
        )

    def for_utterance(self, key: int) -> DirectionPlan:
        """The plan of one utterance: as it is, or with a small variation of its own."""
        return replace(self, delivery=self.delivery.varied(key)) if self.varies else self

    def translating(self, texts: Sequence[str]) -> TranslateTask:
        """The task of translating texts of this direction."""
        return TranslateTask(tuple(texts), self.source, self.target, self.register)

    def saying(self, piece: str, tempo: float) -> SynthesizeTask:
        """The task of speaking a piece of the translation, with the pronunciations of its words."""
        pronounced = self.lexicon.pronunciations.within(piece)
        return SynthesizeTask(piece, self.target, self.voice, tempo, self.delivery.pitch, pronounced)

    def as_echo(self) -> dict[str, object]:
        """The values in force, for the call's start event."""
        return {
            "version": self.version,
            "source": self.source,
            "target": self.target,
            "mode": self.mode,
            "register": self.register,
            "safety_words": self.safety,
            "voice": self.voice,
            **self.lexicon.sizes(),
            "glossary_version": list(self.glossary_version),
            "delivery": asdict(self.delivery),
            "varies": self.varies,
            "first_chars": self.first_chars,
            "temperature": self.temperature,
            "repeat_below": self.repeat_below,
        }
