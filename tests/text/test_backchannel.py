# SPDX-License-Identifier: GPL-3.0-or-later
"""B6: what is only a nod, in each language of the table."""

from __future__ import annotations

import json
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.backchannel import ANY, is_backchannel

pytestmark = pytest.mark.unit

TABLE = json.loads(resources.files("gateway.text").joinpath("backchannels.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Uh-huh."),
        ("en", "Mm-hmm, yeah, okay."),
        ("en", "Mmmmm"),
        ("pt", "Sim, sim, claro."),
        ("pt", "Está bem!"),
        ("pt-BR", "Aham…"),
        ("es", "Sí."),
        ("es", "Sí"),
        ("zh", "嗯嗯。"),
        ("zh", "对，对。"),
        ("ja", "はい、そうですね。"),
        ("ko", "네네"),
        ("de", "Ach so, genau."),
        ("ru", "Угу, понятно."),
        ("xx", "Mhm."),
    ],
)
def test_b6_a_nod_is_a_nod(language: str, text: str) -> None:
    assert is_backchannel(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", ""),
        ("en", "..."),
        ("en", "Yes, tomorrow at nine."),
        ("en", "No."),
        ("en", "Okra"),
        ("en", "Sim"),
        ("pt", "Sim, mas não hoje."),
        ("pt", "Simples."),
        ("zh", "对不起"),
        ("zh", "好几天"),
        ("ja", "そうじゃない"),
        ("xx", "yes"),
    ],
)
def test_b6_and_what_says_something_is_none(language: str, text: str) -> None:
    assert not is_backchannel(text, language)


def test_every_phrase_of_the_table_is_one_in_its_language_and_repeated() -> None:
    for language, phrases in TABLE.items():
        spoken = "en" if language == ANY else language
        for phrase in phrases:
            assert is_backchannel(phrase, spoken), (language, phrase)
            assert is_backchannel(f"{phrase.capitalize()}, {phrase}!", spoken), (language, phrase)


@given(st.text(max_size=60), st.sampled_from(sorted(TABLE)))
def test_any_text_gets_an_answer(text: str, language: str) -> None:
    assert is_backchannel(text, language) in (True, False)
