# SPDX-License-Identifier: GPL-3.0-or-later
"""Firefox's translation models: small, 7–15 ms a sentence, one directed pair a model.

The native object is bound to the thread that made it (a call from another thread panics), so each engine owns one
thread, which makes it and makes all calls.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fxtranslate

from gateway.speech.engines.mt_text import pair_of, translate_whole
from gateway.speech.engines.prose import base_language
from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Translation
from gateway.speech.protocols import TranslatorCapabilities


class FirefoxTranslator:
    """A model directory: ``model.*.bin``, ``vocab.*.spm`` (or ``srcvocab``/``trgvocab``), and ``lex.*.bin`` if any."""

    def __init__(self, model_dir: Path, *, pair: tuple[str, str] | None = None, threads: int = 1) -> None:
        self._pair = pair or pair_of(model_dir.name)
        self._owner = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"mt-{'-'.join(self._pair)}")
        # kept in the owner's thread-local store, so that it is also dropped on that thread, whenever that ends
        self._own = threading.local()
        self._owner.submit(self._load, model_dir).result()
        self.capabilities = TranslatorCapabilities(pairs=frozenset({self._pair}), target_prefix=False, batch=False)

    def translate(self, texts: Sequence[str], *, source: str, target: str) -> Translation:
        """Translate each text; LookupError if this is not the model's pair."""
        wanted = (base_language(source), base_language(target))
        if wanted != self._pair:
            raise LookupError(f"this model translates {self._pair[0]} to {self._pair[1]}, not {source} to {target}")
        return Translation(texts=self._owner.submit(self._translate, tuple(texts)).result(), route=wanted)

    def _translate(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        def batch(sentences: Sequence[str]) -> list[str]:
            return [str(self._own.native.translate(sentence)) for sentence in sentences]

        return translate_whole(texts, *self._pair, batch)

    def close(self) -> None:
        """End the owner thread, and the native object with it."""
        self._owner.shutdown()

    def _load(self, model_dir: Path) -> None:
        self._own.native = _open(model_dir)


def _open(model_dir: Path) -> Any:
    source = _bytes_of(model_dir, "srcvocab.*.spm", "vocab.*.spm")
    target = _bytes_of(model_dir, "trgvocab.*.spm", "vocab.*.spm")
    shortlists = sorted(model_dir.glob("lex.*.bin"))
    shortlist = shortlists[0].read_bytes() if shortlists else None
    return fxtranslate.Translator(_bytes_of(model_dir, "model.*.bin"), source, target, shortlist)


def _bytes_of(model_dir: Path, *patterns: str) -> bytes:
    for pattern in patterns:
        for path in sorted(model_dir.glob(pattern)):
            return path.read_bytes()
    raise ModelMissing(f"{model_dir.name} has no {' or '.join(patterns)}: run `gateway models pull`")
