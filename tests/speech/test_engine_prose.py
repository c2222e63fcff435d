# SPDX-License-Identifier: GPL-3.0-or-later
"""Cutting text, and what can be spoken at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.speech.engines.espeak import phonemes
from gateway.speech.engines.mt_text import pair_of, translate_whole
from gateway.speech.engines.prose import (
    halves,
    language_data,
    pieces,
    sentences,
    speakable,
    transliterated,
)
from gateway.text.tags import base_language

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Good morning. How are you? Fine!", ["Good morning.", "How are you?", "Fine!"]),
        (
            "en",
            "Mr. Smith met Dr. J. Brown at 3.30 p.m. today. He left.",
            ["Mr. Smith met Dr. J. Brown at 3.30 p.m. today.", "He left."],
        ),
        ("pt", "O Sr. Silva ligou. Ele volta amanhã.", ["O Sr. Silva ligou.", "Ele volta amanhã."]),
        ("zh", "你好。你好吗？我很好", ["你好。", "你好吗？", "我很好"]),
        ("hi", "नमस्ते। आप कैसे हैं?", ["नमस्ते।", "आप कैसे हैं?"]),
        ("en", 'I said "stop." Then I left', ['I said "stop."', "Then I left"]),
        ("en", "  ", []),
    ],
)
def test_h07_sentences_are_found(language: str, text: str, expected: list[str]) -> None:
    assert sentences(text, language) == expected


@given(st.text(alphabet="ab .,;!?\n1。，", max_size=400), st.integers(20, 120))
@settings(max_examples=150)
def test_pieces_keep_every_character_and_the_bound(text: str, longest: int) -> None:
    cut = pieces(text, "en", longest)
    assert "".join("".join(cut).split()) == "".join(text.split())
    assert all(len(piece) <= longest for piece in cut)


def test_a_long_sentence_is_cut_at_clauses_first() -> None:
    text = "when the long meeting was over, " * 6
    cut = pieces(text, "en", 100)
    assert len(cut) > 1
    assert all(piece.endswith(",") for piece in cut)


@pytest.mark.parametrize("text", ["", "...", "😀", "​", "？", " \t\n", "\x00", "—", "你好", "привет", "🇧🇷🎉"])
def test_i01_nothing_to_say_in_a_latin_language(text: str) -> None:
    assert speakable(text, "en") == ""


def test_i01_latin_is_nothing_to_say_in_chinese_but_digits_are() -> None:
    assert speakable("hello", "zh") == ""
    assert speakable("我有 3 个", "zh") == "我有 3 个"


def test_s1_27_names_in_a_foreign_script_are_said_by_latin_letters() -> None:
    assert transliterated("O senhor Владимир e a Ωμέγα, às 3", "pt") == ("O senhor Vladimir e a Omega, às 3", 2)
    assert transliterated("São João", "pt") == ("São João", 0)
    assert transliterated("你好", "pt") == ("你好", 0), "nothing of its own to say"
    assert transliterated("Привет Ωμέγα", "ru") == ("Привет Ωμέγα", 0)


def test_speakable_keeps_accents_prices_and_drops_emoji() -> None:
    assert speakable("São R$ 5,50 😀 às 3ª-feiras\u200b!", "pt") == "São R$ 5,50 às 3ª-feiras!"
    assert speakable("Straße", "de") == "Straße"


def test_halves_prefer_a_clause_border() -> None:
    assert halves("one two three, four") == ("one two three,", "four")
    assert halves("one two three four") == ("one two", "three four")
    assert halves("word") is None


def test_base_language() -> None:
    assert [base_language(code) for code in ("pt-BR", "en_US", "ZH", "es")] == ["pt", "en", "zh", "es"]


def test_h07_every_sentence_is_translated_and_counts_hold() -> None:
    seen: list[str] = []

    def upper(batch: object) -> list[str]:
        assert isinstance(batch, list)
        seen.extend(batch)
        return [sentence.upper() for sentence in batch]

    texts = ["One. Two! Three? Four.", "", "...", " ", "five"]
    assert translate_whole(texts, "en", "pt", upper) == ("ONE. TWO! THREE? FOUR.", "", "...", " ", "FIVE")
    assert seen == ["One.", "Two!", "Three?", "Four.", "five"]


def test_h13_length_is_capped() -> None:
    longest = []

    def echo(batch: object) -> list[str]:
        assert isinstance(batch, list)
        longest.append(max(map(len, batch)))
        return list(batch)

    (answer,) = translate_whole(["word " * 5000], "en", "pt", echo)
    assert longest[0] <= 300
    assert len(answer) <= 4000


def test_h06_a_looping_translation_is_cut() -> None:
    (answer,) = translate_whole(["Yes."], "en", "pt", lambda _: ["(risos) e aplausos do público " * 20])
    assert len(answer) < 60


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("(Risos) Sim. (Aplausos)", "Sim."),
        ("♪ Sim ♪", "Sim"),
        ("[Música] Sim.", "Sim."),
        ("Sim（笑）。", "Sim 。"),
    ],
)
def test_h06_asides_that_nobody_said_are_left_out(answer: str, kept: str) -> None:
    assert translate_whole(["Yes, I do."], "en", "pt", lambda _: [answer]) == (kept,)
    assert translate_whole(["Yes (laughs)."], "en", "pt", lambda _: ["Sim (risos)."]) == ("Sim (risos).",)


def test_h06_an_absurd_translation_is_made_again_in_halves() -> None:
    asked: list[list[str]] = []

    def absurd_when_whole(batch: object) -> list[str]:
        assert isinstance(batch, list)
        asked.append(batch)
        return [each.upper() if len(each) < 15 else "(laughter)" for each in batch]

    assert translate_whole(["I see, he said so"], "en", "pt", absurd_when_whole) == ("I SEE, HE SAID SO",)
    assert asked == [["I see, he said so"], ["I see,", "he said so"]]


def test_pair_of_names_the_remedy() -> None:
    assert pair_of("firefox-en-pt") == ("en", "pt")
    with pytest.raises(ValueError, match="en-pt"):
        pair_of("nllb")


@pytest.mark.parametrize("language", sorted(language_data()["espeak"]))
def test_every_language_of_the_table_has_a_voice_in_espeak_ng(language: str) -> None:
    assert any(phonemes("1, 2, 3.", language))
