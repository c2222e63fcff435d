# SPDX-License-Identifier: GPL-3.0-or-later
"""Idioms: the shipped tables, the notation, and what must not be taken for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.text import idioms
from gateway.text.idioms import Idiom, IdiomTable, joined, shipped_idioms

pytestmark = pytest.mark.unit

TABLES = sorted((Path(idioms.__file__).parent / "idiom_tables").glob("*.json"))


def replaced(text: str, *entries: tuple[str, str]) -> str:
    return IdiomTable(tuple(Idiom(*entry) for entry in entries)).replaced(text)[0]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_s1_23_every_shipped_idiom_is_found_in_its_example(path: Path) -> None:
    entries = json.loads(path.read_text())
    table = joined(shipped_idioms(*path.stem.split("-")))
    assert len(table.idioms) >= 60
    wrong = [entry["say"] for entry in entries if table.replaced(entry["example"])[1] != 1]
    assert wrong == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("He kicked the bucket.", "He died."),
        ("Kicks  the bucket", "Dies"),
        ("They are pulling her leg again", "They are joking with her again"),
        ("It cost my old uncle an arm and a leg", "It cost my old uncle a lot of money"),
        ("It’s a piece of cake, he’s under the weather", "It's very easy, he's a little ill"),
    ],
)
def test_h17_inflected_idioms_become_their_meaning(said: str, meant: str) -> None:
    assert joined(shipped_idioms("en", "pt")).replaced(said)[0] == meant


@pytest.mark.parametrize(
    "plain",
    [
        "Please put the bucket under the sink.",
        "Put your arms up in the air.",
        "I get cold feet at night.",
        "Keep the foot in hot water.",
        "An arm and a leg are broken.",
        "We missed the boat to the island.",
        "",
    ],
)
def test_plain_words_are_left_alone(plain: str) -> None:
    assert joined(shipped_idioms("en", "pt")).replaced(plain) == (plain, 0)


def test_groups_may_be_absent_and_any_words_are_few() -> None:
    assert replaced("on cloud nine and cloud nine", ("{on|} cloud nine", "very happy")) == "very happy and very happy"
    assert replaced("let a b c go", ("let {*} go", "free {1}")) == "free a b c"
    assert replaced("let a b c d go", ("let {*} go", "free {1}")) == "let a b c d go"


def test_the_longest_wins_and_a_meaning_is_not_an_idiom() -> None:
    entries = (("spill", "say"), ("spill the beans", "spill it"), ("it", "that"))
    assert replaced("spill the beans", *entries) == "spill it"


def test_a_users_idiom_comes_before_a_shipped_one() -> None:
    own = (Idiom("A piece of cake", "nothing"),)
    assert joined(own, shipped_idioms("en", "pt")).replaced("a piece of cake")[0] == "nothing"


def test_h09_signs_are_literal() -> None:
    assert replaced("say (a+b)* now", ("say (a+b)*", "x")) == "x now"
    assert replaced("say aab now", ("say (a+b)*", "x")) == "say aab now"


@pytest.mark.parametrize(
    ("say", "means"),
    [
        ("", "x"),
        ("x", " "),
        ("{a|b}", "x"),
        ("a {b", "x"),
        ("{a|b} c", "{2}"),
        ("{a|b} c", "{1:x}"),
        ("{*} c", "{1:x}"),
    ],
)
def test_s1_23_an_idiom_that_cannot_work_is_refused(say: str, means: str) -> None:
    with pytest.raises(ValueError, match=r"idiom|meaning"):
        Idiom(say, means)
