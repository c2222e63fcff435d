# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.sentences import sentences

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


@given(st.text(alphabet="ab .,!?3-Z\"'\n", max_size=80), st.sampled_from(["en", "pt", "de", "xx"]))
def test_joined_sentences_give_the_text_back(text: str, language: str) -> None:
    assert " ".join(sentences(text, language)) == " ".join(text.split())


@given(st.text(max_size=60), st.sampled_from(["zh", "ja", "th", "en"]))
def test_no_character_is_lost_in_any_script(text: str, language: str) -> None:
    assert "".join("".join(sentences(text, language)).split()) == "".join(text.split())
