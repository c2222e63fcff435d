# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters, gauges, histograms and their bounds (SPEC S1.29)."""

from __future__ import annotations

import json
import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry import names
from gateway.telemetry.counters import Registry, percentile, spread

pytestmark = pytest.mark.unit


def test_counter_by_labels() -> None:
    counter = Registry().counter(names.CALLS_ENDED)
    counter.add(result="completed", reason="bye")
    counter.add(2, reason="bye", result="completed")
    counter.add()
    assert counter.value(result="completed", reason="bye") == 3
    assert counter.value() == 1
    assert counter.value(result="never") == 0
    with pytest.raises(ValueError, match="only counts up"):
        counter.add(-1)


def test_same_name_is_the_same_metric_and_of_one_kind() -> None:
    registry = Registry()
    assert registry.counter("a") is registry.counter("a")
    with pytest.raises(ValueError, match="a is a Counter, not a Gauge"):
        registry.gauge("a")


def test_label_sets_are_bounded() -> None:
    counter = Registry().counter("a")
    for n in range(1000):
        counter.add(call=str(n))
    rows = counter.statistics()
    assert len(rows) <= 129
    assert sum(row["value"] for row in rows) == 1000


def test_s1_29_histogram_says_the_spread_of_a_bounded_window() -> None:
    histogram = Registry().histogram(names.EAR_LATENCY_MS)
    for value in [*range(5000), math.nan, math.inf]:
        histogram.observe(value)
    (row,) = histogram.statistics()
    assert (row["count"], row["refused"], row["sum"]) == (5000, 2, sum(range(5000)))
    assert (row["min"], row["max"]) == (5000 - 1024, 4999)
    assert row["p50"] == 5000 - 1024 + 511
    assert row["sigma"] == pytest.approx(math.sqrt((1024**2 - 1) / 12))


def test_empty_histogram_has_no_spread() -> None:
    assert spread([]) == {}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentile_is_a_value_that_enough_do_not_exceed(values: list[float], percent: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-9
    assert sum(value < found for value in values) <= percent / 100 * len(values) + 1e-9


def test_nothing_is_lost_between_threads() -> None:
    counter = Registry().counter("a")
    threads = [threading.Thread(target=lambda: [counter.add() for _ in range(5000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value() == 20_000


def test_statistics_are_json() -> None:
    registry = Registry()
    registry.counter("c").add(reason="x")
    registry.gauge("g").set(1.5)
    registry.histogram("h_ms").observe(3)
    report = json.loads(json.dumps(registry.statistics()))
    assert report["c"] == [{"labels": {"reason": "x"}, "value": 1}]
    assert report["g"] == [{"labels": {}, "value": 1.5}]
    assert report["h_ms"][0]["p95"] == 3


def test_names_are_distinct() -> None:
    values = [value for name, value in vars(names).items() if name.isupper()]
    assert len(values) == len(set(values))
