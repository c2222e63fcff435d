# SPDX-License-Identifier: GPL-3.0-or-later
"""Any interleaving of voice, queue answers, results, plan changes and stop: nothing is lost, doubled or reordered."""

from __future__ import annotations

from itertools import count, pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.stream.endpoint import Endpointer
from gateway.stream.events import Finalized, Lost, Prepare, Release, SegmentEvent, Span, Submit, Terminal
from gateway.stream.plan import EndpointPlan
from gateway.stream.segments import SegmentLine

from .voice import play

REFUSALS = 3


class SegmentsMachine(RuleBasedStateMachine):
    """Plays the end-pointer, the preparer, the queue and the workers around one real line."""

    def __init__(self) -> None:
        super().__init__()
        numbers = count(1)
        self.minted: list[str] = []

        def mint() -> str:
            self.minted.append(f"s{next(numbers)}")
            return self.minted[-1]

        self.endpointer = Endpointer(EndpointPlan(longest_utterance_ms=1400))
        self.line = SegmentLine("A", mint, refusals_allowed=REFUSALS, pending_limit=3)
        self.version = 1
        self.stopped = False
        self.asked: dict[str, str | None] = {}
        self.running: list[str] = []
        self.spans: dict[str, Span] = {}
        self.ended: dict[str, SegmentEvent] = {}
        self.prepared: dict[str, Span] = {}
        self.job_owned: set[str] = set()
        self.terminal = 0

    def see(self, events: list[SegmentEvent]) -> None:
        for event in events:
            assert not self.terminal, f"{event} after terminal"
            match event:
                case Prepare():
                    assert not self.stopped
                    self.prepared[event.candidate_id] = event.span
                case Release():
                    assert event.candidate_id not in self.job_owned, "released what a job owns"
                    del self.prepared[event.candidate_id]
                case Submit():
                    assert event.segment_id not in self.asked
                    assert event.segment_id not in self.running
                    assert event.segment_id not in self.ended
                    assert self.spans.setdefault(event.segment_id, event.span) == event.span
                    if event.candidate_id is not None:
                        candidate = self.prepared[event.candidate_id]
                        assert candidate.plan_version == event.span.plan_version
                        assert candidate.first_sample == event.span.first_sample
                        assert candidate.end_sample <= event.span.end_sample
                    self.asked[event.segment_id] = event.candidate_id
                case Finalized() | Lost():
                    assert event.segment_id not in self.ended
                    self.ended[event.segment_id] = event
                    self.asked.pop(event.segment_id, None)
                case Terminal():
                    self.terminal += 1

    def endpoint(self, events: list[object]) -> None:
        for event in events:
            self.see(
                self.line.on_endpoint(
                    event,  # type: ignore[arg-type]
                    self.version,
                    tail_quiet=self.endpointer.tail_quiet,
                )
            )

    @precondition(lambda self: not self.stopped)
    @rule(mark=st.sampled_from("SS..s"), frames=st.sampled_from([1, 2, 3, 7, 9, 12, 21, 40]))
    def voice(self, mark: str, frames: int) -> None:
        for _ in range(frames):
            self.endpoint(list(play(self.endpointer, mark)))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        segment_id = data.draw(st.sampled_from(sorted(self.asked)))
        candidate = self.asked.pop(segment_id)
        if candidate is not None:
            self.job_owned.add(candidate)
        self.line.accepted(segment_id)
        self.running.append(segment_id)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        segment_id = data.draw(st.sampled_from(sorted(self.asked)))
        del self.asked[segment_id]
        self.see(self.line.refused(segment_id))

    @rule()
    def tick(self) -> None:
        self.see(self.line.tick())

    @precondition(lambda self: self.running)
    @rule(data=st.data(), good=st.booleans())
    def result(self, data: st.DataObject, good: bool) -> None:
        segment_id = data.draw(st.sampled_from(self.running))
        self.running.remove(segment_id)
        self.see(self.line.finalized(segment_id, "text") if good else self.line.failed(segment_id, "worker-lost"))

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def late_result(self, data: st.DataObject) -> None:
        before = self.line.statistics()["late_results"]
        assert self.line.finalized(data.draw(st.sampled_from(sorted(self.ended))), "late") == []
        assert self.line.statistics()["late_results"] == before + 1

    @precondition(lambda self: not self.stopped)
    @rule(announced=st.booleans())
    def change_plan(self, announced: bool) -> None:
        self.version += 1
        if announced:
            self.see(self.line.plan_changed(self.version))

    @precondition(lambda self: self.line.candidate_id)
    @rule()
    def shed_candidate(self) -> None:
        candidate = self.line.candidate_id
        assert candidate is not None
        assert self.line.withdrawn(candidate)
        del self.prepared[candidate]

    @precondition(lambda self: not self.stopped)
    @rule()
    def stop(self) -> None:
        self.endpoint(list(self.endpointer.finish(self.endpointer.heard)))
        self.stopped = True
        self.see(self.line.stop())

    @precondition(lambda self: not self.terminal)
    @rule(chance=st.integers(0, 9))
    def abandon(self, chance: int) -> None:
        if chance:
            return
        self.stopped = True
        self.asked.clear()
        self.running.clear()
        self.see(self.line.abandon("drain-timeout"))
        assert self.terminal == 1

    @invariant()
    def spans_are_ordered_and_apart(self) -> None:
        spans = list(self.spans.values())
        for before, after in pairwise(spans):
            assert before.first_sample < before.end_sample <= after.first_sample

    @invariant()
    def every_segment_is_somewhere(self) -> None:
        figures = self.line.statistics()
        assert len(self.minted) == len(self.ended) + figures["pending"] + figures["in_flight"]
        assert figures["in_flight"] == len(self.running)
        if self.terminal:
            assert figures["current"] == figures["pending"] == figures["in_flight"] == 0

    def teardown(self) -> None:
        """Let everything come to rest: terminal has to come, and every id has ended once."""
        if not self.stopped:
            self.stop()
        for _ in range(REFUSALS + 1):
            self.see(self.line.tick())
            for segment_id in sorted(self.asked):
                del self.asked[segment_id]
                self.see(self.line.refused(segment_id))
        for segment_id in self.running:
            self.see(self.line.finalized(segment_id, "text"))
        assert self.terminal == 1
        assert sorted(self.minted) == sorted(self.ended)
        assert set(self.prepared) <= self.job_owned, "a candidate without an owner was left"


SegmentsMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestSegments = pytest.mark.unit(SegmentsMachine.TestCase)
