# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stream.buffering import AdaptiveBuffer, BufferLevels

pytestmark = pytest.mark.unit

RATE = 8000


def windows(buffer: AdaptiveBuffer, *loads: float) -> list[int]:
    """The length after each window of ten seconds, which is processed in rounds of the length in force."""
    lengths = []
    for load in loads:
        left = 10 * RATE
        while left > 0:
            samples = min(buffer.buffer_samples, left)
            buffer.feed(samples, round(load * samples * 1_000_000_000 / RATE))
            left -= samples
        lengths.append(buffer.buffer_ms)
    return lengths


def test_s1_6_the_buffer_grows_at_once_and_shrinks_after_three_quiet_windows() -> None:
    buffer = AdaptiveBuffer(RATE)
    assert (buffer.buffer_ms, buffer.buffer_samples) == (320, 2560)
    assert windows(buffer, 0.8, 0.95, 0.6, 0.6, 0.6, 0.6, 0.8) == [320, 400, 320, 320, 280, 280, 320]
    assert buffer.statistics() == {"windows": 7, "grown": 2, "shrunk": 2, "buffer_ms": 320, "load": 0.8}


def test_s1_6_a_busy_window_between_starts_the_count_anew() -> None:
    assert windows(AdaptiveBuffer(RATE), 0.6, 0.6, 0.72, 0.6, 0.6, 0.6) == [320, 320, 320, 320, 320, 280]


def test_s1_6_a_load_near_a_limit_does_not_make_it_swing() -> None:
    buffer = AdaptiveBuffer(RATE)
    assert windows(buffer, *[0.91, 0.89] * 10) == [400] * 20
    assert windows(buffer, 0.79) == [320]
    assert windows(buffer, 0.69, 0.69, 0.69, *[0.71, 0.69] * 10) == [320, 320, *[280] * 21]


def test_nothing_is_decided_before_ten_seconds() -> None:
    buffer = AdaptiveBuffer(RATE)
    assert buffer.feed(10 * RATE - 1, 60_000_000_000) is None
    assert buffer.feed(1, 0) == 400


def test_levels_must_rise_and_time_must_not_run_back() -> None:
    with pytest.raises(ValueError, match="rising"):
        AdaptiveBuffer(RATE, levels=BufferLevels(400, 320, 280))
    with pytest.raises(ValueError, match="negative"):
        AdaptiveBuffer(RATE).feed(-1, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 3, allow_nan=False), max_size=20))
def test_s1_6_whatever_the_load_the_rules_hold(loads: list[float]) -> None:
    buffer = AdaptiveBuffer(RATE)
    for at, (load, length) in enumerate(zip(loads, windows(buffer, *loads), strict=True)):
        assert length in (280, 320, 400)
        if load > 0.901:
            assert length == 400
        if load < 0.699:
            assert length != 400
        if length == 280 and load > 0.699:
            assert load < 0.751
            assert at > 0
