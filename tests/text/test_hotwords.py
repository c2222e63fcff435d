# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import string

import pytest

from gateway.text.hotwords import MOST_HOTWORDS, likely_hotwords, repair_hotwords, threshold

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


@pytest.mark.parametrize(
    ("heard", "confidence", "wanted"),
    [
        ("Take on Brazil before lunch.", 0.72, "Omeprazole"),
        ("Please call Mr. Kyle Czick tomorrow.", 0.59, "Kowalczyk"),
        ("My sister, Shivan will come.", 0.64, "Siobhan"),
        ("The flight to the Ubleon is late.", 0.58, "Ljubljana"),
        ("Benersk gives an exopurant tonight.", 0.45, "Enoxaparin"),
    ],
)
def test_s1_9_what_may_have_been_misheard_is_worth_a_second_look(heard: str, confidence: float, wanted: str) -> None:
    names = ["Omeprazole", "Kowalczyk", "Siobhan", "Ljubljana", "Enoxaparin", "Guimarães", "Zolpidem"]
    assert likely_hotwords(heard, names, confidence, 3)[0] == wanted


def test_s1_9_a_sure_text_an_empty_one_and_a_word_that_is_there_need_no_second_look() -> None:
    assert likely_hotwords("Take on Brazil before lunch.", ["Omeprazole"], 0.95, 3) == ()
    assert likely_hotwords("", ["Omeprazole"], 0.0, 3) == ()
    assert likely_hotwords("Take omeprazole before lunch", ["Omeprazole"], 0.3, 3) == ()
    assert likely_hotwords("good morning", [], 0.3, 3) == ()


def test_g05_of_many_hotwords_only_the_likeliest_get_a_second_look() -> None:
    chance = random.Random(5)
    many = ["".join(chance.choices("bdkrst", k=4)) + "ax" for _ in range(400)]
    likely = likely_hotwords("call bdkrax now please", [*many, "bdkrasx"], 0.2, 4)
    assert len(likely) == 4
    assert likely[0] == "bdkrasx"
