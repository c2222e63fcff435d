# SPDX-License-Identifier: GPL-3.0-or-later
"""Any translation model that CTranslate2 runs: Marian / OPUS-MT (one pair), M2M-100 and NLLB (many languages).

The family is read from the model's own vocabulary: language tokens ``por_Latn`` (NLLB) or ``__pt__`` (M2M-100) make
it a multilingual model, whose target is chosen by the first decoder token, so that switching costs no reload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece
import tokenizers

from gateway.speech.engines.mt_text import pair_of, translate_whole
from gateway.speech.engines.prose import language_data
from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Translation
from gateway.speech.protocols import TranslatorCapabilities
from gateway.text.tags import base_language

END = "</s>"
MOST_TOKENS = 256
SPARE_TOKENS = 24
BATCH_TOKENS = 1024  # bounds memory: a batch of long sentences is cut by CTranslate2

Encode = Callable[[str], list[str]]
Decode = Callable[[list[str]], str]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The subword tokenizers of both sides."""

    encode: Encode
    decode: Decode


class CTranslate2Translator:
    """A converted model: ``model.bin``, ``config.json``, vocabulary, and a SentencePiece or ``tokenizer.json`` file.

    A ``registers.json`` such as ``{"formal": "<formal>"}`` names the token that asks for each register, if any.
    """

    def __init__(self, model_dir: Path, *, pair: tuple[str, str] | None = None, threads: int = 1) -> None:
        if not (model_dir / "model.bin").is_file():
            raise ModelMissing(f"no model.bin in {model_dir.name}: run `gateway models pull`")
        self._codes = language_tokens(_vocabulary(model_dir))
        self._pair = None if self._codes else (pair or pair_of(model_dir.name))
        self._pieces = _tokenizer(model_dir)
        config = _json(model_dir / "config.json", {})
        self._adds_end = bool(config.get("add_source_eos", False))
        self._model = ctranslate2.Translator(
            str(model_dir), device="cpu", compute_type="int8", intra_threads=threads, inter_threads=1
        )
        # models that were trained with a mark for politeness (Sennrich et al., NAACL 2016) say which one in this file
        self._registers: dict[str, str] = _json(model_dir / "registers.json", {})
        pairs = {self._pair} if self._pair else {(a, b) for a in self._codes for b in self._codes if a != b}
        self.capabilities = TranslatorCapabilities(
            pairs=frozenset(pairs), target_prefix=bool(self._codes), batch=True, registers=frozenset(self._registers)
        )

    def translate(self, texts: Sequence[str], *, source: str, target: str, register: str = "") -> Translation:
        """Translate all texts in one batch; LookupError if the model does not know the pair."""
        wanted = (base_language(source), base_language(target))
        if wanted not in self.capabilities.pairs:
            raise LookupError(f"this model does not translate {source} to {target}")

        def batch(sentences: Sequence[str]) -> list[str]:
            return self._batch(sentences, *wanted, self._registers.get(register, ""))

        return Translation(texts=translate_whole(texts, *wanted, batch), route=wanted)

    def _batch(self, sentences: Sequence[str], source: str, target: str, mark: str) -> list[str]:
        if not sentences:
            return []
        prefix = [self._codes[target]] if self._codes else []
        head = [*([self._codes[source]] if self._codes else []), *([mark] if mark else [])]
        tail = [] if self._adds_end else [END]
        tokens = [[*head, *self._pieces.encode(sentence)[:MOST_TOKENS], *tail] for sentence in sentences]
        results = self._model.translate_batch(
            tokens,
            target_prefix=[prefix] * len(tokens) if prefix else None,
            beam_size=1,  # greedy: a fixed cost per clause
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            max_decoding_length=_most(max(map(len, tokens))) + len(prefix),
        )
        # the limit is the batch's longest; each answer keeps to its own, so that it does not depend on its neighbours
        return [
            self._text(result.hypotheses[0][len(prefix) :][: _most(len(asked))])
            for asked, result in zip(tokens, results, strict=True)
        ]

    def _text(self, tokens: list[str]) -> str:
        marks = {END, "<pad>", "<unk>", *self._codes.values()}
        return self._pieces.decode([token for token in tokens if token not in marks]).strip()


def _most(tokens: int) -> int:
    return 2 * tokens + SPARE_TOKENS


def language_tokens(vocabulary: Sequence[str]) -> dict[str, str]:
    """ISO 639-1 code → the model's language token, for the languages whose token is in the vocabulary."""
    known = set(vocabulary)
    flores = {code: token for code, token in language_data()["flores200"].items() if token in known}
    if flores:
        return flores
    return {match[1]: token for token in vocabulary if (match := re.fullmatch(r"__([a-z]{2,3})__", token))}


def _vocabulary(model_dir: Path) -> list[str]:
    for name in ("shared_vocabulary.json", "source_vocabulary.json"):
        if (model_dir / name).is_file():
            return list(_json(model_dir / name, []))
    for name in ("shared_vocabulary.txt", "source_vocabulary.txt"):
        if (model_dir / name).is_file():
            return (model_dir / name).read_text(encoding="utf-8").splitlines()
    raise ModelMissing(f"no vocabulary in {model_dir.name}: convert the model with CTranslate2 4")


def _json(path: Path, default: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else default


def _tokenizer(model_dir: Path) -> _Pieces:
    for names in (("source.spm", "target.spm"), ("sentencepiece.bpe.model",) * 2, ("spm.model",) * 2):
        if all((model_dir / name).is_file() for name in names):
            return _sentencepiece(*(model_dir / name for name in names))
    if (model_dir / "tokenizer.json").is_file():
        words = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))

        def decode(tokens: list[str]) -> str:
            numbers = (words.token_to_id(token) for token in tokens)
            return str(words.decode([number for number in numbers if number is not None]))

        return _Pieces(lambda text: list(words.encode(text, add_special_tokens=False).tokens), decode)
    raise ModelMissing(f"no SentencePiece model and no tokenizer.json in {model_dir.name}")


def _sentencepiece(source: Path, target: Path) -> _Pieces:
    reader = sentencepiece.SentencePieceProcessor(model_file=str(source))
    writer = sentencepiece.SentencePieceProcessor(model_file=str(target))
    return _Pieces(lambda text: list(reader.encode(text, out_type=str)), lambda tokens: str(writer.decode(tokens)))
