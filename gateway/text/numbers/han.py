# SPDX-License-Identifier: GPL-3.0-or-later
"""Chinese numerals: positions (十百千) inside groups of four digits (万, 亿), or digits said one by one."""

from __future__ import annotations

import re

from gateway.text.numbers.aligned import Edit
from gateway.text.numbers.language import Language

DIGITS = {
    char: at
    for at, chars in enumerate(("零〇", "一幺", "二两", "三", "四", "五", "六", "七", "八", "九"))
    for char in chars
}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_GROUPS = {"万": 10**4, "亿": 10**8}
# a digit behind 点 is a decimal, unless it is a minute: 三点五分
_RUN = re.compile(
    "(?!百分之)[零〇一幺二两三四五六七八九十百千万亿]+"
    "(?:点[零〇一二三四五六七八九]+(?![零〇一二三四五六七八九十]*[分刻]|十))?"
)
_DOTTED = re.compile("[零〇一幺二两三四五六七八九十百]+(?:点[零〇一幺二两三四五六七八九十百]+){2,}")
_BEFORE_MINUTES = frozenset("点时元镑郎盾尔索比布")
_PAUSED = re.compile(r"([零〇一幺二两三四五六七八九]{2,})(?:[，,、…\s]+([零〇一幺二两三四五六七八九]{2,}))+")


def han_edits(text: str, lang: Language) -> list[Edit]:
    """The edits that make digits of Chinese numerals."""
    edits: list[Edit] = []
    at = 0
    while (match := _RUN.search(text, at)) is not None:
        at = match.end()
        dotted = _DOTTED.match(text, match.start())
        if dotted is not None:
            parts = [_value(part) for part in dotted.group().split("点")]
            if all(part is not None for part in parts):
                edits.append(Edit(dotted.start(), dotted.end(), ".".join(part for part in parts if part)))
                at = dotted.end()
                continue
        paused = _PAUSED.match(text, match.start())
        if paused is not None and paused.end() > at:
            digits = "".join(str(DIGITS[char]) for char in paused.group() if char in DIGITS)
            edits.append(Edit(match.start(), paused.end(), digits, digits=True))
            at = paused.end()
            continue
        if _is_idiom(text, match, lang):
            continue
        whole, _, fraction = match.group().partition("点")
        value = _value(whole)
        if value is None:
            continue
        row = not set(whole) & {*_PLACES, *_GROUPS}
        if fraction:
            value += "." + "".join(str(DIGITS[char]) for char in fraction)
        sure = bool(fraction) or (len(whole) > 2 if row else len(whole) > 1)
        edits.append(Edit(match.start(), match.end(), value, sure, digits=row and len(whole) > 1))
    return edits


def _is_idiom(text: str, match: re.Match[str], lang: Language) -> bool:
    """Whether the numerals are a word: 十分 is "very", 万一 "in case"; but not behind an hour, money, or a code."""
    before = text[: match.start()][-1:]
    if before in _BEFORE_MINUTES or (before.isascii() and before.isalnum()):
        return False
    size = len(match.group())
    return any(len(idiom) >= size and text.startswith(idiom, match.start()) for idiom in lang.get("idioms"))


def _value(run: str) -> str | None:
    if not set(run) & {*_PLACES, *_GROUPS}:
        return "".join(str(DIGITS[char]) for char in run)
    high = total = group = 0
    digit: int | None = None
    place = last = 10**12
    for char in run:
        if char in DIGITS:
            if digit and DIGITS[char]:
                return None
            digit = DIGITS[char]
            last = last if digit else 10**12
        elif char in _PLACES:
            if _PLACES[char] >= place or (digit == 0 and char != "十"):
                return None
            place = last = _PLACES[char]
            group += (digit or 1) * place
            digit = None
        else:
            group += digit or 0
            if not group and char == "万":
                return None
            if char == "亿":
                high, total = high + (total + group) * _GROUPS[char], 0
            else:
                total += group * _GROUPS[char]
            group, digit, place, last = 0, None, 10**12, _GROUPS[char]
    # 两百五 is 250: the last digit has the next lower place, unless a zero was said
    below = last // 10 if 10 < last < 10**12 else 1
    return str(high + total + group + (digit or 0) * below)
