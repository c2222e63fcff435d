# SPDX-License-Identifier: GPL-3.0-or-later
"""How something is said, in figures: pitch and level over time, and how alike two such contours are. Pure numpy.

Pitch by autocorrelation of 50 ms frames, normalised by that of the window (P. Boersma, "Accurate short-term analysis of
the fundamental frequency …", 1993), the shortest period that is nearly as good as the best being taken. Likeness by
dynamic time warping (H. Sakoe, S. Chiba, 1978) over semitones and decibels, each against the speaker's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gateway.audio.pcm import Int16

HOP_S = 0.01
WINDOW_S = 0.05
LOWEST_HZ, HIGHEST_HZ = 50, 400
VOICED = 0.5  # normalised autocorrelation
NEARLY = 0.85  # a shorter period this good against the best is preferred: the best may be two periods
SPEECH_BELOW_PEAK_DB = 35.0
PAUSE_BELOW_PEAK_DB = 30.0
SHORTEST_PAUSE_FRAMES = 15
STEP = 4  # frames of a contour, 40 ms: about half a phoneme
SEMITONES_LIKE_DB = 3 / 10  # 3 semitones weigh as much as 10 dB

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """Speech between its first and last sound, every 10 ms: pitch in semitones about its median, level in dB."""

    semitones: Floats
    """NaN where there is no voice."""
    level_db: Floats
    """Against the loud parts; 0 there."""
    speech_s: float
    """Without the pauses of 150 ms and more."""


def contour(pcm: Int16, rate_hz: int) -> Contour:
    """The contour of 1-D int16 speech. ValueError when nothing is voiced."""
    size, hop = round(WINDOW_S * rate_hz), round(HOP_S * rate_hz)
    if pcm.size < size:
        raise ValueError("too short to have a contour")
    frames = np.lib.stride_tricks.sliding_window_view(pcm.astype(np.float64), size)[::hop]
    frames = frames - frames.mean(axis=1, keepdims=True)
    level = 10 * np.log10(np.mean(frames**2, axis=1) + 1)
    loud = np.flatnonzero(level > level.max() - SPEECH_BELOW_PEAK_DB)
    first, end = int(loud[0]), int(loud[-1]) + 1
    hz = _pitch_hz(frames[first:end], rate_hz)
    level = level[first:end]
    if not np.isfinite(hz).any():
        raise ValueError("nothing in it is voiced")
    semitones = 12 * np.log2(hz / np.nanmedian(hz))
    paused = _paused(level < level.max() - PAUSE_BELOW_PEAK_DB)
    return Contour(semitones, level - np.percentile(level, 95), (level.size - paused) * HOP_S)


def _pitch_hz(frames: Floats, rate_hz: int) -> Floats:
    window = np.hanning(frames.shape[1])
    size = 2 ** math.ceil(math.log2(2 * frames.shape[1]))
    shortest, longest = rate_hz // HIGHEST_HZ, rate_hz // LOWEST_HZ

    def correlated(sound: Floats) -> Floats:
        return np.asarray(np.fft.irfft(np.abs(np.fft.rfft(sound, size)) ** 2)[..., : longest + 1])

    own = correlated(window)
    found = correlated(frames * window)
    found = found / (found[:, :1] + 1e-9) / (own / own[0])
    found = found[:, shortest:]
    best = found.max(axis=1)
    near = (found >= NEARLY * best[:, None]).argmax(axis=1)
    lags = np.array([at + int(row[at : at + 6].argmax()) for at, row in zip(near, found, strict=True)])
    return np.where(best >= VOICED, rate_hz / (lags + shortest), np.nan)


def _paused(silent: npt.NDArray[np.bool_]) -> int:
    """Frames that lie in pauses long enough to count."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], silent, [False]]).astype(int)))
    runs = edges[1::2] - edges[::2]
    return int(runs[runs >= SHORTEST_PAUSE_FRAMES].sum())


def distance(one: Contour, other: Contour) -> float:
    """How unlike two contours are, each stretched onto the other: 0 for the same, per step of both."""
    a, b = _track(one), _track(other)
    cost = np.sqrt(np.square(a[:, None, :] - b[None, :, :]).sum(axis=2))
    least = np.full((len(a) + 1, len(b) + 1), np.inf)
    least[0, 0] = 0.0
    for row in range(len(a)):
        for column in range(len(b)):
            before = min(least[row, column], least[row, column + 1], least[row + 1, column])
            least[row + 1, column + 1] = cost[row, column] + before
    return float(least[-1, -1] / (len(a) + len(b)))


def _track(one: Contour) -> Floats:
    """(steps, 2): pitch, held over the unvoiced parts, and level, in units that weigh alike."""
    at = np.arange(one.semitones.size)
    voiced = np.isfinite(one.semitones)
    pitch = np.interp(at, at[voiced], one.semitones[voiced])
    return np.stack([pitch[::STEP] / (10 * SEMITONES_LIKE_DB), one.level_db[::STEP] / 10], axis=1)
