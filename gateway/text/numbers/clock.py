# SPDX-License-Identifier: GPL-3.0-or-later
"""Times of day and dates, from the templates in the languages' files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gateway.text.numbers.language import Language, fold
from gateway.text.numbers.value import Kind, Number

_BORDER = r"(?<![\w.,:/])"
_FIELDS = {
    "H": r"(?P<h>[01]?\d|2[0-4])",
    "M": r"(?P<m>[0-5]?\d)",
    "MM": r"(?P<m>[0-5]\d)",
    "D": r"(?P<d>0?[1-9]|[12]\d|3[01])",
    "Y": r"(?P<y>(?:1[1-9]|20)\d\d)",
}
_ISO = re.compile(r"(?<![\w-])(\d{4})-(\d\d)-(\d\d)(?![\w-])")
_NUMERIC = re.compile(r"(?<![\w./-])(\d{1,2})(?:([./-])(\d{1,2})\2(\d{4})|(/)(\d{1,2})/(\d\d))(?![\w/-])(?!\.\d)")

Built = tuple[int, int, Number, tuple[Number, ...]]


def clock_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    """A finder of times in text whose number words are digits."""
    am, pm = "|".join(lang.get("am", ())), "|".join(lang.get("pm", ()))
    part = rf"(?:(?P<am>{am})|(?P<pm>{pm}))" if am else r"(?P<am>(?!))(?P<pm>(?!))"
    before = bool(lang.get("part_before"))
    asked = "|".join(map(re.escape, sorted(lang.get("asked_times", ()), key=len, reverse=True)))
    end = "" if lang.get("han") else r"(?!\w)(?![.,:]\d)"
    border = "" if lang.get("han") else _BORDER
    asking = set(lang.get("needs_asking", ()))
    patterns: list[tuple[re.Pattern[str], object]] = []

    def add(template: str, minutes: object, *, ask: bool = False, tail: str = rf"(?:[, ]*{part})?") -> None:
        for name, field in _FIELDS.items():
            template = template.replace(f"{{{name}}}", field)
        head = rf"(?:{part})?" if before else ""
        body = f"(?P<t>{head}{template.replace('{PART}', part)}{'' if before else tail})"
        called = rf"(?:{asked}) " if ask else ""
        patterns.append((re.compile(border + called + body + end, re.IGNORECASE), minutes))

    for template in lang.get("spaced_times", ()):
        add(template, None if "{M" in template else 0, tail="")
    for template, minutes in lang.get("times", ()):
        if template not in asking:
            add(template, minutes)
            continue
        # "8 horas" may be how long: it is a time of day when asked for ("às 8 horas") or with its half of the day
        add(template, minutes, ask=True)
        add(template, minutes, tail=rf"[, ]*{part}")
    if asked:
        add("{H} {M}", "spaced", ask=True)
    add(r"{H}:{M}(?::(?P<s>[0-5]\d))?", None)
    add("{H} ?h ?{MM}", None)

    def times(text: str) -> Iterator[Built]:
        for pattern, minutes in patterns:
            for match in pattern.finditer(text):
                number = _time(match, minutes)
                if number is not None:
                    yield *match.span("t"), number, ()

    return times


def _time(match: re.Match[str], minutes: object) -> Number | None:
    groups = match.groupdict()
    if isinstance(minutes, str) and ":" in minutes:  # noon, midnight
        hour, minute = map(int, minutes.split(":"))
        return Number(Kind.TIME, f"{hour}:{minute:02d}")
    hour, minute = int(groups["h"]), int(groups["m"]) if groups.get("m") else 0
    if minutes == "spaced" and len(groups["m"]) < 2:
        return None
    if minutes == "to":
        minutes = -minute
    if isinstance(minutes, int):
        total = (hour * 60 + minutes) % (24 * 60)
        hour, minute = divmod(total, 60)
        if hour == 0 and int(groups["h"]) == 1:
            hour = 12  # a quarter to one
    known = hour > 12 or hour == 0
    if groups.get("pm"):
        hour, known = hour + 12 if hour < 12 else hour, True
    elif groups.get("am"):
        hour, known = 0 if hour == 12 else hour, True
    second = f":{groups['s']}" if groups.get("s") else ""
    return Number(Kind.TIME, f"{hour % 24}:{minute:02d}{second}", "" if known else "12")


def date_finder(lang: Language) -> Callable[[str], Iterator[Built]]:
    """A finder of dates in text whose number words are digits."""
    months = "|".join(
        sorted((re.escape(name) for names in lang.get("months", ()) for name in names), key=len, reverse=True)
    )
    marks = "|".join(sorted(map(re.escape, lang.get("ordinal_marks", ())), key=len, reverse=True))
    day = _FIELDS["D"] + (rf"(?:{marks})?" if marks else "")
    patterns: list[re.Pattern[str]] = []
    if months:
        for template in lang.get("dates", ()):
            pattern = template.replace("{MONTH}", rf"(?P<month>{months})\.?").replace("{D}", day)
            patterns.append(
                re.compile(rf"{_BORDER}{pattern.replace('{Y}', _FIELDS['Y'])}(?![\w:])(?!\.\d)", re.IGNORECASE)
            )
    if lang.get("han"):
        patterns.append(re.compile(rf"(?:(?P<y>\d{{4}})年)?(?P<month>1[0-2]|0?[1-9])月{_FIELDS['D']}[日号]"))
    order = lang.get("date_order", "dmy")
    words = "|".join(map(re.escape, lang.get("date_words", ())))
    # without a year it might be a fraction: a date only behind "on" and the like
    short = re.compile(rf"(?<!\w)(?:{words}) ((\d{{1,2}})/(\d{{1,2}}))(?![\w/])", re.IGNORECASE) if words else None

    def dates(text: str) -> Iterator[Built]:
        for match in _ISO.finditer(text):
            if number := _date(match[1], int(match[2]), int(match[3])):
                yield match.start(), match.end(), number, ()
        for pattern in patterns:
            for match in pattern.finditer(text):
                name = match["month"]
                month = int(name) if name.isdigit() else lang.months[fold(name)]
                if number := _date(match.groupdict().get("y"), month, int(match["d"])):
                    yield match.start(), match.end(), number, ()
        for match in _NUMERIC.finditer(text):
            first, second, year = int(match[1]), int(match[3] or match[6]), match[4] or f"20{match[7]}"
            if numbers := _readings(first, second, year, order):
                yield match.start(), match.end(), numbers[0], tuple(numbers[1:])
        for match in short.finditer(text) if short else ():
            if numbers := _readings(int(match[2]), int(match[3]), None, order):
                yield *match.span(1), numbers[0], tuple(numbers[1:])

    return dates


def _readings(first: int, second: int, year: str | None, order: str) -> list[Number]:
    """What two numbers and a year may mean, the habit of the language first."""
    pairs = [(first, second), (second, first)] if order == "mdy" else [(second, first), (first, second)]
    return list(dict.fromkeys(date for month, day in pairs if (date := _date(year, month, day)) is not None))


def _date(year: str | None, month: int, day: int) -> Number | None:
    if not 1 <= month <= 12 or not 1 <= day <= (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]:
        return None
    return Number(Kind.DATE, f"{year or '-'}-{month:02d}-{day:02d}")
