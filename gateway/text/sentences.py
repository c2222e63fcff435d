# SPDX-License-Identifier: GPL-3.0-or-later
"""Cuts text into sentences, without being misled by the other uses of a full stop.

A full stop is also a decimal point, a part of an address, of an abbreviation, of an ordinal number. The rule: a mark
ends a sentence when white space or the end follows, and nothing speaks against it. So 98.6, $3.5, 192.168.1.1 and
a@b.example are never cut, because no space follows. Full-width marks end a sentence with or without space.

Data per language (``languages.json``; an unknown language has none), abbreviations written without the last stop:
``never_end`` a sentence ("Dr"), do not end it ``before_number`` ("No"), ``may_end`` it before a capital ("p.m"; other
dotted letters, as in "U.S. Army", do not); ``ordinal_dot`` for languages that write "3." for "third".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.text.tags import base_language

_WIDE_MARKS = "。！？｡．"
_MARKS = ".!?…؟۔।॥" + _WIDE_MARKS
_CLOSERS = "\"'”’»›)]}」』）】"
_OPENERS = "\"'“‘«‹„([¿¡"


@dataclass(frozen=True, slots=True)
class _Language:
    never_end: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    ordinal_dot: bool = False


@cache
def _language(code: str) -> _Language:
    data = json.loads((Path(__file__).parent / "languages.json").read_text(encoding="utf-8"))
    entry = data.get(base_language(code), {})
    return _Language(
        never_end=frozenset(entry.get("never_end", ())),
        before_number=frozenset(entry.get("before_number", ())),
        may_end=frozenset(entry.get("may_end", ())),
        ordinal_dot=entry.get("ordinal_dot", False),
    )


def sentences(text: str, language: str) -> list[str]:
    """The sentences of ``text``, each with its marks, runs of white space made one space; ``[]`` without any text.

    Joined with a space they give the text back; where a full-width mark had no space behind it, without the space.
    """
    text = " ".join(text.split())
    pieces: list[str] = []
    start = 0
    for end in _sentence_ends(text, _language(language)):
        pieces.append(text[start:end].strip())
        start = end
    pieces.append(text[start:].strip())
    return [piece for piece in pieces if piece]


def _sentence_ends(text: str, language: _Language) -> Iterator[int]:
    at = 0
    while at < len(text):
        if text[at] not in _MARKS:
            at += 1
            continue
        run = at
        while at < len(text) and text[at] in _MARKS:
            at += 1
        marks = text[run:at]
        while at < len(text) and text[at] in _CLOSERS:
            at += 1
        wide = any(mark in _WIDE_MARKS for mark in marks)
        if at < len(text) and (wide or (text[at].isspace() and not _is_inside(text, run, marks, at, language))):
            yield at


def _is_inside(text: str, dot: int, marks: str, behind: int, language: _Language) -> bool:
    """True when the stops ``marks`` at ``dot`` do not end their sentence; ``behind`` is the space after them."""
    if marks.strip(".…"):
        return False
    following = text[behind:].lstrip().lstrip(_OPENERS)[:1]
    if following.islower():
        return True
    word = text[:dot].rpartition(" ")[2].lstrip(_OPENERS)
    folded = word.casefold()
    if marks != "." or folded in language.may_end:
        return False
    if folded in language.never_end or (folded in language.before_number and following.isdigit()):
        return True
    if language.ordinal_dot and word.isdigit() and len(word) <= 2:
        return True
    # initials and dotted letters: "J. Smith", "U.S. Army"
    return all(len(part) == 1 and part.isalpha() for part in word.split(".")) and word[-1:].isupper()
