# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of a continuous stream, from what was said (with its places) and what was recognised (with its spans).

All of it is pure. Segments and utterances are brought together by the samples they share: what touches belongs to one
*group*, so that a sentence in two segments and two sentences in one segment are scored as what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from gateway.bench.corpus import Placed
from gateway.text.normal import errors, normal_words

LEAST_SHARED_SAMPLES = 800  # 100 ms at 8 kHz: less is the pre-roll or the tail of a neighbour
JOIN_WORDS = 6  # words on either side of a join that are looked at for a repetition
NGRAM = 3
MOST_MISSES = 100


@dataclass(frozen=True, slots=True)
class Segment:
    """One recognised segment: its span on the leg's line, its text, and when the text was final (line seconds)."""

    segment_id: str
    first_sample: int
    end_sample: int
    text: str
    final_s: float


@dataclass(frozen=True, slots=True)
class Group:
    """Utterances and segments that share sound, each in order of time. One side may be empty."""

    placed: tuple[Placed, ...]
    segments: tuple[Segment, ...]

    @property
    def reference(self) -> str:
        """What was said."""
        return " ".join(one.text for one in self.placed)

    @property
    def hypothesis(self) -> str:
        """What was recognised."""
        return " ".join(one.text for one in self.segments)


@dataclass(frozen=True, slots=True)
class Recalled:
    """How the words of one utterance fared: of each whether it was recognised, and how many words were invented
    behind its last one."""

    placed: Placed
    words: tuple[bool, ...]
    extra_at_end: int


def shared(one: Placed, segment: Segment) -> bool:
    """Whether a segment holds a part of an utterance worth the name."""
    common = min(one.last_sample + 1, segment.end_sample) - max(one.first_sample, segment.first_sample)
    return common >= min(LEAST_SHARED_SAMPLES, one.last_sample + 1 - one.first_sample)


def grouped(placed: Sequence[Placed], segments: Sequence[Segment]) -> list[Group]:
    """Utterances and segments by shared sound, in order of time."""
    groups: list[Group] = []
    for one in placed:
        mine = tuple(segment for segment in segments if shared(one, segment))
        if groups and set(mine).intersection(groups[-1].segments):
            last = groups.pop()
            fresh = tuple(segment for segment in mine if segment not in last.segments)
            groups.append(Group((*last.placed, one), (*last.segments, *fresh)))
        else:
            groups.append(Group((one,), mine))
    held = {segment for group in groups for segment in group.segments}
    groups += [Group((), (segment,)) for segment in segments if segment not in held]
    return sorted(groups, key=_begin)


def _begin(group: Group) -> int:
    firsts = [one.first_sample for one in group.placed] + [one.first_sample for one in group.segments]
    return min(firsts)


def recalled(group: Group, language: str) -> list[Recalled]:
    """Which words of the group's utterances were recognised, by the cheapest alignment of the words in order."""
    wanted = [normal_words(one.text, language) for one in group.placed]
    got = normal_words(group.hypothesis, language)
    flat = [word for words in wanted for word in words]
    hit = [False] * len(flat)
    inserted = [0] * (len(flat) + 1)  # words invented before the word of that index
    for op in Levenshtein.opcodes(flat, got):
        if op.tag == "equal":
            hit[op.src_start : op.src_end] = [True] * (op.src_end - op.src_start)
        elif op.tag == "insert":
            inserted[op.src_start] += op.dest_end - op.dest_start
    result, at = [], 0
    for one, words in zip(group.placed, wanted, strict=True):
        at += len(words)
        result.append(Recalled(one, tuple(hit[at - len(words) : at]), inserted[at]))
    return result


def recall_of(recalls: Iterable[Recalled], which: int) -> float | None:
    """Share of utterances whose word of index ``which`` (0 first, -1 last) was recognised."""
    hits = [one.words[which] for one in recalls if one.words]
    return sum(hits) / len(hits) if hits else None


def word_errors(groups: Iterable[Group], language: str) -> tuple[int, int]:
    """(edits, reference words) over all groups; invented segments count as edits."""
    edits = words = 0
    for group in groups:
        wanted = normal_words(group.reference, language)
        edits += int(Levenshtein.distance(wanted, normal_words(group.hypothesis, language)))
        words += len(wanted)
    return edits, words


def word_figures(groups: Sequence[Group], language: str) -> dict[str, Any]:
    """Word error rate, recall of first and last words, utterances of which no word was recognised, and what differs."""
    recalls = [one for group in groups for one in recalled(group, language)]
    edits, words = word_errors(groups, language)
    return {
        "wer": share(edits, words),
        "wrong_words": edits,
        "words": words,
        "first_word_recall": rounded(recall_of(recalls, 0)),
        "last_word_recall": rounded(recall_of(recalls, -1)),
        "unheard_utterances": sum(not any(one.words) for one in recalls),
        "misses": misses(groups, language),
    }


def misses(groups: Sequence[Group], language: str) -> list[dict[str, Any]]:
    """What was said and what was recognised, where they differ; the first `MOST_MISSES`."""
    wrong = (group for group in groups if errors(group.reference, group.hypothesis, language)[0])
    return [
        {
            "prompts": [placed.name for placed in group.placed],
            "reference": group.reference,
            "hypothesis": group.hypothesis,
        }
        for group in islice(wrong, MOST_MISSES)
    ]


def repeated_at_joins(groups: Sequence[Group], language: str) -> int:
    """Joins of neighbouring segments at which three words are said again that the utterances do not repeat."""
    segments = [segment for group in groups for segment in group.segments]
    reference = normal_words(" ".join(group.reference for group in groups), language)
    meant = _ngrams(reference)
    repeated = 0
    for before, after in pairwise(segments):
        tail = _ngrams(normal_words(before.text, language)[-JOIN_WORDS:])
        head = _ngrams(normal_words(after.text, language)[:JOIN_WORDS])
        repeated += any(meant.count(each) < 2 for each in set(tail) & set(head))
    return repeated


def _ngrams(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + NGRAM]) for at in range(len(words) - NGRAM + 1)]


def final_delays_s(groups: Iterable[Group]) -> list[float]:
    """audio_end → final of each utterance: from its last loud sample until the last segment that holds some of it."""
    delays = []
    for group in groups:
        for one in group.placed:
            finals = [segment.final_s for segment in group.segments if shared(one, segment)]
            if finals:
                delays.append(max(finals) - one.end_s)
    return delays


def stream_laal_s(delays_s: Sequence[float], source_s: float, reference_words: int | None = None) -> float | None:
    """Length-adaptive average lagging of one utterance, in seconds; None without a word.

    ``delays_s``: when each word of the translation was there, in order, since the utterance's first sound; computation
    counts. LAAL is Papi et al., "Over-Generation Cannot Be Rewarded" (2022): the mean over the words up to the first
    one behind the end of the source of ``d_i - (i - 1) * |X| / max(|Y|, |Y*|)``. StreamLAAL (Papi et al., "StreamAtt",
    2024) is its mean over the utterances of a continuous stream, each on its own time. Without a reference
    translation (None) ``|Y*|`` is taken as ``|Y|``.
    """
    if not delays_s:
        return None
    per_word_s = source_s / max(len(delays_s), reference_words or 0)
    lagging = 0.0
    taken = 0
    for index, delay in enumerate(delays_s):
        lagging += delay - index * per_word_s
        taken += 1
        if delay >= source_s:
            break
    return lagging / taken


def slope_per_min(points: Sequence[tuple[float, float]]) -> float | None:
    """Least-squares slope of (seconds, value) points, in value per minute; None for fewer than two times."""
    if len({at for at, _ in points}) < 2:
        return None
    at, value = np.asarray(points, dtype=np.float64).T
    at = (at - at.mean()) / 60.0
    return float((at * (value - value.mean())).sum() / (at**2).sum())


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Count, median, 95th percentile and maximum, in seconds to the millisecond."""
    if not values:
        return {"count": 0, "p50_s": None, "p95_s": None, "max_s": None}
    return {
        "count": len(values),
        "p50_s": round(float(np.percentile(values, 50)), 3),
        "p95_s": round(float(np.percentile(values, 95)), 3),
        "max_s": round(max(values), 3),
    }


def rounded(value: float | None) -> float | None:
    """To four digits; None stays None."""
    return None if value is None else round(value, 4)


def share(part: int, whole: int) -> float | None:
    """A ratio to four digits, None of nothing."""
    return round(part / whole, 4) if whole else None
