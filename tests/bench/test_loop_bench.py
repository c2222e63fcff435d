# SPDX-License-Identifier: GPL-3.0-or-later
"""Ticks on synthetic calls whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.synthetic import MS, capture_of, silence, tone
from gateway.bench.capture import Capture
from gateway.bench.loop_bench import figures, script
from gateway.bench.records import Spoken

pytestmark = pytest.mark.unit


def ticks(*at_ms: int, total_ms: int = 6000) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    pcm = silence(total_ms)
    for at in at_ms:
        pcm[at * 8 : at * 8 + 160] = tone(20, 1000)
    return pcm


def turn(leg: str = "a") -> Spoken:
    return Spoken("a01", leg, "en", "tick", 500 * MS, 5000 * MS)


def test_s1_15_each_tick_is_timed_from_packet_to_packet() -> None:
    a = capture_of(ticks(1000, 2000, 3000), silence(6000))
    b = capture_of(silence(6000), ticks(1140, 2160, 3140))
    found = figures((turn(),), {"a": a, "b": b})
    assert found["a_to_b"] == pytest.approx(
        {
            "count": 3,
            "sent": 3,
            "lost": 0,
            "p50_ms": 140,
            "p95_ms": 158,
            "sigma_ms": 11.547,
            "min_ms": 140,
            "max_ms": 160,
        }
    )


def test_a_tick_that_does_not_arrive_is_lost_and_lends_no_other_its_place() -> None:
    a = capture_of(ticks(1000, 2000, 3000), silence(6000))
    b = capture_of(silence(6000), ticks(1140, 3140))
    found = figures((turn(),), {"a": a, "b": b})["a_to_b"]
    assert (found["sent"], found["lost"], found["max_ms"]) == (3, 1, 140)


def test_a_dead_line_has_no_times() -> None:
    calls: dict[str, Capture] = {
        "a": capture_of(silence(6000), silence(6000)),
        "b": capture_of(ticks(1000), silence(6000)),
    }
    assert figures((turn("b"),), calls) == {"b_to_a": {"sent": 1, "lost": 1}}


def test_the_script_has_a_tick_a_second_each_way(tmp_path: Path) -> None:
    voiced = script(3, tmp_path)
    assert [one.turn.speaker for one in voiced.turns] == ["a", "b"]
    for one in voiced.turns:
        pcm, rate_hz = soundfile.read(one.path, dtype="int16")
        assert (rate_hz, len(pcm), one.duration_ms) == (8000, one.samples, 3500)
        loud = np.flatnonzero(np.abs(pcm.astype(int)) > 3000)
        assert np.unique(loud // 8000).size == 3
        assert len(np.flatnonzero(np.diff(loud) > 800)) == 2, "three ticks"
