# SPDX-License-Identifier: GPL-3.0-or-later
"""Number words become digits: "vinte e três" is 23, "four five seven two" is 4572, "555 … 867 … 5309" is one number.

A number is read by a small grammar: names below a hundred (one list per language, which spares rules for "quatre-vingt-
dix" and "vierunddreißig"), hundreds, powers of ten. What stands next to each other and is no single number is a run of
digits, if it is long enough; a talker's pauses, which recognisers write as commas or dots, do not end a run.

Words that seldom are numbers ("one", "um") count inside a larger number only; small numbers that stand alone are marked
not ``sure``: what follows may need them ("two dollars"), but their text is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.text.numbers.aligned import Edit
from gateway.text.numbers.forms import ordinal_mark
from gateway.text.numbers.han import han_edits
from gateway.text.numbers.lexicon import Lexicon, fold, phrase

MOST_TOKENS = 2000
MOST_ITEMS = 40  # of a run; a longer one is cut, so that deciding it stays cheap
LONGEST_RUN = 24  # digits; a card number has 16, an international account number up to 34 with its letters
PHONE_DIGITS = 7  # fewest digits of groups that are joined without being asked
_TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+")
_TIGHT = re.compile(r"[ \u00a0\u202f]|-|‑| - ")
_PAUSE = re.compile(r"\s*(?:[,;…]|\.{2,}|[-–—])[\s.…,-]*|\.\s+")
_ELLIPSIS = re.compile(r"…|\.{2,}|\s[-–—]\s")


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    key: str
    inner: bool = False
    """A later part of a compound word."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A member of a run: digits, a point, or a letter; ``first``…``last`` are tokens."""

    first: int
    last: int
    text: str
    what: str  # "number", "point", "letter"
    words: bool = False
    sure: bool = True
    ordinal: bool = False
    unit: bool = False
    """Said as one digit."""


def digit_edits(text: str, lex: Lexicon) -> list[Edit]:
    """The edits that make digits of the number words in a text, from left to right."""
    if lex.get("han"):
        return han_edits(text, lex)
    return _Reader(text, lex).edits()


class _Reader:
    def __init__(self, text: str, lex: Lexicon) -> None:
        self.text = text
        self.lex = lex
        self.tokens: list[_Token] = []
        for match in _TOKEN.finditer(text):
            self._add(match)
            if len(self.tokens) >= MOST_TOKENS:
                break
        self._hide_percent()
        self._digit_words: dict[str, str] = {fold(word): digit for word, digit in lex.get("digit_words", {}).items()}
        self._repeat: dict[str, int] = lex.get("repeat", {})
        self._points: dict[str, str] = {fold(word): mark for word, mark in lex.get("points", {}).items()}
        self._join = {fold(word) for word in lex.get("join", ())}
        self._ordinal_join = {fold(word) for word in lex.get("ordinal_join", ())}
        self._clock_words = {fold(word) for word in lex.get("asked_times", ())}
        self._one = set(lex.get("one_before_scale", ()))

    def _add(self, match: re.Match[str]) -> None:
        start, end, key = match.start(), match.end(), fold(match.group())
        if self.lex.pieces is not None and len(key) > 6:
            parts: list[str] = []
            at = 0
            while at < len(key) and (piece := self.lex.pieces.match(key, at)):
                parts.append(piece.group())
                at = piece.end()
            if at == len(key) and len(parts) > 1:
                self.tokens += [_Token(start, end, part, inner=at > 0) for at, part in enumerate(parts)]
                return
        self.tokens.append(_Token(start, end, key))

    def _hide_percent(self) -> None:
        """The "cento" of "por cento" is no hundred."""
        for words in map(phrase, self.lex.get("percent", ())):
            for at in range(len(self.tokens) - len(words) + 1) if len(words) > 1 else ():
                if tuple(token.key for token in self.tokens[at : at + len(words)]) == words:
                    for place in range(at, at + len(words)):
                        self.tokens[place] = replace(self.tokens[place], key="%")

    # --- what stands between tokens ------------------------------------------------------------------------------

    def _gap(self, at: int) -> str:
        """The text between token ``at`` and the one before."""
        if self.tokens[at].inner:
            return " "
        return self.text[self.tokens[at - 1].end : self.tokens[at].start]

    def _tight(self, at: int) -> bool:
        return 0 < at < len(self.tokens) and (self.tokens[at].inner or _TIGHT.fullmatch(self._gap(at)) is not None)

    def _atom(self, at: int) -> tuple[int, int] | None:
        """(value, tokens) of a name below a hundred, the longest that fits."""
        longest = 0
        while longest < self.lex.longest and at + longest < len(self.tokens) and (not longest or self._tight(at + longest)):
            longest += 1
        for size in range(longest, 0, -1):
            value = self.lex.atoms.get(tuple(token.key for token in self.tokens[at : at + size]))
            if value is not None:
                return value, size
        return None

    def _digit(self, at: int) -> bool:
        atom = self._atom(at) if at < len(self.tokens) else None
        return atom is not None and atom[0] < 10

    # --- one number ----------------------------------------------------------------------------------------------

    def _cardinal(self, start: int) -> _Item | None:
        """The number in words at ``start``."""
        at = start
        groups: list[tuple[int, int]] = []  # (value, power)
        now: int | None = None
        size, ordinal, joined = 0, False, False
        open_hundred = False  # a part below a hundred may follow
        while at < len(self.tokens) and (at == start or self._tight(at)):
            key = self.tokens[at].key
            step = None
            if (value := self.lex.ordinals.get(key)) is not None and self._fits_ordinal(value, now, groups, open_hundred):
                # "quatre-vingtième" is the one that multiplies
                now, at, ordinal = 80 if (now, value) == (4, 20) else (now or 0) + value, at + 1, True
                nxt = self.lex.ordinals.get(self.tokens[at].key, 99) if self._tight(at) else 99
                if value >= 10 and value % 10 == 0 and nxt < 10:
                    now, at, size = now + nxt, at + 1, size + 1
                size += 1
                break
            if (atom := self._atom(at)) is not None:
                step = self._with_atom(at, atom, now, groups, open_hundred)
                if step is not None:
                    now, at, open_hundred = step, at + atom[1], False
            elif (hundred := self.lex.hundreds.get(key)) is not None:
                step = self._with_hundred(hundred, now, groups)
                if step is not None:
                    now, at, open_hundred = step, at + 1, True
            elif (power := self.lex.scales.get(key)) is not None:
                step = self._with_scale(power, now, groups)
                if step is not None:
                    now, at, open_hundred = None, at + 1, False
            elif key in self._ordinal_join and self.tokens[at + 1 : at + 2] and self._is_ordinal(at + 1) and now:
                at += 1
                continue
            elif key in self._join and (groups or open_hundred) and at > start and not joined and self._goes_on(at + 1):
                at, joined = at + 1, True
                continue
            if step is None:
                break
            size, joined = size + 1, False
        if joined:
            at -= 1
        if not size or (at < len(self.tokens) and self.tokens[at].inner):
            return None
        value = sum(each * 10**power for each, power in groups) + (now or 0)
        single = size == 1 and not groups
        sure = not single or value > 12
        if ordinal and single:
            sure = value > 12
        return _Item(start, at, str(value), "number", True, sure, ordinal, single and value < 10 and not ordinal)

    def _fits_ordinal(self, value: int, now: int | None, groups: list[tuple[int, int]], open_hundred: bool) -> bool:
        if now is None:
            return not groups or value < 100
        tens = now % 100
        if (value < 10 and tens >= 10 and tens % 10 == 0) or (value < 20 and tens in (60, 80)):
            return True
        return open_hundred or (tens, value) == (4, 20)

    def _with_atom(
        self, at: int, atom: tuple[int, int], now: int | None, groups: list[tuple[int, int]], open_hundred: bool
    ) -> int | None:
        value, size = atom
        if now is None:
            if groups and value == 0:
                return None
        elif not open_hundred or value == 0:
            return None
        if (now is not None or groups) and value < 10 and self._tight(at + size) and self._digit(at + size):
            return None  # "eight hundred five five five": digits follow
        return (now or 0) + value

    def _with_hundred(self, hundred: int, now: int | None, groups: list[tuple[int, int]]) -> int | None:
        if hundred:  # the language names each hundred
            return hundred if now is None else None
        if now is None:
            return 100
        return now * 100 if 0 < now <= self.lex.get("hundreds_to", 99) else None

    def _with_scale(self, power: int, now: int | None, groups: list[tuple[int, int]]) -> int | None:
        """Close the open group under a power of ten; "mil millones" multiplies what was closed below it."""
        low = sum(value * 10**each for value, each in groups if each < power)
        higher = [(value, each) for value, each in groups if each > power]
        if any(each == power for _, each in groups) or (now is None and not low and power > 3):
            return None
        if now is None and not low and groups and not self.lex.get("bare_thousand"):
            return None
        value = (now or 0) + low or 1
        groups[:] = [*higher, (value, power)]
        return value

    def _is_ordinal(self, at: int) -> bool:
        return self._tight(at) and self.tokens[at].key in self.lex.ordinals

    def _goes_on(self, at: int) -> bool:
        """Whether a smaller part of the number can begin here, behind a joining word."""
        return self._tight(at) and (
            self._atom(at) is not None or self.tokens[at].key in self.lex.hundreds or self.tokens[at].key in self.lex.ordinals
        )

    # --- runs ----------------------------------------------------------------------------------------------------

    def _item(self, at: int, run: Sequence[_Item]) -> _Item | None:
        token = self.tokens[at]
        if token.key[0].isdigit():
            return _Item(at, at + 1, token.key, "number")
        if token.key in self._one and self._tight(at + 1) and self.tokens[at + 1].key in {*self.lex.hundreds, *self.lex.scales}:
            inner = self._cardinal(at + 1) or self._scaled_one(at + 1)
            return inner and _Item(at, inner.last, inner.text, "number", True)
        times = self._repeat.get(token.key)
        if times and self._tight(at + 1) and self._digit(at + 1):
            value, size = self._atom(at + 1) or (0, 1)
            return _Item(at, at + 1 + size, str(value) * times, "number", True)
        if number := self._cardinal(at):
            return number
        if token.key in self._digit_words and (run or self._tight(at + 1) and self._digit(at + 1)):
            return _Item(at, at + 1, self._digit_words[token.key], "number", True, unit=True)
        if token.key in self._points and run and run[-1].what == "number" and self._tight(at + 1):
            return _Item(at, at + 1, self._points[token.key], "point", True)
        if token.end - token.start == 1 and self.text[token.start].isupper():
            return _Item(at, at + 1, self.text[token.start], "letter", True)
        return None

    def _scaled_one(self, at: int) -> _Item | None:
        """"a million": only here is a bare power of ten a number."""
        power = self.lex.scales.get(self.tokens[at].key)
        if power is None:
            return None
        behind = self._cardinal(at + 1) if self._tight(at + 1) else None
        rest = int(behind.text) if behind and int(behind.text) < 10**power else 0
        return _Item(at, behind.last if behind and rest else at + 1, str(10**power + rest), "number", True)

    def edits(self) -> list[Edit]:
        """Every run of the text, decided."""
        edits: list[Edit] = []
        at = 0
        while at < len(self.tokens):
            run: list[_Item] = []
            while at < len(self.tokens) and len(run) < MOST_ITEMS and (not run or self._adjacent(at)):
                item = self._item(at, run)
                if item is None:
                    break
                run.append(item)
                at = item.last
            if not run:
                at += 1
                continue
            edits += self._decided(run)
        return edits

    def _adjacent(self, at: int) -> bool:
        return self._tight(at) or _PAUSE.fullmatch(self._gap(at)) is not None

    def _decided(self, run: list[_Item]) -> list[Edit]:
        while run and run[-1].what == "point":
            run.pop()
        for first in range(len(run)):
            for last in range(len(run), first, -1):
                joined = self._joined(run[first:last])
                if joined is not None:
                    return [*self._decided(run[:first]), joined, *self._decided(run[last:])]
        return [self._edit(item) for item in run if item.words and item.what == "number" and not self._weak(item)]

    def _weak(self, item: _Item) -> bool:
        """Whether a digit word stands alone that means something else there."""
        return self.tokens[item.first].key in self._digit_words

    def _edit(self, item: _Item) -> Edit:
        text = item.text
        if item.ordinal and self.lex.get("ordinal_form") != "de":  # a German full stop might end the sentence
            text += ordinal_mark(item.text, self.lex)
        start, end = self.tokens[item.first].start, self.tokens[item.last - 1].end
        return Edit(start, end, text, item.sure, item.ordinal)

    def _joined(self, run: Sequence[_Item]) -> Edit | None:
        """The run as one number, when it is one."""
        if len(run) < 2 or run[0].what == "point" or run[-1].what == "point":
            return None
        if any(item.ordinal or not item.text.replace(".", "").isalnum() for item in run if item.what != "point"):
            return None
        gaps = [self._gap(item.first) for item in run[1:]]
        tight = all(_TIGHT.fullmatch(gap) or item.first and self.tokens[item.first].inner for gap, item in zip(gaps, run[1:], strict=True))
        points = [item for item in run if item.what == "point"]
        numbers = [item for item in run if item.what == "number"]
        text: str | None = None
        if any(item.what == "letter" for item in run):
            text = self._code(run) if tight and not points else None
        elif points:
            text = self._pointed(run, points) if tight else None
        elif self._is_one(numbers, gaps, tight):
            if clock := self._clock(numbers):
                return Edit(self.tokens[run[0].first].start, self.tokens[run[-1].last - 1].end, clock)
            text = "".join(item.text for item in numbers)
        if text is None or sum(char.isdigit() for char in text) > LONGEST_RUN:
            return None
        shape = " ".join(item.text for item in run if len(item.text) > 1)
        shape = shape if len(text) >= PHONE_DIGITS and shape.replace(" ", "") == text else ""
        return Edit(self.tokens[run[0].first].start, self.tokens[run[-1].last - 1].end, text, digits=not points, shape=shape)

    def _clock(self, numbers: Sequence[_Item]) -> str | None:
        """ "at six oh five": hour and minutes."""
        before = self.tokens[numbers[0].first - 1].key if numbers[0].first else ""
        hour, minutes = numbers[0].text, "".join(item.text for item in numbers[1:])
        if before not in self._clock_words or not all(item.words for item in numbers):
            return None
        return f"{hour} {minutes}" if int(hour) <= 12 and len(minutes) == 2 and int(minutes) < 60 else None

    def _code(self, run: Sequence[_Item]) -> str | None:
        """Letters and digits that were spelled: "A B one two" is AB12."""
        letters = [item for item in run if item.what == "letter"]
        digits = [item for item in run if item.what == "number"]
        if len(digits) < 2 and not (len(letters) >= 2 and digits):
            return None
        if not any(item.words for item in digits) and len(run) < 3:
            return None
        if len(letters) == 1 and letters[0].text in "AIOEYU":
            return None  # more likely a word of its own
        if not all(item.text.isdigit() for item in digits):
            return None
        return "".join(item.text for item in run)

    def _pointed(self, run: Sequence[_Item], points: Sequence[_Item]) -> str | None:
        """A decimal number, or an address or version with several points."""
        parts: list[str] = [""]
        for item in run:
            if item.what == "point":
                parts.append("")
            elif not item.text.isdigit():
                return None
            else:
                parts[-1] += item.text
        if not all(parts):
            return None
        if len(points) == 1:
            left = 1 if run[1].what == "point" else 0
            singles = all(item.unit for item in run[2:]) or len(run) == 3 or (run[2].text == "0" and len(run) == 4)
            if not left or not singles:
                return None
            return f"{parts[0]}{points[0].text}{parts[1]}"
        return ".".join(parts)

    def _is_one(self, numbers: Sequence[_Item], gaps: Sequence[str], tight: bool) -> bool:
        """Whether groups are one number: by their count, by pauses that are no commas, or by how they are said."""
        if not all(item.text.isdigit() for item in numbers):
            return False
        units = all(item.unit or (not item.words and len(item.text) == 1) for item in numbers)
        total = sum(len(item.text) for item in numbers)
        paused = all(_ELLIPSIS.search(gap) or _TIGHT.fullmatch(gap) for gap in gaps)
        if units:
            if tight and not any(item.words for item in numbers):
                return len(numbers) >= 4 and "-" in gaps[0]
            return len(numbers) >= 3 if paused else len(numbers) >= 4
        written = not any(item.words for item in numbers)
        if tight:
            if written:
                return False  # phone numbers in digits are known by their shape
            small = all(len(item.text) <= 2 or (item.words and len(item.text) == 3) for item in numbers)
            if len(numbers) == 2:
                pair = [len(item.text) == 2 and item.words for item in numbers]
                return bool(self.lex.get("pairs")) and all(pair) and "-" not in gaps[0]
            return small or total >= PHONE_DIGITS
        if any(len(item.text) > 4 for item in numbers) and not paused:
            return False
        if paused:
            return total >= PHONE_DIGITS - 1
        return total >= PHONE_DIGITS and self._is_labelled(numbers[0].first)

    def _is_labelled(self, at: int) -> bool:
        """Whether "number", "account" or the like stands a few words before."""
        labels = {fold(word) for word in self.lex.get("labels", ())}
        return any(token.key in labels for token in self.tokens[max(0, at - 5) : at])
