# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms whose translation is prescribed: found in the source, verified in the output, repaired where missed.

A machine translator promises nothing, so nothing is believed: `TermList.apply` looks whether each term of the source
has its target in the output, and replaces what the translator left untranslated or nearly so. What it cannot repair
it names; then the source can be translated again with placeholders (`mask`, `unmask`), which count only when each of
them came back exactly once.

Matching: text in NFC; the longest form first; one pass, so that a target is never taken for a term; all characters
literal. Without ``case_sensitive`` case is folded (ß equals ss, the four Turkish i are one). ``whole_word`` asks for
word borders, in scripts that have them: Han, kana, Thai and their like are matched anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rapidfuzz import fuzz

CLOSE_ENOUGH = 85.0
"""Similarity (rapidfuzz ratio, 0..100) from which a word of the output counts as a failed rendition of a term."""

# Letters that begin no word, so that translators copy them. Measured on the Firefox en→pt and pt→en models: these
# came back whole in 18 of 18 sentences, "Xq" in 17, "QX" in 16, "Term" in 10.
_PREFIXES = ("Zx", "Qz", "Kx", "Zz", "Xq")

_LONGEST_FORM = 200  # characters; a term is a name or a phrase, not a paragraph

# scripts written without spaces between words, and Hangul, whose particles are attached
_BORDERLESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True, slots=True)
class Term:
    """One prescribed translation. ``forms`` are the source spellings (singular, plural, variants).

    With ``never_translate`` the form found in the source is its own target, and ``target`` is not used.
    """

    forms: tuple[str, ...]
    target: str = ""
    case_sensitive: bool = False
    whole_word: bool = True
    never_translate: bool = False

    def __post_init__(self) -> None:
        """Refuse a term that could match nothing or say nothing."""
        if not self.forms or any(not form.strip() or len(form) > _LONGEST_FORM for form in self.forms):
            raise ValueError(f"a term needs forms of 1 to {_LONGEST_FORM} characters: {self.forms!r}")
        if not self.never_translate and not self.target.strip():
            raise ValueError(f"the term {self.forms[0]!r} needs a target, or never_translate")


@dataclass(frozen=True, slots=True)
class TermHit:
    """A term in a source text (NFC): ``text[start:end]`` is ``found`` and is to become ``target``."""

    start: int
    end: int
    found: str
    target: str
    term: Term


@dataclass(frozen=True, slots=True)
class Applied:
    """The output and how it came to contain the targets of ``hits``: by itself, by repair, or not (``missed``)."""

    text: str
    hits: tuple[TermHit, ...]
    repaired: tuple[TermHit, ...]
    missed: tuple[TermHit, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder and what it stands for."""

    token: str
    target: str


class _Folded:
    """A text with case folded, and where each folded character came from."""

    def __init__(self, text: str) -> None:
        self.text = text
        chars: list[str] = []
        self.source: list[int] = []
        for at, char in enumerate(text):
            for folded in _fold(char):
                chars.append(folded)
                self.source.append(at)
        self.source.append(len(text))
        self.folded = "".join(chars)

    def span(self, start: int, length: int) -> tuple[int, int] | None:
        """The place in the text, or None when it would begin or end inside a character (half a ß)."""
        end = start + length
        inside = (start and self.source[start] == self.source[start - 1]) or self.source[end] == self.source[end - 1]
        return None if inside else (self.source[start], self.source[end])


def _fold(text: str) -> str:
    # İ folds to i plus a dot above, ı to itself, I to i: one letter here, whatever the language
    return text.replace("İ", "i").replace("ı", "i").casefold()


def _bare(text: str) -> str:
    """Without case and accents, for comparing what a translator may have respelled."""
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", _fold(text)))


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"


def _bordered(text: str, start: int, end: int) -> bool:
    """True when ``text[start:end]`` is not a part of a longer word or number."""

    def joined(inner: str, outer: str, beyond: str) -> bool:
        if inner.isdigit() and outer in ".," and beyond.isdigit():
            return True
        if not _is_word(inner) or not _is_word(outer):
            return False
        return not (_BORDERLESS.match(inner) or _BORDERLESS.match(outer))

    before, beyond_before = text[start - 1 : start], text[start - 2 : start - 1] if start > 1 else ""
    after, beyond_after = text[end : end + 1], text[end + 1 : end + 2]
    if before and joined(text[start], before, beyond_before):
        return False
    return not (after and joined(text[end - 1], after, beyond_after))


def _places(text: _Folded, wanted: str, *, case_sensitive: bool, whole_word: bool) -> Iterable[tuple[int, int]]:
    """Where ``wanted`` (NFC) stands in ``text``."""
    folded = _fold(wanted)
    at = text.folded.find(folded)
    while at >= 0:
        span = text.span(at, len(folded))
        if span and _fits(text.text, span, wanted, case_sensitive=case_sensitive, whole_word=whole_word):
            yield span
        at = text.folded.find(folded, at + 1)


def _fits(text: str, span: tuple[int, int], form: str, *, case_sensitive: bool, whole_word: bool) -> bool:
    start, end = span
    if case_sensitive and text[start:end] != form:
        return False
    return not whole_word or _bordered(text, start, end)


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True)
class TermList:
    """An immutable snapshot of the terms of one direction; ``version`` names it in plans and logs."""

    version: int
    terms: tuple[Term, ...] = ()
    _forms: dict[str, list[tuple[str, str, Term]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Order the forms by their first folded character, the longest first."""
        forms: dict[str, list[tuple[str, str, Term]]] = {}
        for term in self.terms:
            for form in term.forms:
                folded = _fold(_nfc(form))
                forms.setdefault(folded[0], []).append((folded, _nfc(form), term))
        for group in forms.values():
            # at equal length the case-sensitive form is the more particular one
            group.sort(key=lambda entry: (-len(entry[0]), not entry[2].case_sensitive))
        object.__setattr__(self, "_forms", forms)

    def find(self, text: str) -> list[TermHit]:
        """The terms of a source text from left to right, without overlap; positions are those of its NFC form."""
        folded = _Folded(_nfc(text))
        hits: list[TermHit] = []
        at = 0
        while at < len(folded.folded):
            hit = self._hit_at(folded, at)
            if hit is None:
                at += 1
                continue
            hits.append(hit)
            while folded.source[at] < hit.end:
                at += 1
        return hits

    def _hit_at(self, text: _Folded, at: int) -> TermHit | None:
        for folded, form, term in self._forms.get(text.folded[at], ()):
            span = text.span(at, len(folded)) if text.folded.startswith(folded, at) else None
            if span and _fits(text.text, span, form, case_sensitive=term.case_sensitive, whole_word=term.whole_word):
                found = text.text[span[0] : span[1]]
                return TermHit(*span, found, found if term.never_translate else _nfc(term.target), term)
        return None

    # --- verify and repair ---------------------------------------------------------------------------------------

    def apply(self, source: str, translated: str) -> Applied:
        """Verify the targets of the source's terms in the output (NFC), and repair what can be repaired.

        A term counts once, however often the source says it: a translator may well use a pronoun. Repaired is a
        rendition that is the source form itself or close to it or to the target; what became a target is not
        touched again.
        """
        text = _nfc(translated)
        hits: list[TermHit] = []
        repaired: list[TermHit] = []
        missed: list[TermHit] = []
        distinct = list({(hit.term, hit.target): hit for hit in reversed(self.find(source))}.values())[::-1]
        done = [hit for hit in distinct if _target_places(text, hit)]
        targets = [hit.target for hit in done]
        for hit in distinct:
            if hit in done:
                hits.append(hit)
                continue
            better = _repair(text, hit, targets)
            if better is None:
                missed.append(hit)
                continue
            text = better
            targets.append(hit.target)
            repaired.append(hit)
        return Applied(text, tuple(hits), tuple(repaired), tuple(missed))

    # --- placeholders --------------------------------------------------------------------------------------------

    def mask(self, text: str) -> tuple[str, tuple[Slot, ...]]:
        """The text (NFC) with a placeholder for each term, and the slots; no slots when it holds no term."""
        text = _nfc(text)
        hits = self.find(text)
        prefix = next((each for each in _PREFIXES if each.casefold() not in text.casefold()), _PREFIXES[0])
        pieces: list[str] = []
        slots: list[Slot] = []
        behind = 0
        for number, hit in enumerate(hits):
            token = prefix + _letters(number)
            slots.append(Slot(token, hit.target))
            pieces += [text[behind : hit.start], token]
            behind = hit.end
        return "".join([*pieces, text[behind:]]), tuple(slots)


def unmask(translated: str, slots: Sequence[Slot]) -> str | None:
    """Put the targets in for the placeholders; None unless each came back exactly once, whole and by itself."""
    text = _nfc(translated)
    places: list[tuple[int, int, Slot]] = []
    folded = _Folded(text)
    for slot in slots:
        found = list(_places(folded, slot.token, case_sensitive=False, whole_word=True))
        if len(found) != 1 or text.casefold().count(slot.token.casefold()) != 1:
            return None
        places.append((*found[0], slot))
    pieces: list[str] = []
    behind = 0
    for start, end, slot in sorted(places, key=lambda place: place[0]):
        pieces += [text[behind:start], slot.target]
        behind = end
    return "".join([*pieces, text[behind:]])


def _letters(number: int) -> str:
    """Letters of equal length, so that no placeholder begins with another one; digits belong to the number guard."""
    return chr(97 + number // 20 % 20) + chr(97 + number % 20)


def _target_places(text: str, hit: TermHit) -> list[tuple[int, int]]:
    return list(
        _places(_Folded(text), hit.target, case_sensitive=hit.term.case_sensitive, whole_word=hit.term.whole_word)
    )


def _repair(text: str, hit: TermHit, targets: Sequence[str]) -> str | None:
    """Replace the translator's rendition of ``hit``: the source form if it stands there, else the closest words."""
    taken = [place for target in targets for place in _places(_Folded(text), target, case_sensitive=False,
                                                              whole_word=True)]  # fmt: skip

    def is_free(start: int, end: int) -> bool:
        return all(end <= first or start >= last for first, last in taken)

    for form in dict.fromkeys((hit.found, *sorted(map(_nfc, hit.term.forms), key=len, reverse=True))):
        left = [span for span in _places(_Folded(text), form, case_sensitive=False, whole_word=True) if is_free(*span)]
        if left:
            for start, end in reversed(_apart(left)):
                text = text[:start] + hit.target + text[end:]
            return text
    words = [match.span() for match in re.finditer(r"\w[\w'’\-]*", text)]
    best: tuple[float, int, int] = (0.0, 0, 0)
    for wanted in dict.fromkeys((hit.target, hit.found)):
        bare, count = _bare(wanted), len(wanted.split())
        for size in {max(1, count - 1), count, count + 1}:
            for first, last in zip(words, words[size - 1 :], strict=False):
                start, end = first[0], last[1]
                score = fuzz.ratio(_bare(text[start:end]), bare, score_cutoff=CLOSE_ENOUGH)
                if score > best[0] and is_free(start, end):
                    best = (score, start, end)
    return text[: best[1]] + hit.target + text[best[2] :] if best[0] else None


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans without those that begin inside the one before."""
    kept: list[tuple[int, int]] = []
    for span in spans:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept
