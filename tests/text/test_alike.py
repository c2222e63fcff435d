# SPDX-License-Identifier: GPL-3.0-or-later
"""Where one text says what another says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.alike import find_alike

pytestmark = pytest.mark.unit


def test_a_part_is_found_where_it_stands() -> None:
    match = find_alike("Amanhã às nove", "Sim, venho amanhã às nove, com o meu irmão.")
    assert match.likeness > 95
    assert 0.2 < match.first < 0.35 and 0.55 < match.end < 0.7


def test_what_a_recogniser_mishears_is_still_like_it() -> None:
    assert find_alike("podes enviar a fatura por email", "Pode enviar a fatura por e-mail?").likeness > 85


def test_something_else_is_not() -> None:
    assert find_alike("The weather is fine in Lisbon", "Your account number has five digits.").likeness < 60


@given(st.text(max_size=40), st.text(max_size=80))
def test_the_place_lies_in_the_text(heard: str, played: str) -> None:
    match = find_alike(heard, played)
    assert 0 <= match.likeness <= 100
    assert 0 <= match.first <= match.end <= 1


@given(st.text(alphabet="abcdefg hijk", min_size=3, max_size=30).filter(str.strip))
def test_a_text_is_like_itself(text: str) -> None:
    assert find_alike(text, text).likeness == 100
