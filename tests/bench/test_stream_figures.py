# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of a stream on examples that can be done by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.corpus import Placed
from gateway.bench.plain_hearing import beside_plain
from gateway.bench.stream_figures import (
    Group,
    Segment,
    final_delays_s,
    grouped,
    recall_of,
    recalled,
    repeated_at_joins,
    slope_per_min,
    spread,
    stream_laal_s,
    word_errors,
)

pytestmark = pytest.mark.unit

S = 8000  # samples a second


def said(text: str, first_s: float, end_s: float) -> Placed:
    return Placed(text, text, round(first_s * S), round(end_s * S) - 1)


def heard(text: str, first_s: float, end_s: float, final_s: float = 0.0, name: str | None = None) -> Segment:
    return Segment(name or text, round(first_s * S), round(end_s * S), text, final_s or end_s)


def test_one_segment_an_utterance() -> None:
    placed = [said("one", 0, 1), said("two", 3, 4)]
    segments = [heard("one", 0, 1.4), heard("two", 2.7, 4.4)]
    assert grouped(placed, segments) == [Group((placed[0],), (segments[0],)), Group((placed[1],), (segments[1],))]


def test_two_utterances_in_one_segment_are_one_group() -> None:
    placed = [said("one", 0, 1), said("two", 1.2, 2), said("three", 5, 6)]
    segments = [heard("one two", 0, 2.4), heard("three", 5, 6.4)]
    assert [len(group.placed) for group in grouped(placed, segments)] == [2, 1]


def test_an_utterance_in_two_segments_is_one_group() -> None:
    (group,) = grouped([said("one two", 0, 4)], [heard("one", 0, 1.4), heard("two", 1.9, 4.4)])
    assert group.hypothesis == "one two"


def test_a_chain_of_shared_sound_is_one_group() -> None:
    placed = [said("a b", 0, 3), said("c d", 3.2, 6)]
    (group,) = grouped(placed, [heard("a", 0, 1.5), heard("b c", 2, 4.5), heard("d", 5, 6.4)])
    assert (group.reference, group.hypothesis) == ("a b c d", "a b c d")


def test_what_nobody_heard_and_what_nobody_said_stay_alone() -> None:
    groups = grouped([said("lost", 5, 6)], [heard("invented", 0, 1)])
    assert [(len(group.placed), len(group.segments)) for group in groups] == [(0, 1), (1, 0)]
    assert word_errors(groups, "en") == (2, 1)


def test_a_touch_of_pre_roll_does_not_join() -> None:
    assert len(grouped([said("one", 0, 1), said("two", 2, 3)], [heard("one", 0, 1.2), heard("two", 0.95, 3)])) == 2


@given(st.lists(st.integers(1, 40), min_size=2, max_size=24), st.lists(st.integers(1, 40), min_size=2, max_size=24))
def test_every_utterance_and_segment_is_in_exactly_one_group(places: list[int], spans: list[int]) -> None:
    def edges(steps: list[int]) -> list[tuple[float, float]]:
        at, found = 0.0, []
        for length, gap in zip(steps[::2], steps[1::2], strict=False):
            found.append((at, at + length / 10))
            at += (length + gap) / 10
        return found

    placed = [said(str(index), *edge) for index, edge in enumerate(edges(places))]
    segments = [heard(str(index), *edge) for index, edge in enumerate(edges(spans))]
    groups = grouped(placed, segments)
    assert [one for group in groups for one in group.placed] == placed
    assert sorted((one for group in groups for one in group.segments), key=lambda one: one.first_sample) == segments


def test_recall_of_first_and_last_words_of_merged_sentences() -> None:
    group = Group((said("press the pound key", 0, 2), said("thank you all", 2.1, 3)), (heard("x", 0, 3.4),))
    group = Group(group.placed, (heard("press the pound thank you all", 0, 3.4),))
    recalls = recalled(group, "en")
    assert [one.words[-1] for one in recalls] == [False, True]
    assert [one.words[0] for one in recalls] == [True, True]
    assert recall_of(recalls, -1) == 0.5


def test_words_invented_behind_the_last_one_are_counted() -> None:
    group = Group((said("thank you", 0, 1),), (heard("thank you thank you for watching", 0, 1.4),))
    (one,) = recalled(group, "en")
    assert one.words == (True, True)
    assert one.extra_at_end == 4


def test_words_invented_in_front_are_not_extra_at_the_end() -> None:
    (one,) = recalled(Group((said("thank you", 0, 1),), (heard("oh well thank you", 0, 1.4),)), "en")
    assert one.extra_at_end == 0


def test_a_last_word_is_lost_only_where_the_plain_pipeline_heard_it() -> None:
    """What the model cannot hear even alone is its mistake; what it hears alone and not in the stream is ours."""
    asked, told = said("press the pound key", 0, 2), said("our phone system", 4, 6)
    plain = [
        Group((asked,), (heard("press the pound key", 0, 2),)),
        Group((told,), (heard("our phone systems", 4, 6),)),
    ]
    mine = [Group((asked,), (heard("press the pound", 0, 2),)), Group((told,), (heard("or phone systems", 4, 6),))]
    found = beside_plain([mine], [plain], "en")
    assert (found["first_words_lost"], found["last_words_lost"]) == ([told.name], [asked.name])
    assert (found["wrong_words"], found["words"], found["last_word_recall"]) == (1, 7, 0.5)
    assert beside_plain([plain], [plain], "en")["last_words_lost"] == []


def test_nothing_recognised_recalls_nothing() -> None:
    (one,) = recalled(Group((said("thank you", 0, 1),), ()), "en")
    assert one.words == (False, False)


def test_a_repetition_at_a_join_is_found() -> None:
    placed = (said("please enter your number now", 0, 4),)
    group = Group(placed, (heard("please enter your number", 0, 2), heard("enter your number now", 2, 4)))
    assert repeated_at_joins([group], "en") == 1


def test_a_meant_repetition_is_none() -> None:
    placed = (said("enter your number enter your number", 0, 4),)
    group = Group(placed, (heard("enter your number", 0, 2), heard("enter your number", 2, 4, name="b")))
    assert repeated_at_joins([group], "en") == 0


def test_the_delay_of_a_final_counts_from_the_last_loud_sample() -> None:
    group = Group((said("one two", 0, 4),), (heard("one", 0, 1.4, 1.9), heard("two", 2, 4.4, 4.75)))
    assert final_delays_s([group]) == [pytest.approx(0.75)]


@pytest.mark.parametrize(
    ("delays_s", "source_s", "reference", "lagging_s"),
    [
        # a word every 2 s of a 10 s source, each 2 s late: d* = 0, 2, 4, 6, 8
        ([2, 4, 6, 8, 10], 10, 5, 2.0),
        # consecutive: the first word behind the end of the source decides
        ([12, 12, 12], 10, 3, 12.0),
        # over-generation is not rewarded: ten words where five would do, d* steps by 1 s
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 10, 5, 1.0),
        # under-generation is held against the reference's length: d* steps by 1 s, (2 + 3 + 4 + 5 + 6) / 5
        ([2, 4, 6, 8, 10], 10, 10, 4.0),
        # words behind the first one after the end do not count: (4 + 12 - 10/3) / 2
        ([4, 12, 12], 10, 3, (4 + 12 - 10 / 3) / 2),
        # without a reference its length is that of the translation
        ([2, 4, 6, 8, 10], 10, None, 2.0),
    ],
)
def test_stream_laal_by_hand(delays_s: list[float], source_s: float, reference: int | None, lagging_s: float) -> None:
    assert stream_laal_s(delays_s, source_s, reference) == pytest.approx(lagging_s)


def test_stream_laal_of_nothing() -> None:
    assert stream_laal_s([], 10) is None


@given(st.floats(-5, 5), st.floats(-100, 100), st.integers(2, 50))
def test_the_slope_of_a_straight_line_is_its_own(slope: float, start: float, count: int) -> None:
    points = [(seconds * 7.0, start + slope * seconds * 7.0 / 60) for seconds in range(count)]
    assert slope_per_min(points) == pytest.approx(slope, abs=1e-6)


def test_a_slope_needs_two_times() -> None:
    assert slope_per_min([]) is None
    assert slope_per_min([(1.0, 2.0), (1.0, 3.0)]) is None


def test_a_spread_is_ordered() -> None:
    one = spread([0.1, 0.2, 0.3, 5.0])
    assert one["count"] == 4
    assert all(low <= high for low, high in pairwise((one["p50_s"], one["p95_s"], one["max_s"])))
    assert spread([])["p50_s"] is None
