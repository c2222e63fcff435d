# SPDX-License-Identifier: GPL-3.0-or-later
"""Sample formats, levels, DC removal and fades.

Sound is normalised by the format its samples really have (S0.7): the type of the array, or for packed bytes the
format that the container's decoder reports; never by a guess from the values.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.audio.errors import AudioFormatError

Int16 = NDArray[np.int16]
Float32 = NDArray[np.float32]

SILENCE_DBFS = -127.0  # the lowest level RFC 6464 can tell; stands for digital silence


class SampleFormat(StrEnum):
    """How a sample is stored; little-endian, named as ffmpeg names them."""

    U8 = "u8"
    S16 = "s16"
    S24 = "s24"
    S32 = "s32"
    F32 = "f32"
    F64 = "f64"


_STORED: dict[SampleFormat, np.dtype[Any]] = {
    SampleFormat.U8: np.dtype("u1"),
    SampleFormat.S16: np.dtype("<i2"),
    SampleFormat.S32: np.dtype("<i4"),
    SampleFormat.F32: np.dtype("<f4"),
    SampleFormat.F64: np.dtype("<f8"),
}


def unpack(data: bytes, sample_format: SampleFormat, channels: int = 1) -> Float32:
    """Packed interleaved samples as float32 in [-1, 1), shape (frames, channels).

    Raises AudioFormatError when the bytes are not a whole number of frames of that format.
    """
    width = 3 if sample_format is SampleFormat.S24 else _STORED[sample_format].itemsize
    if channels < 1:
        raise AudioFormatError(f"sound needs at least one channel, not {channels}")
    if len(data) % (width * channels):
        raise AudioFormatError(f"{len(data)} bytes are not whole frames of {channels} x {sample_format}")
    if sample_format is SampleFormat.S24:
        # 24-bit samples become the upper three bytes of int32, which keeps the sign and the scale of s32
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        samples = to_float32(wide.reshape(-1).view("<i4"))
    else:
        samples = to_float32(np.frombuffer(data, _STORED[sample_format]))
    return samples.reshape(-1, channels)


def to_float32(samples: NDArray[np.generic]) -> Float32:
    """Samples of any stored type as float32, full scale = 1.0, same shape; AudioFormatError for other types or NaN."""
    kind = samples.dtype
    if kind == np.uint8:
        return (samples.astype(np.float32) - np.float32(128.0)) / np.float32(128.0)
    if kind == np.int16:
        return samples.astype(np.float32) / np.float32(32768.0)
    if kind == np.int32:
        return (samples.astype(np.float64) / 2147483648.0).astype(np.float32)
    if kind in (np.float32, np.float64):
        floats = samples.astype(np.float32)
        if not np.isfinite(floats).all():
            raise AudioFormatError(
                "the sound holds NaN or infinite samples: decode it again, or find the stage at fault"
            )
        return floats
    raise AudioFormatError(f"samples of type {kind} are not sound: expected uint8, int16, int32, float32 or float64")


def to_int16(samples: NDArray[np.generic]) -> Int16:
    """Samples of any stored type as int16, rounded and clipped (never wrapped), same shape."""
    if samples.dtype == np.int16:
        return samples.astype(np.int16)
    return rounded(to_float32(samples) * np.float32(32768.0))


def rounded(samples: Float32 | NDArray[np.float64]) -> Int16:
    """Float samples in int16 units, rounded to the nearest and clipped."""
    out: Int16 = np.clip(np.rint(samples), -32768, 32767).astype(np.int16)
    return out


def downmix(samples: Float32) -> Float32:
    """The mean of all channels: (frames, channels) -> (frames,). Mono and 1-D input pass as they are."""
    if samples.ndim == 1:
        return samples
    if samples.ndim != 2 or samples.shape[1] < 1:
        raise AudioFormatError(f"expected sound of shape (frames, channels), got {samples.shape}")
    mixed: Float32 = samples.mean(axis=1, dtype=np.float32)
    return mixed


def level_dbfs(samples: Int16) -> float:
    """RMS level in dB relative to overload (dBov, RFC 6464: a full-scale square wave is 0, a full-scale sine -3)."""
    if not samples.size:
        return SILENCE_DBFS
    floats = samples.astype(np.float32)
    power = float(np.dot(floats, floats)) / samples.size
    if power <= 0.0:
        return SILENCE_DBFS
    return max(SILENCE_DBFS, 10.0 * float(np.log10(power / (32768.0 * 32768.0))))


def limited(sound: Float32, full_scale: float = 1.0) -> Float32:
    """Leave samples up to -4 dBFS alone; above, approach -1 dBFS along a tanh, without a corner. No delay."""
    knee, top = full_scale * 10.0 ** (-4.0 / 20.0), full_scale * 10.0 ** (-1.0 / 20.0)
    over = np.abs(sound) > knee
    if not over.any():
        return sound
    bent = sound.astype(np.float32, copy=True)
    loud = np.abs(sound[over])
    bent[over] = np.sign(sound[over]) * (knee + (top - knee) * np.tanh((loud - knee) / (top - knee)))
    return bent


class DcBlocker:
    """A streaming one-pole high-pass that takes away DC and rumble: y[n] = x[n] - x[n-1] + r*y[n-1].

    Human telephone recordings here carry offsets of up to 17 % of full scale, which mislead voice detectors and
    features. The corner of 20 Hz is far below the telephone band and settles in about 10 ms. Delay: none.
    The first sample is taken as the offset so far, so that a stream that starts with DC starts without a step.
    Streaming equals one-shot bit for bit: the recursion runs in float64, sample by sample.
    """

    def __init__(self, rate_hz: int, corner_hz: float = 20.0) -> None:
        if rate_hz <= 0 or not 0 < corner_hz < rate_hz / 2:
            raise ValueError("corner must lie between 0 and half the rate")
        self._pole = float(np.exp(-2.0 * np.pi * corner_hz / rate_hz))
        self._last_in: float | None = None
        self._last_out = 0.0

    def feed(self, samples: NDArray[np.int16] | Float32) -> NDArray[np.float64]:
        """The next samples without DC, in the units of the input, as float64 of the same length."""
        if not samples.size:
            return np.zeros(0, np.float64)
        floats = samples.astype(np.float64)
        before = float(floats[0]) if self._last_in is None else self._last_in
        steps = np.diff(floats, prepend=before).tolist()
        pole = self._pole
        out = list(accumulate(steps, lambda held, step: pole * held + step, initial=self._last_out))
        self._last_in = float(floats[-1])
        self._last_out = out[-1]
        return np.asarray(out[1:])


def rising(samples: int) -> Float32:
    """A raised-cosine ramp from just above 0 to just below 1; ``rising(n) + rising(n)[::-1]`` is 1 everywhere."""
    return (0.5 - 0.5 * np.cos(np.pi * (np.arange(samples) + 0.5) / max(1, samples))).astype(np.float32)


def fade_in(pcm: Int16, samples: int) -> Int16:
    """A copy whose first ``samples`` rise from silence."""
    out = pcm.copy()
    count = min(samples, pcm.size)
    out[:count] = np.rint(pcm[:count] * rising(count)).astype(np.int16)
    return out


def fade_out(pcm: Int16, samples: int) -> Int16:
    """A copy whose last ``samples`` fall to silence."""
    return np.ascontiguousarray(fade_in(pcm[::-1], samples)[::-1])
