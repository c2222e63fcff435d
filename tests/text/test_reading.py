# SPDX-License-Identifier: GPL-3.0-or-later
"""What the synthesizer gets to read (CASES I01, I04, I05, I07)."""

from __future__ import annotations

import locale

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.speech.engines.prose import speakable
from gateway.text.numbers.finding import find
from gateway.text.numbers.forms import write
from gateway.text.numbers.language import known_languages
from gateway.text.numbers.value import Kind, Number
from gateway.text.reading import reading
from gateway.text.sentences import sentences

pytestmark = pytest.mark.unit

LANGUAGES = sorted(known_languages())


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        ("en", "Dr. Lee paid $1,200", "Doctor Lee paid one thousand two hundred dollars"),
        ("en", "My account number is 4572.", "My account number is four five seven two."),
        ("en", "Call 555-867-5309.", "Call five five five, eight six seven, five three zero nine."),
        ("en", "In 1984 at 3:05 pm", "In nineteen eighty-four at three oh five p.m."),
        ("en", "joe.smith@acme.example", "joe dot smith at acme dot example"),
        ("en", "It is 5 km, 98.6°F.", "It is five kilometers, ninety-eight point six degrees Fahrenheit."),
        ("pt", "Custa R$ 1.234,50.", "Custa mil duzentos e trinta e quatro reais e cinquenta centavos."),
        ("pt", "A Sra. Lima tem 2 filhas e 21 dias.", "A senhora Lima tem duas filhas e vinte e um dias."),
        ("pt", "às 15h30", "às quinze horas e trinta minutos"),
        ("pt", "1 de maio de 2024", "primeiro de maio de dois mil e vinte e quatro"),
        ("pt", "US$ 2.000.000", "dois milhões de dólares"),
        ("es", "Son 21 libros y 1 persona.", "Son veintiún libros y una persona."),
        ("es", "El 12,5% de 1.000.000", "El doce coma cinco por ciento de un millón"),
        ("fr", "Mme Petit, 80 € et 71 €", "madame Petit, quatre-vingts euros et soixante et onze euros"),
        ("de", "um 15:30 Uhr, z. B. am 3. Mai", "um fünfzehn Uhr dreißig, zum Beispiel am dritten Mai"),
        ("zh", "下午3:30，价格$5", "十五点三十分，价格五美元"),
        ("en", "Suite 24/7, 2 pm.", "Suite twenty-four slash seven, two p.m."),
        ("en", "In the 1990s and the 80s", "In the nineteen nineties and the eighties"),
        ("de", "In den 80er Jahren", "In den achtziger Jahren"),
        ("en", "three people", "three people"),
        ("it", "Sono 21 libri", "Sono 21 libri"),
    ],
)  # fmt: skip
def test_i04_numbers_are_read_in_the_languages_way(language: str, text: str, spoken: str) -> None:
    assert reading(text, language) == spoken


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Die Straße ist schön, größer als Österreich."),
        ("fr", "Où est l'hôtel ? Ça va très bien, merci."),
        ("es", "¿Dónde está el niño? ¡Qué pena!"),
        ("pt", "Não há ninguém, coração."),
        ("zh", "你好，请稍等。"),
    ],
)
def test_i07_text_without_numbers_is_unchanged(language: str, text: str) -> None:
    assert reading(text, language) == text


def test_i05_the_machines_locale_has_no_say() -> None:
    before = locale.setlocale(locale.LC_ALL)
    said = reading("$1,234.50 on 3 May", "en")
    try:
        for name in ("C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8"):
            try:
                locale.setlocale(locale.LC_ALL, name)
            except locale.Error:
                continue  # not installed here
            assert reading("$1,234.50 on 3 May", "en") == said
    finally:
        locale.setlocale(locale.LC_ALL, before)


@pytest.mark.parametrize(
    "text", ["", "...", "😀", "？", "\u200b", "你好", "$", "%", "€€", "1" * 40, "1.2.3.4.5", "@", "a@b"]
)
def test_i01_anything_can_be_read(text: str) -> None:
    for language in (*LANGUAGES, "xx"):
        said = reading(speakable(text, language), language)
        assert len(said) < 400


@given(st.text(max_size=200), st.sampled_from(LANGUAGES))
@settings(max_examples=200, deadline=None)
def test_i01_no_text_is_an_exception(text: str, language: str) -> None:
    reading(text, language)


def test_i01_five_thousand_characters_are_bounded() -> None:
    for language in LANGUAGES:
        assert len(reading("In 1984 it cost $3.50. " * 217, language)) < 60_000


SAID = st.one_of(
    st.integers(2, 10**9).map(lambda value: Number(Kind.NUMBER, str(value))),
    st.decimals("0.1", "999", places=1).map(lambda value: Number(Kind.PERCENT, str(value))),
    st.from_regex(r"[0-9]{5,12}", fullmatch=True).map(lambda row: Number(Kind.DIGITS, row)),
    st.tuples(st.decimals("1", "99999", places=2), st.sampled_from(("USD", "EUR", "BRL", "INR"))).map(
        lambda pair: Number(Kind.MONEY, str(pair[0]), pair[1])
    ),
    st.dates().map(lambda day: Number(Kind.DATE, f"{1900 + day.year % 200}-{day.month:02d}-{min(day.day, 28):02d}")),
)


@given(st.sampled_from(LANGUAGES), SAID)
@settings(max_examples=400, deadline=None)
def test_i04_what_is_read_says_the_same(language: str, number: Number) -> None:
    words = reading(f"= {write(number, language)} =", language)
    assert not any(map(str.isdigit, words))
    assert [found.number.key for found in find(words, language)] == [number.key]


@pytest.mark.parametrize("inside", ["98.6", "$3.5", "192.168.1.1", "Dr. Smith", "3:30 p.m. today", "2.5.1"])
def test_a_sentence_is_never_cut_inside(inside: str) -> None:
    text = f"We have {inside} here. Good."
    assert sentences(text, "en") == [f"We have {inside} here.", "Good."]
