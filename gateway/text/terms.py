# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms whose translation is prescribed: found in the source, verified in the output, repaired where missed.

A machine translator promises nothing, so nothing is believed: `TermList.apply` looks whether each term of the source
has its target in the output, and puts it there where the translator's own rendition can be told (`term_repair`). What
it cannot repair it names; what then helps is in `placeholders`.

Matching: text in NFC; the longest form first; one pass, so that a target is never taken for a term; all characters
literal. Without ``case_sensitive`` case is folded (ß equals ss, the four Turkish i are one). ``whole_word`` asks for
word borders, in scripts that have them: Han, kana, Thai and their like are matched anywhere.

Inflection: each form may have a target of its own (``invoice`` → ``fatura``, ``invoices`` → ``faturas``). Any target of
the term counts as a hit, because a translator may well say the plural otherwise; a repair puts the form's own. With
``inflects`` another ending of the target's words counts too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.text.folding import Folded, fits, fold, nfc
from gateway.text.spelling_trie import SpellingTrie
from gateway.text.term_repair import Output, is_inflected, repair

LONGEST_FORM = 200  # characters; a term is a name or a phrase, not a paragraph


@dataclass(frozen=True, slots=True)
class Term:
    """One prescribed translation. ``forms`` are the source spellings (singular, plural, variants).

    ``targets`` gives each form its own target, in the order of ``forms``; else all become ``target``. With
    ``never_translate`` the form found in the source is its own target, and the targets are not used.
    """

    forms: tuple[str, ...]
    target: str = ""
    targets: tuple[str, ...] = ()
    case_sensitive: bool = False
    whole_word: bool = True
    never_translate: bool = False
    inflects: bool = False

    def __post_init__(self) -> None:
        """Refuse a term that could match nothing or say nothing."""
        if not self.forms or any(not form.strip() or len(form) > LONGEST_FORM for form in self.forms):
            raise ValueError(f"a term needs forms of 1 to {LONGEST_FORM} characters: {self.forms!r}")
        wanted = self.targets or (self.target,)
        if not self.never_translate and not all(target.strip() for target in wanted):
            raise ValueError(f"the term {self.forms[0]!r} needs a target, or never_translate")
        if self.targets and len(self.targets) != len(self.forms):
            raise ValueError(f"the term {self.forms[0]!r} needs a target for each of its forms")

    def target_of(self, number: int, found: str) -> str:
        """What the form of this number, found so in a text, is to become (NFC)."""
        if self.never_translate:
            return found
        return nfc(self.targets[number] if self.targets else self.target)


@dataclass(frozen=True, slots=True)
class TermHit:
    """A term in a source text (NFC): ``text[start:end]`` is ``found`` and is to become ``target``."""

    start: int
    end: int
    found: str
    target: str
    term: Term

    def accepted(self) -> tuple[str, ...]:
        """The targets that count as a hit (NFC), the wanted one first."""
        others = () if self.term.never_translate else (*self.term.targets, self.term.target)
        return tuple(dict.fromkeys((self.target, *(nfc(other) for other in others if other))))


@dataclass(frozen=True, slots=True)
class Applied:
    """The output and how it came to contain the targets of ``hits``: by itself, by repair, or not (``missed``)."""

    text: str
    hits: tuple[TermHit, ...] = ()
    repaired: tuple[TermHit, ...] = ()
    missed: tuple[TermHit, ...] = ()


@dataclass(frozen=True)
class TermList:
    """An immutable snapshot of the terms of one direction; ``version`` names it in plans and logs.

    Where two terms have the same form, a case-sensitive one comes first, then the one that is listed first.
    """

    version: int
    terms: tuple[Term, ...] = ()
    _trie: SpellingTrie[tuple[str, int, Term]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the automaton."""
        trie: SpellingTrie[tuple[str, int, Term]] = SpellingTrie()
        for term in sorted(self.terms, key=lambda term: not term.case_sensitive):
            for number, form in enumerate(map(nfc, term.forms)):
                trie.add(fold(form), (form, number, term))
        object.__setattr__(self, "_trie", trie)

    def find(self, text: str) -> list[TermHit]:
        """The terms of a source text from left to right, without overlap; positions are those of its NFC form."""
        if not self.terms:
            return []
        folded = Folded(nfc(text))
        hits: list[TermHit] = []
        at, end = 0, len(folded.folded)
        while at < end:
            hit = self._hit_at(folded, at)
            if hit is None:
                at += 1
                continue
            hits.append(hit)
            while folded.source[at] < hit.end:
                at += 1
        return hits

    def replaced(self, text: str) -> tuple[str, int]:
        """The text with each term's target in its place, and how many there were; unchanged (not NFC) if none."""
        hits = self.find(text)
        return (substituted(nfc(text), hits), len(hits)) if hits else (text, 0)

    def _hit_at(self, text: Folded, at: int) -> TermHit | None:
        for end, entries in self._trie.longest_first(text.folded, at):
            span = text.span(at, end)
            if span is None:
                continue
            for form, number, term in entries:
                if fits(text.text, span, form, case_sensitive=term.case_sensitive, whole_word=term.whole_word):
                    found = text.text[span[0] : span[1]]
                    return TermHit(*span, found, term.target_of(number, found), term)
        return None

    def apply(self, source: str, translated: str, renditions: Mapping[str, str] | None = None) -> Applied:
        """Verify the targets of the source's terms in the output (NFC), and repair what can be repaired.

        A term counts once, however often the source says it: a translator may well use a pronoun. Repaired is a
        rendition that is the source form itself, or close to it or to the target, or what ``renditions`` says that
        the translator makes of the found text alone; what became a target is not touched again.
        """
        output = Output(nfc(translated))
        hits: list[TermHit] = []
        repaired: list[TermHit] = []
        missed: list[TermHit] = []
        distinct = list({(hit.term, hit.target): hit for hit in reversed(self.find(source))}.values())[::-1]
        done = [hit for hit in distinct if _stands_in(output, hit)]
        targets = [target for hit in done for target in hit.accepted()]
        for hit in distinct:
            if hit in done:
                hits.append(hit)
                continue
            rendition = (renditions or {}).get(hit.found, "")
            forms = () if hit.term.never_translate else hit.term.forms
            better = repair(output, hit.found, hit.target, forms, targets, rendition)
            if better is None:
                missed.append(hit)
                continue
            output = better
            targets.append(hit.target)
            repaired.append(hit)
        return Applied(output.text, tuple(hits), tuple(repaired), tuple(missed))


def substituted(text: str, hits: list[TermHit]) -> str:
    """The text (NFC) with the target of each hit in its place."""
    pieces: list[str] = []
    behind = 0
    for hit in hits:
        pieces += [text[behind : hit.start], hit.target]
        behind = hit.end
    return "".join([*pieces, text[behind:]])


def _stands_in(output: Output, hit: TermHit) -> bool:
    term = hit.term
    for target in hit.accepted():
        places = output.folded.places(target, case_sensitive=term.case_sensitive, whole_word=term.whole_word)
        if next(iter(places), None) is not None:
            return True
        if term.inflects and is_inflected(output, target):
            return True
    return False
