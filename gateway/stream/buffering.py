# SPDX-License-Identifier: GPL-3.0-or-later
"""How much sound is gathered before it is processed, chosen from the load that processing really causes.

Small buffers give low latency; a busy machine needs larger ones, because each round has a fixed cost. The levels are
280, 320 and 400 ms. Every ten seconds of sound the load (time spent processing ÷ duration of the sound) is judged:
above 0.9 the buffer grows to 400 ms; three times in a row below 0.7 it shrinks to 280 ms; else it is 320 ms.
A level that was entered is left only when the load has clearly moved, so that a load near a limit does not make the
buffer swing.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_S = 10
FULL, FULL_LEFT = 0.9, 0.8  # load that asks for the long buffer, and below which it is given up
IDLE, IDLE_LEFT = 0.7, 0.75  # load that allows the short buffer, and above which it is given up
IDLE_WINDOWS = 3


class BufferLevels(NamedTuple):
    """Buffer lengths in ms."""

    short: int = 280
    default: int = 320
    long: int = 400


class AdaptiveBuffer:
    """Chooses `buffer_ms` from measured processing. Pure: fed with what was processed and how long it took."""

    def __init__(self, rate_hz: int, *, levels: BufferLevels | None = None) -> None:
        self._levels = levels or BufferLevels()
        if not 0 < self._levels.short <= self._levels.default <= self._levels.long or rate_hz <= 0:
            raise ValueError(f"buffer levels {tuple(self._levels)} at {rate_hz} Hz: use rising lengths in ms")
        self._rate_hz = rate_hz
        self._buffer_ms = self._levels.default
        self._samples = 0
        self._busy_ns = 0
        self._idle_windows = 0
        self._load = 0.0
        self._counts = {"windows": 0, "grown": 0, "shrunk": 0}

    @property
    def buffer_ms(self) -> int:
        """The length in force."""
        return self._buffer_ms

    @property
    def buffer_samples(self) -> int:
        """The length in force, in samples."""
        return self._rate_hz * self._buffer_ms // 1000

    def feed(self, processed_samples: int, busy_ns: int) -> int | None:
        """Add a round of processing; the new length in ms when it changed, else None.

        A round that is longer than a window is judged as one.
        """
        if processed_samples < 0 or busy_ns < 0:
            raise ValueError("processed_samples and busy_ns count up: neither can be negative")
        self._samples += processed_samples
        self._busy_ns += busy_ns
        if self._samples < WINDOW_S * self._rate_hz:
            return None
        self._load = self._busy_ns * self._rate_hz / (self._samples * 1_000_000_000)
        self._samples = self._busy_ns = 0
        return self._judge()

    def _judge(self) -> int | None:
        self._counts["windows"] += 1
        self._idle_windows = self._idle_windows + 1 if self._load < IDLE else 0
        short, default, long = self._levels
        before = self._buffer_ms
        if self._load > FULL or (before == long and self._load >= FULL_LEFT):
            self._buffer_ms = long
        elif self._idle_windows >= IDLE_WINDOWS or (before == short and self._load <= IDLE_LEFT):
            self._buffer_ms = short
        else:
            self._buffer_ms = default
        if self._buffer_ms == before:
            return None
        self._counts["grown" if self._buffer_ms > before else "shrunk"] += 1
        return self._buffer_ms

    def statistics(self) -> dict[str, float]:
        """The length in force, the load of the last full window, and how often the length changed."""
        return {**self._counts, "buffer_ms": self._buffer_ms, "load": round(self._load, 4)}
