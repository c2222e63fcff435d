# SPDX-License-Identifier: GPL-3.0-or-later
"""The words that incremental recognition works with, and when two of them are the same.

A word is a run without spaces, or one character where a script writes no spaces (Han, kana, Thai, Khmer, Lao, Burmese).
Two words are the same when letters and digits are: case, accents' composition, and punctuation around or inside do not
count, because decoders change their mind about them from hypothesis to hypothesis. A point or comma *between digits*
counts: 3.5 is not 35.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # kana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3134F),
)
_SAID_SYMBOLS = frozenset("%#&@*")  # punctuation by Unicode, but people say them
_INSIDE_NUMBER = frozenset(".,:/")


@dataclass(frozen=True, slots=True)
class Word:
    """One recognised word as it was written, with the punctuation that belongs to it.

    Positions are samples of the leg's timeline, None when the engine gives none; ``confidence`` is 0..1 or None.
    ``glued`` says that no space stands before it.
    """

    text: str
    first_sample: int | None = None
    end_sample: int | None = None
    confidence: float | None = None
    glued: bool = False

    @property
    def timed(self) -> bool:
        """True when both positions are known."""
        return self.first_sample is not None and self.end_sample is not None


def unspaced(character: str) -> bool:
    """True for a character of a script that writes no spaces between words."""
    code = ord(character)
    return code >= 0x0E00 and any(low <= code <= high for low, high in _UNSPACED)


@lru_cache(maxsize=8192)
def key(text: str) -> str:
    """What decides whether two words are the same; empty for punctuation alone."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    kept = []
    for at, character in enumerate(plain):
        if unicodedata.category(character)[0] in "LNMS" or character in _SAID_SYMBOLS:
            kept.append(character)
            continue
        behind = plain[at + 1 : at + 2].isdigit()
        between_digits = character in _INSIDE_NUMBER and at > 0 and plain[at - 1].isdigit() and behind
        if between_digits or (character == "-" and at == 0 and behind):
            kept.append(character)
    return "".join(kept)


def keys(words: Iterable[Word]) -> list[str]:
    """The keys of words."""
    return [key(word.text) for word in words]


def units(words: Iterable[Word]) -> list[Word]:
    """The words as this package counts them: spaces split, unspaced scripts split by character, punctuation attached.

    A word that is split shares its time out evenly. Punctuation that stands alone goes to the word before it (or the
    one behind, when there is none before).
    """
    result: list[Word] = []
    opening = ""
    for word in words:
        parts = word.text.split()
        pieces = [(piece, at > 0) for part in parts for at, piece in enumerate(_pieces(part))]
        timed = _shared_out(word, len(pieces))
        for at, (piece, inner) in enumerate(pieces):
            if not key(piece):
                if result:
                    result[-1] = replace(result[-1], text=result[-1].text + piece)
                else:
                    opening += piece
                continue
            glued = inner or (at == 0 and word.glued) or (bool(result) and _touch(result[-1].text, piece))
            result.append(replace(timed[at], text=opening + piece, glued=glued))
            opening = ""
    return result


def words_of(text: str) -> list[Word]:
    """The units of a text without times."""
    return units(Word(part) for part in text.split())


def written(words: Sequence[Word]) -> str:
    """The words as one text."""
    return "".join(word.text if at == 0 or word.glued else f" {word.text}" for at, word in enumerate(words))


def _touch(before: str, piece: str) -> bool:
    """True when the characters at the seam are both of unspaced scripts: no space is written there."""
    inner = [character for character in before if key(character)]
    outer = [character for character in piece if key(character)]
    return bool(inner and outer and unspaced(inner[-1]) and unspaced(outer[0]))


def _pieces(part: str) -> list[str]:
    if not any(unspaced(character) for character in part):
        return [part]
    pieces: list[str] = []
    opening = ""
    run = False  # the last piece is a run of a spaced script, which goes on
    for character in part:
        category = unicodedata.category(character)
        if category in ("Ps", "Pi"):
            opening, run = opening + character, False
        elif category[0] in "PM" and pieces and not opening and character not in _SAID_SYMBOLS:
            pieces[-1] += character
        elif unspaced(character):
            pieces.append(opening + character)
            opening, run = "", False
        elif run:
            pieces[-1] += character
        else:
            pieces.append(opening + character)
            opening, run = "", True
    if opening:
        pieces.append(opening)
    return pieces


def _shared_out(word: Word, count: int) -> list[Word]:
    if count <= 1 or word.first_sample is None or word.end_sample is None:
        return [word] * count
    length = word.end_sample - word.first_sample
    edges = [word.first_sample + length * at // count for at in range(count + 1)]
    return [replace(word, first_sample=edges[at], end_sample=edges[at + 1]) for at in range(count)]
