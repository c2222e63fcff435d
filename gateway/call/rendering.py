# SPDX-License-Identifier: GPL-3.0-or-later
"""A text's way into the other language with its terms whole: prepared, translated, verified, repaired.

First idioms give way to their meanings. Whatever is translated is translated under the guard of `text.numbers`, so
that its numbers hold; that is the one door to the translator, and a text begun ahead goes through it too. The plain
translation is the best there is, so it is kept as far as it can be: missed terms are put where the translator's own
rendition of them stands. For that it is asked what it makes of them alone. Only then the source is changed: the target
itself is put into it, then a made-up word (`text.placeholders`); translators copy what they do not know. Each attempt
is verified like the first one, and the best is taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gateway.call.glossary import Lexicon
from gateway.text.folding import nfc
from gateway.text.numbers.guard import Faithful, faithful
from gateway.text.placeholders import mask, unmask
from gateway.text.sentences import sentences
from gateway.text.terms import Applied, TermHit, substituted

ATTEMPTS: tuple[int | None, ...] = (None, None, 0, 1)
"""What is put for the terms that are still missed: None their targets (again, when some of several were kept the first
time), a number made-up words in that spelling. Measured on 215 terms in sentences, each in en→pt and pt→en: the plain
translation has 42 % of them, 8 % are repaired in it at once, 30 % by what the translator makes of them alone, 16 % come
by targets in the source, 4 % by made-up words; none was left."""

Translate = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Translates each text on its own, in order."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A translation, and how its terms came into it; each distinct term counts once."""

    text: str
    hits: int = 0
    repairs: int = 0
    misses: int = 0
    idioms: int = 0
    numbers: Faithful = field(default_factory=lambda: Faithful(""))
    """The plain translation, and what became of its numbers."""


@dataclass(frozen=True, slots=True)
class Route:
    """From a language into another, by a translator."""

    source: str
    target: str
    translate: Translate

    async def whole(self, text: str, known: str | None = None) -> Faithful:
        """Translate a text so that its numbers hold; ``known`` is taken instead if its numbers do."""
        asking = faithful(text, self.source, self.target, known)
        try:
            texts = next(asking)
            while True:
                texts = asking.send(await self._sentence_by_sentence(texts))
        except StopIteration as done:
            result: Faithful = done.value
            return result

    async def _sentence_by_sentence(self, texts: Sequence[str]) -> list[str]:
        cut = [sentences(text, self.source) for text in texts]
        answers = iter(await self.translate(tuple(sentence for parts in cut for sentence in parts)))
        return [" ".join(next(answers) for _ in parts).strip() for parts in cut]


async def render(text: str, route: Route, lexicon: Lexicon, *, known: str | None = None) -> Rendered:
    """Translate a text. ``known`` is its plain translation, if there is one already."""
    prepared, idioms = lexicon.idioms.replaced(text)
    numbers = await route.whole(prepared, known)
    plain = numbers.text
    hits = lexicon.terms.find(prepared)
    if not hits:
        return Rendered(plain, idioms=idioms, numbers=numbers)
    best = first = lexicon.terms.apply(prepared, plain)
    if best.missed:
        best = await _repaired(prepared, plain, route, lexicon, best)
    distinct = len(first.hits) + len(first.repaired) + len(first.missed)
    misses = len(best.missed)
    return Rendered(best.text, len(first.hits), distinct - len(first.hits) - misses, misses, idioms, numbers)


async def _repaired(prepared: str, plain: str, route: Route, lexicon: Lexicon, best: Applied) -> Applied:
    terms = lexicon.terms
    found = list(dict.fromkeys(hit.found for hit in best.missed))
    alone = [rendition.strip(" .,;:!?") for rendition in await route.translate(found)]
    renditions = dict(zip(found, alone, strict=True))
    best = _better(best, terms.apply(prepared, plain, renditions))
    for attempt in ATTEMPTS:
        if not best.missed:
            break
        hits = _among(terms.find(prepared), best.missed)
        changed, slots = (substituted(nfc(prepared), hits), ()) if attempt is None else mask(prepared, hits, attempt)
        held = unmask((await route.whole(changed)).text, slots)
        if held is not None:
            best = _better(best, terms.apply(prepared, held, renditions))
    return best


def _better(one: Applied, other: Applied) -> Applied:
    """The one that misses fewer terms; of equals the one that came first and changed less."""
    return other if len(other.missed) < len(one.missed) else one


def _among(hits: Sequence[TermHit], missed: Sequence[TermHit]) -> list[TermHit]:
    wanted = {(hit.term, hit.target) for hit in missed}
    return [hit for hit in hits if (hit.term, hit.target) in wanted]
