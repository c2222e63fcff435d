# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast calls may begin, with a library that has places for few sockets. Pure.

The library opens two sockets for each INVITE with an offer before anybody is asked about it, a stranger's too, and a
closed one keeps its place for half a second (PJ_IOQUEUE_KEY_FREE_DELAY, so that a late event finds no other socket).
The packaged build has 64 places and aborts the process when none is left: 33 INVITEs within half a second do it,
whatever becomes of them. So whoever takes the INVITEs rests before that. Sound has threads of its own and goes on.
"""

from __future__ import annotations

from collections import deque

KEPT_NS = 600_000_000  # the library's half second, and the time that its clock may be late
SOCKETS = 2  # RTP and RTCP
SPARE = 4  # calls that the count may be wrong by


class CallBrake:
    """Counts beginning calls. ``legs`` of them may live, and be ending, beside those that begin."""

    def __init__(self, places: int, legs: int) -> None:
        self._begun: deque[int] = deque(maxlen=max(1, places // SOCKETS - legs - SPARE))

    def begun(self, now_ns: int) -> int:
        """A call has begun; for how many ns no other one may."""
        self._begun.append(now_ns)
        if len(self._begun) < (self._begun.maxlen or 0):
            return 0
        return max(0, self._begun[0] + KEPT_NS - now_ns)
