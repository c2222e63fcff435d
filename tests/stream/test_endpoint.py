# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stream.endpoint import Endpointer
from gateway.stream.events import (
    EndCause,
    EndpointEvent,
    LongSilence,
    SpeechEnded,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    VoiceFrame,
)
from gateway.stream.plan import EndpointPlan, Mode

from .voice import FRAME, frames, play

pytestmark = pytest.mark.unit


def of(kind: type[EndpointEvent], events: list[EndpointEvent]) -> list[EndpointEvent]:
    return [event for event in events if isinstance(event, kind)]


def ends(events: list[EndpointEvent]) -> list[SpeechEnded]:
    return [event for event in events if isinstance(event, SpeechEnded)]


def test_start_needs_three_of_five_and_brings_the_pre_roll() -> None:
    endpointer = Endpointer(EndpointPlan())
    assert play(endpointer, "." * 50 + "S.S") == []
    assert play(endpointer, "S") == [SpeechStarted(50 * FRAME - 2400)]


def test_two_clicks_do_not_start_an_utterance() -> None:
    assert play(Endpointer(EndpointPlan()), "...S....S....SS......S...") == []


def test_b12_speech_at_sample_zero() -> None:
    endpointer = Endpointer(EndpointPlan())
    assert play(endpointer, "SSS") == [SpeechStarted(0)]


def test_a_stream_may_begin_at_any_sample() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = [event for frame in frames("SSS", 77_777) for event in endpointer.feed(frame)]
    assert events == [SpeechStarted(77_777)]


def test_pause_then_end_with_kept_tail() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * 30)
    assert events == [
        SpeechStarted(0),
        SpeechPaused(0, 10 * FRAME, 15 * FRAME),
        SpeechEnded(0, 10 * FRAME, 30 * FRAME, EndCause.SILENCE, 30 * FRAME),
    ]
    assert endpointer.tail_quiet


def test_simultaneous_ends_at_240_ms() -> None:
    endpointer = Endpointer(EndpointPlan.for_mode(Mode.SIMULTANEOUS))
    (end,) = ends(play(endpointer, "S" * 10 + "." * 12))
    assert (end.speech_end, end.end_sample) == (10 * FRAME, 22 * FRAME)


def test_prepare_zero_is_off() -> None:
    events = play(Endpointer(EndpointPlan(prepare_ms=0)), "S" * 10 + "." * 20)
    assert not of(SpeechPaused, events)
    assert ends(events)


def test_shorter_tail_is_cut_and_the_next_pre_roll_stops_there() -> None:
    endpointer = Endpointer(EndpointPlan(keep_tail_ms=100))
    (end,) = ends(play(endpointer, "S" * 10 + "." * 20))
    assert end.end_sample == 10 * FRAME + 800
    assert play(endpointer, "SSS") == [SpeechStarted(30 * FRAME - 2400)]
    endpointer = Endpointer(EndpointPlan())
    (end,) = ends(play(endpointer, "S" * 10 + "." * 20))
    assert play(endpointer, "SSS") == [SpeechStarted(end.end_sample)]


def test_resumption_voids_the_pause() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * 10 + "SSSS" + "." * 20)
    assert [type(event) for event in events] == [
        SpeechStarted, SpeechPaused, SpeechResumed, SpeechPaused, SpeechEnded,
    ]  # fmt: skip
    assert ends(events)[0].speech_end == 24 * FRAME


def test_a_click_in_the_pause_neither_resumes_nor_prolongs() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * 12 + "S" + "." * 7)
    assert not of(SpeechResumed, events)
    (end,) = ends(events)
    assert (end.speech_end, end.confirmed_at) == (10 * FRAME, 30 * FRAME)
    assert endpointer.statistics()["clicks"] == 1


def test_s4_8_behind_a_click_in_the_pause_it_is_prepared_anew() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * 7 + "S" + "." * 5 + "S" + "." * 6)
    assert of(SpeechPaused, events) == [
        SpeechPaused(0, 10 * FRAME, 15 * FRAME),
        SpeechPaused(0, 10 * FRAME, 20 * FRAME),  # when the click is known to be one
        SpeechPaused(0, 10 * FRAME, 26 * FRAME),
    ]
    assert ends(events) and endpointer.tail_quiet


def test_s4_8_a_click_too_late_to_prepare_for_leaves_what_was_prepared_unproven() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * 17 + "S" + "." * 3)
    assert len(of(SpeechPaused, events)) == 1
    assert ends(events) and not endpointer.tail_quiet


def test_a_click_before_preparing_is_inside_what_is_prepared() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "...S" + "." * 16)
    assert of(SpeechPaused, events) == [SpeechPaused(0, 10 * FRAME, 16 * FRAME)]
    assert endpointer.tail_quiet


def test_speech_that_begins_in_the_last_frame_of_the_pause_goes_on() -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * 19 + "S" + "S" * 5 + "." * 20)
    (end,) = ends(events)
    assert end.first_sample == 0
    assert end.speech_end == 35 * FRAME


def test_s4_4_e07_weak_final_frame_stays_inside_a_short_tail() -> None:
    endpointer = Endpointer(EndpointPlan(keep_tail_ms=40))
    (end,) = ends(play(endpointer, "S" * 10 + "." * 5 + "S" + "." * 20))
    assert end.end_sample == 16 * FRAME


@pytest.mark.parametrize("silence", range(0, 20))
def test_b12_last_words_survive_a_hang_up_within_the_pause(silence: int) -> None:
    endpointer = Endpointer(EndpointPlan())
    events = play(endpointer, "S" * 10 + "." * silence)
    at = endpointer.heard + 37  # a tail shorter than a frame
    events += endpointer.finish(at)
    (end,) = ends(events)
    assert (end.speech_end, end.cause) == (10 * FRAME, EndCause.STOP)
    assert end.end_sample == min(10 * FRAME + 3200, at)
    assert endpointer.finish(at) == []


def test_b12_an_unconfirmed_start_is_ended_not_dropped() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "." * 30 + "SS")
    assert endpointer.finish(32 * FRAME) == [
        SpeechStarted(30 * FRAME - 2400),
        SpeechEnded(30 * FRAME - 2400, 32 * FRAME, 32 * FRAME, EndCause.STOP, 32 * FRAME),
    ]


def test_finish_in_silence_says_nothing_and_ends_the_stream() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "." * 30)
    assert endpointer.finish(30 * FRAME) == []
    with pytest.raises(RuntimeError, match="finished"):
        play(endpointer, ".")


def test_finish_on_a_trial_counts_it_as_speech() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "S" * 10 + "." * 10 + "S")
    (end,) = ends(endpointer.finish(endpointer.heard))
    assert end.speech_end == 21 * FRAME


def test_longest_utterance_is_cut_at_the_best_pause_of_its_last_half() -> None:
    plan = EndpointPlan(longest_utterance_ms=2000)
    endpointer = Endpointer(plan)
    #          the first long pause is too early; of the two others the quieter one
    pattern = "S" * 20 + "." * 7 + "S" * 33 + "..." + "S" * 10 + "___" + "S" * 24
    events = play(endpointer, pattern)
    (end,) = ends(events)
    assert end.cause is EndCause.CUT
    assert end.speech_end == 73 * FRAME
    assert end.end_sample == 73 * FRAME + 3 * FRAME // 2
    assert events[-1] == SpeechStarted(end.end_sample)
    (rest,) = ends(endpointer.finish(endpointer.heard))
    assert (rest.first_sample, rest.end_sample) == (end.end_sample, 100 * FRAME)


def test_longest_utterance_without_a_pause_is_cut_in_its_quietest_frame() -> None:
    endpointer = Endpointer(EndpointPlan(longest_utterance_ms=2000))
    (end,) = ends(play(endpointer, "S" * 70 + "s" + "S" * 29))
    assert end.end_sample == 70 * FRAME + FRAME // 2


def test_in_simultaneous_mode_the_cut_is_where_it_is_for_words_before_it_may_have_been_spoken() -> None:
    plan = EndpointPlan(longest_utterance_ms=2000, mode=Mode.SIMULTANEOUS)
    endpointer = Endpointer(plan)
    events = play(endpointer, "S" * 50 + "." * 6 + "S" * 60)
    (end,) = ends(events)
    assert (end.cause, end.speech_end, end.end_sample) == (EndCause.CUT, 100 * FRAME, 100 * FRAME)
    assert events[-1] == SpeechStarted(end.end_sample)
    (end,) = ends(play(Endpointer(plan), "S" * 92 + "." * 8))
    assert end.cause is EndCause.LONGEST, "in a pause nothing goes on"


def test_a_new_plan_comes_into_force_at_a_cut_too() -> None:
    endpointer = Endpointer(EndpointPlan(longest_utterance_ms=2000))
    play(endpointer, "S" * 50)
    endpointer.replan(EndpointPlan(longest_utterance_ms=2000, mode=Mode.SIMULTANEOUS))
    assert endpointer.plan.mode is Mode.CONSECUTIVE
    play(endpointer, "S" * 60)
    assert endpointer.plan.mode is Mode.SIMULTANEOUS


def test_longest_utterance_reached_in_a_pause_just_ends() -> None:
    endpointer = Endpointer(EndpointPlan(longest_utterance_ms=2000))
    events = play(endpointer, "S" * 92 + "." * 8)
    assert ends(events) == [SpeechEnded(0, 92 * FRAME, 100 * FRAME, EndCause.LONGEST, 100 * FRAME)]
    assert not endpointer.speaking


def test_longest_utterance_reached_on_a_click_in_the_best_pause_just_ends() -> None:
    endpointer = Endpointer(EndpointPlan(longest_utterance_ms=2000))
    events = play(endpointer, "S" * 92 + "." * 7 + "S")
    assert ends(events) == [SpeechEnded(0, 92 * FRAME, 100 * FRAME, EndCause.LONGEST, 100 * FRAME)]
    assert play(endpointer, "SSS") == [SpeechStarted(100 * FRAME)]


def test_after_a_cut_the_pause_is_announced_for_the_rest() -> None:
    endpointer = Endpointer(EndpointPlan(longest_utterance_ms=2000))
    events = play(endpointer, "S" * 60 + "." * 10 + "S" * 21 + "." * 9 + ".")
    assert [type(event) for event in events] == [
        SpeechStarted, SpeechPaused, SpeechResumed, SpeechPaused, SpeechEnded, SpeechStarted, SpeechPaused,
    ]  # fmt: skip
    last = events[-1]
    assert isinstance(last, SpeechPaused)
    assert last.first_sample == 65 * FRAME


@pytest.mark.parametrize("gate", ["absent", "open", "shut"])
@pytest.mark.parametrize("trigger", ["silence", "longest", "eof"])
def test_s4_6_long_silence_follows_the_gates_state(gate: str, trigger: str) -> None:
    endpointer = Endpointer(EndpointPlan(longest_utterance_ms=2000, long_silence_ms=1000))
    if gate == "open":
        endpointer.gate(shut=True)
        endpointer.gate(shut=False)
    events = play(endpointer, "S" * 100) if trigger == "longest" else play(endpointer, "S" * 10)
    endpointer.gate(shut=gate == "shut")
    if trigger == "eof":
        events += endpointer.finish(endpointer.heard)
    else:
        events += play(endpointer, "." * 100)
    assert ends(events)[-1].cause is (EndCause.STOP if trigger == "eof" else EndCause.SILENCE)
    expected = 0 if gate == "shut" or trigger == "eof" else 1
    assert len(of(LongSilence, events)) == expected


def test_long_silence_is_said_once_and_only_after_speech() -> None:
    endpointer = Endpointer(EndpointPlan(long_silence_ms=1000))
    assert play(endpointer, "." * 200) == []
    events = play(endpointer, "SSS" + "." * 200)
    assert of(LongSilence, events) == [LongSilence(203 * FRAME, 253 * FRAME)]


def test_missing_samples_count_as_silence() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "S" * 10)
    events = endpointer.feed(VoiceFrame(100_000, FRAME, is_speech=True, level_dbfs=-20.0))
    (end,) = ends(events)
    assert (end.speech_end, end.end_sample) == (10 * FRAME, 10 * FRAME + 3200)
    assert endpointer.statistics()["gaps"] >= 1


def test_a_frame_that_reaches_back_is_refused() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "...")
    with pytest.raises(ValueError, match="reaches back"):
        endpointer.feed(VoiceFrame(2 * FRAME, FRAME, is_speech=True, level_dbfs=-20.0))


def test_s4_5_a_new_plan_waits_for_the_end_of_the_utterance() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "S" * 10)
    endpointer.replan(EndpointPlan.for_mode(Mode.SIMULTANEOUS))
    assert endpointer.plan.end_ms == 400
    play(endpointer, "." * 20)
    assert endpointer.plan.end_ms == 240
    with pytest.raises(ValueError, match="make a new one"):
        endpointer.replan(EndpointPlan(rate_hz=16_000))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("S.s_"), st.integers(1, 40)), max_size=25),
    st.sampled_from([0, 60, 400, 1000]),
    st.sampled_from([1000, 2000]),
    st.integers(0, 159),
)
def test_no_speech_is_lost_and_no_sample_is_in_two_spans(
    runs: list[tuple[str, int]], keep_tail_ms: int, end_plus: int, tail: int
) -> None:
    plan = EndpointPlan(keep_tail_ms=keep_tail_ms, longest_utterance_ms=end_plus + 600)
    endpointer = Endpointer(plan)
    pattern = "".join(mark * count for mark, count in runs)
    events = play(endpointer, pattern)
    heard = endpointer.heard
    events += endpointer.finish(heard + tail)
    spans = [(end.first_sample, end.end_sample) for end in ends(events)]
    started = [event.first_sample for event in events if isinstance(event, SpeechStarted)]
    assert started == [first for first, _ in spans], "every start has its end"
    behind = 0
    for end in ends(events):
        assert behind <= end.first_sample < end.speech_end <= end.end_sample <= heard + tail
        assert end.end_sample - end.first_sample <= plan.longest_samples
        behind = end.end_sample
    for number, frame in enumerate(frames(pattern)):
        if pattern[max(0, number - 2) : number + 1] in {"SSS", "sss", "SSs", "Sss"}:
            for sample in (frame.first_sample, frame.end_sample - 1):
                assert any(first <= sample < end for first, end in spans), f"voiced sample {sample} is in no span"
    opened: SpeechPaused | None = None
    for event in events:
        if isinstance(event, SpeechPaused):
            assert opened is None
            opened = event
        elif isinstance(event, SpeechResumed):
            assert opened is not None
            opened = None
        elif isinstance(event, SpeechEnded):
            opened = None


def test_a01_an_interrupted_utterance_is_ended_and_the_next_one_begins_afresh() -> None:
    endpointer = Endpointer(EndpointPlan())
    play(endpointer, "S" * 10)
    (ended,) = ends(endpointer.interrupt(10 * FRAME))
    assert (ended.first_sample, ended.end_sample) == (0, 10 * FRAME)
    assert endpointer.interrupt(10 * FRAME) == []
    later = [event for frame in frames("SSS", 100 * FRAME) for event in endpointer.feed(frame)]
    assert [type(event) for event in later] == [SpeechStarted]
    assert later[0].first_sample >= 10 * FRAME
