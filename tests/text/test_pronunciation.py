# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import unicodedata

import pytest

from gateway.text.pronunciation import Pronunciations, Spoken, ipa_parts, letter_by_letter, respelled

pytestmark = pytest.mark.unit

KNOWN = Pronunciations(
    (Spoken("Kowalczyk", say="Kovaltchik"), Spoken("São João", ipa="sɐ̃w ʒuˈɐ̃w"), Spoken("SNS", say="ésse éne ésse"))
)


def test_b8_words_are_found_as_they_are_written_there() -> None:
    text = unicodedata.normalize("NFD", "KOWALCZYK from São João, Kowalczyks")
    assert KNOWN.within(text) == (Spoken("KOWALCZYK", say="Kovaltchik"), Spoken("São João", ipa="sɐ̃w ʒuˈɐ̃w"))
    assert KNOWN.within("nothing of that") == ()


def test_b8_respellings_and_ipa_take_the_place_of_words_and_of_nothing_else() -> None:
    text = "Kowalczyk, São João; Kowalczyks, Kowalczyk"
    found = KNOWN.within(text)
    assert respelled(text, found[:1]) == "Kovaltchik, São João; Kowalczyks, Kovaltchik"
    assert ipa_parts(text, found) == [
        ("Kowalczyk, ", False),
        ("sɐ̃w ʒuˈɐ̃w;", True),
        (" Kowalczyks, Kowalczyk", False),
    ]
    assert ipa_parts("no IPA here", found) == [("no IPA here", False)]
    assert ipa_parts("", found) == []


def test_h17_letters_are_named_one_by_one() -> None:
    assert letter_by_letter("AAPL") == "A. A. P. L."
    assert letter_by_letter("b2b") == "B. 2 B."
