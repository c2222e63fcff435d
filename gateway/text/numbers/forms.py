# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a number in digits, the way a language writes it; what is written is found again with the same value."""

from __future__ import annotations

from gateway.text.numbers.language import CENTS, Language, common, language_of
from gateway.text.numbers.value import Kind, Number


def write(  # noqa: PLR0911  # a way for each kind
    number: Number, language: str, *, for_translator: bool = False
) -> str:
    """The number in digits. An ISO 639-1 language without data of its own gets its separators and symbols.

    ``for_translator``: money by its name where translators lose the sign. Measured on the Firefox models: of 40 sums
    in pounds none came through as "£", 37 as "pounds"; dollars and reais do as well with their signs.
    """
    lang = language_of(language)
    match number.kind:
        case Kind.NUMBER:
            return amount(number.value, lang)
        case Kind.DIGITS | Kind.CODE:
            return number.shape or number.value
        case Kind.ORDINAL:
            return str(lang.get("ordinal_before", "")) + number.value + ordinal_mark(number.value, lang)
        case Kind.PERCENT:
            return amount(number.value, lang) + "%"
        case Kind.MONEY:
            return _money(number, lang, for_translator=for_translator)
        case Kind.DATE:
            return _date(number.value, lang)
        case Kind.TIME:
            return _time(number, lang)


def amount(value: str, lang: Language, grouped_from: int | None = None) -> str:
    """A plain decimal with the language's marks, in groups where the language writes groups."""
    whole, point, fraction = value.removeprefix("-").partition(".")
    if len(whole) > 3 and int(whole) >= (grouped_from or lang.get("grouped_from", 10000)):
        whole = f"{int(whole):,}".replace(",", lang.group)
    minus = "-" if value.startswith("-") else ""
    return minus + whole + (lang.decimal + fraction if point else "")


def ordinal_mark(value: str, lang: Language) -> str:
    """The letters behind an ordinal in digits; empty where there are none."""
    if lang.get("ordinal_form") == "en":
        last = int(value) % 100
        return "th" if 10 < last < 14 else {1: "st", 2: "nd", 3: "rd"}.get(last % 10, "th")
    if lang.get("ordinal_form") == "fr":
        return "er" if value == "1" else "e"
    marks = lang.get("ordinal_marks") or ("",)
    return str(marks[0])


def _money(number: Number, lang: Language, *, for_translator: bool) -> str:
    value, unit = number.value, number.unit
    names = lang.get("currency", {}).get(unit)
    if unit == CENTS:
        home = next(iter(lang.get("currency", {}).values()), ("", "", "¢", "¢"))
        cents = value.partition(".")[2].ljust(2, "0").lstrip("0") or "0"
        return f"{cents} {home[2] if cents == '1' else home[3]}".replace(" ", "" if lang.get("han") else " ")
    if "." in value:
        whole, _, fraction = value.partition(".")
        value = f"{whole}.{fraction.ljust(2, '0')}"
    minus = "-" if value.startswith("-") else ""
    figure = amount(value.removeprefix("-"), lang, 1000)
    sign = lang.get("money_signs", {}).get(unit) or common()["write_symbols"].get(unit)
    if names and (lang.get("han") or sign is None or (for_translator and unit not in common()["translated_symbols"])):
        return f"{minus}{figure}{'' if lang.get('han') else ' '}{names[0] if value == '1' else names[1]}"
    sign = sign or unit
    if lang.get("money_before", True):
        # "$5", but "R$ 5" and "CHF 5"
        return f"{minus}{sign}{' ' if len(sign) > 1 or lang.get('money_space') else ''}{figure}"
    return f"{minus}{figure} {sign}"


def _date(value: str, lang: Language) -> str:
    year, month, day = parts_of_date(value)
    templates = lang.get("write_date")
    if not templates:
        order = f"{day:02d}/{month:02d}" if lang.get("date_order", "dmy") == "dmy" else f"{month:02d}/{day:02d}"
        return value if year else order
    names = lang.get("say_months")
    written_day = f"{day}{ordinal_mark('1', lang)}" if day == 1 and lang.get("ordinal_form") == "fr" else str(day)
    text: str = templates[0 if year else 1]
    return text.format(day=written_day, month=names[month - 1] if names else month, year=year)


def parts_of_date(value: str) -> tuple[str, int, int]:
    """(year or "", month, day)."""
    head, month, day = value.rsplit("-", 2)
    return head.strip("-"), int(month), int(day)


def _time(number: Number, lang: Language) -> str:
    hour, minute, *second = number.value.split(":")
    template = lang.get("write_time", {"full": "{h}:{m}", "sharp": "{h}:00"})
    shown, part = clock_part(int(hour), number.unit, lang, template.get("clock", 24))
    if second:
        text = f"{shown}:{minute}:{second[0]}"
    else:
        text = template["sharp" if minute == "00" else "full"].format(h=shown, m=minute)
    return str(template[part]).format(t=text) if part and part in template else text


def clock_part(hour: int, unit: str, lang: Language, clock: int) -> tuple[int, str]:
    """The hour as it is shown, and "am", "pm" or nothing to go with it."""
    if unit == "12":
        return hour, ""
    if clock == 12:
        return (hour - 1) % 12 + 1, "am" if hour < 12 else "pm"
    return hour, "am" if 0 < hour < 12 else "pm" if hour == 12 else ""
