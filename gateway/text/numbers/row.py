# SPDX-License-Identifier: GPL-3.0-or-later
"""A number that is dictated in groups, with a pause behind each: "555" … "867" … "5309".

Each pause ends an utterance, and a group by itself reads like an amount: "eight hundred and sixty-seven". The groups
behind the first are therefore said digit by digit, as they were, so that the listener writes down one number. A group
is an utterance that is nothing but digits, soon behind one that ended in digits; saying its digits is right even where
it was an amount after all.
"""

from __future__ import annotations

from gateway.text.numbers.finding import find
from gateway.text.numbers.value import Kind

MOST_PAUSE_S = 2.0
LEAST_DIGITS = 2  # of the group before: "I have 3" … "400 are at home"


def ends_in_digits(text: str, language: str) -> bool:
    """Whether a text ends in a whole number without a unit, of `LEAST_DIGITS` or more."""
    found = find(text, language, heard=True)
    if not found or any(map(str.isalnum, text[found[-1].end :])):
        return False
    number = found[-1].number
    return _is_plain(number.kind, number.value) and len(number.value) >= LEAST_DIGITS


def one_by_one(text: str, language: str) -> str | None:
    """The digits of a text that is nothing but whole numbers, parted by spaces; None for any other text."""
    found = find(text, language, heard=True)
    outside = list(text)
    for one in found:
        outside[one.start : one.end] = " " * (one.end - one.start)
    numbers_only = bool(found) and not any(map(str.isalnum, outside))
    if not numbers_only or not all(_is_plain(one.number.kind, one.number.value) for one in found):
        return None
    return " ".join("".join(one.number.value for one in found))


def _is_plain(kind: Kind, value: str) -> bool:
    return kind in (Kind.NUMBER, Kind.DIGITS) and value.isdigit()


class NumberRow:
    """What one talker has dictated so far: `note` each final text, ask `going_on` for the next one."""

    def __init__(self, rate_hz: int) -> None:
        self._most_samples = round(MOST_PAUSE_S * rate_hz)
        self._open_until = -1

    def note(self, text: str, language: str, end_sample: int) -> None:
        """A text is final whose sound ended there."""
        self._open_until = end_sample + self._most_samples if ends_in_digits(text, language) else -1

    def going_on(self, text: str, language: str, first_sample: int) -> str | None:
        """How to write a text that began there, when it goes on with a number: digit by digit. None: as it is."""
        return one_by_one(text, language) if first_sample <= self._open_until else None
