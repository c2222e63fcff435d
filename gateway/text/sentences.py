# SPDX-License-Identifier: GPL-3.0-or-later
"""Cuts text into sentences, and the first sentence into a short beginning, so that sound can start early.

A full stop is also a decimal point, a part of an address, of an abbreviation, of an ordinal number. The rule: a mark
ends a sentence when white space or the end follows, and nothing speaks against it. So 98.6, $3.5, 192.168.1.1 and
a@b.example are never cut, because no space follows. Full-width marks end a sentence with or without space.

Data per language (``languages.json``; an unknown language has none), abbreviations written without the last stop:
``never_end`` a sentence ("Dr"), do not end it ``before_number`` ("No"), ``may_end`` it before a capital ("p.m"; other
dotted letters, as in "U.S. Army", do not); ``conjunctions`` that a breath may come before; ``ordinal_dot`` for
languages that write "3." for "third"; ``spaces`` false for those that write none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WIDE_MARKS = "。！？｡．"
_MARKS = ".!?…؟۔।॥" + _WIDE_MARKS
_CLOSERS = "\"'”’»›)]}」』）】"
_OPENERS = "\"'“‘«‹„([¿¡"
_PAUSES = ",;:–—،؛"
_WIDE_PAUSES = "，、；："


@dataclass(frozen=True, slots=True)
class _Language:
    never_end: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    conjunctions: frozenset[str] = frozenset()
    ordinal_dot: bool = False
    spaces: bool = True


@cache
def _language(code: str) -> _Language:
    data = json.loads((Path(__file__).parent / "languages.json").read_text(encoding="utf-8"))
    entry = data.get(code.partition("-")[0].lower(), {})
    return _Language(
        never_end=frozenset(entry.get("never_end", ())),
        before_number=frozenset(entry.get("before_number", ())),
        may_end=frozenset(entry.get("may_end", ())),
        conjunctions=frozenset(entry.get("conjunctions", ())),
        ordinal_dot=entry.get("ordinal_dot", False),
        spaces=entry.get("spaces", True),
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


def first_clause_split(text: str, language: str, max_first_chars: int) -> list[str]:
    """Pieces for synthesis: sentences, the first of them cut once more when it is longer than ``max_first_chars``.

    The cut falls at the last natural border (a comma, before a conjunction) within ``max_first_chars``, else at the
    first one behind. A sentence without a border stays whole: a breath in the wrong place costs more than it saves.
    Joining gives the text back as with `sentences`. ValueError when ``max_first_chars`` is not positive.
    """
    if max_first_chars < 1:
        raise ValueError(f"max_first_chars {max_first_chars} must be 1 or more")
    pieces = sentences(text, language)
    if not pieces or len(pieces[0]) <= max_first_chars:
        return pieces
    first = pieces[0]
    borders = list(_borders(first, _language(language)))
    near = [border for border in borders if len(first[:border].rstrip()) <= max_first_chars]
    cut = near[-1] if near else borders[0] if borders else 0
    return [first[:cut].rstrip(), first[cut:].lstrip(), *pieces[1:]] if cut else pieces


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


def _borders(sentence: str, language: _Language) -> Iterator[int]:
    """Where the sentence may be cut: behind a pause mark, or before a conjunction; never at its very ends."""
    for at in range(1, len(sentence)):
        before, here = sentence[at - 1], sentence[at]
        if not sentence[at:].strip():
            return
        if before in _WIDE_PAUSES:
            yield at
        elif not language.spaces:
            if any(sentence.startswith(word, at) for word in language.conjunctions):
                yield at
        elif here == " ":
            word = sentence[at + 1 :].partition(" ")[0].strip(_PAUSES).casefold()
            if before in _PAUSES:
                # "July 3, 2024" and "12, 13" are one date or list of numbers to the ear
                is_border = not (at > 1 and sentence[at - 2].isdigit() and sentence[at + 1].isdigit())
            else:
                # two words before it at least ("you | and me" is no breath), and one behind
                is_inner = " " in sentence[:at] and at + 1 + len(word) < len(sentence.rstrip(_MARKS))
                is_border = is_inner and word in language.conjunctions
            if is_border:
                yield at
