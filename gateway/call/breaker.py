# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens when echoes come thick and fast: two loudspeakers must not keep an interpreter talking to itself. Pure."""

from __future__ import annotations

from collections import deque


class LoopBreaker:
    """``hits`` within ``window_ns`` open it for ``pause_ns``; 0 hits never do. Stamps are passed in."""

    def __init__(self, hits: int, window_ns: int, pause_ns: int) -> None:
        self._hits = hits
        self._window_ns = window_ns
        self._pause_ns = pause_ns
        self._at_ns: deque[int] = deque(maxlen=max(1, hits))
        self._open_until_ns = 0
        self.opened = 0
        """How often it has opened."""

    def hit(self, now_ns: int) -> bool:
        """Another echo. True when this one opens it."""
        if not self._hits or self.is_open(now_ns):
            return False
        self._at_ns.append(now_ns)
        if len(self._at_ns) < self._hits or now_ns - self._at_ns[0] > self._window_ns:
            return False
        self._at_ns.clear()
        self._open_until_ns = now_ns + self._pause_ns
        self.opened += 1
        return True

    def is_open(self, now_ns: int) -> bool:
        """True while nothing is to be translated."""
        return now_ns < self._open_until_ns
