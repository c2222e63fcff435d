# SPDX-License-Identifier: GPL-3.0-or-later
"""µ-law for the test peer (ITU-T G.711), by table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gateway.bench import g711


def _table() -> NDArray[np.int16]:
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = (((code & 0x0F).astype(np.int32) << 3) + 0x84 << ((code & 0x70) >> 4).astype(np.int32)) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


TABLE = _table()
_ORDER = np.argsort(TABLE, kind="stable")
_SORTED = TABLE[_ORDER].astype(np.int32)


def decode(payload: bytes) -> NDArray[np.int16]:
    """µ-law bytes to 16-bit samples."""
    return TABLE[np.frombuffer(payload, np.uint8)]


def encode(samples: NDArray[np.float64]) -> bytes:
    """Samples to the nearest µ-law codes."""
    right = np.clip(np.searchsorted(_SORTED, samples), 1, 255)
    nearer_left = samples - _SORTED[right - 1] < _SORTED[right] - samples
    return _ORDER[np.where(nearer_left, right - 1, right)].astype(np.uint8).tobytes()


def tone(hz: float, seconds: float, amplitude: float = 8000.0) -> bytes:
    """A sine in µ-law at 8 kHz."""
    return encode(np.sin(2 * np.pi * hz * np.arange(int(8000 * seconds)) / 8000) * amplitude)


def encode_alaw(tone_hz: float, seconds: float = 1.0) -> bytes:
    """A sine in A-law at 8 kHz."""
    at = np.arange(int(8000 * seconds)) / 8000
    return g711.encode("PCMA", (np.sin(2 * np.pi * tone_hz * at) * 8000).astype(np.int16))


def talk(seconds: float) -> bytes:
    """A buzz with the rhythm of syllables in µ-law, which a voice detector takes for a talker."""
    at = np.arange(int(8000 * seconds)) / 8000
    phase = 2 * np.pi * np.cumsum(120 + 10 * np.sin(4 * np.pi * at)) / 8000
    buzz = np.sum([np.sin(n * phase) / n for n in range(1, 20)], axis=0)
    return encode(buzz * (0.7 + 0.3 * np.sin(8 * np.pi * at)) * 4000)


def peak_hz(samples: NDArray[np.int16]) -> tuple[float, float]:
    """Strongest frequency, and the share of the power within 3 bins of it: the fingerprint of a leg."""
    power = np.abs(np.fft.rfft(samples.astype(float) * np.hanning(samples.size))) ** 2
    peak = int(power.argmax())
    return peak * 8000 / samples.size, float(power[max(0, peak - 3) : peak + 4].sum() / max(power.sum(), 1e-9))
