# SPDX-License-Identifier: GPL-3.0-or-later
"""How often somebody may ask: token buckets, bounded in number. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

MOST_ASKERS = 1024  # beyond that the one who has been quiet longest is forgotten, and starts with a full bucket


@dataclass(slots=True)
class _Bucket:
    left: float
    at_ns: int


class RateCap:
    """``per_s`` requests a second for each asker, twice as many at once."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._burst = max(1.0, 2 * per_s)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self.refused = 0

    def wait_s(self, asker: str, now_ns: int) -> float:
        """0 when the request may pass, which is then counted; else the seconds until one may."""
        bucket = self._buckets.get(asker)
        if bucket is None:
            bucket = self._buckets[asker] = _Bucket(self._burst, now_ns)
            if len(self._buckets) > MOST_ASKERS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(asker)
        bucket.left = min(self._burst, bucket.left + (now_ns - bucket.at_ns) / 1e9 * self._per_s)
        bucket.at_ns = now_ns
        if bucket.left < 1:
            self.refused += 1
            return (1 - bucket.left) / self._per_s
        bucket.left -= 1
        return 0.0
