# SPDX-License-Identifier: GPL-3.0-or-later
"""What every translation engine needs around its model: cut, translate in a batch, guard, join. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gateway.speech.engines.prose import has_words, joiner, pieces
from gateway.speech.engines.whisper_guard import cut_loop

LONGEST_PIECE = 300  # characters; about 100 subwords, far inside every model's window, and it bounds memory
MOST_CHARACTERS = 4000  # of one text; an utterance of 20 s has about 500


def pair_of(model_id: str) -> tuple[str, str]:
    """The pair at the end of a model's name, ``…-en-pt``; ValueError names the remedy."""
    match = re.search(r"[-_]([a-z]{2,3})[-_]([a-z]{2,3})$", model_id)
    if match is None:
        raise ValueError(f"no language pair at the end of {model_id!r}: write it as ENGINE:{model_id}:en-pt")
    return match[1], match[2]


def translate_whole(
    texts: Sequence[str], source: str, target: str, batch: Callable[[Sequence[str]], list[str]]
) -> tuple[str, ...]:
    """Translate every sentence of every text; as many texts come back, none shortened.

    Models stop after the first sentence of several, so they get one at a time. Text without a letter or a digit
    comes back as it is. A translation that loops is cut at the loop.
    """
    cut = [pieces(text[:MOST_CHARACTERS], source, LONGEST_PIECE) if has_words(text) else [] for text in texts]
    flat = [piece for parts in cut for piece in parts if has_words(piece)]
    answers = iter([_sober(piece, answer, target) for piece, answer in zip(flat, batch(flat), strict=True)])
    glue = joiner(target)
    return tuple(
        glue.join(next(answers) if has_words(piece) else piece for piece in parts) if parts else text
        for text, parts in zip(texts, cut, strict=True)
    )


def _sober(piece: str, answer: str, target: str) -> str:
    """The answer without what the model added by itself: a loop that is not in the source."""
    if len(answer) > 3 * len(piece) + 40 or len(answer.split()) > 2 * len(piece.split()) + 8:
        return cut_loop(answer.strip(), target)[0]
    return answer.strip()
