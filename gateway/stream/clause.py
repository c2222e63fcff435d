# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases a clause as soon as it is a unit of sense, so that it can be translated while the talker goes on.

Punctuation alone does not do: streaming recognisers often write none, or write it late. So each border between two
stable words is judged by four kinds of evidence, in this order:

* what **must stay together**: numbers, dates, amounts, what a number belongs to, names, set phrases, and words that
  open something (articles, prepositions, negations). Nothing but the end of the talk splits those;
* **punctuation**: the end of a sentence always, a comma when a few words are there;
* a **pause** between the words, measured in samples;
* the **strength** of the border: how strongly the next words open a clause of their own (conjunctions, relatives, a
  new subject), more when a subject or verb follows them, when the clause has grown, or after a short pause, less after
  a word that seldom ends a clause. From 0.75 on it is a border.

A clause that would grow beyond the longest length is split at its strongest border. Some borders need one or two words
of what follows: then the releaser waits for them, and a pause or the end decides without.

The threshold 0.75 for the strength of the bond, and the idea that sense units rather than words are passed on, follow
common practice in streaming translation; cf. the meaningful units of Zhang et al., "Learning Adaptive Segmentation
Policy for Simultaneous Translation", EMNLP 2020. The words and weights are data per language (``clauses.json``); an
unknown language has punctuation, pauses and the longest length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.stream.clause_rules import LanguageRules
from gateway.stream.words import Word, key, words_of, written

THRESHOLD = 0.75
PAUSE_MS = 240  # the silence that ends a clause in simultaneous mode
MARK = "‖"
CERTAIN = 0.9  # openings from here on may follow one word less
NEVER = -1.0  # the strength of a border inside what must stay together

_START_BONUS = 0.3
_SELDOM_PENALTY = 0.25
_GROWTH, _MOST_GROWTH = 0.025, 0.2  # each word beyond the fewest makes a border likelier
_PATIENCE = 3  # pauses long: how long what may be an unfinished name or amount waits
_SHORT_PAUSE = 0.4  # what a pause just below the limit adds
_SENTENCE_END = re.compile(r"[.!?…。！？؟।]+[\"'”’»」』)）]*$")
_CLAUSE_END = re.compile(r"[,;:–—，、；：،؛]+[\"'”’»」』)）]*$")


class Reason(StrEnum):
    """Why a clause ends where it does."""

    SENTENCE = "sentence"
    PUNCTUATION = "punctuation"
    PAUSE = "pause"
    STRENGTH = "strength"
    LENGTH = "length"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Heard:
    """A stable word and the silence behind it in samples, None when unknown (or nothing came yet)."""

    word: Word
    gap_after_samples: int | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """A unit of sense: the words ``first``..``end`` (exclusive) of all that were fed."""

    text: str
    words: tuple[Word, ...]
    first: int
    end: int
    reason: Reason


class ClauseReleaser:
    """Splits one talker's stable words into clauses. Every word comes out exactly once, in order.

    Algorithmic delay: a border by punctuation or pause needs no word behind it, one by strength one or two.
    """

    def __init__(
        self,
        rules: LanguageRules,
        *,
        rate_hz: int = 16_000,
        pause_ms: int = PAUSE_MS,
        threshold: float = THRESHOLD,
        first_most: int | None = None,
    ) -> None:
        """``first_most`` is a shorter longest length for the first clause, so that sound starts early."""
        self._rules = rules
        self._pause_samples = rate_hz * pause_ms // 1000
        self._threshold = threshold
        self._first_most = first_most
        self._words: list[Word] = []
        self._keys: list[str] = []
        self._gaps: list[int | None] = []
        self._start = 0
        self._next = 0  # the first border not judged yet
        self._strengths: dict[int, float] = {}
        self._counts: dict[str, int] = {reason.value: 0 for reason in Reason}

    @property
    def waiting(self) -> tuple[Word, ...]:
        """Words not released yet."""
        return tuple(self._words[self._start :])

    @property
    def in_number(self) -> bool:
        """True when what waits ends in a number that may go on: end-pointing should be patient."""
        return self._start < len(self._words) and self._together(len(self._words) - 1) is None

    def statistics(self) -> dict[str, int]:
        """Clauses by reason, and the words that wait."""
        return {**self._counts, "waiting_words": len(self._words) - self._start}

    def feed(self, words: Iterable[Heard], *, is_final: bool = False) -> list[Clause]:
        """Take newly stable words; the clauses that are complete. ``is_final`` releases all that waits."""
        for heard in words:
            if self._gaps and self._gaps[-1] is None:
                before, first = self._words[-1].end_sample, heard.word.first_sample
                self._gaps[-1] = max(first - before, 0) if before is not None and first is not None else None
            self._words.append(heard.word)
            self._keys.append(key(heard.word.text))
            self._gaps.append(heard.gap_after_samples)
        clauses = self._judge(is_final=is_final)
        if is_final and self._start < len(self._words):
            clauses.append(self._release(len(self._words), Reason.FINAL))
        return clauses

    def silence(self, samples: int) -> list[Clause]:
        """The talker has been silent for ``samples`` since the last word, and may go on or not."""
        if not self._words or self._start == len(self._words):
            return []
        self._gaps[-1] = samples
        return self._judge(is_final=False)

    # --- judging borders -----------------------------------------------------------------------------------------

    def _judge(self, *, is_final: bool) -> list[Clause]:
        clauses: list[Clause] = []
        while self._next < len(self._words):
            at = self._next
            reason = self._reason(at, is_final=is_final)
            if reason is None and (at == len(self._words) - 1 or (at not in self._strengths and not is_final)):
                break
            self._next = at + 1
            if reason is not None:
                clauses.append(self._release(at + 1, reason))
            elif (split := self._split_long(at)) is not None:
                clauses.append(self._release(split, Reason.LENGTH))
        return clauses

    def _release(self, end: int, reason: Reason) -> Clause:
        words = tuple(self._words[self._start : end])
        clause = Clause(written(words), words, self._start, end, reason)
        self._start = self._next = end
        self._strengths.clear()
        self._counts[reason.value] += 1
        return clause

    def _reason(self, at: int, *, is_final: bool) -> Reason | None:
        """Why the border behind word ``at`` is one. None: it is not, and then its strength is noted; or not yet."""
        bound = self._together(at)
        if is_final or (bound is None and not self._may_wait(at)):
            bound = bool(bound)
        mark = self._mark(at)
        if mark is Reason.SENTENCE and bound is not None and not (bound and self._in_number(at)):
            return Reason.SENTENCE
        if bound:
            self._strengths[at] = NEVER
        if bound is not False:
            return None
        return self._by_sound(at, mark) or self._by_strength(at, is_final=is_final)

    def _by_sound(self, at: int, mark: Reason | None) -> Reason | None:
        length = at + 1 - self._start
        if mark is Reason.PUNCTUATION and length >= 2:
            return Reason.PUNCTUATION
        gap = self._gaps[at] or 0
        if gap >= self._pause_samples and (length >= self._rules.fewest or gap >= 2 * self._pause_samples):
            return Reason.PAUSE
        return None

    def _by_strength(self, at: int, *, is_final: bool) -> Reason | None:
        if at == len(self._words) - 1:
            return None
        strength, least, most = self._strength(at, self._gaps[at] or 0)
        if least < self._threshold <= most and not is_final:
            return None
        self._strengths[at] = strength
        fewest = self._rules.fewest - (self._opening(at + 1)[0] >= CERTAIN)
        enough = at + 1 - self._start >= fewest
        return Reason.STRENGTH if enough and strength >= self._threshold else None

    def _mark(self, at: int) -> Reason | None:
        text = self._words[at].text
        if _CLAUSE_END.search(text):
            return Reason.PUNCTUATION
        # "Dr." and "J." are not the end of a sentence, and never-ending words are abbreviations when a stop follows
        short = self._keys[at] in self._rules.never_ends or (len(self._keys[at]) == 1 and text[:1].isupper())
        return Reason.SENTENCE if _SENTENCE_END.search(text) and not (short and text.endswith(".")) else None

    def _strength(self, at: int, gap: int) -> tuple[float, float, float]:
        """How strong the border behind ``at`` is, and between what bounds the words after next may still move it."""
        rules = self._rules
        opening, size = self._opening(at + 1)
        base = min(_GROWTH * max(at + 1 - self._start - rules.fewest, 0), _MOST_GROWTH)
        base += _SHORT_PAUSE * min(gap / self._pause_samples, 1.0)
        base -= _SELDOM_PENALTY * (self._keys[at] in rules.seldom_ends)
        known = tuple(self._keys[at + 1 : at + 5])
        longer = [
            weight
            for words, weight in rules.phrases.items()
            if len(words) > len(known) and words[: len(known)] == known
        ]
        behind = at + 1 + size
        confirmed = opening + _START_BONUS * (opening > 0.0)
        if behind < len(self._words) and not self._is_start(behind):
            confirmed = opening
        here = confirmed if behind < len(self._words) else opening
        highest = max([confirmed, *(weight + _START_BONUS for weight in longer)])
        return base + here, base + min([here, *longer]), base + highest

    def _is_start(self, at: int) -> bool:
        return self._keys[at] in self._rules.starts or self._head(at) in self._rules.starts

    def _head(self, at: int) -> str:
        """The part before an apostrophe: "qu'il" opens like "que"."""
        return key(re.split("['’]", self._words[at].text)[0])

    def _opening(self, at: int) -> tuple[float, int]:
        """How strongly the words from ``at`` on open a clause, and how many words say so."""
        for size in (4, 3, 2):
            weight = self._rules.phrases.get(tuple(self._keys[at : at + size]))
            if weight is not None:
                return weight, size
        weight = self._rules.opens.get(self._keys[at], self._rules.opens.get(self._head(at), 0.0))
        return weight, 1

    def _split_long(self, at: int) -> int | None:
        """Where to split a clause that has become too long: behind its strongest border; None while it is not."""
        most = self._rules.most if self._start or self._first_most is None else self._first_most
        length = at + 1 - self._start
        if length <= most:
            return None
        candidates = [
            (strength, border)
            for border, strength in self._strengths.items()
            if strength >= 0.0 and self._rules.fewest <= border + 1 - self._start <= most
        ]
        if candidates:
            return max(candidates)[1] + 1
        # only what must stay together: at three times the length even that is let go
        return at + 1 if length > 3 * most else None

    # --- what must stay together ---------------------------------------------------------------------------------

    def _together(self, at: int) -> bool | None:
        """Whether the words around the border behind ``at`` belong together; None when the next words will tell."""
        if self._keys[at] in self._rules.never_ends and self._mark(at) is not Reason.PUNCTUATION:
            return True  # "muito" asks for more, "muito," does not
        answers = [self._in_number(at), self._in_name(at), self._in_phrase(at)]
        return True if True in answers else None if None in answers else False

    def _may_wait(self, at: int) -> bool:
        """A number waits for its next word through any pause; a name, an amount or a phrase through a short one."""
        return self._is_number(self._keys[at]) or (self._gaps[at] or 0) < _PATIENCE * self._pause_samples

    def _key(self, at: int) -> str | None:
        return self._keys[at] if self._start <= at < len(self._keys) else None

    def _is_number(self, text: str | None) -> bool:
        if not text:
            return False
        like = self._rules.number_like
        return (
            text[0].isdigit()
            or text[-1].isdigit()
            or text in self._rules.numbers
            or bool(like is not None and like.fullmatch(text) and text not in self._rules.never_ends)
        )

    def _is_part(self, text: str | None) -> bool:
        return self._is_number(text) or text in self._rules.units or (text is not None and text[0] in "$€£¥%")

    def _in_number(self, at: int) -> bool | None:
        joins = self._rules.number_joins
        if self._key(at) in self._rules.labels and self._is_number(self._key(at + 1)):
            return True
        # at most two joining words stand between the parts of a number: "ten | and twelve", "dez | e as doze"
        first, last = at, at + 1
        while at - first < 2 and self._key(first) in joins and not self._is_part(self._key(first)):
            first -= 1
        while last - first - 1 < 2 and self._key(last) in joins and not self._is_part(self._key(last)):
            last += 1
        left, right = self._key(first), self._key(last)
        if not self._is_part(left):
            return False
        if right is None:
            return None
        return self._is_part(right) and (self._is_number(left) or self._is_number(right))

    def _capital(self, at: int) -> bool:
        within = self._start <= at < len(self._words)
        return within and self._words[at].text[:1].isupper() and self._keys[at] not in self._rules.starts

    def _in_name(self, at: int) -> bool | None:
        if not self._rules.names_by_capitals or self._mark(at) is not None:
            return False
        if self._capital(at):
            if at + 1 >= len(self._words):
                return None
            if self._capital(at + 1):
                return self._rules.opens.get(self._keys[at + 1], 0.0) < 0.5
            if self._key(at + 1) in self._rules.name_joins:
                return None if at + 2 >= len(self._words) else self._capital(at + 2)
        return self._key(at) in self._rules.name_joins and self._capital(at - 1) and self._capital(at + 1)

    def _in_phrase(self, at: int) -> bool | None:
        unsure = False
        for words in self._rules.together:
            for done in range(1, len(words)):
                first = at + 1 - done
                if first < self._start or tuple(self._keys[first : at + 1]) != words[:done]:
                    continue
                rest = tuple(self._keys[at + 1 : at + 1 + len(words) - done])
                if rest == words[done:]:
                    return True
                unsure = unsure or (at + 1 + len(rest) == len(self._keys) and rest == words[done : done + len(rest)])
        return None if unsure else False


# --- how good the borders are ------------------------------------------------------------------------------------


def boundary_f1(
    releaser_factory: Callable[[], ClauseReleaser], marked: Sequence[str], *, strip_punctuation: bool = True
) -> tuple[float, float, float]:
    """(precision, recall, F1) of the borders inside utterances, against texts with ``‖`` marks.

    Each utterance is fed word by word, as it would become stable; its end is a border for everybody and not counted.
    """
    hits = said = wanted = 0
    for text in marked:
        truth, words = set[int](), list[Word]()
        for part in text.split(MARK):
            words += [
                Word(key(word.text) and _bare(word.text)) if strip_punctuation else word for word in words_of(part)
            ]
            truth.add(len(words))
        truth.discard(len(words))
        releaser = releaser_factory()
        clauses: list[Clause] = []
        for word in words:
            clauses += releaser.feed([Heard(word)])
        clauses += releaser.feed([], is_final=True)
        found = {clause.end for clause in clauses} - {len(words)}
        hits, said, wanted = hits + len(found & truth), said + len(found), wanted + len(truth)
    precision, recall = hits / said if said else 0.0, hits / wanted if wanted else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def _bare(text: str) -> str:
    return _CLAUSE_END.sub("", _SENTENCE_END.sub("", text))
