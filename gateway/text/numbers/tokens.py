# SPDX-License-Identifier: GPL-3.0-or-later
"""The words and digits of a text, and what stands between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gateway.text.numbers.language import Language, fold, phrase

MOST_TOKENS = 2000
_TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+")
_TIGHT = re.compile(r"[ \u00a0\u202f]|-|‑| - ")
_PAUSE = re.compile(r"\s*(?:[,;…]|\.{2,}|[-–—])[\s.…,-]*|\.\s+")
_COMPOUND = 7  # letters of the shortest word that may be several number words in one


@dataclass(frozen=True, slots=True)
class Token:
    """A word (``key`` is folded) or digits with their separators."""

    start: int
    end: int
    key: str
    inner: bool = False
    """A later part of a compound word: "zwei|hundert"."""


class Tokens:
    """The tokens of a text, in order; `MOST_TOKENS` at most."""

    def __init__(self, text: str, lang: Language) -> None:
        self.text = text
        self.lang = lang
        self.all: list[Token] = []
        for match in _TOKEN.finditer(text):
            self._add(match)
            if len(self.all) >= MOST_TOKENS:
                break
        self._hide_percent()

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, at: int) -> Token:
        return self.all[at]

    def key(self, at: int) -> str:
        """The folded word at a place; empty behind the end."""
        return self.all[at].key if at < len(self.all) else ""

    def gap(self, at: int) -> str:
        """The text between token ``at`` and the one before."""
        return " " if self.all[at].inner else self.text[self.all[at - 1].end : self.all[at].start]

    def tight(self, at: int) -> bool:
        """Whether nothing but a space or a hyphen parts token ``at`` from the one before."""
        return 0 < at < len(self.all) and _TIGHT.fullmatch(self.gap(at)) is not None

    def adjacent(self, at: int) -> bool:
        """Whether there is a pause between the two at most, as recognisers write pauses: commas, dots, dashes."""
        return self.tight(at) or _PAUSE.fullmatch(self.gap(at)) is not None

    def atom(self, at: int) -> tuple[int, int] | None:
        """(value, tokens) of the longest name below a hundred at a place."""
        longest = 1
        while longest < self.lang.longest and self.tight(at + longest):
            longest += 1
        for size in range(longest, 0, -1):
            value = self.lang.atoms.get(tuple(token.key for token in self.all[at : at + size]))
            if value is not None:
                return value, size
        return None

    def digit(self, at: int) -> bool:
        """Whether a digit is named at a place."""
        atom = self.atom(at) if at < len(self.all) else None
        return atom is not None and atom[0] < 10

    def _add(self, match: re.Match[str]) -> None:
        start, end, key = match.start(), match.end(), fold(match.group())
        parts = self._parts(key) if self.lang.pieces is not None and len(key) >= _COMPOUND else [key]
        self.all += [Token(start, end, part, inner=at > 0) for at, part in enumerate(parts)]

    def _parts(self, key: str) -> list[str]:
        """A compound taken apart, or the word itself."""
        parts: list[str] = []
        at = 0
        assert self.lang.pieces is not None
        while at < len(key) and (piece := self.lang.pieces.match(key, at)):
            parts.append(piece.group())
            at = piece.end()
        return parts if at == len(key) else [key]

    def _hide_percent(self) -> None:
        """The "cento" of "por cento" is no hundred."""
        for words in map(phrase, self.lang.get("percent", ())):
            for at in range(len(self.all) - len(words) + 1) if len(words) > 1 else ():
                if tuple(token.key for token in self.all[at : at + len(words)]) == words:
                    for place in range(at, at + len(words)):
                        self.all[place] = replace(self.all[place], key="%")
