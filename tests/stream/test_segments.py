# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from gateway.stream.endpoint import Endpointer
from gateway.stream.events import (
    EndCause,
    Finalized,
    LongSilence,
    Lost,
    Prepare,
    Release,
    SegmentEvent,
    Span,
    SpeechEnded,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    Submit,
    Terminal,
)
from gateway.stream.plan import EndpointPlan
from gateway.stream.segments import SegmentLine, SegmentStateError

from .voice import FRAME, play

pytestmark = pytest.mark.unit


def minter() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"s{next(numbers)}"


class Leg:
    """A real end-pointer in front of a real line, under one plan version at a time."""

    def __init__(self, **line: int) -> None:
        self.endpointer = Endpointer(EndpointPlan())
        self.line = SegmentLine("A", minter(), **line)
        self.version = 1

    def say(self, pattern: str) -> list[SegmentEvent]:
        events: list[SegmentEvent] = []
        for event in play(self.endpointer, pattern):
            events += self.line.on_endpoint(event, self.version, tail_quiet=self.endpointer.tail_quiet)
        return events

    def eof(self) -> list[SegmentEvent]:
        events: list[SegmentEvent] = []
        for event in self.endpointer.finish(self.endpointer.heard):
            events += self.line.on_endpoint(event, self.version, tail_quiet=self.endpointer.tail_quiet)
        return events + self.line.stop()


UTTERANCE = "S" * 10 + "." * 20
PAUSED = Prepare("A/prepare-1", Span(0, 15 * FRAME, 1))
SPAN = Span(0, 30 * FRAME, 1)


def test_s4_9_the_way_of_a_segment() -> None:
    leg = Leg()
    assert leg.say(UTTERANCE) == [PAUSED, Submit("s1", SPAN, "A/prepare-1")]
    leg.line.accepted("s1")
    assert leg.line.finalized("s1", "hello") == [Finalized("s1", "hello")]
    assert leg.eof() == [Terminal("A")]
    assert leg.line.terminal


def test_s4_10_stop_and_eof_are_one_path_and_terminal_waits() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.accepted("s1")
    assert leg.say("S" * 10) == []
    assert leg.eof() == [Submit("s2", Span(30 * FRAME, 40 * FRAME, 1), None)]
    leg.line.accepted("s2")
    assert leg.line.finalized("s2", "two") == [Finalized("s2", "two")]
    assert leg.line.failed("s1", "worker-lost") == [Lost("s1", "worker-lost"), Terminal("A")]
    assert leg.line.stop() == []


# --- the five races ---------------------------------------------------------------------------------------------------


def test_s4_11_eof_right_after_accept() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.accepted("s1")
    assert leg.eof() == [], "no release of what the job owns, no terminal while it runs"
    assert leg.line.finalized("s1", "last words") == [Finalized("s1", "last words"), Terminal("A")]


def test_s4_11_speech_resumes_during_prepare() -> None:
    leg = Leg()
    assert leg.say("S" * 10 + "." * 10) == [PAUSED]
    assert leg.say("SS") == [Release("A/prepare-1", "resumed")]
    assert leg.say("." * 20) == [
        Prepare("A/prepare-2", Span(0, 27 * FRAME, 1)),
        Submit("s1", Span(0, 42 * FRAME, 1), "A/prepare-2"),
    ]


def test_s4_11_queue_full_keeps_the_segment_and_its_candidate() -> None:
    leg = Leg(refusals_allowed=3)
    leg.say(UTTERANCE)
    again = [Submit("s1", SPAN, "A/prepare-1")]
    assert leg.line.refused("s1") == []
    assert leg.line.tick() == again
    assert leg.line.tick() == [], "it is being asked for already"
    assert leg.line.refused("s1") == []
    assert leg.line.tick() == again
    assert leg.line.refused("s1") == [Release("A/prepare-1", "queue-full"), Lost("s1", "queue-full")]
    assert leg.eof() == [Terminal("A")]
    assert leg.line.statistics()["lost"] == {"queue-full": 1}


def test_s4_11_queue_full_then_accepted() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.refused("s1")
    assert leg.eof() == [], "terminal waits for the pending segment"
    leg.line.tick()
    leg.line.accepted("s1")
    assert leg.line.finalized("s1", "x") == [Finalized("s1", "x"), Terminal("A")]


def test_s4_11_new_prepare_cancels_old() -> None:
    line = SegmentLine("A", minter())
    line.on_endpoint(SpeechStarted(0), 1)
    line.on_endpoint(SpeechPaused(0, 1000, 2000), 1)
    assert line.on_endpoint(SpeechPaused(0, 3000, 4000), 1) == [
        Release("A/prepare-1", "replaced"),
        Prepare("A/prepare-2", Span(0, 4000, 1)),
    ]


def test_s4_11_plan_changes_during_prepare() -> None:
    leg = Leg()
    assert leg.say("S" * 10 + "." * 10) == [PAUSED]
    leg.version = 2
    assert leg.line.plan_changed(2) == [Release("A/prepare-1", "plan-changed")]
    assert leg.say("." * 10) == [Submit("s1", Span(0, 30 * FRAME, 2), None)]


def test_s4_11_plan_change_is_seen_without_being_announced() -> None:
    leg = Leg()
    leg.say("S" * 10 + "." * 10)
    leg.version = 2
    assert leg.say("." * 10) == [
        Release("A/prepare-1", "plan-changed"),
        Submit("s1", Span(0, 30 * FRAME, 2), None),
    ]


def test_plan_change_after_submission_leaves_the_segment_its_plan() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.refused("s1")
    assert leg.line.plan_changed(2) == []
    assert leg.line.tick() == [Submit("s1", SPAN, "A/prepare-1")]


# --- what is prepared -------------------------------------------------------------------------------------------------


def test_s4_8_a_click_in_the_tail_is_recognised_again() -> None:
    leg = Leg()
    assert leg.say("S" * 10 + "." * 12 + "S" + "." * 7) == [
        PAUSED,
        Release("A/prepare-1", "replaced"),
        Prepare("A/prepare-2", Span(0, 25 * FRAME, 1)),
        Submit("s1", SPAN, "A/prepare-2"),
    ]


def test_s4_8_a_click_too_late_to_prepare_for_is_recognised_at_the_end() -> None:
    leg = Leg()
    assert leg.say("S" * 10 + "." * 17 + "S" + "." * 3) == [
        PAUSED,
        Release("A/prepare-1", "not-quiet"),
        Submit("s1", SPAN, None),
    ]


def test_s4_8_reuse_needs_proof() -> None:
    line = SegmentLine("A", minter())
    line.on_endpoint(SpeechStarted(0), 1)
    line.on_endpoint(SpeechPaused(0, 1000, 2000), 1)
    ended = line.on_endpoint(SpeechEnded(0, 1000, 4000, EndCause.SILENCE, 4000), 1)
    assert ended == [Release("A/prepare-1", "not-quiet"), Submit("s1", Span(0, 4000, 1), None)]


def test_a_cut_of_the_longest_utterance_releases_what_covered_more() -> None:
    line = SegmentLine("A", minter())
    line.on_endpoint(SpeechStarted(0), 1)
    line.on_endpoint(SpeechPaused(0, 9000, 9500), 1)
    ended = line.on_endpoint(SpeechEnded(0, 5000, 5500, EndCause.LONGEST, 9600), 1, tail_quiet=True)
    assert ended == [Release("A/prepare-1", "other-span"), Submit("s1", Span(0, 5500, 1), None)]
    assert line.on_endpoint(SpeechStarted(5500), 1) == []


def test_a_candidate_shed_by_the_preparer_is_not_promoted() -> None:
    leg = Leg()
    leg.say("S" * 10 + "." * 10)
    assert leg.line.candidate_id == "A/prepare-1"
    assert leg.line.withdrawn("A/prepare-1")
    assert not leg.line.withdrawn("A/prepare-1")
    assert leg.say("." * 10) == [Submit("s1", SPAN, None)]


def test_a_candidate_shed_while_its_segment_waits_is_forgotten() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.refused("s1")
    assert leg.line.withdrawn("A/prepare-1")
    assert leg.line.tick() == [Submit("s1", SPAN, None)]


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_f13_late_and_double_results_are_counted_not_published() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.accepted("s1")
    leg.line.finalized("s1", "one")
    assert leg.line.finalized("s1", "again") == []
    assert leg.line.failed("s1", "worker-lost") == []
    leg.eof()
    assert leg.line.finalized("s1", "after terminal") == []
    assert leg.line.finalized("s99", "unknown") == []
    leg.line.accepted("s1")
    assert leg.line.refused("s1") == []
    assert leg.line.statistics()["late_results"] == 6
    assert leg.line.statistics()["finalized"] == 1


def test_unknown_transitions_raise() -> None:
    line = SegmentLine("A", minter())
    for event in (SpeechPaused(0, 1, 2), SpeechResumed(3), SpeechEnded(0, 1, 2, EndCause.SILENCE, 2)):
        with pytest.raises(SegmentStateError, match="no utterance"):
            line.on_endpoint(event, 1)
    line.on_endpoint(SpeechStarted(0), 1)
    with pytest.raises(SegmentStateError, match="under way"):
        line.on_endpoint(SpeechStarted(10), 1)
    with pytest.raises(SegmentStateError, match="LongSilence"):
        line.on_endpoint(LongSilence(0, 9), 1)
    with pytest.raises(SegmentStateError, match=r"Endpointer\.finish"):
        line.stop()
    with pytest.raises(SegmentStateError, match="utterance at 7"):
        line.on_endpoint(SpeechEnded(7, 8, 9, EndCause.SILENCE, 9), 1)
    line.on_endpoint(SpeechEnded(0, 8, 9, EndCause.SILENCE, 9), 1)
    with pytest.raises(SegmentStateError, match="no queue has accepted"):
        line.finalized("s1", "too early")
    line.accepted("s1")
    with pytest.raises(SegmentStateError, match="not submitted"):
        line.accepted("s1")
    with pytest.raises(SegmentStateError, match="reaches into"):
        line.on_endpoint(SpeechStarted(5), 1)
    line.stop()
    with pytest.raises(SegmentStateError, match="after stop"):
        line.on_endpoint(SpeechStarted(50), 1)


def test_waiting_segments_are_bounded() -> None:
    leg = Leg(pending_limit=2)
    lost: list[SegmentEvent] = []
    for number in range(1, 5):
        events = leg.say("..." + UTTERANCE)
        lost += [event for event in events if isinstance(event, Lost)]
        leg.line.refused(f"s{number}")
    assert lost == [Lost("s1", "queue-full"), Lost("s2", "queue-full")]
    assert leg.line.statistics()["pending"] == 2


def test_abandon_counts_everything_that_is_held() -> None:
    leg = Leg()
    leg.say(UTTERANCE)
    leg.line.accepted("s1")
    leg.say(UTTERANCE)
    leg.line.refused("s2")
    leg.say("S" * 10 + "." * 10)
    assert leg.line.abandon("drain-timeout") == [
        Release("A/prepare-3", "drain-timeout"),
        Lost("s3", "drain-timeout"),
        Release("A/prepare-2", "drain-timeout"),
        Lost("s2", "drain-timeout"),
        Lost("s1", "drain-timeout"),
        Terminal("A"),
    ]
    assert leg.line.abandon("drain-timeout") == []
