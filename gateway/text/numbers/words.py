# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers in words, by the tables of the language's file. Pure; the machine's locale has no say in it."""

from __future__ import annotations

from typing import Literal

from gateway.text.numbers.lexicon import Lexicon

Form = Literal["alone", "masculine", "feminine"]

LARGEST = 10**15 - 1
_HAN = "零一二三四五六七八九"


def cardinal(number: int, lex: Lexicon, form: Form = "alone") -> str:
    """``number`` (0 to `LARGEST`) in words; ``form`` is that of the noun behind it. ValueError for a larger one."""
    if not 0 <= number <= LARGEST:
        raise ValueError(f"numbers from 0 to {LARGEST} have names here, not {number}")
    if lex.get("han"):
        return _han(number)
    parts: list[str] = []
    rest = number
    for power, one, many in lex.get("say_scales", ()):
        count, rest = divmod(rest, 10**power)
        if count:
            parts.append(_scaled(count, power, one if count == 1 else many, lex, form))
    compound = bool(lex.get("compound"))
    if rest or not parts:
        last = _below_thousand(rest, lex, form)
        if parts and lex.get("join_last") and (rest < 100 or rest % 100 == 0):
            last = f"e {last}"
        if compound and number % 10**6 != rest and parts:
            parts[-1] += last
        else:
            parts.append(last)
    return " ".join(parts)


def _scaled(count: int, power: int, name: str, lex: Lexicon, form: Form) -> str:
    if count == 1 and power == 3 and lex.get("bare_thousand"):
        return name
    if lex.get("compound") and power == 3:
        return _changed(cardinal(count, lex), lex.get("masculine", {}), compound=True) + name
    # thousands of women are still feminine, millions are a noun of their own
    words = cardinal(count, lex, form if power == 3 and form == "feminine" and lex.get("join_last") else "alone")
    if lex.get("compound"):
        words = _changed(words, lex.get("feminine", {}))  # eine Million
    words = _changed(words, lex.get("multiplier", {}))
    if power == 3:
        words = _changed(words, lex.get("before_thousand", {}), compound=True)
    return f"{words} {name}"


def _below_thousand(number: int, lex: Lexicon, form: Form) -> str:
    hundreds, rest = divmod(number, 100)
    words = lex.get("below_hundred")[rest] if rest or not hundreds else ""
    if hundreds:
        exact = lex.get("say_hundred_exact", {}).get(str(hundreds)) if not rest else None
        glue = "" if lex.get("compound") else lex.get("hundred_glue", " ")
        head = exact or lex.get("say_hundred")[hundreds - 1]
        words = f"{head}{glue}{words}" if rest else head
    return _changed(words, lex.get(form, {})) if form != "alone" else words


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


def digits(row: str, lex: Lexicon) -> str:
    """Digits one by one."""
    if lex.get("han"):
        return "".join(_HAN[int(digit)] for digit in row)
    return " ".join(lex.get("below_hundred")[int(digit)] for digit in row)


def decimal(value: str, lex: Lexicon, form: Form = "alone") -> str:
    """A decimal number in plain notation: the whole part, the mark's name, the digits behind it."""
    whole, point, fraction = value.removeprefix("-").partition(".")
    words = cardinal(int(whole), lex, form if not point else "alone")
    if point:
        words += _between(lex, decimal_name(lex)) + digits(fraction, lex)
    return f"{lex.get('minus')}{'' if lex.get('han') else ' '}{words}" if value.startswith("-") else words


def decimal_name(lex: Lexicon) -> str:
    """What the decimal mark is called."""
    if lex.get("han"):
        return "点"
    return next(name for name, mark in lex.get("points").items() if mark == lex.decimal)


def _between(lex: Lexicon, word: str) -> str:
    return word if lex.get("han") else f" {word} "


def ordinal(number: int, lex: Lexicon, *, feminine: bool = False) -> str:
    """``number`` as an ordinal; as a cardinal where the language's file gives no ordinal."""
    form = lex.get("ordinal_form")
    names: list[str] = lex.get("ordinals", [])
    tens = {value: word for word, value in reversed(lex.get("ordinal_tens", {}).items()) if value >= 20}
    if lex.get("han"):
        return f"第{cardinal(number, lex)}"
    if form == "sum":
        words = _summed(number, names, tens)
        if words is None:
            return cardinal(number, lex, "feminine" if feminine else "alone")
        return " ".join(word[:-1] + "a" for word in words) if feminine else " ".join(words)
    if form == "en":
        return _english(number, lex, names, tens)
    if form == "de":
        return _german(number, lex, names)
    return _french(number, lex, names, tens) if form == "fr" else cardinal(number, lex)


def _summed(number: int, names: list[str], tens: dict[int, str]) -> list[str] | None:
    """Roman languages: "vigésimo primeiro"."""
    words = []
    for value in (number // 100 * 100, number % 100 // 10 * 10, number % 10):
        word = names[value] if 0 < value < len(names) else tens.get(value)
        if value and word is None:
            return None
        words += [word] if word and value else []
    return words or None


def _english(number: int, lex: Lexicon, names: list[str], tens: dict[int, str]) -> str:
    below = number % 100
    if not below:
        return cardinal(number, lex) + "th"
    last = names[below] if below < 20 else tens.get(below) or f"{cardinal(below - below % 10, lex)}-{names[below % 10]}"
    return f"{cardinal(number - below, lex)} {last}" if number > 100 else last


def _german(number: int, lex: Lexicon, names: list[str]) -> str:
    below = number % 100
    last = names[below] if 0 < below < 20 else f"{cardinal(below, lex)}ste" if below else "ste"
    return (cardinal(number - below, lex) if number >= 100 else "") + last


def _french(number: int, lex: Lexicon, names: list[str], tens: dict[int, str]) -> str:
    if number < len(names):
        return names[number]
    words = cardinal(number, lex).removesuffix("s") if number % 100 in (0, 80) else cardinal(number, lex)
    if words in {cardinal(value, lex) for value in tens}:
        return next(word for value, word in tens.items() if cardinal(value, lex) == words)
    head, last = words[: len(words) - len(words.split("-")[-1].split(" ")[-1])], words.split("-")[-1].split(" ")[-1]
    endings = {"un": "unième", "cinq": "cinquième", "neuf": "neuvième"}
    return head + (endings.get(last) or last.removesuffix("e") + "ième")
