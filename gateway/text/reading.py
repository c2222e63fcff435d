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
from gateway.text.numbers.language import CENTS, Language, fold, has_words, language_of
from gateway.text.numbers.value import Kind, Number
from gateway.text.numbers.words import LARGEST, Form, cardinal, decimal, digits, ordinal

_AMOUNT = re.compile(r"\d+(?:[.,'\u00a0\u202f ]\d+)*")
_NEXT_WORD = re.compile(r"[ \u00a0]([^\W\d_]+)")
_LABEL_WORDS = 5  # a label stands so many words before its number at most
_FEWEST_ROW = 3  # digits behind a label that are read one by one


def reading(text: str, language: str) -> str:
    """The text as a voice of the ISO 639-1 language should say it."""
    if not has_words(language):
        return text
    lang = language_of(language)
    parts: list[str] = []
    behind = 0
    for found in find(text, language):
        between = text[behind : found.start]
        shown = text[found.start : found.end]
        if not any(map(str.isdigit, shown)) and found.number.kind is not Kind.CODE:
            continue  # said in words already
        words, end = _said(text, found, shown, lang)
        if between == "/" and behind:  # "24/7"
            between = f"{_space(lang)}{lang.get('symbols')['/']}{_space(lang)}"
        parts += [_plain(between, lang), words]
        behind = end
        if words.endswith(".") and text[end : end + 1] == ".":
            behind += 1  # "2 p.m." at the end of a sentence
        if lang.get("compound") and text.startswith("er", end):
            continue  # "80er"
        if text[end : end + 1].isalnum() and not lang.get("han"):
            parts.append(" ")
    return "".join([*parts, _plain(text[behind:], lang)])


def _said(  # noqa: PLR0911  # a way for each kind
    text: str, found: Found, shown: str, lang: Language
) -> tuple[str, int]:
    """The words of a number, and where the text goes on behind them."""
    number, end = found.number, found.end
    unit = _unit_pattern(lang).match(text, end) if number.kind is Kind.NUMBER else None
    if unit is not None:
        names = lang.get("units")[unit[1]]
        one = number.value == "1"
        form = _form_before(names[0 if one else 1], lang)
        return f"{_number(number.value, lang, form)}{_space(lang)}{names[0 if one else 1]}", unit.end()
    following = _NEXT_WORD.match(text, end)
    form = _form_before(following[1], lang) if following else "alone"
    match number.kind:
        case Kind.NUMBER if lang.get("decades") and shown.isdigit() and re.match(r"s(?!\w)", text[end:]):
            return _decade(number.value, lang), end + 1
        case Kind.NUMBER:
            return _counted(text, found, shown, form, lang), end
        case Kind.DIGITS:
            return _row(number, lang), end
        case Kind.ORDINAL:
            feminine = "ª" in shown or form == "feminine"
            return ordinal(int(number.value), lang, feminine=feminine), end
        case Kind.PERCENT:
            return str(lang.get("say_percent")).format(n=_number(number.value, lang, "alone")), end
        case Kind.MONEY:
            return _money(number, shown, lang), end
        case Kind.DATE:
            return _date(number.value, text[: found.start], shown, lang), end
        case Kind.TIME:
            return _time(number, lang), end
        case Kind.CODE:
            return _code(number.value, lang), end


def _space(lang: Language) -> str:
    return "" if lang.get("han") else " "


def _number(value: str, lang: Language, form: Form) -> str:
    whole = value.removeprefix("-").partition(".")[0]
    return decimal(value, lang, form) if int(whole) <= LARGEST else digits(whole, lang)


def _counted(text: str, found: Found, shown: str, form: Form, lang: Language) -> str:
    value = found.number.value
    amount = _AMOUNT.search(shown)
    if amount is not None and amount.end() < len(shown):  # "3.5 million": the word stays
        first = find(amount.group(), lang.code)
        spoken = _number(first[0].number.value, lang, "alone") if first else amount.group()
        return shown[: amount.start()] + spoken + shown[amount.end() :]
    if shown.isdigit():
        if len(value) >= _FEWEST_ROW and _is_labelled(text[: found.start], lang):
            return _row(found.number, lang)
        if _is_year(value) and _is_named(text[: found.start], lang.get("year_words", ())):
            return _year(value, lang)
    return _number(value, lang, form)


def _is_labelled(before: str, lang: Language) -> bool:
    """Whether "number", "account" or the like stands before, in the same sentence."""
    labels: list[str] = lang.get("labels", [])
    if lang.get("han"):
        return any(label in before[-8:] for label in labels)
    words = re.findall(r"[^\W\d_]+|[.!?]", before)[-_LABEL_WORDS:]
    if any(mark in words for mark in ".!?"):
        return False
    return any(fold(word) in {fold(label) for label in labels} for word in words)


def _is_named(before: str, names: list[str]) -> bool:
    words = before.split()
    return bool(words) and fold(words[-1]) in names


def _form_before(noun: str, lang: Language) -> Form:
    """The form a number takes before a word: "duas pessoas", "veintiún libros", "eine Stunde"."""
    feminine, masculine = lang.get("feminine_noun"), lang.get("masculine_noun", "^$")
    if feminine is None:
        return "alone"
    if re.search(feminine, noun) and not re.search(masculine, noun):
        return "feminine"
    return "masculine"


def _row(number: Number, lang: Language) -> str:
    """Digits one by one, with a comma where a talker would pause."""
    plus = number.value.startswith("+")
    groups = re.findall(r"\d+", number.shape) or _grouped(number.value)
    if max(map(len, groups)) == 1:
        groups = _grouped("".join(groups))
    comma = "，" if lang.get("han") else ", "
    said = comma.join(digits(group, lang) for group in groups)
    return f"{lang.get('symbols')['+']}{_space(lang)}{said}" if plus else said


def _grouped(row: str) -> list[str]:
    """Groups of three, the last of four if that comes out even."""
    if len(row) <= 4:
        return [row]
    head = row[: -(4 if len(row) % 3 == 1 else 3)]
    first = len(head) % 3
    groups = [head[:first]] if first else []
    groups += [head[at : at + 3] for at in range(first, len(head), 3)]
    return [*groups, row[len(head) :]]


# --- money, dates, times ----------------------------------------------------------------------------------------------


def _money(number: Number, shown: str, lang: Language) -> str:
    value, unit = number.value, number.unit
    amount = _AMOUNT.search(shown)
    named = amount is not None and any(map(str.isalpha, shown[amount.end() :]))
    form: Form = "feminine" if unit in lang.get("feminine_currency", ()) else "masculine"
    scaled = any(fold(word) in shown.casefold() for word in lang.get("written_scales", ()) if len(word) > 1)
    if amount is not None and named and (scaled or unit == CENTS or "." not in value):
        first = find(amount.group(), lang.code)
        spoken = _number(first[0].number.value, lang, form) if first else amount.group()
        glue = "" if lang.get("han") or shown[amount.end()] in " \u00a0-" else " "
        return shown[: amount.start()] + spoken + glue + shown[amount.end() :].replace("-", " ")
    names = lang.get("currency").get(unit)
    if names is None:
        return f"{_number(value, lang, form)}{_space(lang)}{unit}"
    minus = f"{lang.get('minus')}{_space(lang)}" if value.startswith("-") else ""
    whole, _, fraction = value.removeprefix("-").partition(".")
    if len(fraction) > 2 or int(whole) > LARGEST:
        return f"{minus}{_number(value.removeprefix('-'), lang, form)}{_space(lang)}{names[1]}"
    cents = int(fraction.ljust(2, "0")) if fraction else 0
    said: list[str] = []
    if int(whole) or not cents:
        said.append(_amount_of(int(whole), names[0] if int(whole) == 1 else names[1], form, lang))
    if cents:
        said.append(_amount_of(cents, names[2] if cents == 1 else names[3], "masculine", lang))
    joint = "" if lang.get("han") else f" {lang.get('money_and')[0]} "
    return minus + joint.join(said)


def _amount_of(count: int, name: str, form: Form, lang: Language) -> str:
    of = ""
    if count and count % 10**6 == 0 and (link := lang.get("million_of")):
        of = link[1] if name[0] in "aeiouéAEIOU" else link[0]  # "deux millions d'euros"
    return f"{cardinal(count, lang, form)}{_space(lang)}{of}{name}"


def _is_year(value: str) -> bool:
    return value.isdigit() and len(value) == 4 and 1100 <= int(value) <= 2099


def _year(value: str, lang: Language) -> str:
    """A year as it is said: in pairs where the language says pairs."""
    if lang.get("han"):
        return digits(value, lang)
    year = int(value)
    century, rest = divmod(year, 100)
    if lang.get("pairs") and year % 1000 > 9:
        names = lang.get("below_hundred")
        tail = names[rest] if rest > 9 else f"oh {names[rest]}" if rest else lang.get("hundred")[0]
        return f"{names[century]} {tail}"
    if lang.get("compound") and year < 2000:
        return f"{cardinal(century, lang)}hundert{cardinal(rest, lang) if rest else ''}"
    return cardinal(year, lang)


def _decade(value: str, lang: Language) -> str:
    """ "The 1990s", "the 80s"."""
    words = _year(value, lang) if _is_year(value) else cardinal(int(value), lang)
    return f"{words.removesuffix('y')}ies" if words.endswith("y") else f"{words}s"


def _date(value: str, before: str, shown: str, lang: Language) -> str:
    year, month, day = parts_of_date(value)
    if lang.get("say_day") == "ordinal":
        said = ordinal(day, lang)
        if lang.get("ordinal_form") == "de":
            said += "n" if _is_named(before, ["am", "dem", "den", "vom", "zum", "bis", "seit"]) else "r"
    else:
        said = lang.get("say_first") if day == 1 and lang.get("say_first") else cardinal(day, lang)
    name = cardinal(month, lang) if lang.get("han") else lang.get("say_months")[month - 1]
    template: str = lang.get("say_date")[0 if year else 1]
    article = "the " if shown.startswith("the ") and template.startswith("{day}") else ""
    return article + template.format(day=said, month=name, year=_year(year, lang) if year else "")


def _time(number: Number, lang: Language) -> str:
    template = lang.get("say_time")
    hour, minute, *second = number.value.split(":")
    shown, part = clock_part(int(hour), number.unit, lang, template["clock"])
    form: Form = template.get("gender", "alone")
    key = "full" if int(minute) else "sharp_part" if part and "sharp_part" in template else "sharp"
    minutes = cardinal(int(minute), lang)
    if int(minute) < 10 and "zero" in template:
        minutes = f"{template['zero']} {minutes}"
    said = str(template[key]).format(
        h=cardinal(shown, lang, form),
        m=minutes,
        hours=_of(template.get("hours"), shown),
        minutes=_of(template.get("minutes"), int(minute)),
    )
    if second and int(second[0]):
        said += f", {cardinal(int(second[0]), lang)}"
    return str(template[part]).format(t=said) if part else said


def _of(names: list[str] | None, count: int) -> str:
    return "" if names is None else names[0] if count in (0, 1) else names[1]


# --- codes and addresses ----------------------------------------------------------------------------------------------


def _code(code: str, lang: Language) -> str:
    symbols = lang.get("symbols")
    if re.fullmatch(r"v?\d+(?:\.\d+)+", code):
        dot = f"{_space(lang)}{symbols['.']}{_space(lang)}"
        parts = code.removeprefix("v").split(".")
        return dot.join(cardinal(int(part), lang) if part == str(int(part)) else digits(part, lang) for part in parts)
    spelled = not re.search(r"[a-z]", code)
    said: list[str] = []
    for piece in re.findall(r"[^\W\d_]+|\d+|.", re.sub(r"^https?://", "", code)):
        if piece.isdigit():
            said.append(digits(piece, lang))
        elif piece in symbols:
            said.append("" if spelled else str(symbols[piece]).strip())
        else:
            said.append(_space(lang).join(piece) if spelled else piece)
    return _space(lang).join(part for part in said if part)


# --- text around numbers ----------------------------------------------------------------------------------------------


@cache
def _unit_pattern(lang: Language) -> re.Pattern[str]:
    units = "|".join(sorted(map(re.escape, lang.get("units", ())), key=len, reverse=True))
    return re.compile(rf"[ \u00a0]?({units})(?![a-zA-Z\u00c0-\u024f/])")


@cache
def _abbreviations(lang: Language) -> re.Pattern[str]:
    listed = "|".join(sorted(map(re.escape, lang.get("abbreviations", ())), key=len, reverse=True))
    return re.compile(rf"(?<![\w.])({listed})(?!\w)" if listed else r"(?!)")


def _plain(text: str, lang: Language) -> str:
    """Text between numbers: abbreviations in full."""
    if "." not in text and "°" not in text and "º" not in text and not lang.get("bare_abbreviations"):
        return text
    return _abbreviations(lang).sub(lambda match: lang.get("abbreviations")[match[1]], text)
