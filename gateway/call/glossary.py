# SPDX-License-Identifier: GPL-3.0-or-later
"""The words a call insists on: hotwords for the recogniser, prescribed translations for the translator.

One JSON document serves all languages; a direction takes from it what concerns its pair. The gateway's list and the
call's own are joined, the call's own first. Snapshots never change; a direction swaps them between utterances.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from gateway.text.terms import Term, TermList

GLOBAL_SCOPE = "global"
_TERM_KEYS = {"from", "to", "forms", "target", "case_sensitive", "whole_word", "never_translate"}
_KEYS = {"hotwords", "terms"}


class GlossaryError(ValueError):
    """A glossary that cannot be used; the text names the entry and the remedy."""


@dataclass(frozen=True)
class Glossary:
    """An immutable list. ``version`` counts the gateway's list and the call's own."""

    version: tuple[int, int] = (0, 0)
    hotwords: Mapping[str, tuple[str, ...]] | None = None
    entries: tuple[tuple[str, str, Term], ...] = ()

    @cached_property
    def _lists(self) -> dict[tuple[str, str], TermList]:
        return {}

    def terms(self, source: str, target: str) -> TermList:
        """The terms of one direction."""
        pair = (source, target)
        if pair not in self._lists:
            mine = tuple(term for at, to, term in self.entries if (at, to) == pair)
            self._lists[pair] = TermList(sum(self.version), mine)
        return self._lists[pair]

    def words(self, language: str) -> tuple[str, ...]:
        """The hotwords of a language: those listed, and the source forms of its terms, which are wanted as well."""
        listed = (self.hotwords or {}).get(language, ())
        forms = (form for at, _, term in self.entries if at == language for form in term.forms[:1])
        return tuple(dict.fromkeys((*listed, *forms)))


def parse_glossary(data: Any) -> Glossary:
    """A glossary from its JSON form. GlossaryError names every fault."""
    if not isinstance(data, dict):
        raise GlossaryError('a glossary is an object with "hotwords" and "terms"')
    faults = [f"unknown key {key!r}; known are {', '.join(sorted(_KEYS))}" for key in set(data) - _KEYS]
    hotwords = data.get("hotwords", {})
    if not isinstance(hotwords, dict) or not all(
        isinstance(words, list) and all(isinstance(word, str) for word in words) for words in hotwords.values()
    ):
        faults.append('hotwords must map a language to a list of words, such as {"en": ["Acme"]}')
        hotwords = {}
    entries: list[tuple[str, str, Term]] = []
    for number, item in enumerate(data.get("terms", []), 1):
        try:
            entries.append(_entry(item))
        except (TypeError, ValueError) as error:
            faults.append(f"term {number}: {error}")
    if faults:
        raise GlossaryError("\n".join(faults))
    return Glossary(hotwords={language: tuple(words) for language, words in hotwords.items()}, entries=tuple(entries))


def _entry(item: Any) -> tuple[str, str, Term]:
    if not isinstance(item, dict):
        raise TypeError("must be an object")
    if unknown := set(item) - _TERM_KEYS:
        raise ValueError(f"unknown key {unknown.pop()!r}; known are {', '.join(sorted(_TERM_KEYS))}")
    forms = item.get("forms")
    if isinstance(forms, str):
        forms = [forms]
    if not isinstance(forms, list) or not all(isinstance(form, str) for form in forms):
        raise ValueError('needs "forms": the source spellings')
    pair = (item.get("from"), item.get("to"))
    if not all(isinstance(language, str) for language in pair):
        raise ValueError('needs "from" and "to": the languages')
    term = Term(
        tuple(forms),
        str(item.get("target", "")),
        case_sensitive=bool(item.get("case_sensitive", False)),
        whole_word=bool(item.get("whole_word", True)),
        never_translate=bool(item.get("never_translate", False)),
    )
    return str(pair[0]), str(pair[1]), term


def load_glossary(path: Path) -> dict[str, Any]:
    """The JSON document of a glossary file, proven to be one. GlossaryError names the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        parse_glossary(data)
    except FileNotFoundError:
        raise GlossaryError(f"{path}: no such glossary; correct terms.file, or unset it") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise GlossaryError(f"{path}: cannot be read as JSON: {error}") from None
    except GlossaryError as error:
        raise GlossaryError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None
    assert isinstance(data, dict)
    return data


class Snapshot(Protocol):
    """A version of a scope's data, as the state room keeps it."""

    @property
    def version(self) -> int:
        """0 when nothing was ever set."""

    @property
    def data(self) -> Any:
        """The JSON document."""


class TermSource(Protocol):
    """Gives the present snapshot of a scope at once."""

    def terms(self, scope: str) -> Snapshot:
        """The snapshot; version 0 when nothing was ever set."""


class Glossaries:
    """The glossary in force for each call, parsed once per change. A bad document leaves the last good one."""

    def __init__(self, source: TermSource) -> None:
        self._source = source
        self._parsed: dict[str, tuple[int, Glossary]] = {}
        self.refused = 0

    def current(self, scope: str | None = None) -> Glossary:
        """The gateway's list, with that of a call's scope in front of it."""
        common_version, common = self._one(GLOBAL_SCOPE)
        if scope is None:
            return common
        own_version, own = self._one(scope)
        if not own_version:
            return common
        words = {
            language: (*(own.hotwords or {}).get(language, ()), *(common.hotwords or {}).get(language, ()))
            for language in {*(own.hotwords or {}), *(common.hotwords or {})}
        }
        return Glossary((common_version, own_version), words, own.entries + common.entries)

    def forget(self, scope: str) -> None:
        """A call is over."""
        self._parsed.pop(scope, None)

    def _one(self, scope: str) -> tuple[int, Glossary]:
        snapshot = self._source.terms(scope)
        known = self._parsed.get(scope)
        if known is not None and known[0] == snapshot.version:
            return known
        try:
            parsed = parse_glossary(snapshot.data)
        except GlossaryError:
            self.refused += 1
            parsed = known[1] if known else Glossary()
        parsed = Glossary((snapshot.version, 0), parsed.hotwords, parsed.entries)
        self._parsed[scope] = (snapshot.version, parsed)
        return self._parsed[scope]
