# SPDX-License-Identifier: GPL-3.0-or-later
"""Random numbers through everything that touches them: do they come out as they went in?

Between languages that the given translator serves, a sentence with a number in digits or in words is translated under
the guard, and the number is looked for in the translation and in what a voice would read of it. In every language with
number words, a number is written, read in words, and found again in the words.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gateway.text.numbers.finding import find
from gateway.text.numbers.forms import write
from gateway.text.numbers.guard import Asking, Faithful, faithful
from gateway.text.numbers.language import known_languages
from gateway.text.numbers.value import Kind, Number
from gateway.text.reading import reading

Translate = Callable[[Sequence[str], str, str], Sequence[str]]
"""(texts, source, target) → as many translations. LookupError for a pair that it does not serve."""

_MONEY = ("USD", "EUR", "GBP", "BRL", "JPY", "CNY", "INR", "CHF")


@dataclass(frozen=True, slots=True)
class WrongNumber:
    """A number that changed: what went in, and the text that says something else."""

    route: str
    said: str
    text: str
    number: Number


def check_numbers(
    count: int, seed: int, translate: Translate, pairs: Sequence[tuple[str, str]] = (("en", "pt"), ("pt", "en"))
) -> tuple[int, list[WrongNumber]]:
    """Check ``count`` random numbers, half of them through the translator; returns (checked, those that changed)."""
    chance = random.Random(seed)  # noqa: S311  # the same examples for the same seed, no secret
    wrong: list[WrongNumber] = []
    languages = sorted(known_languages())
    for at in range(count):
        number = random_number(chance)
        if at % 2 and pairs:
            wrong += _translated(number, chance, translate, pairs[at // 2 % len(pairs)])
        else:
            wrong += _read(number, chance, languages[at // 2 % len(languages)])
    return count, wrong


def drive(asking: Asking, translate: Translate, source: str, target: str) -> Faithful:
    """Run a guarded translation with a translator that answers at once."""
    try:
        texts = next(asking)
        while True:
            texts = asking.send(translate(texts, source, target))
    except StopIteration as done:
        result: Faithful = done.value
        return result


def random_number(chance: random.Random) -> Number:  # noqa: PLR0911  # a way for each kind
    """Any kind, any size; small numbers and zeros as likely as large ones."""
    kind = chance.choice(list(Kind))
    match kind:
        case Kind.NUMBER:
            fraction = f".{_row(chance, chance.randint(1, 3))}" if chance.random() < 0.3 else ""
            return Number(kind, _amount(chance, 10) + fraction)
        case Kind.DIGITS:
            return Number(kind, _row(chance, chance.randint(4, 12)))
        case Kind.ORDINAL:
            return Number(kind, str(chance.randint(13, 99)))
        case Kind.PERCENT:
            return Number(kind, _amount(chance, 2) + (f".{chance.randint(1, 9)}" if chance.random() < 0.4 else ""))
        case Kind.MONEY:
            cents = f".{chance.randrange(100):02d}" if chance.random() < 0.6 else ""
            return Number(kind, _amount(chance, 7) + cents, chance.choice(_MONEY))
        case Kind.DATE:
            year = chance.choice((str(chance.randint(1900, 2099)), "-"))
            return Number(kind, f"{year}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}")
        case Kind.TIME:
            hour, minute = chance.randrange(24), chance.randrange(60)
            return Number(kind, f"{hour}:{minute:02d}", "12" if 1 <= hour <= 12 and chance.random() < 0.3 else "")
        case Kind.CODE:
            return Number(kind, _code(chance))


def _amount(chance: random.Random, longest: int) -> str:
    size = chance.randint(1, longest)
    return str(chance.randrange(10 ** (size - 1) if size > 1 else 2, 10**size))


def _row(chance: random.Random, size: int) -> str:
    return "".join(str(chance.randrange(10)) for _ in range(size))


def _code(chance: random.Random) -> str:
    letters = "".join(chance.choice("BCDFGHKLMPQRSTVWXZ") for _ in range(chance.randint(1, 3)))
    address = f"192.168.{chance.randrange(256)}.{chance.randrange(256)}"
    version = f"{chance.randint(1, 9)}.{chance.randint(0, 20)}.{chance.randint(0, 20)}"
    return chance.choice((address, version, letters + _row(chance, chance.randint(2, 4))))


@cache
def _sentences() -> dict[str, dict[str, list[str]]]:
    path = Path(__file__).with_name("number_sentences.json")
    table: dict[str, dict[str, list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    return table


def _sentence(number: Number, language: str, chance: random.Random) -> str:
    table = _sentences()[language]
    kind = "version" if number.kind is Kind.CODE and number.value[0].isdigit() else str(number.kind)
    return chance.choice(table[kind]).format(write(number, language))


def _translated(
    number: Number, chance: random.Random, translate: Translate, pair: tuple[str, str]
) -> Iterator[WrongNumber]:
    source, target = pair
    said = _sentence(number, source, chance)
    if chance.random() < 0.5:
        said = reading(said, source)
    got = drive(faithful(said, source, target), translate, source, target)
    for text in (got.text, reading(got.text, target)):
        if not _holds(number, text, target):
            yield WrongNumber(f"{source}→{target}", said, text, number)
            return


def _read(number: Number, chance: random.Random, language: str) -> Iterator[WrongNumber]:
    said = _sentence(number, language, chance)
    words = reading(said, language)
    if any(map(str.isdigit, words)) or not _holds(number, words, language):
        yield WrongNumber(language, said, words, number)


def _holds(number: Number, text: str, language: str) -> bool:
    """Whether the text says this number and no other."""
    numbers = [found.number for found in find(text, language)]
    return len(numbers) == 1 and number.same(numbers[0])
