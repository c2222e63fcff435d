# SPDX-License-Identifier: GPL-3.0-or-later
"""Sound that arrives in bursts, heard at the speed of speech: does the play-out tear a clause apart?

Pure: the clock is the count of frames. Every clip is played through the play-out that a call uses, and what comes out
is compared with what went in.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gateway.audio.pcm import Int16
from gateway.audio.playout import Clip, ClipKind, PlayEvent, PlayOut

RATE_HZ = 8000
FRAME = 160
MARK = 4000  # a clip of nothing but this value: a hole in it shows as another value
JOIN = RATE_HZ // 100  # samples at either end that a fade changes
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A clip, and the second at which it is there. ``more_follows``: the next one belongs to the same clause."""

    at_s: float
    pcm: Int16
    more_follows: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """What was heard: holes inside clips, waits between the clips of a clause, and whether every sample came."""

    clips: int
    torn_clips: int
    """Clips with a hole or a wrong sample inside, or of another length than they had."""
    starved: int
    """Times that a clause stood still because its next clip was not there yet."""
    heard_s: float
    waited_most_s: float
    """The most sound that waited to be heard."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "heard_s": round(self.heard_s, 3), "waited_most_s": round(self.waited_most_s, 3)}


def replay(arrivals: Sequence[Arrival]) -> Replay:
    """Play the clips, in order of arrival. ValueError when they do not come to an end."""
    line = PlayOut(RATE_HZ, FRAME, now_ns=lambda: 0)
    coming = sorted(enumerate(arrivals), key=lambda one: one[1].at_s)
    out: list[bytes] = []
    events: list[PlayEvent] = []
    waited_most = 0.0
    while coming or not line.is_idle():
        if len(out) * FRAME > LONGEST_S * RATE_HZ:
            raise ValueError(f"the clips do not end within {LONGEST_S:.0f} s")
        while coming and coming[0][1].at_s * RATE_HZ <= len(out) * FRAME:
            number, arrival = coming.pop(0)
            clip = Clip(str(number), ClipKind.TRANSLATION, arrival.pcm, more_follows=arrival.more_follows)
            if not line.enqueue(clip):
                raise ValueError("more sound waits than a play-out takes")
        waited_most = max(waited_most, line.pending_s())
        out.append(line.next_frame())
        events += line.events()
    sound = np.frombuffer(b"".join(out), "<i2")
    begins = {event.clip_id: event.at_sample for event in events if event.what == "started"}
    ends = {event.clip_id: event.at_sample for event in events if event.what == "ended"}
    torn = sum(
        not _whole(sound, begins.get(str(number), 0), ends.get(str(number), 0), arrival.pcm)
        for number, arrival in enumerate(arrivals)
    )
    return Replay(len(arrivals), torn, line.statistics()["underruns"], sound.size / RATE_HZ, waited_most)


def _whole(sound: Int16, begin: int, end: int, pcm: Int16) -> bool:
    inner = slice(begin + JOIN, begin + max(JOIN, pcm.size - JOIN))
    return end - begin == pcm.size and np.array_equal(sound[inner], pcm[JOIN : max(JOIN, pcm.size - JOIN)])


def bursty_clauses(
    count: int, seed: int, *, clause_s: float = 3.0, apart_s: tuple[float, float] = (0.2, 2.5)
) -> Replay:
    """Clauses that are made faster than they can be heard, at uneven times."""
    chance = random.Random(seed)  # noqa: S311 - a reproducible order, no secret
    arrivals, at_s = [], 0.0
    for _ in range(count):
        arrivals.append(Arrival(at_s, np.full(round(clause_s * RATE_HZ), MARK, np.int16)))
        at_s += chance.uniform(*apart_s)
    return replay(arrivals)
