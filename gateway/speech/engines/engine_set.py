# SPDX-License-Identifier: GPL-3.0-or-later
"""All engines of one worker, built from a picklable description, and the one place where a task meets its engine.

Importing this loads no model library: the media process imports it for `EngineSpec`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.speech.engines.borrowed import BorrowedVoice, lender_of
from gateway.speech.engines.registry import RECOGNIZERS, SYNTHESIZERS, TRANSLATORS, build, parse_line
from gateway.speech.engines.routers import RoutedSynthesizer, RoutedTranslator
from gateway.speech.jobs import MODEL_RATE_HZ, RecognizeTask, Result, SynthesizeTask, Task, TranslateTask
from gateway.speech.protocols import Recognizer


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Which engines to build; lines as in `registry`. ``voices`` are (language, line) pairs. Crosses to the workers."""

    recognizer: str
    translators: tuple[str, ...]
    voices: tuple[tuple[str, str], ...]
    threads: int = 1

    def models(self) -> tuple[str, ...]:
        """Every model that the spec needs, once each, in order of use; ValueError names a faulty line."""
        lines = [(self.recognizer, RECOGNIZERS), *((line, TRANSLATORS) for line in self.translators)]
        lines += [(line, SYNTHESIZERS) for _, line in self.voices if lender_of(line) is None]
        return tuple(dict.fromkeys(parse_line(line, registry)[1] for line, registry in lines))


@dataclass(frozen=True, slots=True)
class EngineSet:
    """Loaded engines. Calls may come from any thread, one at a time."""

    recognizer: Recognizer
    translator: RoutedTranslator
    synthesizer: RoutedSynthesizer
    spec: EngineSpec = field(compare=False)

    def run(self, task: Task) -> Result:
        """Do one task. LookupError names a pair or voice that is not there; sound and text never raise."""
        match task:
            case RecognizeTask():
                return self.recognizer.recognize(
                    task.pcm,
                    language=task.language,
                    hotwords=task.hotwords,
                    context=task.context,
                    words=task.words,
                    candidates=task.candidates,
                )
            case TranslateTask():
                return self.translator.translate(
                    task.texts, source=task.source, target=task.target, register=task.register
                )
            case SynthesizeTask():
                return self.synthesizer.synthesize(
                    task.text,
                    language=task.language,
                    voice=task.voice,
                    tempo=task.tempo,
                    pitch=task.pitch,
                    pronounced=task.pronounced,
                )

    def warm(self) -> None:
        """Run every engine once, so that the first call is as fast as the tenth: pages, kernels and arenas are set."""
        import numpy as np  # noqa: PLC0415  # the media process imports this module and needs no arrays for it

        time = np.arange(2 * MODEL_RATE_HZ) / MODEL_RATE_HZ
        # a buzz with the rhythm of syllables passes the no-speech test of the levels and so reaches the model
        buzz = sum(np.sin(2 * math.pi * 130.0 * n * time) / n for n in range(1, 20)) * np.sin(math.pi * 4 * time) ** 2
        pcm = (buzz * 6000).astype("<i2").tobytes()
        self.recognizer.recognize(pcm, language=None)
        for engine in self.translator.engines:
            source, target = min(engine.capabilities.pairs)
            engine.translate(("1 2 3.",), source=source, target=target)
        for language in self.synthesizer.engines:
            self.synthesizer.synthesize("1, 2, 3.", language=language)

    def capabilities(self) -> dict[str, Any]:
        """Plain values for the service and the API: languages, pairs and voices."""
        return {
            "recognizer": sorted(self.recognizer.capabilities.languages),
            "pairs": (pairs := sorted(self.translator.capabilities.pairs)),
            "routes": [self.translator.route(*pair) for pair in pairs],
            "borrowed": {language: lender for language, line in self.spec.voices if (lender := lender_of(line))},
            "registers": sorted(self.translator.capabilities.registers),
            "voices": {language: list(names) for language, names in self.synthesizer.capabilities.voices.items()},
        }


def build_engines(spec: EngineSpec, model_dir: Callable[[str], Path]) -> EngineSet:
    """Load every engine of the spec. ``model_dir`` gives a model's directory and raises ModelMissing itself."""
    spec.models()  # all lines are checked before the first model is loaded
    voices: dict[str, Any] = {}
    loaded: dict[str, Any] = {}
    for language, line in spec.voices:
        if lender_of(line) is not None:
            continue
        if line not in loaded:
            loaded[line] = build(line, SYNTHESIZERS, model_dir, spec.threads)
        voices[language] = loaded[line]
    borrowed = {language: lender for language, line in spec.voices if (lender := lender_of(line))}
    voices |= {language: BorrowedVoice(language, lender, voices[lender]) for language, lender in borrowed.items()}
    return EngineSet(
        recognizer=build(spec.recognizer, RECOGNIZERS, model_dir, spec.threads),
        translator=RoutedTranslator([build(line, TRANSLATORS, model_dir, spec.threads) for line in spec.translators]),
        synthesizer=RoutedSynthesizer(voices),
        spec=spec,
    )
