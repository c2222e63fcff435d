# SPDX-License-Identifier: GPL-3.0-or-later
"""How loud speech is: the active speech level of ITU-T P.56, method B.

Pauses do not count, so that a slow talker is not taken for a soft one. The envelope is the rectified sound, smoothed
twice with 30 ms; for a row of thresholds the time is counted in which the envelope is above, 200 ms of hangover
included. The active level is where the mean power over that time lies 15.9 dB above the threshold itself.

P.56 allows an envelope sampled from 694 Hz on; here it is the mean of each millisecond.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from gateway.audio.pcm import SILENCE_DBFS, limited, rounded

ENVELOPE_HZ = 1000
SMOOTHING_S = 0.03
HANGOVER_S = 0.2
MARGIN_DB = 15.9
SPAN_DB = 90.0  # of thresholds below full scale, 6 dB apart


def active_level(sound: NDArray[np.float32], rate_hz: int) -> float:
    """Active level of float sound (full scale 1), shape ``(n,)``, in dB of full scale; -127 when nothing is active.

    A full-scale sine has -3.
    """
    size = rate_hz // ENVELOPE_HZ
    count = sound.size // size
    power = float(np.square(sound, dtype=np.float64).sum()) / rate_hz
    if not count or power <= 0:
        return SILENCE_DBFS
    keep = float(np.exp(-1 / (SMOOTHING_S * ENVELOPE_HZ)))
    envelope = np.abs(sound[: count * size]).reshape(count, size).mean(axis=1, dtype=np.float64)
    for _ in range(2):
        smooth = accumulate(envelope.tolist(), lambda held, new: keep * held + (1 - keep) * new, initial=0.0)
        envelope = np.fromiter(smooth, np.float64, count + 1)[1:]
    margins = [
        (10 * np.log10(power / active_s), threshold_db)
        for threshold_db in np.arange(-SPAN_DB, 0.0, 20 * np.log10(2))
        if (active_s := _active_s(envelope, 10 ** (threshold_db / 20)))
    ]
    return _crossing(margins)


def amplified(pcm: bytes, gain_db: float) -> bytes:
    """s16le samples louder or softer; peaks bend below -1 dBFS."""
    if not gain_db:
        return pcm
    sound = np.frombuffer(pcm, "<i2").astype(np.float32) * np.float32(10 ** (gain_db / 20))
    return rounded(limited(sound, 32768.0)).astype("<i2").tobytes()


def _active_s(envelope: NDArray[np.float64], threshold: float) -> float:
    """Seconds in which the envelope is at the threshold or above, or was within the hangover."""
    at = np.arange(envelope.size)
    last = np.maximum.accumulate(np.where(envelope >= threshold, at, -ENVELOPE_HZ))
    return float(np.count_nonzero(at - last < HANGOVER_S * ENVELOPE_HZ)) / ENVELOPE_HZ


def _crossing(levels: list[tuple[float, float]]) -> float:
    """The level at which level minus threshold is the margin, between the two thresholds around it."""
    for (level, threshold), (next_level, next_threshold) in pairwise(levels):
        above, below = level - threshold - MARGIN_DB, next_level - next_threshold - MARGIN_DB
        if above >= 0 > below:
            return float(level + (next_level - level) * above / (above - below))
    return float(levels[-1][0]) if levels else SILENCE_DBFS
