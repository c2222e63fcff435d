# SPDX-License-Identifier: GPL-3.0-or-later
"""The talker's own voice under the interpreter's: softly audible, and it sinks while translated speech sounds.

A side chain: what is *played* moves the gain of what is *said*. The gain slides in decibels, down within the attack
and up within the release, and stays down for a hold time, so that the short pauses inside a translation do not pump.

It shows the listener that somebody is speaking, how they say it, and when they have finished; the level under speech
follows WCAG 2.2, criterion 1.4.7: what lies behind speech should be 20 dB softer than it.

The sound comes from the talker's leg by way of the event loop and is pulled by the clock thread. A small store holds
60 ms before it begins, so that an ordinary delay of the loop is not heard; its ends are faded, so that one that is
longer makes no click. The recognisers never hear any of this: they are fed from what a leg sends, not from what it is
given.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from gateway.audio.pcm import Float32, Int16, rising

BEGIN_MS = 60  # three frames; the loop's longest pause, a search for garbage, was measured at 38 ms
MOST_MS = 200  # more than that is late: the oldest is left out
EDGE_MS = 5
SLIDE_DB_PER_S = 50.0


@dataclass(frozen=True, slots=True)
class Ducking:
    """How loud the original is, and how fast that changes."""

    on: bool = False
    """Whether it is heard at the start of a call; `OriginalVoice.set_on` changes it."""
    open_db: float = -6.0
    """Gain while the interpreter is silent."""
    under_db: float = -20.0
    """Gain while the interpreter speaks."""
    attack_ms: int = 40
    hold_ms: int = 300
    """Longer than the pause between two pieces of one translation."""
    release_ms: int = 400

    def __post_init__(self) -> None:
        """Refuse what would not duck."""
        if not self.under_db <= self.open_db <= 0:
            raise ValueError("gains of the original must be in order: under_db <= open_db <= 0")
        if min(self.attack_ms, self.release_ms) < 1 or self.hold_ms < 0:
            raise ValueError("attack_ms and release_ms must be at least 1, hold_ms not negative")


class OriginalVoice:
    """One talker's sound for one listener. The caller holds the play-out's lock. Delay: 60 ms, 200 ms at most."""

    def __init__(self, ducking: Ducking, rate_hz: int) -> None:
        self._wanted = ducking.on
        self._ducking = ducking
        self._open_db, self._under_db = ducking.open_db, ducking.under_db
        self._passing: float | None = None
        self._rate_hz = rate_hz
        self._attack_samples = rate_hz * ducking.attack_ms // 1000
        self._hold_samples = rate_hz * ducking.hold_ms // 1000
        self._release_samples = rate_hz * ducking.release_ms // 1000
        self._begin = rate_hz * BEGIN_MS // 1000
        self._most = rate_hz * MOST_MS // 1000
        self._edge = rising(rate_hz * EDGE_MS // 1000)
        self._held: deque[Int16] = deque()
        self._held_samples = 0
        self._running = False
        self._ducked = 0.0  # 0 open … 1 under; the gain in dB lies in between in proportion
        self._hold_left = 0
        self._counts = {"played_samples": 0, "late_samples": 0, "breaks": 0}

    @property
    def wanted(self) -> bool:
        """True when the listener wants to hear it under translations too."""
        return self._wanted

    @property
    def on(self) -> bool:
        """True when it is to be heard: by the listener's wish, or because it needs no translation."""
        return self._wanted or self._passing is not None

    @property
    def sounds(self) -> bool:
        """True when `add_to` has something to add."""
        return self._running or self._held_samples >= self._begin

    def set_on(self, on: bool) -> None:
        """Let it be heard, or not, from the next frame on; what is held fades within 5 ms."""
        self._wanted = on
        if not self.on:
            self._fade_out()

    def _fade_out(self) -> None:
        fading = self._first(self._edge.size if self._running else 0)
        self._held.clear()
        self._held.append(fading)
        self._held_samples = fading.size

    def set_passing(self, gain_db: float | None) -> None:
        """Let it be heard instead of a translation, at this gain; None: as it was. A change slides, 1 dB in 20 ms."""
        was = self.on
        self._passing = gain_db
        if was and not self.on:
            self._fade_out()

    def put(self, pcm: Int16) -> None:
        """What the talker has just said, 1-D int16 at the play-out's rate; nothing is kept while it is off."""
        if not self.on or not pcm.size:
            return
        self._held.append(pcm)
        self._held_samples += pcm.size
        while self._held_samples > self._most:
            late = self._held.popleft()
            self._held_samples -= late.size
            self._counts["late_samples"] += late.size

    def pass_by(self, samples: int, *, spoken: bool) -> None:
        """So much time goes by with nothing to add; ``spoken``: translated speech sounds meanwhile."""
        self._ducked = min(max(self._ducked + samples * self._step(samples, spoken), 0.0), 1.0)

    def add_to(self, out: Float32, *, spoken: bool) -> None:
        """Add the next ``out.size`` samples at the gain of the moment; ``spoken`` as above."""
        sound = self._take(out.size)
        step = self._step(out.size, spoken)
        way = np.clip(self._ducked + step * np.arange(1, out.size + 1, dtype=np.float32), 0.0, 1.0)
        self._ducked = float(way[-1])
        opened = self._slid(out.size)
        decibels = opened[: sound.size] * (1 - way[: sound.size]) + self._under_db * way[: sound.size]
        out[: sound.size] += sound * 10.0 ** (decibels / 20.0)

    def _slid(self, samples: int) -> Float32:
        """The gain while nothing is spoken, on its way to what it should be."""
        wanted = self._ducking.open_db if self._passing is None else self._passing
        most = samples * SLIDE_DB_PER_S / self._rate_hz
        begun, self._open_db = self._open_db, self._open_db + min(max(wanted - self._open_db, -most), most)
        return np.linspace(begun, self._open_db, samples, dtype=np.float32)

    def _step(self, samples: int, spoken: bool) -> float:
        """How far the gain slides with each sample."""
        down = spoken or self._hold_left > 0
        self._hold_left = self._hold_samples if spoken else max(0, self._hold_left - samples)
        return 1 / self._attack_samples if down else -1 / self._release_samples

    def _take(self, count: int) -> Float32:
        begins = not self._running
        if begins and self._held_samples < self._begin:
            return np.zeros(0, np.float32)
        if begins:  # older sound, from before anybody pulled, would stay late for ever
            self._counts["late_samples"] += self._first(self._held_samples - self._begin).size
        sound = self._first(count).astype(np.float32)
        self._running = self._held_samples > 0
        edge = self._edge[: sound.size]
        if begins:
            sound[: edge.size] *= edge
        if not self._running:
            sound[sound.size - edge.size :] *= edge[::-1]
            self._counts["breaks"] += 1
        self._counts["played_samples"] += sound.size
        return sound

    def _first(self, count: int) -> Int16:
        """Take out the oldest ``count`` samples, or what there is."""
        taken = [np.zeros(0, np.int16)]
        missing = min(count, self._held_samples)
        while missing > 0:
            part = self._held.popleft()
            if part.size > missing:
                self._held.appendleft(part[missing:])
                part = part[:missing]
            taken.append(part)
            missing -= part.size
            self._held_samples -= part.size
        return np.concatenate(taken)

    def statistics(self) -> dict[str, int | bool]:
        """What was played, what came too late, how often it broke off, and whether it is on."""
        return {"on": self.on, **self._counts}
