# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.sentences import first_clause_split, sentences

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("language", "text", "pieces"),
    [
        ("en", "Dr. Smith has 98.6 degrees. It costs $3.5.", ["Dr. Smith has 98.6 degrees.", "It costs $3.5."]),
        ("en", "Ping 192.168.1.1. Mail a.b@c.example now!", ["Ping 192.168.1.1.", "Mail a.b@c.example now!"]),
        ("en", "No. 5 is alive. I said no. Then left.", ["No. 5 is alive.", "I said no.", "Then left."]),
        ("en", "The U.S. Army came at 5 p.m. Then it left.", ["The U.S. Army came at 5 p.m.", "Then it left."]),
        ("en", "Well... maybe. Is it? Yes!", ["Well... maybe.", "Is it?", "Yes!"]),
        ("en", 'He said "Go." She went.', ['He said "Go."', "She went."]),
        ("en", "Version 2.4.1 is out, J. R. Smith said.", ["Version 2.4.1 is out, J. R. Smith said."]),
        ("pt", "O Sr. Silva paga R$ 3,50. Tudo bem?", ["O Sr. Silva paga R$ 3,50.", "Tudo bem?"]),
        ("es", "¿Viene la Sra. López? ¡Sí! Vale.", ["¿Viene la Sra. López?", "¡Sí!", "Vale."]),
        ("de", "Wir kommen am 3. Mai. Gut?", ["Wir kommen am 3. Mai.", "Gut?"]),
        ("zh", "你好。今天很好！我们走吧，好吗？", ["你好。", "今天很好！", "我们走吧，好吗？"]),
        ("ja", "はい。「行こう。」と言った。", ["はい。", "「行こう。」", "と言った。"]),
        ("hi", "यह ठीक है। चलो।", ["यह ठीक है।", "चलो।"]),
        ("xx", "Unknown tongue. Still cut.", ["Unknown tongue.", "Still cut."]),
        ("en-GB", "Mr. Bean.  Twice\nspaced. ", ["Mr. Bean.", "Twice spaced."]),
        ("en", "   ", []),
    ],
)
def test_h07_sentences_are_cut_where_they_end_and_nowhere_else(language: str, text: str, pieces: list[str]) -> None:
    assert sentences(text, language) == pieces


def test_the_first_piece_is_short_and_ends_at_a_natural_border() -> None:
    text = "I would like to book a table for two, and my wife wants a window seat. Thanks."
    assert first_clause_split(text, "en", 40) == [
        "I would like to book a table for two,",
        "and my wife wants a window seat.",
        "Thanks.",
    ]
    assert first_clause_split("We went to the beach because it was fine.", "en", 25)[0] == "We went to the beach"


def test_the_border_behind_the_limit_is_taken_when_none_is_before_it() -> None:
    assert first_clause_split("The committee in charge agreed, but late.", "en", 10)[0] == (
        "The committee in charge agreed,"
    )


def test_no_border_no_cut() -> None:
    for text in ("The committee in charge agreed unanimously.", "On July 3, 2024.", "It costs 3,500 euro.", "Short."):
        assert first_clause_split(text, "en", 8) == [text]
    assert first_clause_split("You and me.", "en", 3) == ["You and me."]


def test_cjk_needs_no_spaces() -> None:
    assert first_clause_split("我们想去海边，但是天气不好。好吗？", "zh", 8) == [
        "我们想去海边，",
        "但是天气不好。",
        "好吗？",
    ]
    assert first_clause_split("我们想去海边但是天气不好。", "zh", 8) == ["我们想去海边", "但是天气不好。"]


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_first_chars 0"):
        first_clause_split("x", "en", 0)


@given(st.text(alphabet="ab .,!?3-Z\"'\n", max_size=80), st.sampled_from(["en", "pt", "de", "xx"]), st.integers(1, 30))
def test_joined_pieces_give_the_text_back(text: str, language: str, limit: int) -> None:
    assert " ".join(sentences(text, language)) == " ".join(text.split())
    assert " ".join(first_clause_split(text, language, limit)) == " ".join(text.split())


@given(st.text(max_size=60), st.sampled_from(["zh", "ja", "th", "en"]), st.integers(1, 30))
def test_no_character_is_lost_in_any_script(text: str, language: str, limit: int) -> None:
    assert "".join("".join(first_clause_split(text, language, limit)).split()) == "".join(text.split())
