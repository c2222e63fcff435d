# SPDX-License-Identifier: GPL-3.0-or-later
"""The soft sound that tells a waiting listener: it is still being translated (SPEC A10).

On a plain telephone silence says nothing: is the line dead, did nobody speak? Two low notes say that the interpreter
is at work. They are a cue and no translation: no record knows them, nobody's recogniser hears them (play-out is not
fed back), and they give way at once when speech is there.
"""

from __future__ import annotations

import numpy as np

from gateway.audio.pcm import Int16

NOTES_HZ = (392.0, 330.0)  # a falling third, as of a door bell: friendly, and no tone that a telephone network uses
NOTE_MS = 140
LEVEL = 520  # of 32767: -36 dBFS, some 16 dB below speech on a telephone line


class WaitingCue:
    """Decides when one listener gets the cue: every ``limit_ns`` of waiting, and only into silence; 0 never."""

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._told_ns = 0
        self.told = 0
        """How often it was given."""

    def due(self, now_ns: int, waiting_since_ns: int | None, *, silent: bool) -> bool:
        """Whether to play it now. ``waiting_since_ns``: the end of the oldest speech that is not translated yet."""
        if not self._limit_ns or waiting_since_ns is None or not silent:
            return False
        if now_ns - max(waiting_since_ns, self._told_ns) < self._limit_ns:
            return False
        self._told_ns = now_ns
        self.told += 1
        return True


def cue_sound(rate_hz: int) -> Int16:
    """The cue, 1-D int16: each note rises and falls over its whole length, so that nothing clicks."""
    samples = np.arange(rate_hz * NOTE_MS // 1000)
    swell = np.sin(np.pi * samples / samples.size) ** 2
    notes = [LEVEL * swell * np.sin(2 * np.pi * hz * samples / rate_hz) for hz in NOTES_HZ]
    return np.asarray(np.rint(np.concatenate(notes)), np.int16)
