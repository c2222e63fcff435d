# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes CTranslate2 translation models of a few kilobytes: real files, random weights, a real SentencePiece model."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from ctranslate2.specs import transformer_spec

DEPTH = 16
SENTENCES = [
    "good morning how are you today",
    "bom dia como vai o senhor hoje",
    "the meeting is on thursday afternoon",
    "a reunião é na quinta à tarde",
    "please call me back tomorrow",
    "por favor ligue de volta amanhã",
]


def put_translation_model(
    folder: Path, *, spm_names: Sequence[str], language_tokens: Sequence[str] = (), seed: int = 7
) -> Path:
    """Write a model directory; ``language_tokens`` make it multilingual."""
    folder.mkdir()
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20),
        model_writer=trained,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for name in spm_names:
        (folder / name).write_bytes(trained.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    words = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    vocabulary = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        *(w for w in words if w not in {"<s>", "</s>", "<unk>"}),
        *language_tokens,
    ]
    spec = transformer_spec.TransformerSpec.from_config(1, 2)
    _fill(spec, len(vocabulary), np.random.default_rng(seed))
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize(quantization="int8")
    spec.save(str(folder))
    return folder


def model_config(folder: Path) -> dict[str, Any]:
    """The model's config.json."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config


def _fill(spec: Any, words: int, chance: np.random.Generator) -> None:
    def linear(layer: Any, rows: int, columns: int) -> None:
        layer.weight = chance.normal(0, 0.5, (rows, columns)).astype(np.float32)
        layer.bias = np.zeros(rows, dtype=np.float32)

    def norm(layer: Any) -> None:
        layer.gamma = np.ones(DEPTH, dtype=np.float32)
        layer.beta = np.zeros(DEPTH, dtype=np.float32)

    def attention(layer: Any, sizes: Sequence[int]) -> None:
        norm(layer.layer_norm)
        for part, rows in zip(layer.linear, sizes, strict=True):
            linear(part, rows * DEPTH, DEPTH)

    for side in (spec.encoder, spec.decoder):
        norm(side.layer_norm)
        for layer in side.layer:
            attention(layer.self_attention, (3, 1))
            if hasattr(layer, "attention"):
                attention(layer.attention, (1, 2, 1))
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, 4 * DEPTH, DEPTH)
            linear(layer.ffn.linear_1, DEPTH, 4 * DEPTH)
    spec.encoder.embeddings[0].weight = chance.normal(0, 0.5, (words, DEPTH)).astype(np.float32)
    spec.decoder.embeddings.weight = chance.normal(0, 0.5, (words, DEPTH)).astype(np.float32)
    linear(spec.decoder.projection, words, DEPTH)
