# SPDX-License-Identifier: GPL-3.0-or-later
"""How a text is read aloud: numbers, money, dates, times, addresses, abbreviations and units in the language's words.

Voices skip or garble what is not words, and read it in the language of whoever trained them. So the synthesizer gets
words; the transcript keeps the digits. All comes from the language's file: the machine's locale has no say. A language
without a file is left to its voice, and text without any of these comes back as it is.
"""

from __future__ import annotations

import re
from functools import cache

from gateway.text.numbers.finding import Found, find
from gateway.text.numbers.forms import clock_part, parts_of_date
from gateway.text.numbers.lexicon import CENTS, Lexicon, fold, known_languages, lexicon
from gateway.text.numbers.value import Kind, Number
from gateway.text.numbers.words import LARGEST, Form, cardinal, decimal, digits, ordinal

_AMOUNT = re.compile(r"\d+(?:[.,'\u00a0\u202f ]\d+)*")
_NEXT_WORD = re.compile(r"[ \u00a0]([^\W\d_]+)")
_LABEL_WORDS = 5  # a label stands so many words before its number at most
_FEWEST_ROW = 3  # digits behind a label that are read one by one


def reading(text: str, language: str) -> str:
    """The text as a voice of the ISO 639-1 language should say it."""
    if language.partition("-")[0].lower() not in known_languages():
        return text
    lex = lexicon(language)
    parts: list[str] = []
    behind = 0
    for found in find(text, language):
        shown = text[found.start : found.end]
        if not any(map(str.isdigit, shown)) and found.number.kind is not Kind.CODE:
            continue  # said in words already
        words, end = _said(text, found, shown, lex)
        parts += [_plain(text[behind : found.start], lex), words]
        behind = end
        if text[end : end + 1].isalnum() and not lex.get("han"):
            parts.append(" ")
    return "".join([*parts, _plain(text[behind:], lex)])


def _said(text: str, found: Found, shown: str, lex: Lexicon) -> tuple[str, int]:
    """The words of a number, and where the text goes on behind them."""
    number, end = found.number, found.end
    unit = _unit_pattern(lex).match(text, end) if number.kind is Kind.NUMBER else None
    if unit is not None:
        names = lex.get("units")[unit[1]]
        one = number.value == "1"
        form = _form_before(names[0 if one else 1], lex)
        return f"{_number(number.value, lex, form)}{_space(lex)}{names[0 if one else 1]}", unit.end()
    following = _NEXT_WORD.match(text, end)
    form = _form_before(following[1], lex) if following else "alone"
    match number.kind:
        case Kind.NUMBER:
            return _counted(text, found, shown, form, lex), end
        case Kind.DIGITS:
            return _row(number, lex), end
        case Kind.ORDINAL:
            feminine = "ª" in shown or form == "feminine"
            return ordinal(int(number.value), lex, feminine=feminine), end
        case Kind.PERCENT:
            return str(lex.get("say_percent")).format(n=_number(number.value, lex, "alone")), end
        case Kind.MONEY:
            return _money(number, shown, lex), end
        case Kind.DATE:
            return _date(number.value, text[: found.start], shown, lex), end
        case Kind.TIME:
            return _time(number, lex), end
        case Kind.CODE:
            return _code(number.value, lex), end


def _space(lex: Lexicon) -> str:
    return "" if lex.get("han") else " "


def _number(value: str, lex: Lexicon, form: Form) -> str:
    whole = value.removeprefix("-").partition(".")[0]
    return decimal(value, lex, form) if int(whole) <= LARGEST else digits(whole, lex)


def _counted(text: str, found: Found, shown: str, form: Form, lex: Lexicon) -> str:
    value = found.number.value
    amount = _AMOUNT.search(shown)
    if amount is not None and amount.end() < len(shown):  # "3.5 million": the word stays
        first = find(amount.group(), lex.code)
        spoken = _number(first[0].number.value, lex, "alone") if first else amount.group()
        return shown[: amount.start()] + spoken + shown[amount.end() :]
    if shown.isdigit():
        if len(value) >= _FEWEST_ROW and _is_labelled(text[: found.start], lex):
            return _row(found.number, lex)
        if _is_year(value) and _is_named(text[: found.start], lex.get("year_words", ())):
            return _year(value, lex)
    return _number(value, lex, form)


def _is_labelled(before: str, lex: Lexicon) -> bool:
    """Whether "number", "account" or the like stands before, in the same sentence."""
    labels: list[str] = lex.get("labels", [])
    if lex.get("han"):
        return any(label in before[-8:] for label in labels)
    words = re.findall(r"[^\W\d_]+|[.!?]", before)[-_LABEL_WORDS:]
    if any(mark in words for mark in ".!?"):
        return False
    return any(fold(word) in {fold(label) for label in labels} for word in words)


def _is_named(before: str, names: list[str]) -> bool:
    words = before.split()
    return bool(words) and fold(words[-1]) in names


def _form_before(noun: str, lex: Lexicon) -> Form:
    """The form a number takes before a word: "duas pessoas", "veintiún libros", "eine Stunde"."""
    feminine, masculine = lex.get("feminine_noun"), lex.get("masculine_noun", "^$")
    if feminine is None:
        return "alone"
    if re.search(feminine, noun) and not re.search(masculine, noun):
        return "feminine"
    return "masculine"


def _row(number: Number, lex: Lexicon) -> str:
    """Digits one by one, with a comma where a talker would pause."""
    plus = number.value.startswith("+")
    groups = re.findall(r"\d+", number.shape) or _grouped(number.value)
    if len(groups) > 1 and min(map(len, groups)) < 2 < max(map(len, groups)):
        groups = _grouped("".join(groups))
    comma = "，" if lex.get("han") else ", "
    said = comma.join(digits(group, lex) for group in groups)
    return f"{lex.get('symbols')['+']}{_space(lex)}{said}" if plus else said


def _grouped(row: str) -> list[str]:
    """Groups of three, the last of four if that comes out even."""
    if len(row) <= 4:
        return [row]
    head = row[: -(4 if len(row) % 3 == 1 else 3)]
    first = len(head) % 3
    groups = [head[:first]] if first else []
    groups += [head[at : at + 3] for at in range(first, len(head), 3)]
    return [*groups, row[len(head) :]]


# --- money, dates, times -----------------------------------------------------------------------------------------------


def _money(number: Number, shown: str, lex: Lexicon) -> str:
    value, unit = number.value, number.unit
    amount = _AMOUNT.search(shown)
    named = amount is not None and any(map(str.isalpha, shown[amount.end() :]))
    form: Form = "feminine" if unit in lex.get("feminine_currency", ()) else "masculine"
    scaled = any(fold(word) in shown.casefold() for word in lex.get("written_scales", ()) if len(word) > 1)
    if amount is not None and named and (scaled or unit == CENTS or "." not in value):
        first = find(amount.group(), lex.code)
        spoken = _number(first[0].number.value, lex, form) if first else amount.group()
        glue = "" if lex.get("han") or shown[amount.end()] in " \u00a0-" else " "
        return shown[: amount.start()] + spoken + glue + shown[amount.end() :].replace("-", " ")
    names = lex.get("currency").get(unit)
    if names is None:
        return f"{_number(value, lex, form)}{_space(lex)}{unit}"
    minus = f"{lex.get('minus')}{_space(lex)}" if value.startswith("-") else ""
    whole, _, fraction = value.removeprefix("-").partition(".")
    if len(fraction) > 2 or int(whole) > LARGEST:
        return f"{minus}{_number(value.removeprefix('-'), lex, form)}{_space(lex)}{names[1]}"
    cents = int(fraction.ljust(2, "0")) if fraction else 0
    said: list[str] = []
    if int(whole) or not cents:
        said.append(_amount_of(int(whole), names[0] if int(whole) == 1 else names[1], form, lex))
    if cents:
        said.append(_amount_of(cents, names[2] if cents == 1 else names[3], "masculine", lex))
    joint = "" if lex.get("han") else f" {lex.get('money_and')[0]} "
    return minus + joint.join(said)


def _amount_of(count: int, name: str, form: Form, lex: Lexicon) -> str:
    of = ""
    if count and count % 10**6 == 0 and (link := lex.get("million_of")):
        of = link[1] if name[0] in "aeiouéAEIOU" else link[0]  # "deux millions d'euros"
    return f"{cardinal(count, lex, form)}{_space(lex)}{of}{name}"


def _is_year(value: str) -> bool:
    return value.isdigit() and len(value) == 4 and 1100 <= int(value) <= 2099


def _year(value: str, lex: Lexicon) -> str:
    """A year as it is said: in pairs where the language says pairs."""
    if lex.get("han"):
        return digits(value, lex)
    year = int(value)
    century, rest = divmod(year, 100)
    if lex.get("pairs") and year % 1000 > 9:
        names = lex.get("below_hundred")
        tail = names[rest] if rest > 9 else f"oh {names[rest]}" if rest else lex.get("hundred")[0]
        return f"{names[century]} {tail}"
    if lex.get("compound") and year < 2000:
        return f"{cardinal(century, lex)}hundert{cardinal(rest, lex) if rest else ''}"
    return cardinal(year, lex)


def _date(value: str, before: str, shown: str, lex: Lexicon) -> str:
    year, month, day = parts_of_date(value)
    if lex.get("say_day") == "ordinal":
        said = ordinal(day, lex)
        if lex.get("ordinal_form") == "de":
            said += "n" if _is_named(before, ["am", "dem", "den", "vom", "zum", "bis", "seit"]) else "r"
    else:
        said = lex.get("say_first") if day == 1 and lex.get("say_first") else cardinal(day, lex)
    name = cardinal(month, lex) if lex.get("han") else lex.get("say_months")[month - 1]
    template: str = lex.get("say_date")[0 if year else 1]
    article = "the " if shown.startswith("the ") and template.startswith("{day}") else ""
    return article + template.format(day=said, month=name, year=_year(year, lex) if year else "")


def _time(number: Number, lex: Lexicon) -> str:
    template = lex.get("say_time")
    hour, minute, *second = number.value.split(":")
    shown, part = clock_part(int(hour), number.unit, lex, template["clock"])
    form: Form = template.get("gender", "alone")
    key = "full" if int(minute) else "sharp_part" if part and "sharp_part" in template else "sharp"
    minutes = cardinal(int(minute), lex)
    if int(minute) < 10 and "zero" in template:
        minutes = f"{template['zero']} {minutes}"
    said = str(template[key]).format(
        h=cardinal(shown, lex, form),
        m=minutes,
        hours=_of(template.get("hours"), shown),
        minutes=_of(template.get("minutes"), int(minute)),
    )
    if second and int(second[0]):
        said += f", {cardinal(int(second[0]), lex)}"
    return str(template[part]).format(t=said) if part else said


def _of(names: list[str] | None, count: int) -> str:
    return "" if names is None else names[0] if count in (0, 1) else names[1]


# --- codes and addresses -----------------------------------------------------------------------------------------------


def _code(code: str, lex: Lexicon) -> str:
    symbols = lex.get("symbols")
    if re.fullmatch(r"v?\d+(?:\.\d+)+", code):
        dot = f"{_space(lex)}{symbols['.']}{_space(lex)}"
        parts = code.removeprefix("v").split(".")
        return dot.join(cardinal(int(part), lex) if part == str(int(part)) else digits(part, lex) for part in parts)
    spelled = not re.search(r"[a-z]", code)
    said: list[str] = []
    for piece in re.findall(r"[^\W\d_]+|\d+|.", re.sub(r"^https?://", "", code)):
        if piece.isdigit():
            said.append(digits(piece, lex))
        elif piece in symbols:
            said.append("" if spelled else str(symbols[piece]).strip())
        else:
            said.append(_space(lex).join(piece) if spelled else piece)
    return _space(lex).join(part for part in said if part)


# --- text around numbers -----------------------------------------------------------------------------------------------


@cache
def _unit_pattern(lex: Lexicon) -> re.Pattern[str]:
    units = "|".join(sorted(map(re.escape, lex.get("units", ())), key=len, reverse=True))
    return re.compile(rf"[ \u00a0]?({units})(?![a-zA-Z\u00c0-\u024f/])")


@cache
def _abbreviations(lex: Lexicon) -> re.Pattern[str]:
    listed = "|".join(sorted(map(re.escape, lex.get("abbreviations", ())), key=len, reverse=True))
    return re.compile(rf"(?<![\w.])({listed})(?!\w)" if listed else r"(?!)")


def _plain(text: str, lex: Lexicon) -> str:
    """Text between numbers: abbreviations in full."""
    if "." not in text and "°" not in text and "º" not in text and not lex.get("bare_abbreviations"):
        return text
    return _abbreviations(lex).sub(lambda match: lex.get("abbreviations")[match[1]], text)
