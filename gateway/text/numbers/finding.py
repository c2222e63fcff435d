# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the numbers of a text: words become digits (`spoken`), then patterns are read, the most particular first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.text.numbers.aligned import Aligned, Edit
from gateway.text.numbers.clock import clock_finder, date_finder
from gateway.text.numbers.language import CENTS, Language, common, fold, language_of, phrase
from gateway.text.numbers.spoken import digit_edits
from gateway.text.numbers.value import Kind, Number, scaled

MOST_CHARACTERS = 5000  # of one text; numbers behind are left alone
MOST_DIGITS = 30

_PLAIN = frozenset({Kind.NUMBER, Kind.DIGITS, Kind.ORDINAL})

# letters of scripts with spaces between words: behind one it is part of a word (mp3), behind Han a number may begin
_L = r"A-Za-z0-9_\u00c0-\u024f\u0400-\u04ff"
_FREE = rf"(?<![{_L}])(?<![.,]\d)(?<!\d[.,])"
_AMOUNT = r"\d{1,3}(?:[\u00a0\u202f']\d{3})+(?:[.,]\d+)?|\d{1,3}(?: \d{3})+(?:[.,]\d+)?(?!\d| \d)|\d+(?:[.,]\d+)*"
_EMAIL_OR_URL = re.compile(
    r"[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+|(?:https?://|www\.)[^\s,;\u3000-\u9fff\uff00-\uffef]*[a-zA-Z0-9/]"
    rf"|(?<![{_L}.])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|info|example|gov|edu|io|br|de|fr|es|cn|uk|pt)"
    rf"(?![{_L}])(?:/[a-zA-Z0-9_./-]*[a-zA-Z0-9/])?"
)
_DOTTED = re.compile(rf"(?<![{_L}.,])v?\d+(?:\.\d+){{2,}}(?![{_L}])(?!,\d)", re.IGNORECASE)
_CODE = re.compile(
    rf"(?<![{_L}.])(?=[A-Z\d-]*\d)(?=[A-Z\d-]*[A-Z])(?!\d+[A-Z]{{1,2}}(?![{_L}]))[A-Z\d]+(?:-[A-Z\d]+)*(?![{_L}])"
)
_PHONE = re.compile(
    rf"(?<![{_L}.,/])(?:\+ ?\d{{1,15}}|\(\d{{2,4}}\)|\d{{1,5}})(?: \d(?= ))?(?:[ .‑-]{{1,2}}\(?\d{{2,8}}\)?)*"
    rf"(?![{_L}/])(?![.,]\d)"
)
_YEARS = re.compile(r"(?:1[1-9]|20)\d\d-(?:1[1-9]|20)\d\d")


@dataclass(frozen=True, slots=True)
class Found:
    """A number expression: ``text[start:end]`` of the text as it was given."""

    start: int
    end: int
    number: Number
    others: tuple[Number, ...] = ()
    """What it may also say, by the habits of another language: 1.234 and 1,234."""
    sure: bool = True
    """False for a small number word by itself, which may be no number: its text is better left alone."""
    words: bool = False
    """It was not, or not only, written in digits."""

    @property
    def readings(self) -> tuple[Number, ...]:
        """All that it may say, the likeliest first."""
        return (self.number, *self.others)


Built = tuple[int, int, Number, tuple[Number, ...]]


def find(text: str, language: str, *, words: bool = True, heard: bool = False) -> list[Found]:
    """The numbers of a text in an ISO 639-1 language, from left to right, without overlap.

    A text that was ``heard`` may have the habits of recognisers: "300 e 50" for "trezentos e cinquenta".
    Without ``words`` only digits and symbols are read, as in a language of which nothing is known.
    """
    lang = language_of(language, words=words)
    text = text[:MOST_CHARACTERS]
    aligned = Aligned(text, digit_edits(text, lang, heard=heard))
    taken: list[Built] = []
    if any(char.isdigit() for char in aligned.text) or lang.get("times"):
        free = bytearray(b"\1" * len(aligned.text))
        for finder in _finders(lang):
            for built in finder(aligned.text):
                start, end = built[:2]
                if all(free[start:end]):
                    free[start:end] = bytes(end - start)
                    taken.append(built)
    return [found for built in sorted(taken, key=lambda each: each[0]) if (found := _found(aligned, built, lang))]


def _found(aligned: Aligned, built: Built, lang: Language) -> Found | None:
    """A number with its place in the source; None when the words probably mean something else."""
    start, end, number, others = built
    edits = aligned.edits_in(start, end)
    first, last = aligned.origin(start, end)
    sure = True
    if number.kind in _PLAIN:
        if edits and aligned.covers(edits[0], start, end):
            number = _said(edits[0], number)
        sure = not edits or any(edit.sure for edit in edits)
        if not sure and (edits[0].ordinal or fold(aligned.source[first:last]) in lang.unsure):
            return None
    elif number.kind is Kind.TIME:
        sure = bool(edits) or any(map(str.isdigit, aligned.source[first:last]))  # or else it is "noon"
    return Found(first, last, number, others, sure, bool(edits))


def _said(edit: Edit, number: Number) -> Number:
    """The kind of a number that was said in words, or with pauses."""
    if edit.ordinal:
        return Number(Kind.ORDINAL, number.value)
    if edit.digits:
        return Number(Kind.DIGITS, number.value, shape=edit.shape)
    return Number(Kind.NUMBER, number.value) if number.kind is Kind.DIGITS else number


def amounts(written: str, lang: Language) -> tuple[str, ...]:
    """What digits with separators may mean, the language's own way first; empty when they mean no single number."""
    plain = re.sub(r"[\u00a0\u202f' ]", "", written)
    marks = [char for char in plain if char in ".,"]
    if len(plain) > MOST_DIGITS:
        return ()
    if not marks:
        return (plain,)
    parts = re.split(r"[.,]", plain)
    if len(set(marks)) == 2:
        single = plain.count(marks[-1]) == 1 and _grouped(parts[:-1])
        return ("".join(parts[:-1]) + "." + parts[-1],) if single else ()
    if len(marks) > 1:
        indian = re.fullmatch(r"\d{1,2}(?:,\d\d)+,\d{3}", plain)
        return ("".join(parts),) if _grouped(parts) or indian else ()
    whole, fraction = "".join(parts), ".".join(parts)
    if not _grouped(parts) or parts[0][0] == "0":
        return (fraction,)
    return (whole, fraction) if marks[0] == lang.group else (fraction, whole)


def _grouped(parts: list[str]) -> bool:
    return 1 <= len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])


_BY_LANGUAGE: dict[Language, list[Callable[[str], Iterator[Built]]]] = {}


def _finders(lang: Language) -> list[Callable[[str], Iterator[Built]]]:
    if lang not in _BY_LANGUAGE:
        _BY_LANGUAGE[lang] = [
            _names,
            _version_finder(lang),
            _dotted_finder(lang),
            *([clock_finder(lang)] if lang.get("han") else []),  # 分 is a minute before it is a cent
            _money_finder(lang),
            _percent_finder(lang),
            date_finder(lang),
            clock_finder(lang),
            _phones,
            _ordinal_finder(lang),
            _codes,
            _amount_finder(lang),
        ]
    return _BY_LANGUAGE[lang]


def _names(text: str) -> Iterator[Built]:
    """Addresses of mail and web pages, which no engine may respell."""
    if "." in text:
        for match in _EMAIL_OR_URL.finditer(text):
            yield match.start(), match.end(), Number(Kind.CODE, match.group(), shape=match.group()), ()


def _codes(text: str) -> Iterator[Built]:
    for match in _CODE.finditer(text):
        yield match.start(), match.end(), Number(Kind.CODE, match.group(), shape=match.group()), ()


def _dotted_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    def dotted(text: str) -> Iterator[Built]:
        for match in _DOTTED.finditer(text):
            if not amounts(match.group(), lang) or _is_address(match.group(), lang):
                yield match.start(), match.end(), Number(Kind.CODE, match.group(), shape=match.group()), ()

    return dotted


def _is_address(dotted: str, lang: Language) -> bool:
    """Four bytes that might be a number in groups as well: where points make groups, only the best known networks."""
    parts = dotted.split(".")
    bytes_only = len(parts) == 4 and all(part.isdigit() and part == str(int(part)) for part in parts)
    if not bytes_only or any(int(part) > 255 for part in parts):
        return False
    return lang.group != "." or parts[0] in ("10", "127", "172", "192")


def _version_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    names = "|".join(lang.get("version", ())) or "version"
    pattern = re.compile(rf"(?:{names})\s?(\d+(?:\.\d+)+)(?![\d,])|(?<![{_L}])v(\d+\.\d+)(?![{_L}])", re.IGNORECASE)

    def versions(text: str) -> Iterator[Built]:
        for match in pattern.finditer(text):
            at = 1 if match[1] else 2
            yield *match.span(at), Number(Kind.CODE, match[at], shape=match[at]), ()

    return versions


def _phones(text: str) -> Iterator[Built]:
    """Digits in groups, seven or more: telephone, card and account numbers."""
    for match in _PHONE.finditer(text):
        shown = match.group()
        digits = "".join(char for char in shown if char.isdigit())
        grouped = not shown.isdigit()
        triples = re.fullmatch(r"\d{1,3}([ .])\d{3}(?:\1\d{3})*", shown) is not None
        decimal = re.fullmatch(r"\d+\.\d+", shown)
        if not grouped or decimal or _YEARS.fullmatch(shown) or triples or (shown[0] == "(" and len(digits) < 5):
            continue
        if (len(digits) >= 7 or shown[0] == "+") and len(digits) <= MOST_DIGITS:
            value = ("+" if shown[0] == "+" else "") + digits
            yield match.start(), match.end(), Number(Kind.DIGITS, value, shape=shown), ()


def _scales(lang: Language) -> dict[str, int]:
    return {fold(word): power for word, power in lang.get("written_scales", {}).items()}


def _amount(lang: Language, name: str) -> str:
    """Pattern of an amount with an optional power of ten: ``3.5 million``."""
    words = sorted(lang.get("written_scales", ()), key=len, reverse=True)
    scales = "|".join(map(re.escape, words))
    border = "" if lang.get("han") else r"(?!\w)"
    tail = rf"(?:[ \u00a0]?(?P<{name}s>{scales}){border})?" if scales else ""
    return rf"(?P<{name}>{_AMOUNT}){tail}"


def _values(match: re.Match[str], name: str, lang: Language) -> tuple[str, ...]:
    scale = match.groupdict().get(f"{name}s")
    power = _scales(lang)[fold(scale)] if scale else 0
    return tuple(scaled(value, power) for value in amounts(match[name], lang))


def _money_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    symbols = common()["symbols"]
    signs = "|".join(sorted(map(re.escape, symbols), key=len, reverse=True))
    minus, amount = r"(?P<minus>(?<!\w)[-−])?", _amount(lang, "n")
    patterns = [
        rf"{minus}(?P<sign>(?<![A-Za-z$])(?:{signs}))\s?{amount}",
        rf"{minus}{_FREE}{amount}\s?(?P<sign>{signs})(?![\w$])",
    ]
    if names := _names_of_money(lang):
        border = "(?!之)" if lang.get("han") else r"(?!\w)"  # 三分之一 is a third
        joined = "|".join(map(re.escape, lang.get("money_and", ()))) or "(?!)"
        of = r"(?:de |d['’])?" if lang.scales else ""
        space, comma = ("", "") if lang.get("han") else (" ", ",? ")
        cents = rf"(?P<c>\d{{1,2}}){space}(?:{_names_of_money(lang, parts=True)}){border}"
        parts = rf"(?:{comma}(?:(?:{joined}) )?{cents})?"
        patterns.append(rf"{minus}{_FREE}{amount}[ \u00a0-]?{of}(?P<name>{names}){border}{parts}")
    compiled = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]

    def money(text: str) -> Iterator[Built]:
        for pattern in compiled:
            for match in pattern.finditer(text):
                groups = match.groupdict()
                values, unit = _values(match, "n", lang), ""
                if groups.get("name"):
                    unit = lang.currencies[phrase(groups["name"])]
                else:
                    unit = symbols[groups["sign"].upper()]
                if unit == CENTS:
                    values = tuple(scaled(value, -2) for value in values if "." not in value)
                elif groups.get("c"):
                    values = tuple(f"{value}.{int(groups['c']):02d}" for value in values if "." not in value)
                if values:
                    sign = "-" if groups.get("minus") else ""
                    first, *others = (Number(Kind.MONEY, sign + value, unit) for value in values)
                    yield match.start(), match.end(), first, tuple(others)

    return money


def _names_of_money(lang: Language, *, parts: bool | None = None) -> str:
    """Alternatives of the names, with and without their accents."""
    names = {
        spelling
        for listed in lang.get("currency", {}).values()
        for at, name in enumerate(listed)
        if parts is None or parts is (at in (2, 3))
        for spelling in (name, fold(name))
    }
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


def _percent_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    words = "|".join(map(re.escape, lang.get("percent", ())))
    behind = rf"\s?%|\s(?:{words})(?!\w)" if words else r"\s?%"
    patterns = [rf"(?P<minus>(?<!\w)[-−])?{_FREE}(?P<n>{_AMOUNT})(?:{behind})"]
    if before := lang.get("percent_before"):
        patterns.append(rf"(?P<minus>负)?{before}(?P<n>{_AMOUNT})")
    compiled = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]

    def percents(text: str) -> Iterator[Built]:
        for pattern in compiled:
            for match in pattern.finditer(text):
                sign = "-" if match["minus"] else ""
                values = [Number(Kind.PERCENT, sign + value) for value in amounts(match["n"], lang)]
                if values:
                    yield match.start(), match.end(), values[0], tuple(values[1:])

    return percents


def _ordinal_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    marks = "|".join(sorted(map(re.escape, lang.get("ordinal_marks", ())), key=len, reverse=True))
    before = lang.get("ordinal_before")
    if before:
        pattern = re.compile(rf"{before}(\d{{1,4}})(?!\d)")
    elif marks and marks != r"\.":  # a full stop is an ordinal's mark in dates alone
        pattern = re.compile(rf"{_FREE}(\d{{1,4}})(?:{marks})(?!\w)", re.IGNORECASE)
    else:
        return lambda text: iter(())

    def ordinals(text: str) -> Iterator[Built]:
        for match in pattern.finditer(text):
            yield match.start(), match.end(), Number(Kind.ORDINAL, match[1]), ()

    return ordinals


def _amount_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    pattern = re.compile(rf"(?P<minus>(?<![\w)])[-−](?=\d))?{_FREE}{_amount(lang, 'n')}")

    def plain(text: str) -> Iterator[Built]:
        for match in pattern.finditer(text):
            if values := _values(match, "n", lang):
                sign = "-" if match["minus"] else ""
                bare = match["n"].isdigit() and not match.groupdict().get("ns")
                kind = Kind.DIGITS if bare and not sign and _is_row(match["n"]) else Kind.NUMBER
                first, *others = (Number(kind, sign + value) for value in values)
                yield match.start(), match.end(), first, tuple(others)
            else:  # "1,2,3" or a number that lost a digit: each part by itself
                for part in re.finditer(r"\d+", match.group()):
                    start = match.start() + part.start()
                    yield start, start + len(part.group()), Number(Kind.NUMBER, part.group()), ()

    return plain


def _is_row(digits: str) -> bool:
    """Whether bare digits are a row rather than an amount: amounts of this size are written in groups."""
    return len(digits) > 4 or (len(digits) > 1 and digits[0] == "0")
