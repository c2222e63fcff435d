# SPDX-License-Identifier: GPL-3.0-or-later
"""The words a call insists on, from the recogniser's hotwords to the voice's pronunciation.

One JSON document (`glossary_document`) serves all languages; a direction takes from it its `Lexicon`. The call's own
list comes first, then its trunk's, then the gateway's: where two say something about the same form, the first holds.
Snapshots never change; a direction swaps them between utterances.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import structlog

from gateway.call.glossary_document import Document, GlossaryError, read_document
from gateway.text.hotwords import MOST_HOTWORDS
from gateway.text.idioms import IdiomTable, joined, shipped_idioms
from gateway.text.pronunciation import Pronunciations, Spoken, letter_by_letter
from gateway.text.terms import Term, TermList

log = structlog.get_logger(__name__)

GLOBAL_SCOPE = "global"
NOTHING = (0, Document())


@dataclass(frozen=True)
class Lexicon:
    """What one direction takes from the lists: hotwords and rules of its source, pronunciations of its target."""

    hotwords: tuple[str, ...] = ()
    rules: TermList = field(default_factory=lambda: TermList(0))
    idioms: IdiomTable = field(default_factory=IdiomTable)
    terms: TermList = field(default_factory=lambda: TermList(0))
    pronunciations: Pronunciations = field(default_factory=Pronunciations)

    def sizes(self) -> dict[str, int]:
        """How much there is of each, for the call's start event."""
        return {
            "hotwords": len(self.hotwords),
            "rules": len(self.rules.terms),
            "idioms": len(self.idioms.idioms),
            "terms": len(self.terms.terms),
            "pronunciations": len(self.pronunciations.entries),
        }


@dataclass(frozen=True)
class Glossary:
    """Documents in the order in which they hold. ``version`` has the version of each scope, 0 for one without."""

    version: tuple[int, ...] = (0,)
    documents: tuple[Document, ...] = ()
    shipped: bool = False
    """Whether the idioms that ship with the gateway belong to it."""

    @cached_property
    def _lexicons(self) -> dict[tuple[str, str], Lexicon]:
        return {}

    def lexicon(self, source: str, target: str) -> Lexicon:
        """What concerns one direction; made once."""
        pair = (source, target)
        if pair not in self._lexicons:
            self._lexicons[pair] = Lexicon(
                hotwords=self._hotwords(source),
                rules=TermList(0, tuple(r.term() for d in self.documents for r in d.rules if r.language == source)),
                idioms=self._idioms(source, target),
                terms=TermList(sum(self.version), tuple(self._terms(source, target))),
                pronunciations=Pronunciations(tuple(self._spoken(target))),
            )
        return self._lexicons[pair]

    def pairs(self) -> list[tuple[str, str]]:
        """The directions whose lexicon was asked for."""
        return list(self._lexicons)

    def _terms(self, source: str, target: str) -> list[Term]:
        entries = [entry for document in self.documents for entry in document.terms]
        own = [entry.term() for entry in entries if (entry.source, entry.to) == (source, target)]
        other = [entry.reverse() for entry in entries if (entry.to, entry.source) == (source, target)]
        return [*own, *(term for term in other if term is not None)]

    def _hotwords(self, language: str) -> tuple[str, ...]:
        """Those listed, and the first forms of the language's terms, which are wanted as well."""
        words: dict[str, None] = {}
        for document in self.documents:
            words.update(dict.fromkeys(document.hotwords.get(language, ())))
        for entry in (entry for document in self.documents for entry in document.terms if entry.hotword):
            reverse = entry.reverse() if entry.to == language else None
            if entry.source == language:
                words[entry.spellings()[0]] = None
            elif reverse is not None:
                words[reverse.forms[0]] = None
        return tuple(words)[:MOST_HOTWORDS]

    def _idioms(self, source: str, target: str) -> IdiomTable:
        listed = [
            tuple(entry.idiom() for entry in document.idioms if (entry.source, entry.to) == (source, target))
            for document in self.documents
        ]
        return joined(*listed, shipped_idioms(source, target) if self.shipped else ())

    def _spoken(self, language: str) -> list[Spoken]:
        spoken: list[Spoken] = []
        for document in self.documents:
            for one in document.pronunciations:
                if one.language == language:
                    say = letter_by_letter(one.written) if one.spell else one.say
                    spoken.append(Spoken(one.written, say, one.ipa))
            for entry in document.terms:
                if entry.to == language and (entry.say or entry.ipa or entry.spell):
                    term = entry.term()
                    targets = term.forms if entry.never_translate else dict.fromkeys((term.target, *term.targets))
                    for written in targets:
                        say = letter_by_letter(written) if entry.spell else entry.say
                        spoken.append(Spoken(written, say, entry.ipa))
        return spoken


def parse_glossary(data: Any) -> Glossary:
    """A glossary from its JSON form. GlossaryError names the faults."""
    return Glossary(documents=(read_document(data),))


def load_glossary(path: Path) -> dict[str, Any]:
    """The JSON document of a glossary file, proven to be one. GlossaryError names the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        read_document(data)
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


Spawn = Callable[[Callable[[], None]], object]
"""Runs a function soon, in another thread or at once."""


def at_once(work: Callable[[], None]) -> None:
    """The simplest way to run something."""
    work()


class Glossaries:
    """The glossary in force for each call, made once per change. A bad document leaves the last good one.

    `changed` is told of a new snapshot and has the lists made by ``spawn``, so that ten thousand terms hold up no
    call; until they are ready, the lists before stay in force.
    """

    def __init__(self, source: TermSource, *, shipped: bool = True, spawn: Spawn = at_once) -> None:
        self._source = source
        self._shipped = shipped
        self._spawn = spawn
        self._parsed: dict[str, tuple[int, Document]] = {}
        self._joined: dict[tuple[str, ...], Glossary] = {}
        self._coming: set[str] = set()
        self.refused = 0

    def current(self, scopes: Sequence[str] = ()) -> Glossary:
        """The lists of the scopes, the most particular first, and behind them the gateway's."""
        chain = (*scopes, GLOBAL_SCOPE)
        parsed = [self._one(scope) for scope in chain]
        known = self._joined.get(chain)
        if known is None or known.version != tuple(version for version, _ in parsed):
            known = self._joined[chain] = self._join(parsed)
        return known

    def changed(self, scope: str, snapshot: Snapshot) -> None:
        """A scope that calls use has new content: make its lists before they are asked for."""
        if scope in self._parsed:
            self._coming.add(scope)
            self._spawn(lambda: self._prepare(scope, snapshot))

    def forget(self, scope: str) -> None:
        """A call is over."""
        self._parsed.pop(scope, None)
        self._joined = {chain: glossary for chain, glossary in self._joined.items() if scope not in chain}

    def statistics(self) -> dict[str, int]:
        """Scopes in use, and documents that were refused."""
        return {"scopes": len(self._parsed), "refused": self.refused}

    def _prepare(self, scope: str, snapshot: Snapshot) -> None:
        try:
            new = self._read(scope, snapshot)
            joined = {}
            for chain, before in list(self._joined.items()):
                if scope in chain:
                    parsed = [new if each == scope else self._parsed.get(each, NOTHING) for each in chain]
                    joined[chain] = self._join(parsed)
                    for pair in before.pairs():
                        joined[chain].lexicon(*pair)
            if scope in self._parsed:  # the call may have ended meanwhile
                self._joined.update(joined)
                self._parsed[scope] = new
        finally:
            self._coming.discard(scope)

    def _join(self, parsed: Sequence[tuple[int, Document]]) -> Glossary:
        return Glossary(tuple(version for version, _ in parsed), tuple(each for _, each in parsed), self._shipped)

    def _one(self, scope: str) -> tuple[int, Document]:
        known = self._parsed.get(scope)
        if known is not None and scope in self._coming:
            return known
        snapshot = self._source.terms(scope)
        if known is None or known[0] != snapshot.version:
            known = self._parsed[scope] = self._read(scope, snapshot)
        return known

    def _read(self, scope: str, snapshot: Snapshot) -> tuple[int, Document]:
        try:
            return snapshot.version, read_document(snapshot.data)
        except GlossaryError as error:
            self.refused += 1
            log.warning("glossary_refused", version=snapshot.version, faults=len(str(error).splitlines()))
            return snapshot.version, self._parsed.get(scope, NOTHING)[1]
