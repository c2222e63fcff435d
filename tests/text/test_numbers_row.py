# SPDX-License-Identifier: GPL-3.0-or-later
"""E04: a number that is dictated in groups is one number, whatever pauses part it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.numbers.row import NumberRow, ends_in_digits, one_by_one
from gateway.text.reading import reading

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("language", "text", "written"),
    [
        ("en", "867.", "8 6 7"),
        ("en", "eight six seven", "8 6 7"),
        ("en", "5,309", "5 3 0 9"),
        ("en", "867, 5309", "8 6 7 5 3 0 9"),
        ("pt", "oito seis sete", "8 6 7"),
        ("en", "05", "0 5"),
        ("de", "acht sechs sieben", "8 6 7"),
        ("en", "867 people", None),
        ("en", "$867", None),
        ("en", "12.5", None),
        ("en", "20%", None),
        ("en", "yes", None),
        ("en", "", None),
    ],
)
def test_a_group_is_nothing_but_digits(language: str, text: str, written: str | None) -> None:
    assert one_by_one(text, language) == written


@pytest.mark.parametrize(
    ("text", "ends"),
    [("My number is 555", True), ("five five five,", True), ("I have 3", False), ("555 people", False), ("", False)],
)
def test_the_group_before_ends_in_digits(text: str, ends: bool) -> None:
    assert ends_in_digits(text, "en") is ends


def test_e04_groups_with_pauses_of_0_9_s_are_said_digit_by_digit() -> None:
    row, at, said = NumberRow(8000), 0, []
    for text in ("My number is 555.", "867.", "5309.", "Thank you.", "40."):
        said.append(row.going_on(text, "en", at) or text)
        row.note(text, "en", at + 8000)
        at += 8000 + 7200
    assert said == ["My number is 555.", "8 6 7", "5 3 0 9", "Thank you.", "40."]
    assert reading(said[2], "pt") == "cinco três zero nove"


def test_a_long_pause_ends_the_number() -> None:
    row = NumberRow(8000)
    assert row.going_on("867", "en", 0) is None, "nothing was said before"
    row.note("555", "en", 8000)
    assert row.going_on("867", "en", 8000 + 16_000) == "8 6 7"
    assert row.going_on("867", "en", 8000 + 16_001) is None


@given(st.from_regex(r"[0-9]{2,12}", fullmatch=True))
def test_no_digit_is_lost_or_moved(digits: str) -> None:
    assert one_by_one(digits, "en") == " ".join(digits)
