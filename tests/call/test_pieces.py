# SPDX-License-Identifier: GPL-3.0-or-later
"""Pieces for the synthesizer: nothing lost, the first one short, no cut where none may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.pieces import beginning, speech_pieces
from gateway.text.numbers.finding import find

pytestmark = pytest.mark.unit

LONG = "A pessoa que você está chamando não está na mesa deles. Vou tentar localizá-los para você."
WORDS = st.sampled_from(
    [
        "o",
        "valor",
        "é",
        "de",
        "23,50",
        "euros",
        "por",
        "mês,",
        "e",
        "quatro",
        "cinco",
        "sete",
        "dois",
        "Nova",
        "York",
        "não",
        "sim.",
        "Sim!",
        "se",
    ]
)


def test_the_first_piece_is_short_and_ends_where_a_clause_may() -> None:
    pieces = speech_pieces(LONG, "pt", 20)
    assert pieces[0] == "A pessoa que você"
    assert all(len(piece) <= 2.2 * sum(map(len, pieces[: n + 1])) for n, piece in enumerate(pieces[1:]))


def test_nothing_is_cut_for_a_voice_that_is_fast_enough() -> None:
    assert speech_pieces(LONG, "pt", 0) == [LONG]
    assert speech_pieces("Sim.", "pt", 20) == ["Sim."]


def test_numbers_stay_whole() -> None:
    text = "O número da conta é quatro cinco sete dois e o valor é de 23,50 euros por mês."
    for first in range(8, 60):
        pieces = speech_pieces(text, "pt", first)
        assert any("quatro cinco sete dois" in piece for piece in pieces), pieces
        assert any("23,50 euros" in piece for piece in pieces), pieces


@given(st.lists(WORDS, min_size=1, max_size=40), st.integers(5, 80), st.sampled_from(["pt", "en", "de", "xx"]))
def test_the_pieces_give_the_text_back(words: list[str], first: int, language: str) -> None:
    text = " ".join(words)
    pieces = speech_pieces(text, language, first)
    assert " ".join(pieces).split() == text.split()
    assert all(piece.strip() for piece in pieces)


def test_no_piece_ends_inside_a_number() -> None:
    text = "O total é de R$ 1.234,50 e vence em 3 de maio de 2024 às 15h30 da tarde, ligue para 11 98765 4321 agora."
    for first in range(8, 60):
        pieces = speech_pieces(text, "pt", first)
        assert " ".join(pieces) == text
        assert sum(len(find(piece, "pt")) for piece in pieces) == len(find(text, "pt")), pieces


def test_a_beginning_that_may_still_be_a_larger_number_is_not_begun_with() -> None:
    assert beginning("Custa vinte, mil e duzentos reais", "pt", 12) is None
