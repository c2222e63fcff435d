# SPDX-License-Identifier: GPL-3.0-or-later
"""What every translation engine needs around its model: cut, translate in a batch, guard, join. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gateway.speech.engines.prose import halves, has_words, joiner, pieces
from gateway.speech.engines.whisper_guard import cut_loop

LONGEST_PIECE = 300  # characters; about 100 subwords, far inside every model's window, and it bounds memory
_ASIDE = re.compile(r"[(\[（【][^()\[\]（）【】]{0,60}[)\]）】]|♪")  # "(laughter)": models learned from subtitles
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
    comes back as it is. A translation that loops is cut at the loop; asides that nobody said are left out.
    """
    cut = [pieces(text[:MOST_CHARACTERS], source, LONGEST_PIECE) if has_words(text) else [] for text in texts]
    flat = [piece for parts in cut for piece in parts if has_words(piece)]
    answers = iter(_believable(flat, batch, target))
    glue = joiner(target)
    return tuple(
        glue.join(next(answers) if has_words(piece) else piece for piece in parts) if parts else text
        for text, parts in zip(texts, cut, strict=True)
    )


def _believable(flat: Sequence[str], batch: Callable[[Sequence[str]], list[str]], target: str) -> list[str]:
    """The translations; what is absurdly long or says nothing is tried again in two halves, which a model knows."""
    answers = [_sober(piece, answer, target) for piece, answer in zip(flat, batch(flat), strict=True)]
    again = {at: parts for at, piece in enumerate(flat) if _absurd(piece, answers[at]) and (parts := halves(piece))}
    if again:
        rest = iter(batch([half for parts in again.values() for half in parts]))
        for at, parts in again.items():
            better = joiner(target).join(_sober(half, next(rest), target) for half in parts)
            if not _absurd(flat[at], better):
                answers[at] = better
    return answers


def _sober(piece: str, answer: str, target: str) -> str:
    """The answer without what the model added by itself: a loop, or a stage direction, that is not in the source."""
    if not _ASIDE.search(piece):
        answer = " ".join(_ASIDE.sub(" ", answer).split()) if _ASIDE.search(answer) else answer
    return cut_loop(answer.strip(), target)[0] if _too_long(piece, answer) else answer.strip()


def _too_long(piece: str, answer: str) -> bool:
    return len(answer) > 3 * len(piece) + 40 or len(answer.split()) > 2 * len(piece.split()) + 8


def _absurd(piece: str, answer: str) -> bool:
    return _too_long(piece, answer) or not has_words(answer)
