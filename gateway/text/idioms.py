# SPDX-License-Identifier: GPL-3.0-or-later
"""Idioms, replaced by their meaning in the same language, so that a translator gets plain words.

A translator renders "it costs an arm and a leg" limb by limb. Which idioms need help depends on the pair, so the tables
are per pair: ``idiom_tables/en-pt.json`` and its like, and what a user's own list adds. An idiom is written so:

    {"say": "{kick|kicks|kicked} the bucket", "means": "{1:die|dies|died}"}

``{a|b|c}`` is one of several spellings (``{a|}`` may be absent); ``{*}`` is one to three words of any kind. In the
meaning ``{1:x|y|z}`` is chosen by the spelling that the first group had, ``{2}`` is what the second group was. All else
is literal: case is folded, the longest idiom wins, words are whole, replacements are not looked at again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gateway.text.folding import Folded, bordered, fold, nfc

LONGEST = 200  # characters of a pattern or a meaning
_GROUP = re.compile(r"\{([^{}]*)\}")
_PICK = re.compile(r"\{(\d)(?::([^{}]*))?\}")
_ANY_WORDS = r"(\w[\w'-]*(?: \w[\w'-]*){0,2}?)"
_TABLES = Path(__file__).parent / "idiom_tables"


@dataclass(frozen=True, slots=True)
class Idiom:
    """What people say and what it means, in the notation above. ValueError names what is wrong with it."""

    say: str
    means: str

    def __post_init__(self) -> None:
        """Refuse what could never match, and a meaning that refers to nothing."""
        if not 0 < len(self.say.strip()) <= LONGEST or not 0 < len(self.means.strip()) <= LONGEST:
            raise ValueError(f"an idiom needs 1 to {LONGEST} characters to say and to mean: {self.say!r}")
        groups = _GROUP.findall(self.say)
        if re.search(r"[{}]", _GROUP.sub("", self.say) + _PICK.sub("", self.means)):
            raise ValueError(f"the idiom {self.say!r} has a brace that is not {{a|b}}, {{*}} or, in the meaning, {{1}}")
        if not _words(_GROUP.sub(" ", self.say)):
            raise ValueError(f"the idiom {self.say!r} needs a word outside of braces")
        for number, choices in _PICK.findall(self.means):
            if not 1 <= int(number) <= len(groups):
                raise ValueError(f"the meaning of {self.say!r} refers to group {number} of {len(groups)}")
            wanted = groups[int(number) - 1].count("|")
            if choices and (groups[int(number) - 1] == "*" or choices.count("|") != wanted):
                raise ValueError(f"the meaning of {self.say!r} needs {wanted + 1} choices for group {number}")


@dataclass(frozen=True, slots=True)
class _Compiled:
    pattern: re.Pattern[str]
    means: str
    groups: tuple[tuple[str, ...], ...]
    """The folded spellings of each group; none of a group of any words."""
    sign: frozenset[str]
    """Words without which it cannot be there."""

    def meaning(self, match: re.Match[str], text: Folded) -> str:
        """The meaning, with what the groups were."""

        def pick(wanted: re.Match[str]) -> str:
            number = int(wanted[1])
            span = text.span(*match.span(number)) if match[number] else None
            if wanted[2] is None:
                return text.text[slice(*span)] if span else ""
            spellings = self.groups[number - 1]
            return wanted[2].split("|")[spellings.index(match[number] or "")]

        return " ".join(_PICK.sub(pick, self.means).split())


@dataclass(frozen=True)
class IdiomTable:
    """The idioms of one pair. Immutable; looks only at those whose words are in the text."""

    idioms: tuple[Idiom, ...] = ()
    _by_word: dict[str, list[_Compiled]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile, and file each idiom under its longest literal word."""
        by_word: dict[str, list[_Compiled]] = {}
        for idiom in self.idioms:
            compiled = _compiled(idiom)
            by_word.setdefault(max(compiled.sign, key=len), []).append(compiled)
        object.__setattr__(self, "_by_word", by_word)

    def replaced(self, text: str) -> tuple[str, int]:
        """The text with meanings in place of idioms, and how many there were; unchanged when there is none."""
        words = set(_words(text)) if self.idioms else set()
        likely = [one for word in words & self._by_word.keys() for one in self._by_word[word] if one.sign <= words]
        if not likely:
            return text, 0
        folded = Folded(nfc(text).replace("’", "'"))
        found = [
            (span, one.meaning(match, folded))
            for one in likely
            for match in one.pattern.finditer(folded.folded)
            if (span := folded.span(*match.span())) and bordered(folded.text, *span)
        ]
        found.sort(key=lambda each: (each[0][0] - each[0][1], each[0][0]))  # the longest first
        taken: list[tuple[tuple[int, int], str]] = []
        for each in found:
            if all(each[0][1] <= other[0][0] or each[0][0] >= other[0][1] for other in taken):
                taken.append(each)
        out = folded.text
        for (start, end), meaning in sorted(taken, reverse=True):
            capital = out[start : start + 1].isupper() and not out[start + 1 : start + 2].isupper()
            out = out[:start] + (meaning[:1].upper() + meaning[1:] if capital else meaning) + out[end:]
        return (out, len(taken)) if taken else (text, 0)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", fold(nfc(text)))


def _compiled(idiom: Idiom) -> _Compiled:
    say = " ".join(nfc(idiom.say).replace("’", "'").split())
    groups: list[tuple[str, ...]] = []
    pattern: list[str] = []
    behind = 0
    for match in _GROUP.finditer(say):
        pattern.append(re.escape(fold(say[behind : match.start()])))
        behind = match.end()
        if match[1] == "*":
            groups.append(())
            pattern.append(_ANY_WORDS)
            continue
        spellings = tuple(fold(each.strip()) for each in match[1].split("|"))
        groups.append(spellings)
        if "" in spellings and say[behind : behind + 1] == " ":  # the space behind goes with it
            behind += 1
            some = "|".join(re.escape(each) for each in sorted(filter(None, spellings), key=len, reverse=True))
            pattern.append(f"(?:({some}) )?")
        else:
            pattern.append("(" + "|".join(re.escape(each) for each in sorted(spellings, key=len, reverse=True)) + ")")
    pattern.append(re.escape(fold(say[behind:])))
    literal = frozenset(_words(_GROUP.sub(" ", say)))
    return _Compiled(re.compile("".join(pattern).replace(r"\ ", r"\s+")), idiom.means, tuple(groups), literal)


@cache
def shipped_idioms(source: str, target: str) -> tuple[Idiom, ...]:
    """The table that ships for a pair; none for most."""
    path = _TABLES / f"{source}-{target}.json"
    return tuple(read_idioms(json.loads(path.read_text(encoding="utf-8")))) if path.is_file() else ()


def read_idioms(entries: Iterable[dict[str, str]]) -> Iterator[Idiom]:
    """The idioms of a JSON list of ``{"say": …, "means": …}``. ValueError names what is wrong."""
    for entry in entries:
        yield Idiom(entry["say"], entry["means"])


def joined(*tables: Sequence[Idiom]) -> IdiomTable:
    """One table of several; where two say the same, the first is taken."""
    first: dict[str, Idiom] = {}
    for idiom in (one for table in tables for one in table):
        first.setdefault(fold(idiom.say), idiom)
    return IdiomTable(tuple(first.values()))
