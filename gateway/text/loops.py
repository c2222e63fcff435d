# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognisers that lose the thread repeat themselves without end; people repeat themselves a little.

What tells them apart is how often a phrase follows itself. Up to the figures below a repeat is taken as said
("no no no", "five five", a chorus of three); above them it is a loop and one or two copies are kept.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Sequence

LONGEST_PHRASE = 40
"""Tokens of the longest phrase that is looked at for repetition."""

_LONG_WORD = 24  # letters; "hahaha…" written as one word is looked at letter by letter


def compression_ratio(text: str) -> float:
    """Bytes of the text over bytes of its zlib compression, as Whisper's decoder measures it; 0.0 for empty text.

    Above about 2.2 to 2.4 the text repeats itself. Meaningless under some 50 characters.
    """
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data)) if data else 0.0


def cut_loops(text: str) -> tuple[str, bool]:
    """The text without endless repetition, and whether anything was cut. Text without a loop comes back unchanged."""
    words = text.split()
    if not words:
        return text, False
    kept, cut = _cut(words, [_key(word) for word in words])
    result: list[str] = []
    for word in kept:
        if len(word) > _LONG_WORD:
            letters, cut_inside = _cut(list(word), [_key(letter) or letter for letter in word])
            result.append("".join(letters))
            cut = cut or cut_inside
        else:
            result.append(word)
    return (" ".join(result), True) if cut else (text, False)


def _key(word: str) -> str:
    """What counts as the same word: case and punctuation do not."""
    return "".join(char for char in word.casefold() if unicodedata.category(char)[0] in "LNM")


def _allowed(phrase: Sequence[str]) -> int:
    """How many copies in a row a person may be believed to have said."""
    if len(phrase) == 1:
        # a long number may well hold many equal digits
        return 12 if phrase[0].isdigit() and len(phrase[0]) == 1 else 6
    return 4 if len(phrase) == 2 else 3


def _cut(tokens: list[str], keys: list[str]) -> tuple[list[str], bool]:
    kept: list[str] = []
    cut = False
    at = 0
    while at < len(tokens):
        length, copies = _loop_at(keys, at)
        if not length:
            kept.append(tokens[at])
            at += 1
            continue
        cut = True
        kept += tokens[at : at + length * (2 if length <= 2 else 1)]
        phrase = keys[at : at + length]
        at += length * copies
        # the loop's last round may have been cut off by the end of the text
        if keys[at:] == phrase[: len(keys) - at]:
            at = len(tokens)
    return kept, cut


def _loop_at(keys: list[str], at: int) -> tuple[int, int]:
    """The shortest phrase at ``at`` that follows itself too often, as (tokens, copies), or (0, 0)."""
    for length in range(1, min(LONGEST_PHRASE, (len(keys) - at) // 2) + 1):
        phrase = keys[at : at + length]
        if phrase != keys[at + length : at + 2 * length] or not any(phrase):
            continue
        copies = 2
        while keys[at + copies * length : at + (copies + 1) * length] == phrase:
            copies += 1
        if copies > _allowed(phrase):
            return length, copies
    return 0, 0
