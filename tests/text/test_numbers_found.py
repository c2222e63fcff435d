# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers in what people say: which words are one, what it is worth, and what is none (SPEC B9)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.numbers.finding import find
from gateway.text.numbers.forms import write
from gateway.text.numbers.guard import normalised
from gateway.text.numbers.language import known_languages, language_of
from gateway.text.numbers.value import Kind, Number
from gateway.text.numbers.words import LARGEST, cardinal

pytestmark = pytest.mark.unit

LANGUAGES = sorted(known_languages())


def values(text: str, language: str) -> list[tuple[str, str, str]]:
    return [
        (found.number.kind.value, found.number.value, found.number.unit) for found in find(text, language, heard=True)
    ]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "My account number is four five seven two.", ("digits", "4572", "")),
        ("en", "Call 555 … 867 … 5309 now", ("digits", "5558675309", "")),
        ("en", "It is 5, 5, 5, 8, 6, 7, 5", ("digits", "5558675", "")),
        ("en", "eight hundred five five five one two one two", ("digits", "8005551212", "")),
        ("en", "double five three two", ("digits", "5532", "")),
        ("en", "one oh five", ("digits", "105", "")),
        ("en", "It is three thirty in the afternoon", ("time", "15:30", "")),
        ("en", "The flight leaves at 330pm.", ("time", "15:30", "")),
        ("en", "the bus at 1215 a.m. is late", ("time", "0:15", "")),
        ("en", "it took 375 pm", ("number", "375", "")),
        ("en", "at six oh five", ("time", "6:05", "12")),
        ("en", "a quarter to one", ("time", "12:45", "12")),
        ("en", "it's 7pm", ("time", "19:00", "")),
        ("en", "one point five million", ("number", "1500000", "")),
        ("en", "9-1-1", ("digits", "911", "")),
        ("es", "a las ocho y cuarto de la noche", ("time", "20:15", "")),
        ("de", "030 1234567", ("digits", "0301234567", "")),
        ("zh", "三点一刻", ("time", "3:15", "12")),
        ("en", "a million dollars", ("money", "1000000", "USD")),
        ("en", "three dollars and fifty cents", ("money", "3.50", "USD")),
        ("en", "₫50,000 for you", ("money", "50000", "VND")),
        ("en", "May third, twenty twenty-four", ("date", "2024-05-03", "")),
        ("en", "one ninety two point one six eight point one point one", ("code", "192.168.1.1", "")),
        ("en", "version two point five", ("code", "2.5", "")),
        ("en", "the code A B one two three", ("code", "AB123", "")),
        ("en", "write to joe.smith@acme.example now", ("code", "joe.smith@acme.example", "")),
        ("en", "the twenty-first floor", ("ordinal", "21", "")),
        ("pt", "às três e meia da tarde", ("time", "15:30", "")),
        ("pt", "nove meia sete um", ("digits", "9671", "")),
        ("pt", "doze vírgula cinco por cento", ("percent", "12.5", "")),
        ("pt", "3 de maio de dois mil e vinte e quatro", ("date", "2024-05-03", "")),
        ("pt", "dois milhões de dólares", ("money", "2000000", "USD")),
        ("pt", "terça, dia 12/03", ("date", "--03-12", "")),
        ("pt", "Meu celular é 11 9 8765 4321.", ("digits", "11987654321", "")),
        ("pt", "O CPF é 123.456.789-09.", ("digits", "12345678909", "")),
        ("en", "on 12/03", ("date", "--12-03", "")),
        ("pt", "em maio de dois mil e 24", ("number", "2024", "")),
        ("pt", "custa 300 e 50 reais", ("money", "350", "BRL")),
        ("pt", "foram 1.200 e 34 pessoas", ("number", "1234", "")),
        ("pt", "2 mil e 24 reais", ("money", "2024", "BRL")),
        ("pt", "2 milhões de reais", ("money", "2000000", "BRL")),
        ("en", "2 thousand and 350", ("number", "2350", "")),
        ("es", "mil millones", ("number", "1000000000", "")),
        ("es", "veintiún libros", ("number", "21", "")),
        ("es", "tres coma cinco por ciento", ("percent", "3.5", "")),
        ("fr", "quatre-vingt-dix-sept mille deux cent un", ("number", "97201", "")),
        ("fr", "zéro un vingt-trois quarante-cinq soixante-sept", ("digits", "01234567", "")),
        ("fr", "le 1er mai 2024", ("date", "2024-05-01", "")),
        ("de", "um halb vier", ("time", "3:30", "12")),
        ("de", "zweihundertvierunddreißigtausendfünfhundertsiebenundsechzig", ("number", "234567", "")),
        ("zh", "一百二十三万四千五百六十七", ("number", "1234567", "")),
        ("zh", "下午三点三十分", ("time", "15:30", "")),
        ("zh", "百分之五", ("percent", "5", "")),
        ("ru", "всего 1.234,50 рублей", ("number", "1234.50", "")),
    ],
)
def test_e04_one_expression_is_one_number(language: str, text: str, expected: tuple[str, str, str]) -> None:
    assert values(text, language) == [expected]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "One moment please, may I help you for a second?"),
        ("en", "No one told the other one."),
        ("pt", "Um momento, uma pessoa por segundo."),
        ("es", "Un momento, segundo a la derecha."),
        ("fr", "Un instant, une personne et les autres."),
        ("de", "Ein Moment, eine Frau und einen Mann."),
        ("es", "El cuarto de baño y el segundo piso."),
        ("zh", "我们一起去，十分好，万一下雨。"),
    ],
)
def test_words_that_only_look_like_numbers_are_none(language: str, text: str) -> None:
    assert values(text, language) == []
    assert normalised(text, language) == text


def test_lists_and_durations_are_not_joined() -> None:
    assert [value for _, value, _ in values("I have 2 or 3, 4 and 5", "en")] == ["2", "3", "4", "5"]
    assert [value for _, value, _ in values("One, two, three, four, five!", "en")] == ["2", "3", "4", "5"]
    assert [value for _, value, _ in values("entre 300 e 50, 20 e 30", "pt")] == ["300", "50", "20", "30"]
    assert values("trabalho 8 horas por dia", "pt") == [("number", "8", "")]
    assert [value for _, value, _ in values("100, 200, 300 or 400", "en")] == ["100", "200", "300", "400"]


def test_h01_separators_of_any_locale_keep_the_digits() -> None:
    for written in ("2.200.112", "2,200,112", "2 200 112", "2\u202f200\u202f112", "2'200'112", "2200112"):
        for language in ("en", "pt", "de", "fr", "xx"):
            assert [found.number.key[1] for found in find(f"= {written} =", language)] == ["2200112"], written


def test_a_small_number_word_keeps_its_text() -> None:
    text = "Two people and the second one"
    assert normalised(text, "en") == text
    assert [found.sure for found in find(text, "en")] == [False]


@given(st.sampled_from(LANGUAGES), st.integers(2, LARGEST))
@settings(max_examples=300, deadline=None)
def test_a_number_in_words_is_read_back(language: str, number: int) -> None:
    words = cardinal(number, language_of(language))
    found = find(words, language)
    assert [(each.start, each.end, each.number.value) for each in found] == [(0, len(words), str(number))]


NUMBERS = st.one_of(
    st.integers(2, 10**12).map(lambda value: Number(Kind.NUMBER, str(value))),
    st.decimals("0.01", "99999", places=2).map(lambda value: Number(Kind.NUMBER, str(value))),
    st.from_regex(r"[0-9]{4,12}", fullmatch=True).map(lambda row: Number(Kind.DIGITS, row)),
    st.tuples(st.integers(2, 10**7), st.sampled_from(("USD", "EUR", "BRL", "VND"))).map(
        lambda pair: Number(Kind.MONEY, str(pair[0]), pair[1])
    ),
    st.tuples(st.integers(0, 23), st.integers(0, 59)).map(
        lambda clock: Number(Kind.TIME, f"{clock[0]}:{clock[1]:02d}")
    ),
    st.dates().map(lambda day: Number(Kind.DATE, f"{1900 + day.year % 200}-{day.month:02d}-{min(day.day, 28):02d}")),
)


@given(st.sampled_from([*LANGUAGES, "it", "ja"]), NUMBERS)
@settings(max_examples=400, deadline=None)
def test_b9_what_is_written_is_found_again(language: str, number: Number) -> None:
    if number.kind is Kind.TIME and language not in LANGUAGES:
        return  # nothing is known of its halves of the day
    found = find(f"= {write(number, language)} =", language)
    assert [each.number.key for each in found] == [number.key]


@given(st.text(max_size=300), st.sampled_from([*LANGUAGES, "xx"]))
@settings(max_examples=200, deadline=None)
def test_any_text_is_taken_and_spans_are_in_order(text: str, language: str) -> None:
    behind = 0
    for found in find(text, language):
        assert behind <= found.start < found.end <= len(text)
        behind = found.end


@pytest.mark.parametrize("text", ["1 " * 2500, "one two three " * 360, "1.1" * 1600, "five, " * 830, "一" * 5000])
def test_long_text_is_bounded(text: str) -> None:
    for language in LANGUAGES:
        assert len(find(text, language)) <= len(text)
