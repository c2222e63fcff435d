# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing the sample rate of a stream without seams.

The work is done by libsoxr in its variable-rate mode with a constant ratio. Measured with 20 ms input frames, over
8, 11.025, 16, 22.05, 24, 32, 44.1 and 48 kHz:

====================  =================================  ======================================
                      fixed-rate "HQ"                    variable-rate "HQ" (used here)
====================  =================================  ======================================
held back at worst    37 to 175 ms (115 ms for 8 to 16)  10 to 30 ms, the 20 ms frame included
alias, image          -85 dB                             -85 dB
chunked == one-shot   bit for bit with float32           bit for bit with float32
position of output    exact                              1.6 to 1.9 output samples late going down
====================  =================================  ======================================

The lateness is constant, so two output samples are taken off the start when the rate goes down; what remains is at
most 0.5 output samples. With int16 libsoxr dithers, and chunked output then differs from one-shot by a step, so the
inside is float32 and the rounding is done here. At the end zeros push out what is held and the length is cut to
round(n * out / in): tail and filter delay are neither dropped nor left in.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import soxr
import structlog

from gateway.audio.errors import AudioFormatError, ResampleError
from gateway.audio.pcm import Float32, Int16, rounded

log = structlog.get_logger(__name__)

MAX_RATE_HZ = 192_000
MAX_FEED_S = 600  # more than ten minutes in one piece is a caller that lost its sense of units

_LATE_OUT_SAMPLES = 2  # of libsoxr's variable-rate mode when the rate goes down; see above


def _check_rate(rate_hz: int) -> None:
    if not isinstance(rate_hz, int) or not 1000 <= rate_hz <= MAX_RATE_HZ:
        raise AudioFormatError(
            f"a sample rate of {rate_hz!r} Hz is not usable: give a whole number, 1000 to {MAX_RATE_HZ}"
        )


class _FloatResampler:
    """The resampler proper, on float32 of any scale; equal rates pass through."""

    def __init__(self, in_hz: int, out_hz: int) -> None:
        _check_rate(in_hz)
        _check_rate(out_hz)
        self.in_hz = in_hz
        self.out_hz = out_hz
        self.taken = 0  # input samples so far
        self.given = 0  # output samples so far
        self._skip = _LATE_OUT_SAMPLES if out_hz < in_hz else 0
        self._soxr: Any = None
        if in_hz != out_hz:
            self._soxr = soxr.ResampleStream(in_hz, out_hz, 1, dtype="float32", quality="HQ", vr=True)

    def feed(self, samples: Float32) -> Float32:
        self.taken += samples.size
        return self._give(samples if self._soxr is None else self._soxr.resample_chunk(samples), self.due)

    @property
    def due(self) -> int:
        """Output samples that the input so far stands for, rounded half up in whole numbers."""
        return (2 * self.taken * self.out_hz + self.in_hz) // (2 * self.in_hz)

    def flush(self) -> Float32:
        if self._soxr is None or not self.taken:
            return np.zeros(0, np.float32)
        zeros = np.zeros(4 * self.in_hz // self.out_hz + 4, np.float32)
        pieces = [self._soxr.resample_chunk(zeros), self._soxr.resample_chunk(np.zeros(0, np.float32), last=True)]
        return self._give(np.concatenate(pieces), self.due)

    def _give(self, out: Float32, due: int) -> Float32:
        skipped = min(self._skip, out.size)
        self._skip -= skipped
        out = out[skipped : skipped + due - self.given]
        self.given += out.size
        return out


class StreamResampler:
    """Resamples one mono int16 stream; streaming equals one-shot bit for bit.

    Algorithmic delay: at most 10 ms beyond the frame fed; nothing when the rates are equal (pass-through).
    An error inside drops the sound and raises ResampleError, on that call and on every later one: sound at the
    wrong rate never leaves (B26). The owner counts it and makes a new resampler.
    """

    def __init__(self, in_hz: int, out_hz: int) -> None:
        self._core = _FloatResampler(in_hz, out_hz)
        self._failed = False
        self._flushed = False
        self.in_hz = in_hz
        self.out_hz = out_hz

    def feed(self, pcm: Int16) -> Int16:
        """The next input samples, 1-D int16 (an empty array is fine); gives the output that is ready, perhaps none.

        Raises AudioFormatError for another type, shape or more than MAX_FEED_S, without touching the stream.
        """
        _check_pcm(pcm, self.in_hz)
        if self._flushed:
            raise ResampleError("this resampler was flushed: make a new one for a new stream")
        if self.in_hz == self.out_hz:
            self._core.feed(pcm.astype(np.float32))
            return pcm.copy()
        return self._guarded(pcm)

    def flush(self) -> Int16:
        """The end of the stream: what is still held, so that the whole is round(n * out / in) samples long."""
        if self._flushed:
            return np.zeros(0, np.int16)
        out = self._guarded(None)
        self._flushed = True
        return out

    @property
    def delay_ms(self) -> float:
        """Sound taken but not given yet, in ms."""
        return 1000.0 * (self._core.taken / self.in_hz - self._core.given / self.out_hz)

    def statistics(self) -> dict[str, int | bool]:
        """Samples in and out, and whether the stream failed."""
        return {"samples_in": self._core.taken, "samples_out": self._core.given, "failed": self._failed}

    def _guarded(self, pcm: Int16 | None) -> Int16:
        if self._failed:
            raise ResampleError("this resampler has failed: make a new one")
        try:
            return rounded(self._core.flush() if pcm is None else self._core.feed(pcm.astype(np.float32)))
        except Exception as error:
            self._failed = True
            log.error("resampling_failed", in_hz=self.in_hz, out_hz=self.out_hz, error=repr(error))
            raise ResampleError(f"resampling {self.in_hz} to {self.out_hz} Hz failed, the sound is dropped") from error


def _check_type(pcm: object) -> None:
    if not isinstance(pcm, np.ndarray) or pcm.dtype != np.int16:
        found = getattr(pcm, "dtype", type(pcm))
        raise AudioFormatError(f"expected an array of int16, got {found}: convert with pcm.to_int16")
    if pcm.ndim != 1:
        raise AudioFormatError(f"expected mono samples of shape (n,), got {pcm.shape}: mix down first")


def _check_pcm(pcm: Int16, rate_hz: int) -> None:
    _check_type(pcm)
    if pcm.size > MAX_FEED_S * rate_hz:
        raise AudioFormatError(f"{pcm.size} samples at once exceed {MAX_FEED_S} s at {rate_hz} Hz: feed smaller pieces")


@overload
def resample(samples: Int16, in_hz: int, out_hz: int) -> Int16: ...
@overload
def resample(samples: Float32, in_hz: int, out_hz: int) -> Float32: ...
def resample(samples: Int16 | Float32, in_hz: int, out_hz: int) -> Int16 | Float32:
    """A whole mono signal, int16 or float32, at another rate; same type, round(n * out / in) samples, aligned."""
    if isinstance(samples, np.ndarray) and samples.dtype == np.float32:
        if samples.ndim != 1:
            raise AudioFormatError(f"expected mono samples of shape (n,), got {samples.shape}: mix down first")
        core = _FloatResampler(in_hz, out_hz)
        return np.concatenate([core.feed(np.ascontiguousarray(samples, np.float32)), core.flush()])
    stream = StreamResampler(in_hz, out_hz)
    _check_type(samples)
    pcm = np.asarray(samples, np.int16)
    step = MAX_FEED_S * in_hz
    pieces = [stream.feed(pcm[at : at + step]) for at in range(0, max(1, pcm.size), step)]
    return np.concatenate([*pieces, stream.flush()])
