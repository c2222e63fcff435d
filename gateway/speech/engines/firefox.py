# SPDX-License-Identifier: GPL-3.0-or-later
"""Firefox's translation models: small, 7–15 ms a sentence, one directed pair a model.

The native object is bound to the thread that made it: a call from another thread panics, and even dropping it there
is an error. So each engine has one thread that makes the object, makes all calls, and holds it in a local variable.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import fxtranslate

from gateway.speech.engines.mt_text import pair_of, translate_whole
from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Translation
from gateway.speech.protocols import TranslatorCapabilities
from gateway.text.tags import base_language

Texts = tuple[str, ...]
Order = tuple[Texts, "Future[Texts]"]


class FirefoxTranslator:
    """A model directory: ``model.*.bin``, ``vocab.*.spm`` (or ``srcvocab``/``trgvocab``), and ``lex.*.bin`` if any."""

    def __init__(self, model_dir: Path, *, pair: tuple[str, str] | None = None, threads: int = 1) -> None:
        self._pair = pair or pair_of(model_dir.name)
        # Callers wait for their answer, so it holds at most one order a calling thread.
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        ready: Future[None] = Future()
        threading.Thread(
            target=_serve,
            args=(model_dir, self._pair, self._orders, ready),
            name=f"mt-{'-'.join(self._pair)}",
            daemon=True,  # it only waits; nothing is lost when the process ends
        ).start()
        ready.result()
        self.close = weakref.finalize(self, self._orders.put, None)
        """Ends the thread, and the native object with it; happens by itself when the engine is collected."""
        self.capabilities = TranslatorCapabilities(pairs=frozenset({self._pair}), target_prefix=False, batch=False)

    def translate(self, texts: Sequence[str], *, source: str, target: str, register: str = "") -> Translation:
        """Translate each text; LookupError if this is not the model's pair."""
        wanted = (base_language(source), base_language(target))
        if wanted != self._pair:
            raise LookupError(f"this model translates {self._pair[0]} to {self._pair[1]}, not {source} to {target}")
        answer: Future[Texts] = Future()
        self._orders.put((tuple(texts), answer))
        return Translation(texts=answer.result(), route=wanted)


def _serve(model_dir: Path, pair: tuple[str, str], orders: SimpleQueue[Order | None], ready: Future[None]) -> None:
    try:
        native = _open(model_dir)
    except BaseException as error:  # noqa: BLE001, RUF100  # handed to the waiting constructor, native panics too
        ready.set_exception(error)
        return
    ready.set_result(None)

    def batch(sentences: Sequence[str]) -> list[str]:
        return [str(native.translate(sentence)) for sentence in sentences]

    while (order := orders.get()) is not None:
        texts, answer = order
        try:
            answer.set_result(translate_whole(texts, *pair, batch))
        except BaseException as error:  # noqa: BLE001, RUF100  # handed to the waiting caller
            answer.set_exception(error)


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
