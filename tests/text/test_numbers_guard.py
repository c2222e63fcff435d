# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard: whatever a translator does to the numbers, what comes out says what went in (SPEC B9, H01, H02, H04)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.numbers.finding import find
from gateway.text.numbers.guard import Faithful, faithful

pytestmark = pytest.mark.unit

Translator = Callable[[str], str]


def run(
    text: str, translator: Translator, source: str = "en", target: str = "pt", known: str | None = None
) -> Faithful:
    asking = faithful(text, source, target, known)
    try:
        asked = next(asking)
        for _ in range(20):
            asked = asking.send([translator(each) for each in asked])
    except StopIteration as done:
        result: Faithful = done.value
        return result
    raise AssertionError("the guard never comes to an end")


def keys(text: str, language: str) -> list[tuple[str, str, str]]:
    return sorted(found.number.key for found in find(text, language))


def test_b9_spoken_digits_are_digits_before_they_are_translated() -> None:
    asked: list[str] = []

    def translator(text: str) -> str:
        asked.append(text)
        return text

    assert run("My code is four five seven two", translator).text == "My code is 4572"
    assert asked == ["My code is 4572"]
    run("Call me at three thirty in the afternoon", translator)
    assert asked[-1] == "Call me at 3:30 pm"


def test_h01_a_lost_digit_is_put_back() -> None:
    result = run("There are 244890 people", lambda text: text.replace("244890", "24,490"))
    assert keys(result.text, "pt") == keys("244890", "pt")
    assert (result.checked, result.repaired, result.unrepaired) == (1, 1, 0)


def test_h02_a_swapped_currency_is_put_back() -> None:
    result = run("She paid €12.75 and £3", lambda text: text.replace("£3", "3 euros"))
    assert keys(result.text, "pt") == sorted([("money", "12.75", "EUR"), ("money", "3", "GBP")])
    assert "12,75" in result.text


def test_h02_a_broken_sign_goes_with_its_amount() -> None:
    result = run("You owe us 5,152 yuan", lambda text: text.replace("5,152 yuan", "CN 5,551"))
    assert result.text == "You owe us 5.152 iuanes"


def test_h04_versions_addresses_and_times_stay_and_amounts_take_the_marks_of_the_language() -> None:
    text = "Version 2.5 at 192.168.1.1, 98.6 degrees, 3:30 pm"
    assert run(text, str).text == "Version 2.5 at 192.168.1.1, 98,6 degrees, 3:30 pm"


def test_a_day_in_digits_is_the_same_day_in_another_country() -> None:
    assert run("dia 12/03", str, "pt", "en").text == "dia March 12"
    assert run("a million people", lambda text: text.replace("1,000,000", "1.000.000"), "en", "en").text.startswith(
        "1,000,000"
    )


def test_a_number_that_stays_lost_is_held_by_a_surrogate() -> None:
    result = run("It costs $4,520 now", lambda text: re.sub(r"\$[\d,]+", "muito", text))
    assert keys(result.text, "pt") == [("money", "4520", "USD")]
    assert (result.repaired, result.unrepaired) == (1, 0)


def test_a_number_that_no_translation_holds_is_said_where_it_was_said() -> None:
    def translator(text: str) -> str:
        return re.sub(r"\S*\d\S*|Zx\w+", "", text).upper()

    result = run("Pay 500 euros before 3:30 pm today.", translator)
    assert result.text == "PAY 500 € BEFORE 15h30 TODAY.".replace("500 €", "€ 500")
    assert result.unrepaired == 2


def test_the_plain_translation_stands_where_only_a_word_differs() -> None:
    """ "The two of us" is "nós": no number was lost that anybody misses."""
    result = run("The two of us are here", lambda text: "Estamos aqui")
    assert (result.text, result.repaired, result.unrepaired) == ("Estamos aqui", 0, 0)


def test_a_small_number_that_became_another_is_repaired() -> None:
    assert keys(run("Take two pills", lambda text: text.replace("two", "20")).text, "pt") == keys("dois", "pt")


def test_a_small_number_among_invented_ones_is_held_too() -> None:
    result = run("Take two pills", lambda text: text.replace("two", "20 or 30").replace("Zx", "Z x"))
    assert keys(result.text, "pt") == keys("dois", "pt")


def test_a_known_translation_is_taken_only_if_its_numbers_hold() -> None:
    assert run("at gate 42", str, known="no portão 42").text == "no portão 42"
    assert run("at gate 42", lambda text: text.replace("gate", "portão"), known="no portão 24").text == "at portão 42"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("about 1.5 million people", "circa 1,5 milioni di persone"),
        ("It costs 5 dollars", "Costa 5 dollari"),
        ("on May 3, 2024 at 3:30 pm", "il 3 maggio 2024 alle 15:30"),
        ("two people, twenty-five percent", "due persone, 25 per cento"),
        ("call 555-867-5309", "chiama il 555-867-5309"),
    ],
)
def test_where_words_are_not_known_the_translators_are_left(text: str, answer: str) -> None:
    assert run(text, lambda asked: answer, "en", "it") == Faithful(answer, len(find(text, "en", words=False)) or 1)
    assert run(answer, lambda asked: text, "it", "en").text == text


def test_where_words_are_not_known_lost_digits_are_put_back() -> None:
    result = run("There are 244890 people", lambda text: text.replace("244890", "24.490"), "en", "it")
    assert (result.text, result.repaired) == ("There are 244890 people", 1)


@given(st.integers(0, 2**32), st.lists(st.integers(13, 10**9), min_size=1, max_size=4, unique=True))
@settings(max_examples=150, deadline=None)
def test_b9_numbers_hold_through_any_translator(seed: int, said: Sequence[int]) -> None:
    """It drops, doubles, swaps and changes digits at random; the numbers are those of the source, whatever comes."""
    chance = random.Random(seed)

    def translator(text: str) -> str:
        words = text.split()
        for at, word in enumerate(words):
            if any(map(str.isdigit, word)) and chance.random() < 0.6:
                words[at] = chance.choice(("", word + "7", word[:-1], f"{word} {word}", "99"))
        return " ".join(words)

    text = "we say " + " and also ".join(map(str, said)) + " today"
    result = run(text, translator)
    assert keys(result.text, "pt") == keys(" / ".join(map(str, said)), "pt") or result.unrepaired
    missing = set(keys(text, "en")) - set(keys(result.text, "pt"))
    assert not missing
