# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.26: the words that must come through, found whole, and spoken by their meaning."""

from __future__ import annotations

import json
from importlib import resources
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.folding import nfc
from gateway.text.safety import MOST_FOUND, SafetyWords, safety_words

pytestmark = pytest.mark.unit

TABLE = json.loads(resources.files("gateway.text").joinpath("safety_words.json").read_text(encoding="utf-8"))
HEDGES = TABLE.pop("perhaps")
LANGUAGES = ("de", "en", "es", "fr", "pt", "zh")


def said(text: str, source: str, target: str) -> str:
    words = SafetyWords(source, target)
    return words.spoken(words.found(text))


@pytest.mark.parametrize(
    ("source", "target", "heard", "spoken"),
    [
        ("en", "pt", "Help!", "socorro"),
        ("en", "pt", "... and then help, there is a FIRE in the kitchen.", "socorro, fogo"),
        ("en", "pt", "My son isn't breathing", "não respira"),
        ("en", "pt", "I am not allergic", "não, alérgico"),
        ("pt-BR", "en", "Socorro, chamem uma ambulância! Não, não é a polícia.", "help, ambulance, no, no, police"),
        ("pt", "en", "NÃO CONSIGO RESPIRAR", "not breathing"),
        ("es", "de", "Sí, hay humo. Si quiere, espere.", "ja, Rauch, warten Sie"),
        ("fr", "en", "À l'aide ! Mon père a une crise cardiaque.", "help, heart attack"),
        ("de", "fr", "Hilfe, es brennt, aber ich bin nicht verletzt", "au secours, feu, non, blessé"),
        ("zh", "en", "救命着火了我不能呼吸", "help, fire, not breathing"),
        ("zh", "en", "我孩子沒有呼吸,叫救護車", "child, not breathing, ambulance"),
        ("zh", "en", "是。水!快,停", "yes, water, quickly, stop"),
        ("zh", "en", "我不过敏", "no, allergic"),
        ("en", "zh", "Yes, a doctor, quickly", "是的、医生、快"),
        ("en", "pt", "I don’t need a doctor", "não, médico"),
    ],
)
def test_s1_26_words_are_found_and_spoken_in_the_order_they_were_said(
    source: str, target: str, heard: str, spoken: str
) -> None:
    assert said(heard, source, target) == spoken


@pytest.mark.parametrize(
    ("language", "heard"),
    [
        ("en", "The helpful fireman knows about notes, gasoline and Stopford."),
        ("en", ""),
        ("en", "♪ ... ♪"),
        ("pt", "Os simples senões da dormida e do parêntese"),
        ("es", "Si noto que la fuegoterapia"),
        ("fr", "Ouïe, le passage du feuilleton"),
        ("zh", "我是学生,水平很高,特别快乐,对面的停车场"),
        ("de", "Der Hilfsarbeiter und der Handbrandmelder jagen Neinsager"),
    ],
)
def test_s1_26_a_part_of_a_longer_word_is_not_the_word(language: str, heard: str) -> None:
    target = "pt" if language == "en" else "en"
    assert said(heard, language, target) == ""


def test_every_meaning_has_words_in_every_language_and_no_word_means_two_things() -> None:
    assert 30 <= len(TABLE) <= 40
    for meaning, words in TABLE.items():
        assert sorted(words) == sorted(LANGUAGES), meaning
        assert all(form == nfc(form).strip() and form for forms in words.values() for form in forms), meaning
    for language in LANGUAGES:
        forms = [form.casefold() for words in TABLE.values() for form in words[language]]
        assert len(forms) == len(set(forms)), language


@pytest.mark.parametrize(("source", "target"), list(permutations(LANGUAGES, 2)))
def test_every_word_is_found_alone_and_spoken_by_its_meaning(source: str, target: str) -> None:
    words = SafetyWords(source, target)
    for meaning, by_language in TABLE.items():
        for form in by_language[source]:
            for heard in (form, form.upper(), f"« {form} ! »"):
                assert [one.meaning for one in words.found(heard)] == [meaning], (form, heard)
            assert words.spoken(words.found(form)) == by_language[target][0]


def test_a_language_without_safety_words_and_a_pair_of_one_language_have_none() -> None:
    assert safety_words("en", "xx") is None and safety_words("xx", "en") is None
    assert safety_words("pt", "pt-BR") is None
    assert safety_words("en", "pt") is safety_words("en", "pt")
    with pytest.raises(LookupError, match="no safety words in xx: there are in de, en"):
        SafetyWords("en", "xx")


@given(st.text(max_size=80), st.sampled_from(LANGUAGES))
def test_whatever_was_heard_only_words_of_the_table_are_spoken(text: str, source: str) -> None:
    target = "en" if source != "en" else "fr"
    found = SafetyWords(source, target).found(text)
    assert len(found) <= MOST_FOUND
    assert all(word.spoken == TABLE[word.meaning][target][0] for word in found)


@pytest.mark.parametrize("target", LANGUAGES)
def test_what_may_have_been_misheard_is_spoken_as_such_and_is_no_word_itself(target: str) -> None:
    source = "en" if target != "en" else "fr"
    words = SafetyWords(source, target)
    found = words.found(TABLE["fire"][source][0])
    assert words.spoken(found, sure=False).startswith(HEDGES[target][0]), "perhaps"
    assert words.spoken(found, sure=False).endswith(words.spoken(found))
    assert words.found(HEDGES[source][0]) == ()


def test_a_recogniser_that_loops_does_not_cry_for_ever() -> None:
    assert said("help " * 200, "en", "pt") == ", ".join(["socorro"] * MOST_FOUND)
