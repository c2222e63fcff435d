# SPDX-License-Identifier: GPL-3.0-or-later
"""A translation whose numbers are those that were said.

Translators drop and swap digits ("£3" became "3 euros", "05/03/2024" became "03/03/2024", "four five seven two" lost a
word), so none is believed. `faithful` writes what was said in words in digits, which survive better; compares the
numbers of the translation with those of the source; writes each the listener's way. Where they differ it repairs: the
one wrong number is replaced; else the text is translated again with plain two-digit numbers in their place, which
translators copy; else with words that begin no word. If nothing helps, the text between the numbers is translated piece
by piece and the numbers stand between, so that a number is never a guess.

Where the number words of one of the two languages are not known, only digits are compared: what is lost is put back,
all else is left as the translator wrote it.

It talks no engine: it is a generator that yields texts to translate and is sent their translations.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from gateway.text.numbers.finding import Found, find
from gateway.text.numbers.forms import write
from gateway.text.numbers.language import Language, has_words, language_of
from gateway.text.numbers.value import Kind, Number, plain_decimal

MOST_REPAIRED = 12  # missing numbers in one text; with more the pieces between them are too short to be worth a try
_SURROGATES = ("37", "48", "59", "26", "83", "74", "65", "92", "47", "38", "56", "29", "84", "73", "95", "62")
_WORDS = ("Zxa", "Zxe", "Zxi", "Zxo", "Zxu", "Zxab", "Zxeb", "Zxib", "Zxob", "Zxub", "Zxad", "Zxed")
_BROKEN_MONEY = re.compile(r"(?:(?<![A-Za-z])[A-Z]{2,4}|[$€£¥₹]) ?$")  # what is left of a sign or a code: "EUR 5,551"
_SMALL_ORDINAL = 20  # "second" may be written 2nd on the other side, and is not looked for in words

Asking = Generator[tuple[str, ...], Sequence[str], "Faithful"]


@dataclass(frozen=True, slots=True)
class Faithful:
    """A translation and what became of its numbers: ``checked`` in all, ``repaired`` and ``unrepaired`` of them.

    Unrepaired are numbers that no translation held: they stand in the text all the same, between pieces translated by
    themselves, or beside a number that the translator added.
    """

    text: str
    checked: int = 0
    repaired: int = 0
    unrepaired: int = 0


def normalised(text: str, language: str) -> str:
    """The text with its numbers in digits as the language writes them; a text without number words is unchanged."""
    return _normalised(text, find(text, language, heard=True), language)


@dataclass(frozen=True, slots=True)
class _Pair:
    source: str
    target: str

    @property
    def words(self) -> bool:
        """Whether the number words of both are known."""
        return has_words(self.source) and has_words(self.target)


def _normalised(
    text: str, numbers: Sequence[Found], language: str, stand_ins: Mapping[Found, str] | None = None
) -> str:
    """The text for the translator, with ``stand_ins`` in the place of some of its numbers."""
    written = []
    for found in numbers:
        if stand_ins and found in stand_ins:
            written.append((found.start, found.end, stand_ins[found]))
        elif found.sure and _needs_writing(found):
            written.append((found.start, found.end, write(found.number, language, for_translator=True)))
    return _spliced(text, written)


def _needs_writing(found: Found) -> bool:
    """Words; "05/03", which is another day in another country; and money, whose signs get lost."""
    return found.words or found.number.kind in (Kind.DATE, Kind.MONEY)


def faithful(text: str, source: str, target: str, known: str | None = None) -> Asking:
    """Translate ``text`` so that its numbers hold: yields texts, is sent their translations, returns the result.

    ``known`` is a translation that is there already: it is taken if its numbers hold.
    """
    pair = _Pair(source, target)
    if not pair.words:
        text = normalised(text, source)
    said = find(text, source, words=pair.words, heard=True)
    checked = len(said)
    if known is not None and (comparison := _Comparison(said, known, pair)).holds:
        return Faithful(comparison.localised(), checked)
    (answer,) = yield (_normalised(text, said if pair.words else (), source),)
    comparison = _Comparison(said, answer, pair)
    if comparison.holds:
        return Faithful(comparison.localised(), checked)
    wrong = len(comparison.missing) or 1
    spliced = comparison.spliced()
    if spliced is not None and (again := _Comparison(said, spliced, pair)).holds:
        return Faithful(again.localised(), checked, wrong)
    held = yield from _with_stand_ins(text, said, comparison.missing, pair)
    if held is not None:
        return Faithful(held, checked, wrong)
    if not comparison.missing:
        return Faithful(comparison.localised(), checked, 0, wrong)
    told = yield from _in_pieces(text, [one for one in said if one.sure or one in comparison.missing], target)
    return Faithful(told, checked, 0, wrong)


def _with_stand_ins(
    text: str, said: Sequence[Found], missing: Sequence[Found], pair: _Pair
) -> Generator[tuple[str, ...], Sequence[str], str | None]:
    """A translation with other words in the place of the numbers; None when none of them came back whole."""
    every = [one for one in said if one.sure or one in missing]
    if len(every) > MOST_REPAIRED:
        return None
    for masked, tokens in ((missing, _SURROGATES), (every, _SURROGATES[4:]), (every, _WORDS)):
        free = [token for token in tokens if token not in text][: len(masked)]
        if not masked or len(free) < len(masked):
            continue
        stand_ins = dict(zip(masked, free, strict=True))
        (answer,) = yield (_normalised(text, said if pair.words else masked, pair.source, stand_ins),)
        held = _unmasked(answer, stand_ins, pair.target)
        if held is not None and (comparison := _Comparison(said, held, pair)).holds:
            return comparison.localised()
    return None


def _unmasked(answer: str, stand_in: dict[Found, str], target: str) -> str | None:
    """The numbers in place of what stood for them; None unless each came back exactly once."""
    places = []
    for found, token in stand_in.items():
        hits = list(re.finditer(rf"(?<![\w.,]){token}(?![\w%])(?![.,]\d)", answer, re.IGNORECASE))
        if len(hits) != 1:
            return None
        places.append((*hits[0].span(), write(found.number, target)))
    return _spliced(answer, sorted(places))


def _in_pieces(text: str, said: Sequence[Found], target: str) -> Generator[tuple[str, ...], Sequence[str], str]:
    """Each number where it was said, and what stands between translated by itself."""
    edges = [0, *(edge for found in said for edge in (found.start, found.end)), len(text)]
    between = [text[start:end].strip() for start, end in zip(edges[::2], edges[1::2], strict=True)]
    worth = [piece for piece in between if any(map(str.isalpha, piece))]
    answers = iter((yield tuple(worth)) if worth else ())
    parts: list[str] = []
    for at, piece in enumerate(between):
        parts.append(next(answers).strip() if any(map(str.isalpha, piece)) else piece)
        parts += [write(found.number, target) for found in said[at : at + 1]]
    joined = " ".join(part for part in parts if part)
    return re.sub(r"\s+([.,;:!?…])", r"\1", joined)


class _Comparison:
    """The numbers of a source against those of a translation."""

    def __init__(self, said: Sequence[Found], answer: str, pair: _Pair) -> None:
        self.answer = answer
        self.pair = pair
        self.pairs: list[tuple[Found, Found]] = []
        rest = find(answer, pair.target, words=pair.words)
        if not pair.words and has_words(pair.target):  # digits may have become words
            rest += [found for found in find(answer, pair.target) if found.words]
        open_said = list(said)
        for fits in (_exactly, _possibly, _clock_face) if pair.words else (_exactly, _possibly, _loosely):
            for one in list(open_said):
                other = next((each for each in rest if fits(one, each)), None)
                if other is not None:
                    self.pairs.append((one, other))
                    open_said.remove(one)
                    rest.remove(other)
        self.extra = [found for found in rest if found.sure and not _harmless(found.number)]
        # "the two of us" may well become "nós"; but not "three"
        self.missing = [found for found in open_said if found.sure or self.extra]

    @property
    def holds(self) -> bool:
        """Whether the translation says the same numbers."""
        return not self.missing and not (self.extra and self.pair.words)

    def localised(self) -> str:
        """The translation with its numbers written the way its readers read them."""
        if not self.pair.words:
            return self.answer
        lang = language_of(self.pair.target)
        written = []
        for one, other in self.pairs:
            number = _to_write(one, other, self.answer[other.start : other.end], lang)
            if number is not None:
                written.append((other.start, other.end, write(number, self.pair.target)))
        return _spliced(self.answer, sorted(written))

    def spliced(self) -> str | None:
        """The one number that is wrong, replaced by the one that is missing; None when it is not so simple."""
        if len(self.missing) != 1 or len(self.extra) != 1:
            return None
        missing, extra = self.missing[0].number, self.extra[0]
        if (missing.kind in _APART or extra.number.kind in _APART) and missing.kind is not extra.number.kind:
            return None
        start = extra.start
        if missing.kind is Kind.MONEY and (money := _BROKEN_MONEY.search(self.answer, 0, start)):
            start = money.start()
        return _spliced(self.answer, [(start, extra.end, write(missing, self.pair.target))])


_APART = frozenset({Kind.CODE, Kind.DATE, Kind.TIME})
_AMOUNTS = frozenset({Kind.NUMBER, Kind.DIGITS, Kind.ORDINAL, Kind.MONEY, Kind.PERCENT})


def _to_write(said: Found, other: Found, shown: str, lang: Language) -> Number | None:
    """What has to be written where ``other`` stands; None when it is well as it is."""
    number, there = said.number, other.number
    if not number.same(there):
        return number
    if {number.kind, there.kind} == {Kind.DIGITS, Kind.NUMBER} and not other.words:
        return number  # in groups or not: it decides how it is read
    return number if not other.words and _has_foreign_marks(there, shown, lang) else None


def _has_foreign_marks(number: Number, shown: str, lang: Language) -> bool:
    """Whether an amount is written with the marks of another language: 3.50 in a Portuguese text."""
    if number.kind is Kind.TIME:
        return re.search(r"\d ?h", shown) is not None and "h{m}" not in lang.get("write_time", {}).get("full", "h{m}")
    if number.kind not in (Kind.NUMBER, Kind.MONEY, Kind.PERCENT):
        return False
    marks = set(re.findall(r"\d([.,])(?=\d)", shown))
    # 3.50 for 3,50, and 1,000,000 for 1.000.000
    return bool(marks - {lang.decimal, lang.group}) or (
        bool(marks) and ("." in number.value) != (lang.decimal in marks)
    )


def _exactly(said: Found, other: Found) -> bool:
    return said.number.same(other.number)


def _possibly(said: Found, other: Found) -> bool:
    if said.number.kind is Kind.CODE and other.number.kind is Kind.NUMBER:
        return said.number.value == other.number.value  # "version" was not recognised there
    return any(said.number.same(reading) for reading in other.others)


def _clock_face(said: Found, other: Found) -> bool:
    """The same hands of the clock, when one of the two does not say which half of the day."""
    one, two = said.number, other.number
    if one.kind is not Kind.TIME or two.kind is not Kind.TIME or not (one.unit or two.unit):
        return False
    return _face(one) == _face(two)


def _loosely(said: Found, other: Found) -> bool:
    """The same digits, where words around them are not understood: "$5" and "5 dollari", 3:30 pm and 15:30."""
    one, two = said.number, other.number
    if one.kind is Kind.TIME and two.kind is Kind.TIME:
        return _face(one) == _face(two)
    return {one.kind, two.kind} <= _AMOUNTS and plain_decimal(one.value) == plain_decimal(two.value)


def _face(number: Number) -> tuple[int, str]:
    hour, _, minute = number.value.partition(":")
    return int(hour) % 12, minute


def _harmless(number: Number) -> bool:
    """A number that the other language may say where this one has a word: "one", "second"."""
    if number.kind is Kind.ORDINAL:
        return int(number.value) < _SMALL_ORDINAL
    return number.kind is Kind.NUMBER and plain_decimal(number.value) == "1"


def _spliced(text: str, written: Sequence[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    behind = 0
    for start, end, new in written:
        parts += [text[behind:start], new]
        behind = end
    return "".join([*parts, text[behind:]])
