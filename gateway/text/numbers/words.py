# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers in words, by the tables of the language's file. Pure; the machine's locale has no say in it."""

from __future__ import annotations

from typing import Literal

from gateway.text.numbers.language import Language

Form = Literal["alone", "masculine", "feminine"]

LARGEST = 10**15 - 1
_HAN = "零一二三四五六七八九"


def cardinal(number: int, lang: Language, form: Form = "alone") -> str:
    """``number`` (0 to `LARGEST`) in words; ``form`` is that of the noun behind it. ValueError for a larger one."""
    if not 0 <= number <= LARGEST:
        raise ValueError(f"numbers from 0 to {LARGEST} have names here, not {number}")
    if lang.get("han"):
        return _han(number)
    parts: list[str] = []
    rest = number
    for power, one, many in lang.get("say_scales", ()):
        count, rest = divmod(rest, 10**power)
        if count:
            parts.append(_scaled(count, power, one if count == 1 else many, lang, form))
    compound = bool(lang.get("compound"))
    if rest or not parts:
        last = _below_thousand(rest, lang, form)
        if parts and lang.get("join_last") and (rest < 100 or rest % 100 == 0):
            last = f"e {last}"
        if compound and number % 10**6 != rest and parts:
            parts[-1] += last
        else:
            parts.append(last)
    return " ".join(parts)


def _scaled(count: int, power: int, name: str, lang: Language, form: Form) -> str:
    if count == 1 and power == 3 and lang.get("bare_thousand"):
        return name
    if lang.get("compound") and power == 3:
        return _changed(cardinal(count, lang), lang.get("masculine", {}), compound=True) + name
    # thousands of women are still feminine, millions are a noun of their own
    words = cardinal(count, lang, form if power == 3 and form == "feminine" and lang.get("join_last") else "alone")
    if lang.get("compound"):
        words = _changed(words, lang.get("feminine", {}))  # eine Million
    words = _changed(words, lang.get("multiplier", {}))
    if power == 3:
        words = _changed(words, lang.get("before_thousand", {}), compound=True)
    return f"{words} {name}"


def _below_thousand(number: int, lang: Language, form: Form) -> str:
    hundreds, rest = divmod(number, 100)
    words = lang.get("below_hundred")[rest] if rest or not hundreds else ""
    if hundreds:
        exact = lang.get("say_hundred_exact", {}).get(str(hundreds)) if not rest else None
        glue = "" if lang.get("compound") else lang.get("hundred_glue", " ")
        head = exact or lang.get("say_hundred")[hundreds - 1]
        words = f"{head}{glue}{words}" if rest else head
    return _changed(words, lang.get(form, {})) if form != "alone" else words


def _changed(words: str, changes: dict[str, str], *, compound: bool = False) -> str:
    """Each word in its other form; with ``compound`` the end of the last one too."""
    if not changes:
        return words
    words = " ".join(changes.get(word, word) for word in words.split(" "))
    for ending, other in changes.items() if compound else ():
        if words.endswith(ending):
            return words.removesuffix(ending) + other
    return words


def _han(number: int) -> str:
    if number < 10:
        return _HAN[number]
    words, zero = "", False
    for unit, name in ((10**12, "万亿"), (10**8, "亿"), (10**4, "万"), (1, "")):
        group, number = divmod(number, unit)
        if not group:
            zero = bool(words)
            continue
        if words and (zero or group < 1000):
            words += "零"
        words += _han_group(group) + name
        zero = False
    return words[1:] if words.startswith("一十") else words


def _han_group(group: int) -> str:
    words, zero = "", False
    for place, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, group = divmod(group, place)
        if digit:
            words += ("零" if zero and words else "") + _HAN[digit] + name
            zero = False
        else:
            zero = True
    return words


def digits(row: str, lang: Language) -> str:
    """Digits one by one."""
    if lang.get("han"):
        return "".join(_HAN[int(digit)] for digit in row)
    return " ".join(lang.get("below_hundred")[int(digit)] for digit in row)


def decimal(value: str, lang: Language, form: Form = "alone") -> str:
    """A decimal number in plain notation: the whole part, the mark's name, the digits behind it."""
    whole, point, fraction = value.removeprefix("-").partition(".")
    words = cardinal(int(whole), lang, form if not point else "alone")
    if point:
        words += _between(lang, decimal_name(lang)) + digits(fraction, lang)
    return f"{lang.get('minus')}{'' if lang.get('han') else ' '}{words}" if value.startswith("-") else words


def decimal_name(lang: Language) -> str:
    """What the decimal mark is called."""
    if lang.get("han"):
        return "点"
    names: dict[str, str] = lang.get("points")
    return next(name for name, mark in names.items() if mark == lang.decimal)


def _between(lang: Language, word: str) -> str:
    return word if lang.get("han") else f" {word} "


def ordinal(number: int, lang: Language, *, feminine: bool = False) -> str:
    """``number`` as an ordinal; as a cardinal where the language's file gives no ordinal."""
    form = lang.get("ordinal_form")
    names: list[str] = lang.get("ordinals", [])
    tens = {value: word for word, value in reversed(lang.get("ordinal_tens", {}).items()) if value >= 20}
    if lang.get("han"):
        return f"第{cardinal(number, lang)}"
    if form == "sum":
        words = _summed(number, names, tens)
        if words is None:
            return cardinal(number, lang, "feminine" if feminine else "alone")
        return " ".join(word[:-1] + "a" for word in words) if feminine else " ".join(words)
    if form == "en":
        return _english(number, lang, names, tens)
    if form == "de":
        return _german(number, lang, names)
    return _french(number, lang, names, tens) if form == "fr" else cardinal(number, lang)


def _summed(number: int, names: list[str], tens: dict[int, str]) -> list[str] | None:
    """Roman languages: "vigésimo primeiro"."""
    words = []
    for value in (number // 100 * 100, number % 100 // 10 * 10, number % 10):
        word = names[value] if 0 < value < len(names) else tens.get(value)
        if value and word is None:
            return None
        words += [word] if word and value else []
    return words or None


def _english(number: int, lang: Language, names: list[str], tens: dict[int, str]) -> str:
    below = number % 100
    if not below:
        return cardinal(number, lang) + "th"
    last = (
        names[below] if below < 20 else tens.get(below) or f"{cardinal(below - below % 10, lang)}-{names[below % 10]}"
    )
    return f"{cardinal(number - below, lang)} {last}" if number > 100 else last


def _german(number: int, lang: Language, names: list[str]) -> str:
    below = number % 100
    last = names[below] if 0 < below < 20 else f"{cardinal(below, lang)}ste" if below else "ste"
    return (cardinal(number - below, lang) if number >= 100 else "") + last


def _french(number: int, lang: Language, names: list[str], tens: dict[int, str]) -> str:
    if number < len(names):
        return names[number]
    words = cardinal(number, lang).removesuffix("s") if number % 100 in (0, 80) else cardinal(number, lang)
    if words in {cardinal(value, lang) for value in tens}:
        return next(word for value, word in tens.items() if cardinal(value, lang) == words)
    head, last = words[: len(words) - len(words.split("-")[-1].split(" ")[-1])], words.split("-")[-1].split(" ")[-1]
    endings = {"un": "unième", "cinq": "cinquième", "neuf": "neuvième"}
    return head + (endings.get(last) or last.removesuffix("e") + "ième")
