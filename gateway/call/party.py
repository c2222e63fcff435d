# SPDX-License-Identifier: GPL-3.0-or-later
"""One side of a call: its leg's state, the sound that comes from it, and the sound that goes to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gateway.audio.frames import frame_samples
from gateway.audio.original import Ducking
from gateway.audio.pcm import Int16
from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.audio.resample import resample
from gateway.audio.ring import FrameRing
from gateway.call.cue import WaitingCue, cue_sound
from gateway.call.repeat import LastWords
from gateway.call.spoken import SpokenLog
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
        self.last_words = LastWords(rate_hz)
        self.spoken = SpokenLog()
        self.cue = WaitingCue(0)
        self.was_up = False
        self.held = False
        """The party put us on hold: it neither speaks nor listens."""
        self.codec = ""
        self.sound_since_ns = 0
        """When sound first flowed on the leg; before the answer it is early media."""

    def prompt(self, name: str, pcm: Int16, *, gap_ms: int = 0) -> bool:
        """Queue a prompt, and a pause behind it; False when there is nothing to say."""
        if not pcm.size:
            return False
        self._play(Clip(name, ClipKind.PROMPT, pcm, gap_ms=gap_ms))
        return True

    def answer(self, name: str, pcm: Int16) -> bool:
        """Answer a key: instead of the answer before, if that is still being said. False: there is nothing to say."""
        self.playout.flush(ClipKind.ANSWER)
        return bool(pcm.size) and self.playout.enqueue(Clip(name, ClipKind.ANSWER, pcm))

    def wait(self, now_ns: int, since_ns: int | None) -> None:
        """The party waits for a translation since then, or for none: they hear a soft cue when it is too long."""
        if self.cue.due(now_ns, since_ns, silent=self.playout.is_idle()):
            self.playout.enqueue(Clip("waiting", ClipKind.CUE, cue_sound(self.rate_hz)))

    def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
        """Queue a piece of translated speech, brought to the leg's rate, and a pause behind it."""
        pcm = np.frombuffer(speech.pcm, np.int16)
        if pcm.size:
            pcm = resample(pcm, speech.rate_hz, self.rate_hz)
        self.playout.flush(ClipKind.CUE)  # the wait is over
        self.last_words.keep(name, pcm)
        self._play(Clip(name, ClipKind.TRANSLATION, pcm, gap_ms=gap_ms, more_follows=more_follows))

    def _play(self, clip: Clip) -> None:
        if self.playout.enqueue(clip):
            self.spoken.queue(clip.clip_id, clip.kind, clip.pcm.size * 1_000_000_000 // self.rate_hz)

    def statistics(self) -> dict[str, object]:
        """The bounds of this side's queues and what became of them."""
        return {
            "ring": self.ring.statistics(),
            "playout": self.playout.statistics(),
            "waiting_cues": self.cue.told,
            "last_words": self.last_words.statistics(),
            "spoken": self.spoken.statistics(),
        }
