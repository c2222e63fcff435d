# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a language's numbers, as data: ``languages/*.json``, and ``common.json`` for what all share.

A language without a file of its own still has its digits, symbols and separators: its numbers in digits are found and
kept; its number words are left to the engines.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gateway.text.tags import base_language

_HERE = Path(__file__).parent
_PARTS = re.compile(r"[^\W\d_]+")

Phrase = tuple[str, ...]

CENTS = "¢"
"""The unit of an amount whose money is not said: "fifty cents"."""


@cache
def fold(word: str) -> str:
    """A word without case and accents: recognisers and callers are not consistent about them."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def phrase(text: str) -> Phrase:
    """The folded words of a text."""
    return tuple(fold(word) for word in _PARTS.findall(text))


@dataclass(frozen=True, eq=False)
class Language:
    """One language. Phrases are tuples of folded words."""

    code: str
    data: Mapping[str, Any]
    decimal: str
    group: str
    atoms: Mapping[Phrase, int]
    """0 to 99, which every language names in its own way."""
    hundreds: Mapping[str, int]
    scales: Mapping[str, int]
    """Words for powers of ten, three and up."""
    ordinals: Mapping[str, int]
    unsure: frozenset[str]
    """Words that more often mean something else than a number: "one", "um", "ein"."""
    months: Mapping[str, int]
    currencies: Mapping[Phrase, str]
    """Names of money and their ISO codes; `CENTS` for the hundredth part of whatever money it is."""
    joins: frozenset[str]
    """Words inside a number: the "e" of "cento e vinte"."""
    ordinal_joins: frozenset[str]
    points: Mapping[str, str]
    """Names of the decimal mark and of the dot, with the marks."""
    digit_words: Mapping[str, str]
    """Words that are digits beside digits only: "oh", "meia"."""
    clock_words: frozenset[str]
    """Words that a time of day stands behind."""
    pieces: re.Pattern[str] | None
    """Takes a compound apart, in languages that write numbers as one word."""
    longest: int
    """Words of the longest atom."""

    def get(self, name: str, default: Any = None) -> Any:
        """An entry of the language's file."""
        return self.data.get(name, default)


@cache
def common() -> Mapping[str, Any]:
    """What all languages share."""
    data: Mapping[str, Any] = json.loads((_HERE / "common.json").read_text(encoding="utf-8"))
    return data


@cache
def language_of(code: str, *, words: bool = True) -> Language:
    """What is known of an ISO 639-1 code; a region (``es-MX``) may have its own separators.

    Without ``words`` it is only what is known of any language: digits, symbols, separators.
    """
    base, _, region = code.replace("_", "-").partition("-")
    base = base.lower()
    path = _HERE / "languages" / f"{base}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if words and base in known_languages() else {}
    data |= common()["regions"].get(f"{base}-{region.upper()}", {})
    comma = base in common()["decimal_comma"]
    atoms = _atoms(data)

    def folded(name: str) -> frozenset[str]:
        return frozenset(fold(word) for word in data.get(name, ()))

    return Language(
        code=base,
        data=data,
        decimal=data.get("decimal", "," if comma else "."),
        group=data.get("group", "." if comma else ","),
        atoms=atoms,
        hundreds={fold(word): value for word, value in data.get("hundreds", {}).items()}
        | {fold(word): 0 for word in data.get("hundred", ())},
        scales={fold(word): power for word, power in data.get("scales", {}).items()},
        ordinals=_ordinals(data),
        unsure=folded("unsure"),
        months={fold(name): at for at, names in enumerate(data.get("months", ()), 1) for name in names},
        currencies=_currencies(data),
        joins=folded("join"),
        ordinal_joins=folded("ordinal_join"),
        points={fold(word): mark for word, mark in data.get("points", {}).items()},
        digit_words={fold(word): digit for word, digit in data.get("digit_words", {}).items()},
        clock_words=folded("asked_times"),
        pieces=_pieces(data, atoms) if data.get("compound") else None,
        longest=max(map(len, atoms), default=0),
    )


def has_words(code: str) -> bool:
    """Whether the number words of a language are known."""
    return base_language(code) in known_languages()


@cache
def known_languages() -> frozenset[str]:
    """Languages whose number words are known."""
    return frozenset(path.stem for path in (_HERE / "languages").glob("*.json"))


def _atoms(data: Mapping[str, Any]) -> dict[Phrase, int]:
    listed = {phrase(words): value for value, words in enumerate(data.get("below_hundred", ()))}
    return listed | {phrase(words): value for words, value in data.get("variants", {}).items()}


def _ordinals(data: Mapping[str, Any]) -> dict[str, int]:
    words = {word: value for value, word in enumerate(data.get("ordinals", ())) if word}
    words |= data.get("ordinal_tens", {})
    if data.get("ordinal_form") == "de":
        for value, word in enumerate(data["below_hundred"]):
            if value > 19:
                words[f"{word}ste"] = value
    endings = data.get("ordinal_endings", ())
    if not endings:
        return {fold(word): value for word, value in words.items()}
    return {fold(word[: -len(endings[0])] + ending): value for word, value in words.items() for ending in endings}


def _currencies(data: Mapping[str, Any]) -> dict[Phrase, str]:
    found: dict[Phrase, str] = {}
    for code, names in data.get("currency", {}).items():
        for at, name in enumerate(names):
            found.setdefault(phrase(name), CENTS if at in (2, 3) else code)
    return found


def _pieces(data: Mapping[str, Any], atoms: Mapping[Phrase, int]) -> re.Pattern[str]:
    parts = [words[0] for words in atoms] + [fold(word) for word in data.get("hundred", ())] + ["tausend"]
    parts += [fold(word) for word in data.get("join", ())]
    ordinals = sorted(_ordinals(data), key=len, reverse=True)
    listed = "|".join(sorted(map(re.escape, parts), key=len, reverse=True))
    return re.compile(f"({'|'.join(map(re.escape, ordinals))})$|({listed})")
