# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a telephone hear something right now? Decides when a talker of a scripted conversation may go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gateway.bench.capture import SPEECH_DBFS, Pcm, threshold_amplitude


@dataclass(frozen=True, slots=True)
class SoundStarted:
    """Sound began: arrival of the packet with the first sample above the threshold."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class SoundEnded:
    """It has been quiet for the set time: arrivals of the first and last packet with a loud sample."""

    first_ns: int
    last_ns: int


class Hearing:
    """Fed with arriving packets and the clock; ``quiet_ms`` of silence end a sound."""

    def __init__(self, *, quiet_ms: int = 500, dbfs: float = SPEECH_DBFS) -> None:
        self._quiet_ns = quiet_ms * 1_000_000
        self._limit = threshold_amplitude(dbfs)
        self._first_ns: int | None = None
        self._last_ns = 0

    def feed(self, pcm: Pcm, at_ns: int) -> list[SoundStarted | SoundEnded]:
        """Take the samples of one packet."""
        if len(pcm) and int(np.abs(pcm.astype(np.int32)).max()) > self._limit:
            self._last_ns = at_ns
            if self._first_ns is None:
                self._first_ns = at_ns
                return [SoundStarted(at_ns)]
            return []
        return self.tick(at_ns)

    def tick(self, now_ns: int) -> list[SoundStarted | SoundEnded]:
        """Time passes, also without packets."""
        if self._first_ns is None or now_ns - self._last_ns < self._quiet_ns:
            return []
        ended = SoundEnded(self._first_ns, self._last_ns)
        self._first_ns = None
        return [ended]
