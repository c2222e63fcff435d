# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins the words of two windows whose sound overlaps, so that what both heard is written once.

A talk longer than the recogniser's window is decoded in windows that share some sound. What was said in the shared
part stands in both texts, heard twice, perhaps differently, and cut at the edges. Saying it twice is wrong, and so is
taking a real repeat ("no, no, no", "five five") for a double.

With **times** it is decided by times: two words are one when they read the same and lie at the same place. Words of the
same reading at another place are a repeat and stay. Words of another reading at the same place are rivals: the more
confident wins, and without confidences the one that lies deeper in its own window, because windows cut words at edges.

Without times it is decided by **text**: the end of the one window and the beginning of the other that read most alike
(edit distance) are the overlap. Text alone cannot tell how often a word was said when the overlap holds nothing else
("no no" | "no no"): then the expected length of the overlap decides, and without it the longer one. Within a window
nothing is ever merged, so a repeat that one window heard whole survives.

Words outside the overlap are never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.stream.words import Word, key, keys, units

TOLERANCE_MS = 10  # jitter of word times from one decoding to the next that means nothing
RAGGED_MS = 60  # a word that ends so near to a cut was probably cut; the next window hears it whole
LONGEST_OVERLAP_WORDS = 30  # about 10 s of speech; windows overlap by less
_FRAGMENT_COST = 0.25  # "wednes" | "wednesday" at a window's edge
_EDGE_COST = 0.5  # a word at its window's edge may be cut beyond recognition
_WEAK = 0.5  # confidence under which an edge word that the other window did not hear is dropped


class DecidedBy(StrEnum):
    """What the join rests on."""

    TIMES = "timestamps"
    CONFIDENCE = "confidence"
    """Text found the overlap, and confidences chose between words that differ."""
    TEXT = "text"
    NOTHING = "no-overlap"


@dataclass(frozen=True, slots=True)
class Joined:
    """The words of both windows in order; ``dropped`` words were doubles or lost against a rival."""

    words: tuple[Word, ...]
    decided_by: DecidedBy
    dropped: int


def join(
    previous: Sequence[Word],
    following: Sequence[Word],
    *,
    rate_hz: int = 16_000,
    tolerance_ms: int = TOLERANCE_MS,
    seam: tuple[int, int] | None = None,
    overlap_words: float | None = None,
) -> Joined:
    """Join two windows.

    ``rate_hz`` is the rate of the word times. ``seam`` is the shared sound: the following window's first sample and the
    previous window's end; without it, the words' own times bound it. ``overlap_words`` is how many words the shared
    sound should hold (its duration times the talker's rate of speech); it is used where times are missing, and 0 says
    that no sound is shared.
    """
    before, behind = units(previous), units(following)
    if before and behind and all(word.timed for word in (*before, *behind)):
        return _by_times(before, behind, rate_hz * tolerance_ms // 1000, seam)
    if before and behind and overlap_words != 0:
        return _by_text(before, behind, overlap_words)
    return Joined((*before, *behind), DecidedBy.NOTHING, 0)


def unhurt(words: tuple[Word, ...], cut_sample: int, rate_hz: int) -> tuple[Word, ...]:
    """The words of a window that ends in a forced cut, without the one that the cut went through."""
    border = cut_sample - RAGGED_MS * rate_hz // 1000
    return words[:-1] if words and (words[-1].end_sample or 0) > border else words


def _better(first: Word, second: Word) -> Word:
    """Of two words that are the same, the more confident, else the first."""
    if first.confidence is not None and second.confidence is not None and second.confidence > first.confidence:
        return second
    return first


def _mean_confidence(words: Sequence[Word]) -> float | None:
    known = [word.confidence for word in words if word.confidence is not None]
    return sum(known) / len(known) if len(known) == len(words) and known else None


# --- by times ----------------------------------------------------------------------------------------------------


def _span(word: Word) -> tuple[int, int]:
    assert word.first_sample is not None
    assert word.end_sample is not None
    return word.first_sample, word.end_sample


def _middle(word: Word) -> float:
    first, end = _span(word)
    return (first + end) / 2


def _shorter(one: Word, other: Word) -> int:
    return min(end - first for first, end in (_span(one), _span(other)))


def _by_times(before: list[Word], behind: list[Word], tolerance: int, seam: tuple[int, int] | None) -> Joined:
    seam = seam or (_span(behind[0])[0], _span(before[-1])[1])
    start = next((at for at, word in enumerate(before) if _span(word)[1] > seam[0] - tolerance), len(before))
    stop = next((at for at, word in enumerate(behind) if _span(word)[0] >= seam[1] + tolerance), len(behind))
    tail, head = before[start:], behind[:stop]
    if not tail or not head:
        return Joined((*before, *behind), DecidedBy.NOTHING, 0)
    middle = sum(seam) / 2
    merged: list[Word] = []
    done_tail = done_head = 0
    for at_tail, at_head in [*_same_place(tail, head, tolerance), (len(tail), len(head))]:
        merged += _settled(tail[done_tail:at_tail], head[done_head:at_head], tolerance, middle)
        if at_tail < len(tail):
            merged.append(_better(tail[at_tail], head[at_head]))
        done_tail, done_head = at_tail + 1, at_head + 1
    words = (*before[:start], *merged, *behind[stop:])
    return Joined(words, DecidedBy.TIMES, len(before) + len(behind) - len(words))


def _same_place(tail: Sequence[Word], head: Sequence[Word], tolerance: int) -> list[tuple[int, int]]:
    """Pairs of the same word at the same place, in order: as many as possible, and of those the nearest.

    "The same place" is middles nearer than half the shorter word, so a neighbour that reads the same never counts.
    """

    def worth(one: int, other: int) -> float:
        if tail_keys[one] != head_keys[other]:
            return 0.0
        apart = abs(_middle(tail[one]) - _middle(head[other]))
        limit = max(tolerance, _shorter(tail[one], head[other]) / 2)
        return 2.0 - apart / limit if limit and apart <= limit else 2.0 * (apart == 0)

    tail_keys, head_keys = keys(tail), keys(head)
    best = [[0.0] * (len(head) + 1) for _ in range(len(tail) + 1)]
    for one in reversed(range(len(tail))):
        for other in reversed(range(len(head))):
            found = worth(one, other)
            best[one][other] = max(
                best[one + 1][other],
                best[one][other + 1],
                found + best[one + 1][other + 1] if found else 0.0,
            )
    pairs: list[tuple[int, int]] = []
    one = other = 0
    while one < len(tail) and other < len(head):
        found = worth(one, other)
        if found and best[one][other] == found + best[one + 1][other + 1]:
            pairs.append((one, other))
            one, other = one + 1, other + 1
        elif best[one][other] == best[one + 1][other]:
            one += 1
        else:
            other += 1
    return pairs


def _settled(tail: Sequence[Word], head: Sequence[Word], tolerance: int, middle: float) -> list[Word]:
    """Words of two readings, in the order of time; where they are rivals for a place, one side's."""
    if not tail or not head:
        return [*tail, *head]
    clusters: list[list[tuple[Word, bool]]] = []
    for each in [*((word, False) for word in tail), *((word, True) for word in head)]:
        touched = [
            cluster
            for cluster in clusters
            if any(side != each[1] and _rivals(word, each[0], tolerance) for word, side in cluster)
        ]
        clusters = [cluster for cluster in clusters if cluster not in touched]
        clusters.append([*(other for cluster in touched for other in cluster), each])
    clusters.sort(key=_centre)
    return [word for cluster in clusters for word in _winner(cluster, middle)]


def _centre(cluster: Sequence[tuple[Word, bool]]) -> float:
    return sum(_middle(word) for word, _ in cluster) / len(cluster)


def _rivals(one: Word, other: Word, tolerance: int) -> bool:
    (first, end), (other_first, other_end) = _span(one), _span(other)
    shared = min(end, other_end) - max(first, other_first)
    return shared > tolerance and shared * 2 >= _shorter(one, other)


def _winner(cluster: Sequence[tuple[Word, bool]], middle: float) -> list[Word]:
    tail = [word for word, of_head in cluster if not of_head]
    head = [word for word, of_head in cluster if of_head]
    if not tail or not head:
        return tail or head
    of_tail, of_head = _mean_confidence(tail), _mean_confidence(head)
    if of_tail is not None and of_head is not None and of_tail != of_head:
        return tail if of_tail > of_head else head
    return tail if _centre(cluster) <= middle else head


# --- by text -----------------------------------------------------------------------------------------------------


def _by_text(before: list[Word], behind: list[Word], expected: float | None) -> Joined:
    reach = LONGEST_OVERLAP_WORDS if expected is None else min(LONGEST_OVERLAP_WORDS, int(2 * expected) + 4)
    tail, head = before[-reach:], behind[:reach]
    size_tail, size_head = _overlap(keys(tail), keys(head), expected)
    if not size_tail or not size_head:
        return Joined((*before, *behind), DecidedBy.NOTHING, 0)
    merged, by_confidence = _merged(tail[-size_tail:], head[:size_head])
    words = (*before[: len(before) - size_tail], *merged, *behind[size_head:])
    decided_by = DecidedBy.CONFIDENCE if by_confidence else DecidedBy.TEXT
    return Joined(words, decided_by, len(before) + len(behind) - len(words))


def _overlap(tail: Sequence[str], head: Sequence[str], expected: float | None) -> tuple[int, int]:
    """How many words at the end of ``tail`` and at the beginning of ``head`` are the shared ones; (0, 0) for none."""
    best, found = 0.0, (0, 0)
    for size_tail in range(1, len(tail) + 1):
        costs = _costs(tail[len(tail) - size_tail :], head)[-1]
        for size_head in range(1, len(head) + 1):
            longer = max(size_tail, size_head)
            alike = longer - 2 * costs[size_head]
            if alike <= 0 or not set(tail[len(tail) - size_tail :]) & set(head[:size_head]):
                continue
            score = alike
            if expected is not None:
                # likeness per word; longer evidence counts more, and far from the expected length less
                score = 1 + (alike + (0.2 * alike - 0.8 * abs(longer - expected)) * longer / (expected + 1)) / longer
            if score > best:
                best, found = score, (size_tail, size_head)
    return found


def _costs(tail: Sequence[str], head: Sequence[str]) -> list[list[float]]:
    """Edit distances between beginnings of both; words at the windows' edges are cheap to be wrong."""
    table = [[0.0]]
    for at in range(len(head)):
        table[0].append(table[0][at] + (_EDGE_COST if at == 0 else 1.0))
    for one, wanted in enumerate(tail):
        skip = _EDGE_COST if one == len(tail) - 1 else 1.0
        row = [table[one][0] + skip]
        for other, said in enumerate(head):
            row.append(
                min(
                    table[one][other] + _differ(wanted, said, edge_tail=skip < 1.0, edge_head=other == 0),
                    table[one][other + 1] + skip,
                    row[other] + (_EDGE_COST if other == 0 else 1.0),
                )
            )
        table.append(row)
    return table


def _differ(wanted: str, said: str, *, edge_tail: bool, edge_head: bool) -> float:
    if wanted == said:
        return 0.0
    if (edge_tail and said.startswith(wanted)) or (edge_head and wanted.endswith(said)):
        return _FRAGMENT_COST
    return _EDGE_COST if edge_tail or edge_head else 1.0


def _merged(tail: Sequence[Word], head: Sequence[Word]) -> tuple[list[Word], bool]:
    """One reading of the overlap, and whether confidences had a say in it."""
    tail_keys, head_keys = keys(tail), keys(head)
    costs = _costs(tail_keys, head_keys)
    result: list[Word] = []
    by_confidence = False
    one, other = len(tail), len(head)
    while one or other:
        here = costs[one][other]
        edge_tail, edge_head = one == len(tail), other == 1
        differ = (
            _differ(tail_keys[one - 1], head_keys[other - 1], edge_tail=edge_tail, edge_head=edge_head)
            if one and other
            else 0.0
        )
        if one and other and here == costs[one - 1][other - 1] + differ:
            one, other = one - 1, other - 1
            chosen, said = _chosen(tail[one], head[other], to_tail_edge=len(tail) - 1 - one, to_head_edge=other)
            by_confidence |= said
            result.append(chosen)
        elif one and here == costs[one - 1][other] + (_EDGE_COST if edge_tail else 1.0):
            one -= 1
            result += _kept(tail[one], at_edge=edge_tail)
        else:
            other -= 1
            result += _kept(head[other], at_edge=other == 0)
    return result[::-1], by_confidence


def _chosen(one: Word, other: Word, *, to_tail_edge: int, to_head_edge: int) -> tuple[Word, bool]:
    """The word of the two that stands, and whether it was chosen from different ones by confidence."""
    if key(one.text) == key(other.text):
        return _better(one, other), False
    if one.confidence is not None and other.confidence is not None and one.confidence != other.confidence:
        return (one if one.confidence > other.confidence else other), True
    return (one if to_tail_edge >= to_head_edge else other), False


def _kept(word: Word, *, at_edge: bool) -> list[Word]:
    """A word that only one window heard stays, unless it is a doubtful one at that window's edge."""
    return [] if at_edge and word.confidence is not None and word.confidence < _WEAK else [word]
