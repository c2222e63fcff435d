# SPDX-License-Identifier: GPL-3.0-or-later
"""Safety words: the few that have to come through when nothing else does ("help", "fire", "doctor", "yes", "no").

They are data by meaning: each meaning has its words in each language, the one that is spoken first. So a word that was
heard is translated by its meaning, without a translator, which would guess around what the noise has swallowed.

Words are found whole, without case. Accents count, because "si" is not "sí". In scripts without word borders a word
may stand anywhere, and the longest that begins at a place is the one that was said: 不能呼吸 is not 不. A word of one
such character counts only by itself (水 is in 水平 too), unless it is a negation: "not allergic" must never arrive as
"allergic".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from gateway.text.folding import Folded, nfc
from gateway.text.tags import base_language

MOST_FOUND = 12
"""Words of one utterance that are spoken: nobody cries for more, but a recogniser that loops does."""

NEGATION = "no"
HEDGE = "perhaps"
"""Not listened for: it is spoken in front of words that may have been misheard."""
_BORDERLESS = re.compile("[\u0e00-\u0eff\u3005-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class SafetyWord:
    """A word that was said, and what is spoken for it."""

    meaning: str
    said: str
    spoken: str


class SafetyWords:
    """The safety words from one language into another."""

    def __init__(self, source: str, target: str) -> None:
        """LookupError when there are none in one of the two languages."""
        table = _table()
        source, target = base_language(source), base_language(target)
        for language in (source, target):
            if language not in _languages():
                raise LookupError(f"there are no safety words in {language}: there are in {', '.join(_languages())}")
        listened = {meaning: words for meaning, words in table.items() if meaning != HEDGE}
        self._forms = {_written(form): meaning for meaning, words in listened.items() for form in words[source]}
        self._spoken = {meaning: words[target][0] for meaning, words in table.items()}
        self._comma, self._source_comma = _comma(self._spoken.values()), _comma(self._forms)
        self.hotwords = tuple(self._forms)
        """What the recogniser should listen for, in the source language."""

    def found(self, text: str) -> tuple[SafetyWord, ...]:
        """The safety words of a text in the order in which they were said, `MOST_FOUND` at most."""
        folded = Folded(_written(text))
        places = [
            (start, -end, meaning)
            for form, meaning in self._forms.items()
            for start, end in folded.places(form)
            if meaning == NEGATION or _stands(folded.text, start, end)
        ]
        return tuple(self._apart(folded.text, sorted(places)))[:MOST_FOUND]

    def _apart(self, text: str, places: list[tuple[int, int, str]]) -> Iterator[SafetyWord]:
        """Of places that share letters the first, and of those that begin together the longest."""
        free = 0
        for start, minus_end, meaning in places:
            if start >= free:
                free = -minus_end
                yield SafetyWord(meaning, text[start:free], self._spoken[meaning])

    def said(self, found: tuple[SafetyWord, ...]) -> str:
        """The words themselves, as they were said."""
        return self._source_comma.join(word.said for word in found)

    def spoken(self, found: tuple[SafetyWord, ...], *, sure: bool = True) -> str:
        """What is said for them, in the target language; "perhaps" is said first where nobody is ``sure``."""
        hedge = () if sure else (self._spoken[HEDGE],)
        return self._comma.join((*hedge, *(word.spoken for word in found)))


@lru_cache(maxsize=64)
def safety_words(source: str, target: str) -> SafetyWords | None:
    """The safety words between two languages; None when one of them has none, or both are the same."""
    both = {base_language(source), base_language(target)}
    if len(both) < 2 or not both <= set(_languages()):
        return None
    return SafetyWords(source, target)


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Mapping[str, list[str]]]:
    file = resources.files("gateway.text").joinpath("safety_words.json")
    table: dict[str, dict[str, list[str]]] = json.loads(file.read_text(encoding="utf-8"))
    return table


@lru_cache(maxsize=1)
def _languages() -> tuple[str, ...]:
    return tuple(sorted({language for words in _table().values() for language in words}))


def _comma(words: Iterable[str]) -> str:
    return "、" if any(map(_BORDERLESS.search, words)) else ", "


def _written(text: str) -> str:
    return nfc(text).replace("’", "'")


def _stands(text: str, start: int, end: int) -> bool:
    """False for a single character of a script without borders that is a part of something longer."""
    if end - start > 1 or not _BORDERLESS.match(text[start]):
        return True
    return not any(_BORDERLESS.match(beside) for beside in (text[max(0, start - 1) : start], text[end : end + 1]))
