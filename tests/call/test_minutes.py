# SPDX-License-Identifier: GPL-3.0-or-later
"""The minutes of a direction: each segment is recorded once, and joined clauses as one."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.audio.playout import PlayEvent
from gateway.call.interpretation import Outcome
from gateway.call.minutes import Entry, Minutes
from gateway.call.plan import DirectionPlan
from gateway.stream.clocks import SegmentClocks, Stamp

pytestmark = pytest.mark.unit


def entry(segment_id: str, span: tuple[int, int], ended_ns: int) -> Entry:
    clocks = SegmentClocks(segment_id)
    clocks.mark(Stamp.AUDIO_END, ended_ns)
    return Entry(segment_id, span, DirectionPlan(1, "en", "pt", "simultaneous"), Outcome("one", "um"), clocks, 1)


def test_joined_clauses_are_one_record_over_the_sound_of_both() -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    minutes = Minutes("a", lambda kind, data: told.append((kind, data)))
    minutes.add(entry("c1", (0, 8000), 100))
    minutes.add(entry("c2", (8800, 16_000), 200))
    minutes.merge("c1", "c2")
    assert minutes.get("c2") is None
    minutes.note(PlayEvent("c1", "started", 0, 300, 0))
    minutes.note(PlayEvent("c2", "started", 0, 400, 0))
    ((kind, data),) = told
    assert (kind, data["segment_id"], data["source_span"]) == ("utterance", "c1", [0, 16_000])
    # the first clause waited longest, and that is what is told
    assert data["clocks_ns"]["audio_end"] == 100


def test_a_clause_joined_to_one_that_is_over_is_not_left_open() -> None:
    minutes = Minutes("a", lambda kind, data: None)
    minutes.add(entry("c2", (0, 8000), 100))
    minutes.merge("c1", "c2")
    assert minutes.waiting_since_ns() is None
