# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a language's clauses: words and weights, as data (``clauses.json``).

Per language: ``opens`` and ``phrases`` that open a clause, with the strength of the border before them (0..1; 1 is
certain); ``starts``, which behind such an opening confirm that a clause begins (subjects, auxiliaries, imperatives);
``never_ends`` and ``seldom_ends``, words that need what follows them; ``numbers``, ``number_joins`` inside them,
``units`` and months around them, ``labels`` before them; phrases that stay ``together``; ``name_joins`` inside names.
German capitalises all nouns (``nouns_capital``), so capitals say nothing of names there. Languages that write no spaces
(``unspaced``) are counted by character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gateway.stream.words import key, words_of

FEWEST_WORDS = 3
MOST_WORDS = 16


@dataclass(frozen=True, slots=True)
class LanguageRules:
    """What is known of a language's clauses. All words are keys (`words.key`), phrases tuples of keys."""

    fewest: int = FEWEST_WORDS
    """Words (characters where unspaced) a clause must have to be split off by strength or a pause."""
    most: int = MOST_WORDS
    opens: Mapping[str, float] = field(default_factory=dict)
    phrases: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    starts: frozenset[str] = frozenset()
    never_ends: frozenset[str] = frozenset()
    seldom_ends: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    number_like: re.Pattern[str] | None = None
    number_joins: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    together: frozenset[tuple[str, ...]] = frozenset()
    name_joins: frozenset[str] = frozenset()
    names_by_capitals: bool = False


@cache
def rules_for(language: str) -> LanguageRules:
    """The rules of an ISO 639-1 language (a region is ignored); for an unknown one, rules without words."""
    data = json.loads((Path(__file__).parent / "clauses.json").read_text(encoding="utf-8"))
    entry = data.get(language.partition("-")[0].lower())
    if entry is None:
        return LanguageRules()
    unspaced = entry.get("unspaced", False)

    def listed(name: str) -> frozenset[str]:
        return frozenset(key(word) for word in entry.get(name, "").split())

    def phrase(text: str) -> tuple[str, ...]:
        return tuple(key(word.text) for word in words_of(text))

    opens = {phrase(text): weight for text, weight in entry.get("opens", {}).items()}
    parts = sorted({*listed("numbers"), *listed("number_parts")}, key=len, reverse=True)
    return LanguageRules(
        fewest=entry.get("min_words", FEWEST_WORDS),
        most=entry.get("max_words", MOST_WORDS),
        opens={words[0]: weight for words, weight in opens.items() if len(words) == 1},
        phrases={words: weight for words, weight in opens.items() if len(words) > 1}
        | {phrase(text): weight for text, weight in entry.get("phrases", {}).items()},
        starts=listed("starts"),
        never_ends=listed("never_ends"),
        seldom_ends=listed("seldom_ends"),
        numbers=listed("numbers"),
        # written as one word: "fünfundzwanzig", "quatre-vingt-dix", "twenty-five"
        number_like=None if unspaced else re.compile(f"(?:{'|'.join(map(re.escape, parts))}){{2,}}"),
        number_joins=listed("number_joins"),
        units=listed("units"),
        labels=listed("labels"),
        together=frozenset(phrase(text) for text in entry.get("together", ())),
        name_joins=listed("name_joins"),
        names_by_capitals=not unspaced and not entry.get("nouns_capital", False),
    )
