# SPDX-License-Identifier: GPL-3.0-or-later
"""Word error rate, with the normalisation that makes two transcripts comparable.

Unicode NFKC and case folding, punctuation dropped, hyphens and dashes as spaces. Languages written without spaces
are counted by character. Numbers are compared as written.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rapidfuzz.distance import Levenshtein

from gateway.text.tags import base_language

BY_CHARACTER = frozenset({"zh", "ja", "th", "lo", "km", "my", "yue"})
"""ISO 639 codes of languages counted by character."""


def normal_words(text: str, language: str = "") -> list[str]:
    """The comparable tokens of a text: words, or characters for a language in `BY_CHARACTER`."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept: list[str] = []
    for char in folded:
        category = unicodedata.category(char)
        if category[0] in "LNM":
            kept.append(char)
        elif char not in "'’.,":
            # an apostrophe joins the parts of a word, a point those of a number; all else parts words
            kept.append(" ")
        elif char in ".,":
            kept.append(char)
    words = [word for part in "".join(kept).split() for word in _parted(part)]
    return [char for word in words for char in word] if base_language(language) in BY_CHARACTER else words


def _parted(part: str) -> list[str]:
    """Keep a point between digits ("3.5" stays one token, and another one than "35"), part words at all others."""
    out = ""
    for at, char in enumerate(part):
        between_digits = 0 < at < len(part) - 1 and part[at - 1].isdigit() and part[at + 1].isdigit()
        out += " " if char in ".," and not between_digits else char
    return out.split()


def errors(reference: str, hypothesis: str, language: str = "") -> tuple[int, int]:
    """(edits, reference tokens): sum both over a corpus before dividing."""
    wanted, got = normal_words(reference, language), normal_words(hypothesis, language)
    return Levenshtein.distance(wanted, got), len(wanted)


def wer(reference: str, hypothesis: str, language: str = "") -> float:
    """Word (or character) error rate, 0.0 or more; with an empty reference, the number of invented tokens."""
    edits, words = errors(reference, hypothesis, language)
    return edits / max(1, words)


def corpus_wer(pairs: Iterable[tuple[str, str]], language: str = "") -> float:
    """Error rate over (reference, hypothesis) pairs, each weighted by its length."""
    edits = words = 0
    for reference, hypothesis in pairs:
        more, length = errors(reference, hypothesis, language)
        edits, words = edits + more, words + length
    return edits / max(1, words)
