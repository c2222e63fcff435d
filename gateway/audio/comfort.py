# SPDX-License-Identifier: GPL-3.0-or-later
"""The murmur of an open line, so that nobody believes it dead: steady noise under everything a listener is given.

White noise, as ITU-T G.711 Appendix II and RFC 3389 send it when they know of no spectrum. It is played under speech
too, where it is not heard: noise that came and went with the speech would be.
"""

from __future__ import annotations

import numpy as np

from gateway.audio.pcm import Float32

LOOP_S = 3.0  # a repetition is not noticed at this level


class ComfortNoise:
    """An endless line of noise at ``dbfs`` (RMS), in int16 units."""

    def __init__(self, dbfs: float, rate_hz: int) -> None:
        chance = np.random.default_rng(rate_hz)
        scale = 32768.0 * 10.0 ** (dbfs / 20.0)
        self._loop: Float32 = (chance.standard_normal(round(LOOP_S * rate_hz)) * scale).astype(np.float32)
        self._at = 0

    def add_to(self, out: Float32) -> None:
        """Add the next ``out.size`` samples."""
        done = 0
        while done < out.size:
            part = self._loop[self._at : self._at + out.size - done]
            out[done : done + part.size] += part
            done += part.size
            self._at = (self._at + part.size) % self._loop.size
