# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from gateway.text.normal import corpus_wer, errors, normal_words, wer

pytestmark = pytest.mark.unit


def test_case_punctuation_and_width_do_not_count() -> None:
    assert normal_words("Don’t pay—now: well-known, ＡＢＣ.") == ["dont", "pay", "now", "well", "known", "abc"]
    assert wer("Hello, World!", "hello world") == 0.0
    assert normal_words("हिंदी") == ["हिंदी"]


def test_numbers_count_as_written() -> None:
    assert normal_words("It is 3.5, not 35.") == ["it", "is", "3.5", "not", "35"]
    assert wer("3.5", "35") == 1.0


def test_words_and_characters() -> None:
    assert wer("the cat sat on the mat", "the cat sat mat") == pytest.approx(2 / 6)
    assert errors("你好世界", "你好是界", "zh") == (1, 4)
    assert errors("你好世界", "你好是界", "zh-CN") == (1, 4)


def test_empty_reference_counts_what_was_invented() -> None:
    assert wer("", "") == 0.0
    assert wer("", "thank you") == 2.0


def test_a_corpus_is_weighted_by_length() -> None:
    assert corpus_wer([("a b c d", "a b c d"), ("e", "x")]) == pytest.approx(0.2)
    assert corpus_wer([]) == 0.0
