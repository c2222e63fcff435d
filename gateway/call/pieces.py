# SPDX-License-Identifier: GPL-3.0-or-later
"""What a translation is handed to the synthesizer in: a first piece that is soon spoken, then longer ones.

A synthesizer does not stream: a piece is heard when all of it is made. So the first piece is as short as the voice's
own speed asks for, and each next one is as long as what is being heard meanwhile. Cuts fall where a clause may end
(`stream.clause`), never inside a number or a name.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.stream.clause import ClauseReleaser, Heard
from gateway.stream.clause_rules import LanguageRules, rules_for
from gateway.stream.words import Word, words_of, written
from gateway.text.numbers.finding import find
from gateway.text.sentences import sentences

LEAST_CHARS = 8  # a rest shorter than this is not worth a cut
MOST_TIMES_FIRST = 3.0  # a longer piece keeps a worker from the next recognition for more than about a second


def speech_pieces(text: str, language: str, first_chars: int) -> list[str]:
    """The text in pieces, the first of about ``first_chars`` characters where the language allows it; 0: in one."""
    if not first_chars or len(text) <= first_chars + LEAST_CHARS:
        return [text]
    rules = rules_for(language)
    pieces: list[str] = []
    per_word = len(text) / max(1, len(words_of(text)))
    for sentence in sentences(text, language):
        words: Sequence[Word] = words_of(sentence)
        while words:
            head = _head(words, rules, max(1, round(_budget(pieces, first_chars) / per_word)))
            pieces.append(written(words[:head]))
            words = words[head:]
    return _unbroken(pieces, language)


def beginning(text: str, language: str, first_chars: int) -> str | None:
    """The first piece of a text that goes on; None when its first border cannot be told yet."""
    words = words_of(text)
    per_word = len(text) / max(1, len(words))
    most = max(1, round(first_chars / per_word))
    if len(words) <= most:
        return None
    head = _head(words, rules_for(language), most)
    piece = written(words[:head])
    # what follows may still belong to a number at its end: "20" may become "20 mil"
    return piece if head < len(words) and not _ends_in_number(piece, language) else None


def _unbroken(pieces: Sequence[str], language: str) -> list[str]:
    """The pieces, those joined again that were cut inside a number, a date or a sum of money."""
    whole: list[str] = []
    for piece in pieces:
        before = f"{whole[-1]} " if whole else ""
        if any(found.start < len(before) < found.end for found in find(before + piece, language)):
            whole[-1] = before + piece
        else:
            whole.append(piece)
    return whole


def _ends_in_number(piece: str, language: str) -> bool:
    return any(not any(map(str.isalnum, piece[found.end :])) for found in find(piece, language))


def _budget(pieces: Sequence[str], first_chars: int) -> int:
    """Characters the next piece may have.

    A voice at half the speed of speech or better has made a piece in time when it is not longer than all before it
    and the first again: the first is heard while the second is made, and each one heard gives a lead.
    """
    if not pieces:
        return first_chars
    return min(sum(map(len, pieces)) + len(pieces[0]), round(MOST_TIMES_FIRST * first_chars))


def _head(words: Sequence[Word], rules: LanguageRules, most: int) -> int:
    """How many words to take: up to the best border within ``most``, else the first border behind, else all."""
    if len(words) <= most:
        return len(words)
    heard = [Heard(word) for word in words]
    for limit in range(most, len(words)):
        first = ClauseReleaser(rules, first_most=limit).feed(heard, is_final=True)[0]
        if first.end <= limit:
            return first.end
    return len(words)
