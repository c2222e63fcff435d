# SPDX-License-Identifier: GPL-3.0-or-later
"""B7, E09: what comes back by a loudspeaker is an echo; what a human repeats, or says besides, is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audio.playout import ClipKind
from gateway.call.breaker import LoopBreaker
from gateway.call.echo_words import Echo, Heard, judge_echo
from gateway.call.spoken import Spoken

pytestmark = pytest.mark.unit

S = 1_000_000_000
LINE = "Sim, venho amanhã às nove com o meu irmão."


def played(text: str = LINE, began_s: float = 10.0, length_s: float = 3.0, language: str = "pt") -> Spoken:
    return Spoken("s", ClipKind.TRANSLATION, int(length_s * S), text, language, 0, int(began_s * S))


def heard(text: str, first_s: float, end_s: float, language: str = "pt") -> Heard:
    return Heard(text, language, int(first_s * S), int(end_s * S))


@pytest.mark.parametrize("delay_s", [0.02, 0.15, 0.4, 0.75])
@pytest.mark.parametrize("text", [LINE, "sim venho amanhã as nove com meu irmão", "Simba manhã as nove como irmão"])
def test_b7_the_same_words_while_they_are_played_are_an_echo(text: str, delay_s: float) -> None:
    assert judge_echo(heard(text, 10 + delay_s, 13 + delay_s), [played()]) is Echo.YES


def test_b7_a_part_of_the_line_that_an_echo_canceller_let_through() -> None:
    assert judge_echo(heard("com o meu irmão", 12.1, 13.2), [played()]) is Echo.YES


def test_b7_two_sentences_come_back_as_one() -> None:
    lines = [played(began_s=10.0), played("Ele fala inglês muito bem.", began_s=13.3, length_s=1.8)]
    both = heard(f"{LINE} Ele fala inglês muito bem.", 10.2, 15.3)
    assert judge_echo(both, lines) is Echo.YES
    assert judge_echo(heard("Ele fala inglês muito bem", 13.5, 15.3), lines) is Echo.YES


@pytest.mark.parametrize(
    ("text", "first_s", "end_s"),
    [
        ("Sim, amanhã às nove.", 13.2, 14.6),  # repeats it, behind its end
        ("Amanhã às nove?", 12.6, 13.7),  # cuts in, well behind those words
        (LINE, 13.1, 16.1),
        (LINE, 20.0, 23.0),
        ("Não, isso não é possível, estou em Lisboa.", 10.3, 13.1),  # something else, at the same time
        ("Sim, venho amanhã às nove com o meu irmão, mas só se não chover e se o carro pegar.", 10.2, 15.8),
    ],
)
def test_b7_what_a_human_says_later_or_differently_is_no_echo(text: str, first_s: float, end_s: float) -> None:
    assert judge_echo(heard(text, first_s, end_s), [played()]) is Echo.NO


def test_b7_politeness_returned_is_no_echo() -> None:
    thanks = played("Obrigado.", length_s=0.7)
    assert judge_echo(heard("Obrigado.", 11.0, 11.6), [thanks]) is Echo.NO
    assert judge_echo(heard("Obrigado.", 10.2, 10.9), [thanks]) is Echo.YES


def test_b7_only_in_the_language_that_was_played() -> None:
    assert judge_echo(heard(LINE, 10.2, 13.2, "es"), [played()]) is Echo.NO


def test_b7_what_is_like_it_but_not_enough_is_a_suspicion() -> None:
    assert judge_echo(heard("sim minha amanha a sorte com o meu irmão", 10.2, 13.2), [played()]) is Echo.YES
    assert judge_echo(heard("sem linha a lenha os novos e o milho", 10.2, 13.2), [played()]) is Echo.MAYBE


def test_b7_nothing_was_played_nothing_comes_back() -> None:
    assert judge_echo(heard(LINE, 10.2, 13.2), []) is Echo.NO
    assert judge_echo(heard("", 10.2, 13.2), [played()]) is Echo.NO


@given(
    st.text(alphabet="abcdefghi jklmno", min_size=15, max_size=80).filter(lambda text: len(text.split()) > 1),
    st.floats(0.0, 0.7),
    st.floats(1.0, 8.0),
)
def test_b7_a_perfect_echo_is_always_one_and_never_when_it_comes_behind(text: str, delay: float, length: float) -> None:
    line = played(text, length_s=length)
    assert judge_echo(heard(text, 10 + delay, 10 + length + delay), [line]) is Echo.YES
    assert judge_echo(heard(text, 10.1 + length, 10.1 + 2 * length), [line]) is Echo.NO


def test_b7_the_breaker_opens_at_the_last_of_so_many_hits_and_closes_by_itself() -> None:
    breaker = LoopBreaker(3, 30 * S, 10 * S)
    assert [breaker.hit(t * S) for t in (0, 10, 20)] == [False, False, True]
    assert breaker.is_open(29 * S) and not breaker.is_open(30 * S)
    assert not breaker.hit(25 * S), "it is open already"
    assert [breaker.hit(t * S) for t in (40, 55, 71)] == [False, False, False], "the first of them is too long ago"
    assert breaker.hit(72 * S) and breaker.opened == 2


def test_b7_a_breaker_of_no_hits_never_opens() -> None:
    breaker = LoopBreaker(0, 30 * S, 10 * S)
    assert not any(breaker.hit(t) for t in range(100)) and not breaker.is_open(5)
