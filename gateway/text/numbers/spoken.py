# SPDX-License-Identifier: GPL-3.0-or-later
"""Number words become digits: "vinte e três" is 23, "four five seven two" is 4572, "555 … 867 … 5309" is one number.

What stands next to each other and is no single number (`grammar`) is a run of digits, if it is long enough; a talker's
pauses, which recognisers write as commas or dots, do not end a run.

Words that seldom are numbers ("one", "um") count inside a larger number only; small numbers that stand alone are marked
not ``sure``: what follows may need them ("two dollars"), but their text is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gateway.text.numbers.aligned import Edit
from gateway.text.numbers.forms import ordinal_mark
from gateway.text.numbers.grammar import SURE_ABOVE, Said, cardinal, scaled_one, written_start, written_sum
from gateway.text.numbers.han import han_edits
from gateway.text.numbers.language import Language, fold
from gateway.text.numbers.tokens import Tokens

MOST_ITEMS = 24  # of a run; a longer one is cut, so that deciding it stays cheap
LONGEST_RUN = 24  # digits; a card number has 16, an international account number up to 34 with its letters
PHONE_DIGITS = 7  # fewest digits of groups that are joined without being asked
_ELLIPSIS = re.compile(r"…|\.{2,}|\s[-–—]\s")


@dataclass(frozen=True, slots=True)
class _Item:
    """A member of a run: digits, a point, or a letter; tokens ``first`` to ``last`` (exclusive)."""

    first: int
    last: int
    text: str
    what: str  # "number", "point", "letter"
    words: bool = False
    sure: bool = True
    ordinal: bool = False
    unit: bool = False
    """Said as one digit."""


def digit_edits(text: str, lang: Language, *, heard: bool = False) -> list[Edit]:
    """The edits that make digits of the number words in a text, from left to right."""
    if lang.get("han"):
        return han_edits(text, lang)
    return _Reader(text, lang, heard=heard).edits()


def _item_of(said: Said) -> _Item:
    unit = said.words == 1 and said.value < 10 and not said.ordinal
    sure = said.words > 1 or said.value > SURE_ABOVE
    return _Item(said.first, said.last, str(said.value), "number", True, sure, said.ordinal, unit)


def _is_counting(numbers: Sequence[_Item]) -> bool:
    """ "One, two, three, four"."""
    digits = [int(item.text) for item in numbers]
    return all(after == before + 1 for before, after in pairwise(digits))


class _Reader:
    def __init__(self, text: str, lang: Language, *, heard: bool) -> None:
        self.lang = lang
        self.heard = heard
        self.tokens = Tokens(text, lang)

    def edits(self) -> list[Edit]:
        """Every run of the text, decided."""
        edits: list[Edit] = []
        at = 0
        while at < len(self.tokens):
            run: list[_Item] = []
            while at < len(self.tokens) and len(run) < MOST_ITEMS and (not run or self.tokens.adjacent(at)):
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

    # --- the members of a run ------------------------------------------------------------------------------------

    def _item(self, at: int, run: Sequence[_Item]) -> _Item | None:
        token = self.tokens[at]
        if token.key[0].isdigit():
            mixed = written_start(self.tokens, at) or (written_sum(self.tokens, at) if self.heard else None)
            return _item_of(mixed) if mixed else _Item(at, at + 1, token.key, "number")
        if run and run[-1].what == "point":
            return self._decimal(at) or self._digit_word(at, run)
        number = self._article(at) or self._repeated(at)
        if number is None and (said := cardinal(self.tokens, at)) is not None:
            number = _item_of(said)
        return number or self._digit_word(at, run) or self._point_or_letter(at, run)

    def _decimal(self, at: int) -> _Item | None:
        """Behind a point; a power of ten is no part of it: "one point five million"."""
        said = cardinal(self.tokens, at)
        if said is not None and said.value < 1000:
            return _item_of(said)
        atom = self.tokens.atom(at)
        return atom and _Item(at, at + atom[1], str(atom[0]), "number", True, unit=atom[0] < 10)

    def _article(self, at: int) -> _Item | None:
        """ "a hundred", "a million"."""
        if self.tokens.key(at) not in self.lang.get("one_before_scale", ()) or not self.tokens.tight(at + 1):
            return None
        behind = self.tokens.key(at + 1)
        if behind in self.lang.scales:
            said = scaled_one(self.tokens, at + 1)
        else:
            said = cardinal(self.tokens, at + 1) if behind in self.lang.hundreds else None
        return None if said is None else _Item(at, said.last, str(said.value), "number", True)

    def _repeated(self, at: int) -> _Item | None:
        """ "double five"."""
        times = self.lang.get("repeat", {}).get(self.tokens.key(at))
        if not times or not self.tokens.tight(at + 1) or not self.tokens.digit(at + 1):
            return None
        value, size = self.tokens.atom(at + 1) or (0, 1)
        return _Item(at, at + 1 + size, str(value) * times, "number", True)

    def _digit_word(self, at: int, run: Sequence[_Item]) -> _Item | None:
        """A word that is a digit beside digits only: "oh", "meia"."""
        digit = self.lang.digit_words.get(self.tokens.key(at))
        if digit is None or not (run or (self.tokens.tight(at + 1) and self.tokens.digit(at + 1))):
            return None
        return _Item(at, at + 1, digit, "number", True, unit=True)

    def _point_or_letter(self, at: int, run: Sequence[_Item]) -> _Item | None:
        token = self.tokens[at]
        mark = self.lang.points.get(token.key)
        if mark and run and run[-1].what == "number" and self.tokens.tight(at + 1):
            return _Item(at, at + 1, mark, "point", True)
        letter = self.tokens.text[token.start : token.end]
        return _Item(at, at + 1, letter, "letter", True) if len(letter) == 1 and letter.isupper() else None

    # --- what a run is -------------------------------------------------------------------------------------------

    def _decided(self, run: list[_Item]) -> list[Edit]:
        while run and run[-1].what == "point":
            run.pop()
        if not any(item.words for item in run) and not self._is_paused(run):
            return []  # digits with spaces between: their shape tells what they are
        for first in range(len(run)):
            for last in range(len(run), first, -1):
                joined = self._joined(run[first:last])
                if joined is not None:
                    return [*self._decided(run[:first]), joined, *self._decided(run[last:])]
        return [self._edit(item) for item in run if item.words and item.what == "number" and not self._weak(item)]

    def _is_paused(self, run: Sequence[_Item]) -> bool:
        return any(self.tokens.gap(item.first).strip() for item in run[1:])

    def _weak(self, item: _Item) -> bool:
        """Whether a word stands alone that means something else there: "oh", "cuarto"."""
        if item.ordinal and not item.sure and self.lang.get("ordinal_form") == "sum":
            return item.text != "1"  # the first of a month
        return self.tokens[item.first].key in self.lang.digit_words

    def _edit(self, item: _Item) -> Edit:
        text = item.text
        if item.ordinal and self.lang.get("ordinal_form") != "de":  # a German full stop might end the sentence
            text += ordinal_mark(item.text, self.lang)
        start, end = self.tokens[item.first].start, self.tokens[item.last - 1].end
        return Edit(start, end, text, item.sure, item.ordinal)

    def _joined(self, run: Sequence[_Item]) -> Edit | None:
        """The run as one number, when it is one."""
        if len(run) < 2 or run[0].what == "point" or run[-1].what == "point":
            return None
        if any(item.ordinal or not item.text.replace(".", "").isalnum() for item in run if item.what != "point"):
            return None
        gaps = [self.tokens.gap(item.first) for item in run[1:]]
        tight = all(self.tokens.tight(item.first) for item in run[1:])
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
        return Edit(
            self.tokens[run[0].first].start, self.tokens[run[-1].last - 1].end, text, digits=not points, shape=shape
        )

    def _clock(self, numbers: Sequence[_Item]) -> str | None:
        """ "at six oh five": hour and minutes."""
        before = self.tokens[numbers[0].first - 1].key if numbers[0].first else ""
        hour, minutes = numbers[0].text, "".join(item.text for item in numbers[1:])
        if before not in self.lang.clock_words or not all(item.words for item in numbers):
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
        spoken = any(item.words for item in numbers)
        paused = all(
            _ELLIPSIS.search(gap) or self.tokens.tight(item.first) for gap, item in zip(gaps, numbers[1:], strict=True)
        )
        if all(item.unit or (not item.words and len(item.text) == 1) for item in numbers):
            if tight and not spoken:
                return len(numbers) >= 3 and "-" in gaps[0]
            return len(numbers) >= 3 if paused else len(numbers) >= 4 and not _is_counting(numbers)
        if tight:
            return spoken and self._is_spoken_row(numbers, gaps)
        return self._is_paused_row(numbers, paused)

    def _is_spoken_row(self, numbers: Sequence[_Item], gaps: Sequence[str]) -> bool:
        """Groups without a pause; those in digits are known by their shape instead."""
        if len(numbers) == 2:  # "nineteen eighty-four"
            pair = all(len(item.text) == 2 and item.words for item in numbers)
            return pair and bool(self.lang.get("pairs")) and "-" not in gaps[0]
        small = all(len(item.text) <= 2 or (item.words and len(item.text) == 3) for item in numbers)
        return small or sum(len(item.text) for item in numbers) >= PHONE_DIGITS

    def _is_paused_row(self, numbers: Sequence[_Item], paused: bool) -> bool:
        """Groups with pauses between; commas may as well part a list, which has no label before it."""
        total = sum(len(item.text) for item in numbers)
        if paused:
            return total >= PHONE_DIGITS - 1
        short = all(len(item.text) <= 4 for item in numbers)
        return short and total >= PHONE_DIGITS and self._is_labelled(numbers[0].first)

    def _is_labelled(self, at: int) -> bool:
        """Whether "number", "account" or the like stands a few words before."""
        labels = {fold(word) for word in self.lang.get("labels", ())}
        return any(token.key in labels for token in self.tokens.all[max(0, at - 5) : at])
