# SPDX-License-Identifier: GPL-3.0-or-later
"""Several engines behind one face: text takes the shortest path of language pairs, speech its language's voice."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import structlog

from gateway.speech.jobs import Speech, Translation
from gateway.speech.protocols import Synthesizer, SynthesizerCapabilities, Translator, TranslatorCapabilities
from gateway.text.pronunciation import Spoken, respelled
from gateway.text.tags import base_language

log = structlog.get_logger(__name__)

PREFERRED_PIVOT = "en"  # what public pair models are trained against; any language serves when it is the only way


class RoutedTranslator:
    """A translator over several; the first engine that offers a pair serves it."""

    def __init__(self, engines: Sequence[Translator]) -> None:
        self.engines = tuple(engines)
        self._without: list[tuple[Translator, str]] = []
        self._engine: dict[tuple[str, str], Translator] = {}
        for engine in self.engines:
            for pair in engine.capabilities.pairs:
                self._engine.setdefault(pair, engine)
        self._next: dict[str, list[str]] = {}
        for source, target in sorted(self._engine):
            self._next.setdefault(source, []).append(target)
        for targets in self._next.values():
            targets.sort(key=lambda language: (language != PREFERRED_PIVOT, language))

    @cached_property
    def capabilities(self) -> TranslatorCapabilities:
        """All pairs that have a route, direct or not."""
        pairs = {(source, target) for source in self._next for target in self._reach(source) if source != target}
        return TranslatorCapabilities(
            pairs=frozenset(pairs),
            target_prefix=any(engine.capabilities.target_prefix for engine in self.engines),
            batch=any(engine.capabilities.batch for engine in self.engines),
            registers=frozenset().union(*(engine.capabilities.registers for engine in self.engines)),
        )

    def route(self, source: str, target: str) -> tuple[str, ...]:
        """The languages on the shortest way, both ends included; LookupError if there is none."""
        first, last = base_language(source), base_language(target)
        came_from = self._reach(first)
        if last not in came_from:
            raise LookupError(f"no translation from {source} to {target}: add a model for the pair or a pivot")
        path = [last]
        while path[-1] != first:
            path.append(came_from[path[-1]])
        return tuple(reversed(path))

    def translate(self, texts: Sequence[str], *, source: str, target: str, register: str = "") -> Translation:
        """Translate along the route; the same language comes back as it is."""
        route = (
            self.route(source, target) if base_language(source) != base_language(target) else (base_language(source),)
        )
        said = tuple(texts)
        for here, there in pairwise(route):
            engine = self._engine[here, there]
            said = engine.translate(said, source=here, target=there, register=self._possible(engine, register)).texts
        return Translation(texts=said, route=route)

    def _possible(self, engine: Translator, register: str) -> str:
        """The register if the engine has it; that it has not is said once."""
        if register in engine.capabilities.registers or not register:
            return register
        if (engine, register) not in self._without:
            self._without.append((engine, register))
            known = ", ".join(sorted(engine.capabilities.registers)) or "none"
            log.warning("translator_without_register", register=register, known=known)
        return ""

    def _reach(self, source: str) -> dict[str, str]:
        """Breadth first, the preferred pivot first: language → the one before it on the way from ``source``."""
        came_from = {source: source}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            for there in self._next.get(here, ()):
                if there not in came_from:
                    came_from[there] = here
                    queue.append(there)
        return came_from


class RoutedSynthesizer:
    """A synthesizer over several, one default engine a language."""

    def __init__(self, engines: Mapping[str, Synthesizer]) -> None:
        self.engines = {base_language(language): engine for language, engine in engines.items()}
        self._without_ipa: list[Synthesizer] = []
        for language, engine in self.engines.items():
            if language not in engine.capabilities.voices:
                raise LookupError(
                    f"the voice configured for {language!r} speaks {', '.join(engine.capabilities.voices)}"
                )

    @cached_property
    def capabilities(self) -> SynthesizerCapabilities:
        """Voices of the configured languages; ``rate_hz`` is the highest, each `Speech` names its own."""
        voices = {language: self._names(language) for language in self.engines}
        rates = [engine.capabilities.rate_hz for engine in self.engines.values()]
        streams = any(engine.capabilities.streams for engine in self.engines.values())
        return SynthesizerCapabilities(voices=voices, rate_hz=max(rates, default=0), streams=streams)

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
        """Speak with the language's engine, or with another that has the named voice in that language."""
        code = base_language(language)
        if code not in self.engines:
            raise LookupError(f"no voice for {language!r}: configure one under `voices`")
        engine = next((e for e in self._able(code) if voice is None or voice in e.capabilities.voices[code]), None)
        if engine is None:
            raise LookupError(f"no voice {voice!r} for {language!r}: there are {', '.join(self._names(code))}")
        given = [one for one in pronounced if one.ipa] if engine.capabilities.ipa else []
        text = respelled(text, [one for one in pronounced if one.say and one not in given])
        if engine not in self._without_ipa and any(not one.say and one not in given for one in pronounced):
            self._without_ipa.append(engine)
            log.warning("voice_takes_no_ipa", language=code, remedy="respell the words with 'say'")
        return engine.synthesize(text, language=code, voice=voice, tempo=tempo, pitch=pitch, pronounced=given)

    def _able(self, language: str) -> list[Synthesizer]:
        others = [e for e in self.engines.values() if language in e.capabilities.voices]
        own = self.engines[language]
        return [own, *(e for e in others if e is not own)]

    def _names(self, language: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for e in self._able(language) for n in e.capabilities.voices[language]))
