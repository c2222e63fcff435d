# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.stream.plan import EndpointPlan, Mode

pytestmark = pytest.mark.unit


def test_s4_12_thresholds_carry_rate_frame_and_mode() -> None:
    echo = EndpointPlan.for_mode(Mode.SIMULTANEOUS, rate_hz=16_000).as_echo()
    assert (echo["rate_hz"], echo["frame_ms"], echo["mode"], echo["end_ms"]) == (16_000, 20, "simultaneous", 240)
    assert echo["end_frames"] == 12
    assert json.loads(json.dumps(echo)) == echo


def test_derived_samples_follow_the_rate() -> None:
    slow, fast = EndpointPlan(), EndpointPlan(rate_hz=16_000)
    assert (slow.frame_samples, slow.end_samples, slow.pre_roll_samples, slow.keep_tail_samples) == (
        160, 3200, 2400, 3200,
    )  # fmt: skip
    assert (fast.end_samples, fast.longest_samples) == (6400, 320_000)


def test_silence_is_counted_in_whole_frames_rounded_up() -> None:
    plan = EndpointPlan(frame_ms=30, prepare_ms=100)
    assert plan.end_frames == 14
    assert plan.as_echo()["prepare_frames"] == 4


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"rate_hz": 44}, "rate_hz 44"),
        ({"frame_ms": 25}, "frame_ms 25"),
        ({"rate_hz": 11_025}, "whole number"),
        ({"start_frames": 6}, "start_frames 6"),
        ({"start_frames": 0}, "start_frames 0"),
        ({"resume_frames": 4}, "resume_frames 4"),
        ({"prepare_ms": 400}, "prepare_ms 400"),
        ({"prepare_ms": -1}, "prepare_ms -1"),
        ({"end_ms": 0}, "end_ms 0"),
        ({"keep_tail_ms": -5}, "keep_tail_ms -5"),
        ({"longest_utterance_ms": 900}, "longest_utterance_ms 900"),
        ({"long_silence_ms": 100}, "long_silence_ms 100"),
    ],
)
def test_nonsense_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        EndpointPlan(**wrong)
