# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters, gauges and histograms of this process, without a dependency.

A metric may have labels; the number of label sets is bounded, further ones fall together under ``other``, so that a
mistaken label (a call id, say) cannot eat the memory. A histogram keeps the last values in a bounded window and says
p50, p95, mean and spread of those (SPEC S1.29), beside the count and sum of all.

Any thread may record: a lock, held for some hundred nanoseconds, guards each metric. Port callbacks, which may not
even wait for that, keep plain integers of their own and are read from here.
"""

from __future__ import annotations

import math
import statistics
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

_MOST_LABEL_SETS = 128
_WINDOW = 1024  # values; an hour of utterances of one call

Labels = tuple[tuple[str, str], ...]
OTHER: Labels = (("other", "true"),)


class Metric:
    """What counters, gauges and histograms have in common: a bounded table by labels, and a lock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._rows: dict[Labels, Any] = {}

    def _row(self, labels: dict[str, str], empty: Callable[[], Any]) -> tuple[Labels, Any]:
        """The row for these labels, made when there is room for it. The lock is held."""
        key = tuple(sorted(labels.items()))
        if key not in self._rows and len(self._rows) >= _MOST_LABEL_SETS:
            key = OTHER
        if key not in self._rows:
            self._rows[key] = empty()
        return key, self._rows[key]

    def statistics(self) -> list[dict[str, Any]]:
        """One entry per label set: ``{"labels": {...}, ...}``."""
        with self._lock:
            rows = [(labels, self._copy(row)) for labels, row in self._rows.items()]
        return [{"labels": dict(labels), **self._describe(row)} for labels, row in rows]

    def _copy(self, row: Any) -> Any:
        return row

    def _describe(self, row: Any) -> dict[str, Any]:
        return {"value": row}


class Counter(Metric):
    """Counts up."""

    def add(self, amount: int = 1, **labels: str) -> None:
        """Add to the count; ValueError for a negative amount."""
        if amount < 0:
            raise ValueError(f"{self.name} only counts up")
        with self._lock:
            key, value = self._row(labels, int)
            self._rows[key] = value + amount

    def value(self, **labels: str) -> int:
        """The count for these labels."""
        with self._lock:
            return int(self._rows.get(tuple(sorted(labels.items())), 0))


class Gauge(Metric):
    """Holds the last value."""

    def set(self, value: float, **labels: str) -> None:
        """Replace the value."""
        with self._lock:
            key, _ = self._row(labels, float)
            self._rows[key] = value


class _Values:
    def __init__(self) -> None:
        self.window: deque[float] = deque(maxlen=_WINDOW)
        self.count = 0
        self.total = 0.0
        self.refused = 0


class Histogram(Metric):
    """Spread of a measured quantity; the unit is part of the name."""

    def observe(self, value: float, **labels: str) -> None:
        """Record a value; one that is not finite is only counted as refused."""
        with self._lock:
            _, row = self._row(labels, _Values)
            if not math.isfinite(value):
                row.refused += 1
                return
            row.window.append(value)
            row.count += 1
            row.total += value

    def _copy(self, row: Any) -> Any:
        return list(row.window), row.count, row.total, row.refused

    def _describe(self, row: Any) -> dict[str, Any]:
        window, count, total, refused = row
        return {"count": count, "sum": total, "refused": refused, **spread(window)}


def spread(values: list[float]) -> dict[str, float]:
    """``p50``, ``p95`` (nearest rank), ``mean``, ``sigma`` (of the population), ``min`` and ``max``; {} for none."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "p50": percentile(ordered, 50),
        "p95": percentile(ordered, 95),
        "mean": statistics.fmean(ordered),
        "sigma": statistics.pstdev(ordered),
        "min": ordered[0],
        "max": ordered[-1],
    }


def percentile(ordered: list[float], percent: float) -> float:
    """Nearest-rank percentile of ascending values: the smallest that at least ``percent`` % do not exceed."""
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


_Kind = TypeVar("_Kind", bound=Metric)


class Registry:
    """All metrics of a process by name; asking twice gives the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        return self._get(name, Counter)

    def gauge(self, name: str) -> Gauge:
        """The gauge of that name."""
        return self._get(name, Gauge)

    def histogram(self, name: str) -> Histogram:
        """The histogram of that name."""
        return self._get(name, Histogram)

    def statistics(self) -> dict[str, list[dict[str, Any]]]:
        """Every metric's statistics, fit for JSON."""
        with self._lock:
            metrics = dict(self._metrics)
        return {name: metric.statistics() for name, metric in sorted(metrics.items())}

    def _get(self, name: str, kind: type[_Kind]) -> _Kind:
        with self._lock:
            metric = self._metrics.setdefault(name, kind(name))
        if not isinstance(metric, kind):
            raise ValueError(f"{name} is a {type(metric).__name__}, not a {kind.__name__}")
        return metric
