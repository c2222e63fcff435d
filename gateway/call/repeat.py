# SPDX-License-Identifier: GPL-3.0-or-later
"""What a party has heard last, kept so that it can be played again (SPEC A6, ``*2``).

Speech is kept when it is queued and counts as heard when its play-out begins: what is still to come is no repetition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gateway.audio.pcm import Int16
from gateway.audio.playout import PlayEvent

KEPT_S = 60.0  # further back than the lag policy lets a listener fall
LEAST_S = 3.0  # a lone "yes" is repeated together with what went before it
PAUSE_MS = 200  # between two utterances


@dataclass(slots=True)
class _Said:
    name: str
    pieces: list[Int16] = field(default_factory=list)
    heard: bool = False

    @property
    def samples(self) -> int:
        return sum(piece.size for piece in self.pieces)


class LastWords:
    """One party's last translations, at most a minute of them, 1-D int16 at ``rate_hz``."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._said: list[_Said] = []

    def keep(self, name: str, pcm: Int16) -> None:
        """A piece of the utterance ``name`` was queued."""
        if not self._said or self._said[-1].name != name:
            self._said.append(_Said(name))
        self._said[-1].pieces.append(pcm)
        while len(self._said) > 1 and sum(one.samples for one in self._said) > KEPT_S * self._rate_hz:
            del self._said[0]

    def note(self, event: PlayEvent) -> None:
        """Something became of a clip; those that are not kept are prompts and cues."""
        for one in reversed(self._said):
            if one.name == event.clip_id and event.what == "started":
                one.heard = True
                return

    def take(self) -> Int16:
        """What was heard last, whole utterances from the end back to about three seconds; empty when nothing was."""
        taken: list[Int16] = []
        samples = 0
        pause = np.zeros(self._rate_hz * PAUSE_MS // 1000, np.int16)
        for one in reversed(self._said):
            if samples >= LEAST_S * self._rate_hz:
                break
            if one.heard:
                taken[:0] = [*one.pieces, pause]
                samples += one.samples
        return np.concatenate(taken[:-1]) if taken else np.zeros(0, np.int16)

    def statistics(self) -> dict[str, float]:
        """Utterances and seconds that are kept."""
        return {"utterances": len(self._said), "seconds": sum(one.samples for one in self._said) / self._rate_hz}
