# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engines there are, and how a line of configuration becomes one. Importing this loads no model library.

A line is ``ENGINE:MODEL[:OPTION]``: ``whisper:whisper-base`` (``faster_whisper:…`` is the stock loop, to compare
with), ``firefox:firefox-en-pt``, ``ct2:opus-mt-en-pt`` or ``ct2:MODEL:en-pt``, ``piper:piper-en_US-joe-medium`` or
``piper:MODEL:SPEAKER``, ``kokoro:kokoro-82m-int8:jm_kumo``, ``coqui:piper-en_US-joe-medium``. MODEL is a directory of
the model store with these files: whisper ``model.bin config.json tokenizer.json vocabulary.*``; firefox ``model.*.bin
lex.*.bin vocab.*.spm`` (or ``srcvocab.* trgvocab.*``); ct2 ``model.bin config.json *vocabulary.json`` and ``source.spm
target.spm`` or ``sentencepiece.bpe.model`` or ``tokenizer.json``; piper ``NAME.onnx NAME.onnx.json``; kokoro
``model.onnx vocab.json voices*.npz``; coqui as piper, or ``config.json model.safetensors voice.json``. In place of a
voice ``borrowed:LANGUAGE`` takes that of another language (`borrowed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

Factory = Callable[[Path, str | None, int], Any]
"""(model directory, option or None, threads) → engine."""


def _engine(module: str, name: str) -> Any:
    return getattr(import_module(f"gateway.speech.engines.{module}"), name)


def _pair(option: str | None) -> tuple[str, str] | None:
    if option is None:
        return None
    source, dash, target = option.partition("-")
    if not (source and dash and target):
        raise ValueError(f"{option!r} is not a language pair such as en-pt")
    return source, target


RECOGNIZERS: Mapping[str, Factory] = {
    "faster_whisper": lambda model, _, threads: _engine("faster", "FasterWhisperRecognizer")(model, threads=threads),
    "whisper": lambda model, _, threads: _engine("whisper", "WhisperRecognizer")(model, threads=threads),
}
TRANSLATORS: Mapping[str, Factory] = {
    "firefox": lambda model, pair, threads: _engine("firefox", "FirefoxTranslator")(
        model, pair=_pair(pair), threads=threads
    ),
    "ct2": lambda model, pair, threads: _engine("ct2", "CTranslate2Translator")(
        model, pair=_pair(pair), threads=threads
    ),
}
SYNTHESIZERS: Mapping[str, Factory] = {
    "coqui": lambda model, voice, threads: _engine("coqui", "CoquiSynthesizer")(model, voice=voice, threads=threads),
    "piper": lambda model, voice, threads: _engine("piper", "PiperSynthesizer")(model, voice=voice, threads=threads),
    "kokoro": lambda model, voice, threads: _engine("kokoro", "KokoroSynthesizer")(model, voice=voice, threads=threads),
}


def parse_line(line: str, registry: Mapping[str, Factory]) -> tuple[str, str, str | None]:
    """(engine, model, option) of a configuration line; ValueError names what is wrong and what there is."""
    engine, _, rest = line.partition(":")
    model, _, option = rest.partition(":")
    if engine not in registry:
        raise ValueError(f"unknown engine {engine!r} in {line!r}: there are {', '.join(sorted(registry))}")
    if not model:
        raise ValueError(f"{line!r} names no model: write ENGINE:MODEL[:OPTION]")
    return engine, model, option or None


def build(line: str, registry: Mapping[str, Factory], model_dir: Callable[[str], Path], threads: int) -> Any:
    """The engine that the line describes, loaded. The store's ModelMissing passes through."""
    engine, model, option = parse_line(line, registry)
    return registry[engine](model_dir(model), option, threads)
