# SPDX-License-Identifier: GPL-3.0-or-later
"""One side of a call: its leg's state, the sound that comes from it, and the sound that goes to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gateway.audio.frames import frame_samples
from gateway.audio.original import Ducking
from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.audio.resample import resample
from gateway.audio.ring import FrameRing
from gateway.call.states import LegMachine
from gateway.speech.jobs import Speech

LEG_RATE_HZ = 8000
"""The bridge's usual clock: half the CPU of a 16 kHz one, and what G.711 carries. `sip.media_rate_hz` decides."""
FRAME_MS = 20
RING_FRAMES = 250  # 5 s of sound: the loop may stall that long before anything is lost


class Party:
    """The caller (side ``a``) or the called party (side ``b``)."""

    def __init__(
        self,
        side: str,
        leg: str,
        language: str,
        wake: Callable[[], None],
        tap: Callable[[bytes, int], None] | None = None,
        ducking: Ducking | None = None,
        comfort_dbfs: float | None = None,
        rate_hz: int = LEG_RATE_HZ,
    ) -> None:
        self.side = side
        self.leg = leg
        self.line = leg
        """What its sound is called all along: the first leg's id, also when another leg took its place."""
        self.language = language
        self.rate_hz = rate_hz
        self.machine = LegMachine(leg)
        self.ring = FrameRing(RING_FRAMES, wake)
        frame = frame_samples(rate_hz, FRAME_MS)
        self.playout = PlayOut(rate_hz, frame, tap=tap, ducking=ducking, comfort_dbfs=comfort_dbfs)
        self.was_up = False
        self.held = False
        """The party put us on hold: it neither speaks nor listens."""
        self.codec = ""

    def prompt(self, name: str, pcm: np.ndarray[tuple[int], np.dtype[np.int16]]) -> bool:
        """Queue a prompt; False when there is nothing to say."""
        if not pcm.size:
            return False
        self.playout.enqueue(Clip(name, ClipKind.PROMPT, pcm))
        return True

    def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
        """Queue a piece of translated speech, brought to the leg's rate, and a pause behind it."""
        pcm = np.frombuffer(speech.pcm, np.int16)
        if pcm.size:
            pcm = resample(pcm, speech.rate_hz, self.rate_hz)
        self.playout.enqueue(Clip(name, ClipKind.TRANSLATION, pcm, gap_ms=gap_ms, more_follows=more_follows))

    def statistics(self) -> dict[str, object]:
        """The bounds of this side's queues and what became of them."""
        return {"ring": self.ring.statistics(), "playout": self.playout.statistics()}
