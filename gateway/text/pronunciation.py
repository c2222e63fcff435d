# SPDX-License-Identifier: GPL-3.0-or-later
"""How words are spoken: found in the text that a voice is about to say, as respellings or as IPA.

The text that is shown stays as it is. What a voice takes is its own affair; it gets both, with the words as they stand
in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.text.folding import Folded, nfc
from gateway.text.terms import Term, TermList

_MARKS = tuple(",.;:!?…")  # voices take them among the phonemes


@dataclass(frozen=True, slots=True)
class Spoken:
    """``written`` in a text is spoken as ``say`` (a respelling) or ``ipa``; one of them may be empty."""

    written: str
    say: str = ""
    ipa: str = ""


def respelled(text: str, pronounced: Iterable[Spoken]) -> str:
    """The text (NFC) with the respellings in place of the words, each as it is written here."""
    text = nfc(text)
    for one in pronounced:
        for start, end in reversed(list(Folded(text).places(one.written, case_sensitive=True))):
            text = text[:start] + one.say + text[end:]
    return text


def ipa_parts(text: str, pronounced: Iterable[Spoken]) -> list[tuple[str, bool]]:
    """The text (NFC) in parts, in order: (words, False), and (IPA, True) in place of the words that have one."""
    text = nfc(text)
    folded = Folded(text)
    places = sorted(
        (start, end, one.ipa)
        for one in pronounced
        if one.ipa
        for start, end in folded.places(one.written, case_sensitive=True)
    )
    parts: list[tuple[str, bool]] = []
    behind = 0
    for start, end, ipa in places:
        if start >= behind:
            # a mark behind the word goes with it: readers of the next part would drop one at its beginning
            mark = text[end : end + 1] if text[end : end + 1] in _MARKS else ""
            parts += [(text[behind:start], False), (ipa + mark, True)]
            behind = end + len(mark)
    return [part for part in (*parts, (text[behind:], False)) if part[0]]


def letter_by_letter(written: str) -> str:
    """A respelling that makes a voice name the letters: "AAPL" → "A. A. P. L."."""
    return " ".join(f"{char.upper()}." if char.isalpha() else char for char in written if not char.isspace())


@dataclass(frozen=True)
class Pronunciations:
    """The pronunciations of one language. Immutable."""

    entries: tuple[Spoken, ...] = ()
    _finder: TermList = field(init=False, repr=False, compare=False)
    _by_term: dict[Term, Spoken] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the finder; of two entries for one word the first is taken."""
        by_term: dict[Term, Spoken] = {}
        for entry in self.entries:
            by_term.setdefault(Term((entry.written,), never_translate=True), entry)
        object.__setattr__(self, "_by_term", by_term)
        object.__setattr__(self, "_finder", TermList(0, tuple(by_term)))

    def within(self, text: str) -> tuple[Spoken, ...]:
        """The pronunciations of the words in a text (NFC), each once, as the text writes them."""
        found: Iterable[Spoken] = (
            Spoken(hit.found, self._by_term[hit.term].say, self._by_term[hit.term].ipa)
            for hit in self._finder.find(text)
        )
        return tuple(dict.fromkeys(found))
