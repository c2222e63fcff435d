# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparing spellings: NFC, case folded, with a way back from each folded character to the text it came from.

``ß`` equals ``ss`` and the four Turkish ``i`` are one. Word borders exist in scripts that have them: in Han, kana,
Thai and their like, and behind Hangul, whose particles are attached, a word may begin and end anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

_BORDERLESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
_MARKS = re.compile("[\u0300-\u036f]")


def nfc(text: str) -> str:
    """Composed: é is one character."""
    return unicodedata.normalize("NFC", text)


def fold(text: str) -> str:
    """Without case."""
    if text.isascii():
        return text.lower()
    # İ folds to i plus a dot above, ı to itself, I to i: one letter here, whatever the language
    return text.replace("İ", "i").replace("ı", "i").casefold()


def bare(text: str) -> str:
    """Without case and accents, for comparing what a translator may have respelled."""
    return _MARKS.sub("", unicodedata.normalize("NFD", fold(text)))


def is_word(char: str) -> bool:
    """Letters, digits, their marks, and the underscore make words."""
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"


def bordered(text: str, start: int, end: int) -> bool:
    """True when ``text[start:end]`` is not a part of a longer word or number."""

    def joined(inner: str, outer: str, beyond: str) -> bool:
        if inner.isdigit() and outer in ".," and beyond.isdigit():
            return True
        if not is_word(inner) or not is_word(outer):
            return False
        return not (_BORDERLESS.match(inner) or _BORDERLESS.match(outer))

    before, beyond_before = text[start - 1 : start], text[start - 2 : start - 1] if start > 1 else ""
    after, beyond_after = text[end : end + 1], text[end + 1 : end + 2]
    if before and joined(text[start], before, beyond_before):
        return False
    return not (after and joined(text[end - 1], after, beyond_after))


class Folded:
    """A text with case folded, and where each folded character came from."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.source: Sequence[int]
        if text.isascii():
            self.folded, self.source = text.lower(), range(len(text) + 1)
            return
        chars: list[str] = []
        source: list[int] = []
        for at, char in enumerate(text):
            for folded in fold(char):
                chars.append(folded)
                source.append(at)
        source.append(len(text))
        self.folded, self.source = "".join(chars), source

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The place in the text, or None when it would begin or end inside a character (half a ß)."""
        inside = (start and self.source[start] == self.source[start - 1]) or self.source[end] == self.source[end - 1]
        return None if inside else (self.source[start], self.source[end])

    def places(
        self, wanted: str, *, case_sensitive: bool = False, whole_word: bool = True
    ) -> Iterator[tuple[int, int]]:
        """Where ``wanted`` (NFC) stands in the text."""
        folded = fold(wanted)
        at = self.folded.find(folded)
        while at >= 0:
            span = self.span(at, at + len(folded))
            if span and fits(self.text, span, wanted, case_sensitive=case_sensitive, whole_word=whole_word):
                yield span
            at = self.folded.find(folded, at + 1)


def fits(text: str, span: tuple[int, int], form: str, *, case_sensitive: bool, whole_word: bool) -> bool:
    """Whether a place that is equal when folded is also equal by these flags."""
    start, end = span
    if case_sensitive and text[start:end] != form:
        return False
    return not whole_word or bordered(text, start, end)


def cased_like(target: str, replaced: str) -> str:
    """``target`` as it is written in the list, but with a capital where it takes the place of a sentence's first word.

    A target that already begins with a capital, or with no letter, is left alone.
    """
    capital = replaced[:1].isupper() and target[:1].islower() and not replaced[1:2].isupper()
    return target[:1].upper() + target[1:] if capital else target
