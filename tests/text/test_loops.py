# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.loops import compression_ratio, cut_loops

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  two  spaces ",
        "no no no",
        "No, no, no, no!",
        "five five",
        "my number is five five five five two two two",
        "0 0 0 0 0 0 0 0 7",
        "hello hello",
        "I want to go, I want to go, I want to go.",
        "the apple the pear the plum the cherry",
        "不不不",
        "哈哈哈哈哈",
        "谢谢谢谢",
        "bye bye bye bye",
        "Donaudampfschifffahrtsgesellschaft",
        "- - - - - - - - - -",
    ],
)
def test_f05_real_repeats_are_kept(text: str) -> None:
    assert cut_loops(text) == (text, False)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("no " * 40, "no no"),
        ("Well, " + "thank you. " * 9 + "Bye.", "Well, thank you. thank you. Bye."),
        ("you have success. Congratulations, " * 4 + "you have", "you have success. Congratulations,"),
        ("one two three four five six " * 5 + "done", "one two three four five six done"),
        ("谢谢观看" * 12, "谢谢观看"),
        ("ha" * 40, "haha"),
        ("I said Yes, yes. yes! YES yes yes yes yes", "I said Yes, yes."),
    ],
)
def test_f02_endless_loops_are_cut(text: str, kept: str) -> None:
    assert cut_loops(text) == (kept, True)


@given(st.text(alphabet="ab 1,", max_size=120))
def test_cutting_only_takes_away(text: str) -> None:
    once, cut = cut_loops(text)
    assert len(once.split()) <= len(text.split())
    if not cut:
        assert once == text
    assert set(once.split()) <= set(text.split()) or any(len(word) > 24 for word in text.split())


def test_compression_ratio_tells_loops_from_speech() -> None:
    assert compression_ratio("") == 0.0
    assert compression_ratio("thank you for watching " * 20) > 5
    assert compression_ratio("Could you tell me when the next train to the airport leaves, please?") < 1.5
