# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts a prescribed target where the translator put something else, if that place can be told.

In this order: the source form, left untranslated; what the translator makes of the term alone, in the same words or
with other endings; words that are close to the source form or to the target. Places that already hold a target are
not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property

from rapidfuzz import fuzz, process

from gateway.text.folding import Folded, bare, cased_like, fold, nfc

CLOSE_ENOUGH = 85.0
"""Similarity (rapidfuzz ratio, 0..100) from which a word of the output counts as a failed rendition of a term."""

SAME_WORDS = 90.0  # of the translator's own rendition: it may only differ in an ending
LEAST_STEM = 4  # letters that inflected words share, and all but the last two or three
LONGEST_ENDING = 3
SHORT_FORM = 3  # a source form this short may be a word of the target language: "no", "a", "os"

_Free = Callable[[tuple[int, int]], bool]
_WORD = re.compile(r"\w[\w'’\-]*")


class Output:
    """A translation (NFC) under repair, with what is computed from it once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._phrases: dict[int, tuple[list[tuple[int, int]], list[str]]] = {}

    @cached_property
    def folded(self) -> Folded:
        """For finding exact words."""
        return Folded(self.text)

    @cached_property
    def words(self) -> list[tuple[int, int]]:
        """The places of the words."""
        return [match.span() for match in _WORD.finditer(self.text)]

    def phrases(self, size: int) -> tuple[list[tuple[int, int]], list[str]]:
        """So many words in a row: the places, and the words without case and accents."""
        if size not in self._phrases:
            spans = [(first[0], last[1]) for first, last in zip(self.words, self.words[size - 1 :], strict=False)]
            self._phrases[size] = (spans, [bare(self.text[start:end]) for start, end in spans])
        return self._phrases[size]


def repair(
    output: Output, found: str, target: str, forms: Sequence[str], targets: Sequence[str], rendition: str
) -> Output | None:
    """The output with ``target`` in the place of the rendition of ``found``; None when there is none to be told.

    ``forms`` are other source spellings of the term, ``targets`` stand in the output already.
    """
    taken = [place for each in targets for place in output.folded.places(each)]

    def is_free(span: tuple[int, int]) -> bool:
        return all(span[1] <= first or span[0] >= last for first, last in taken)

    for form in dict.fromkeys((found, *sorted(map(nfc, forms), key=len, reverse=True))):
        exact = len(form) <= SHORT_FORM
        if left := [span for span in output.folded.places(form, case_sensitive=exact) if is_free(span)]:
            if exact and form.islower():
                continue
            return _put(output, left, target)
    if rendition:
        if left := [span for span in output.folded.places(nfc(rendition)) if is_free(span)]:
            return _put(output, left, target)
        close = _closest(output, rendition, SAME_WORDS, is_free) or _inflected_place(output, rendition, is_free)
        if close:
            return _put(output, [close], target)
    for wanted in dict.fromkeys((target, found)):
        close = _closest(output, wanted, CLOSE_ENOUGH, is_free) if len(wanted) > SHORT_FORM else None
        if close:
            return _put(output, [close], target)
    return None


def is_inflected(output: Output, target: str) -> bool:
    """Whether the output has the words of ``target`` with other endings."""
    return _inflected_place(output, target, lambda span: True) is not None


def _inflected_place(output: Output, wanted: str, is_free: _Free) -> tuple[int, int] | None:
    words = [fold(match.group()) for match in _WORD.finditer(nfc(wanted))]
    for start, end in output.phrases(len(words))[0] if words else ():
        there = [fold(match.group()) for match in _WORD.finditer(output.text[start:end])]
        if is_free((start, end)) and all(_same_stem(one, other) for one, other in zip(words, there, strict=True)):
            return start, end
    return None


def _same_stem(one: str, other: str) -> bool:
    if one == other:
        return True
    shared = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    longest = max(len(one), len(other)) - shared
    return shared >= max(LEAST_STEM, len(one) - LONGEST_ENDING) and longest <= LONGEST_ENDING


def _closest(output: Output, wanted: str, least: float, is_free: _Free) -> tuple[int, int] | None:
    plain, count = bare(wanted), len(wanted.split())
    best: tuple[float, tuple[int, int] | None] = (0.0, None)
    for size in {max(1, count - 1), count, count + 1}:
        spans, phrases = output.phrases(size)
        for _, score, index in process.extract(plain, phrases, scorer=fuzz.ratio, score_cutoff=least, limit=None):
            if score > best[0] and is_free(spans[index]):
                best = (score, spans[index])
    return best[1]


def _put(output: Output, spans: Sequence[tuple[int, int]], target: str) -> Output:
    text = output.text
    for start, end in reversed(_apart(spans)):
        text = text[:start] + cased_like(target, text[start:end]) + text[end:]
    return Output(text)


def _apart(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans without those that begin inside the one before."""
    kept: list[tuple[int, int]] = []
    for span in spans:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept
