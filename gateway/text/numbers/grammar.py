# SPDX-License-Identifier: GPL-3.0-or-later
"""One number in words: names below a hundred, hundreds, powers of ten, and the words that join them.

Every language lists its hundred names, which spares rules for "quatre-vingt-dix" and "vierunddreißig"; what is left is
the same everywhere: parts get smaller from left to right, and a power of ten multiplies what stands before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gateway.text.numbers.language import Language
from gateway.text.numbers.tokens import Tokens

SURE_ABOVE = 12
"""Smaller numbers in one word are not sure to be meant as numbers, and translators handle them well."""


@dataclass(frozen=True, slots=True)
class Said:
    """A number in words: tokens ``first`` to ``last`` (exclusive)."""

    first: int
    last: int
    value: int
    ordinal: bool
    words: int
    """How many parts it has."""


def cardinal(tokens: Tokens, start: int) -> Said | None:
    """The longest number, cardinal or ordinal, that begins with a token."""
    return _said(tokens, start, start, _Sum(tokens.lang))


def _said(tokens: Tokens, start: int, at: int, total: _Sum) -> Said | None:
    """Go on with a number that has come to token ``at``."""
    while at == start or tokens.tight(at):
        size = _part(tokens, at, total)
        if not size and at > start and _joins(tokens, at, total):
            trial = replace(total, groups=list(total.groups))
            if tokens.tight(at + 1) and (behind := _part(tokens, at + 1, trial) or _digits(tokens, at + 1, trial)):
                total, size = trial, behind + 1
        if not size:
            break
        at += size
    if not total.parts or (at < len(tokens) and tokens[at].inner):
        return None
    return Said(start, at, total.value, total.ordinal, total.parts)


def written_start(tokens: Tokens, start: int) -> Said | None:
    """A number that begins in digits and goes on in words: "2 mil e 24"; None for a mere "2 mil", which is well."""
    total = _Sum(tokens.lang)
    key, behind = tokens.key(start), tokens.key(start + 1)
    if not key.isdigit() or behind not in tokens.lang.scales or not tokens.tight(start + 1):
        return None
    total.now = int(key)
    said = _said(tokens, start, start + 1, total) if total.now < 1000 else None
    return said if said is not None and said.words > 1 else None


def written_sum(tokens: Tokens, start: int) -> Said | None:
    """ "300 e 50": recognisers write the parts of "trezentos e cinquenta" in digits, and leave the joining word."""
    lang = tokens.lang
    before = tokens.key(start - 1) if start else ""
    behind = lang.get("not_joined_behind")  # "entre 300 e 50" are two
    if behind is None or before in behind or tokens.key(start + 1) not in lang.joins:
        return None
    whole, rest = tokens.key(start).replace(lang.group, ""), tokens.key(start + 2)
    if not (tokens.tight(start + 1) and tokens.tight(start + 2) and whole.isdigit() and rest.isdigit()):
        return None
    place = 1000 if int(whole) % 1000 == 0 else 100
    if int(whole) == 0 or int(whole) % place or rest[0] == "0" or int(rest) >= place:
        return None
    return Said(start, start + 3, int(whole) + int(rest), False, 2)


def scaled_one(tokens: Tokens, at: int) -> Said | None:
    """A bare power of ten, as in "a million"; elsewhere it is no number by itself."""
    power = tokens.lang.scales.get(tokens.key(at))
    if power is None:
        return None
    behind = cardinal(tokens, at + 1) if tokens.tight(at + 1) else None
    if behind is None or behind.value >= 10**power:
        return Said(at, at + 1, 10**power, False, 2)
    return Said(at, behind.last, 10**power + behind.value, behind.ordinal, 2)


def _part(tokens: Tokens, at: int, total: _Sum) -> int:
    """Add the part at a place to the sum; returns how many tokens it had, 0 when it does not fit."""
    key, lang = tokens.key(at), tokens.lang
    if (value := lang.ordinals.get(key)) is not None and total.add_ordinal(value):
        return 1
    if atom := tokens.atom(at):
        value, size = atom
        return size if total.add(value, more=tokens.tight(at + size) and tokens.digit(at + size)) else 0
    if (hundred := lang.hundreds.get(key)) is not None:
        return int(total.add_hundred(hundred))
    if (power := lang.scales.get(key)) is not None:
        return int(total.add_scale(power))
    return 0


def _digits(tokens: Tokens, at: int, total: _Sum) -> int:
    """Digits behind a joining word, as recognisers mix them: "dois mil e 24"."""
    key = tokens.key(at)
    if not (key.isdigit() and key[0] != "0" and len(key) < 4 and total.groups and total.now is None):
        return 0
    return int(total.add_hundred(int(key)) if len(key) == 3 else total.add(int(key), more=False))


def _joins(tokens: Tokens, at: int, total: _Sum) -> bool:
    """Whether the word at a place may stand inside a number: "cento *e* vinte", "vingt *et* unième"."""
    key, lang = tokens.key(at), tokens.lang
    if key in lang.ordinal_joins and tokens.key(at + 1) in lang.ordinals:
        return True
    return key in lang.joins and (bool(total.groups) or total.open)


@dataclass(slots=True)
class _Sum:
    """What was said so far. Each ``add`` says whether the part fits, and leaves the sum alone if not."""

    lang: Language
    groups: list[tuple[int, int]] = field(default_factory=list)
    """Closed groups: (value, power of ten)."""
    now: int | None = None
    """The open group, below a thousand."""
    open: bool = False
    """A part below a hundred may follow."""
    ordinal: bool = False
    parts: int = 0

    @property
    def value(self) -> int:
        closed: int = sum(each * 10**power for each, power in self.groups)
        return closed + (self.now or 0)

    def _took(self, now: int | None, *, opens: bool = False) -> bool:
        self.now, self.open, self.parts = now, opens, self.parts + 1
        return True

    def add(self, value: int, *, more: bool) -> bool:
        """A name below a hundred; ``more`` digits follow it: "eight hundred five five five" is 800 555."""
        begins = self.now is None
        fits = (not self.groups or value > 0) if begins else (self.open and value > 0)
        if self.ordinal or not fits or (more and value < 10 and (not begins or self.groups)):
            return False
        return self._took((self.now or 0) + value)

    def add_hundred(self, hundred: int) -> bool:
        """A hundred with its own name, or (0) the word that makes hundreds of what stands before it."""
        if self.ordinal or (hundred and self.now is not None):
            return False
        if hundred or self.now is None:
            return self._took(hundred or 100, opens=True)
        most = int(self.lang.get("hundreds_to", 99))
        return 0 < self.now <= most and self._took(self.now * 100, opens=True)

    def add_scale(self, power: int) -> bool:
        """A power of ten closes the group; in "mil millones" it multiplies what was closed below it."""
        low = sum(value * 10**each for value, each in self.groups if each < power)
        bare = self.now is None and not low
        if self.ordinal or any(each == power for _, each in self.groups) or (bare and power > 3):
            return False
        if bare and self.groups and not self.lang.get("bare_thousand"):
            return False
        count = (self.now or 0) + low or 1
        self.groups = [*((value, each) for value, each in self.groups if each > power), (count, power)]
        return self._took(None)

    def add_ordinal(self, value: int) -> bool:
        """The last part, or in "vigésimo primeiro" the last two."""
        tens = (self.now or 0) % 100
        if self.ordinal:
            fits = value < 10 <= tens and tens % 10 == 0
        elif self.now is None:
            fits = not self.groups or value < 100
        elif (tens, value) == (4, 20):  # "quatre-vingtième", the one that multiplies
            self.now, value, fits = self.now - 4, 80, True
        else:
            fits = self.open or (value < 10 <= tens and tens % 10 == 0) or (value < 20 and tens in (60, 80))
        if not fits:
            return False
        self.ordinal = True
        return self._took((self.now or 0) + value)
