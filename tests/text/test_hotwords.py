# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import string

import pytest

from gateway.text.hotwords import MOST_HOTWORDS, repair_hotwords, threshold

pytestmark = pytest.mark.unit

WORDS = ["Kowalczyk", "metformin", "Acme Cloud", "Wrocław", "João", "Katarzyna"]


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ("call mister kowaltschik please", "call mister Kowalczyk please"),
        ("she takes metforming daily", "she takes metformin daily"),
        ("open ackme cloud now", "open Acme Cloud now"),
        ("open acmecloud now", "open Acme Cloud now"),
        ("fly to wroclav", "fly to Wrocław"),
        ("ask catarzina, today", "ask Katarzyna, today"),
    ],
)
def test_s1_9_an_uncertain_near_miss_becomes_the_hotword(heard: str, said: str) -> None:
    text, repairs = repair_hotwords(heard, WORDS, 0.3)
    assert text == said
    assert len(repairs) == 1


def test_s1_9_a_certain_hypothesis_keeps_its_words() -> None:
    assert repair_hotwords("she takes metforming daily", WORDS, 0.97) == ("she takes metforming daily", ())
    assert repair_hotwords("fly to wroclav", WORDS, 0.9) == ("fly to wroclav", ())


def test_s1_9_the_pull_falls_as_confidence_grows() -> None:
    figures = [threshold(step / 100) for step in range(101)]
    assert figures == sorted(figures)
    assert figures[0] > 70
    assert figures[-1] > 100


@pytest.mark.parametrize("confidence", [0.0, 0.5])
def test_no_leak_into_silence_or_other_words(confidence: float) -> None:
    assert repair_hotwords("", WORDS, confidence) == ("", ())
    assert repair_hotwords("...", WORDS, confidence) == ("...", ())
    for text in (
        "good morning, how are you doing today",
        "I would like to know the price of the cloud",
        "a b c d e f",
        "we meet at three thirty in the afternoon",
    ):
        assert repair_hotwords(text, WORDS, confidence) == (text, ())


def test_what_was_said_as_wanted_stays_as_it_is() -> None:
    text = "metformin and KOWALCZYK and Acme Cloud"
    assert repair_hotwords(text, WORDS, 0.0) == (text, ())


def test_words_that_were_merged_are_less_alike_than_words_that_were_not() -> None:
    _, (merged,) = repair_hotwords("ackmecloud", WORDS, 0.3)
    _, (parted,) = repair_hotwords("ackme cloud", WORDS, 0.3)
    assert merged.hotword == parted.hotword == "Acme Cloud"
    assert merged.similarity < parted.similarity < 100


def test_short_hotwords_are_not_pulled_to() -> None:
    assert repair_hotwords("the cat sat", ["cab", "sad"], 0.0) == ("the cat sat", ())


def test_cost_is_bounded() -> None:
    chance = random.Random(7)
    many = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(5, 12))) for _ in range(2000)]
    text = " ".join("".join(chance.choices(string.ascii_lowercase, k=6)) for _ in range(3000))
    repair_hotwords(text, many, 0.0)
    assert repair_hotwords(f"{many[MOST_HOTWORDS]}x", many, 0.0)[0] != many[MOST_HOTWORDS]
