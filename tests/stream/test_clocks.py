# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stream.clocks import SegmentClocks, Stamp, StopClock

pytestmark = pytest.mark.unit

MS = 1_000_000


def clocks(**at_ms: int) -> SegmentClocks:
    made = SegmentClocks("s1")
    for name, value in at_ms.items():
        made.mark(Stamp(name), value * MS)
    return made


def test_s4_1_the_parts_of_an_ordinary_turn() -> None:
    turn = clocks(audio_end=0, vad_end=400, submit=401, final=800, mt=815, first_audio=1000, played=1020, terminal=5000)
    parts = turn.stages()
    assert [part // MS for part in parts.values()] == [400, 1, 399, 15, 185, 20]
    assert sum(parts.values()) == turn.total_ns() == turn.audio_end_to_played_ns() == 1020 * MS


def test_work_done_ahead_costs_no_wait() -> None:
    turn = clocks(audio_end=0, submit=160, vad_end=400, final=400, mt=390, first_audio=500, played=500)
    assert {name: part // MS for name, part in turn.stages().items()} == {
        "endpoint": 400, "queue": 0, "recognise": 0, "translate": 0, "synthesise": 100, "play_wait": 0,
    }  # fmt: skip
    assert sum(turn.stages().values()) == turn.total_ns()


def test_a_passed_through_segment_has_no_translation_stage() -> None:
    turn = clocks(audio_end=0, vad_end=400, submit=400, final=700)
    assert list(turn.stages()) == ["endpoint", "queue", "recognise"]
    assert SegmentClocks("s2").stages() == {}


def test_s4_2_two_figures_apart() -> None:
    turn = clocks(audio_end=100, vad_end=500, final=900, terminal=4000)
    assert turn.audio_end_to_final_ns() == 800 * MS
    leg = StopClock()
    assert leg.stop_to_terminal_ns() is None
    leg.stop(3800 * MS)
    leg.terminal(4000 * MS)
    assert leg.stop_to_terminal_ns() == 200 * MS
    with pytest.raises(ValueError, match="already"):
        leg.stop(1)
    with pytest.raises(ValueError, match="already"):
        leg.terminal(4001 * MS)
    with pytest.raises(ValueError, match="before stop"):
        StopClock().terminal(1)


def test_each_stamp_is_set_once_and_in_order() -> None:
    turn = clocks(audio_end=100, vad_end=500)
    with pytest.raises(ValueError, match="already"):
        turn.mark(Stamp.VAD_END, 600 * MS)
    with pytest.raises(ValueError, match="before vad_end"):
        turn.mark(Stamp.FINAL, 499 * MS)
    late = clocks(vad_end=500)
    with pytest.raises(ValueError, match="after vad_end"):
        late.mark(Stamp.AUDIO_END, 501 * MS)
    assert late.as_dict()["audio_end"] is None


@given(st.dictionaries(st.sampled_from(list(Stamp)), st.integers(0, 10_000)))
def test_the_parts_sum_to_the_total_whatever_the_order(stamps: dict[Stamp, int]) -> None:
    turn = SegmentClocks("s1")
    for stamp, at_ns in stamps.items():
        try:
            turn.mark(stamp, at_ns)
        except ValueError:
            continue
    parts = turn.stages()
    assert sum(parts.values()) == turn.total_ns()
    assert all(part >= 0 for part in parts.values())
