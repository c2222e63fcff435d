# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals that the tests of this room listen to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

Int16 = NDArray[np.int16]
ODD_SIZES = (1, 17, 509)
# Debian asterisk-core-sounds-en-wav: human telephone prompts at 8 kHz
PROMPTS = Path("/usr/share/asterisk/sounds/en_US_f_Allison")


def pieces(pcm: Int16, size: int) -> list[Int16]:
    return [pcm[at : at + size] for at in range(0, pcm.size, size)]


def tone(hz: Sequence[float] | float, rate_hz: int, seconds: float, dbfs: float = -20.0) -> Int16:
    """One or more sines of equal strength, together at ``dbfs`` RMS."""
    lines = [hz] if isinstance(hz, int | float) else list(hz)
    at = np.arange(round(rate_hz * seconds)) / rate_hz
    wave = np.sum([np.sin(2 * np.pi * line * at + index) for index, line in enumerate(lines)], axis=0)
    return (wave * 32768 * 10 ** (dbfs / 20) / np.sqrt(len(lines) / 2)).astype(np.int16)


def noise(count: int, dbfs: float, seed: int = 7) -> Int16:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(count) * 32768 * 10 ** (dbfs / 20)).clip(-32768, 32767).astype(np.int16)


def g711(pcm: Int16) -> Int16:
    """There and back through a mu-law of 8 bits (the continuous law, ITU-T G.711)."""
    x = pcm / 32768.0
    code = np.round(np.sign(x) * np.log1p(255 * np.abs(x)) / np.log1p(255) * 127) / 127
    back = np.sign(code) * (256 ** np.abs(code) - 1) / 255
    return (back * 32768).clip(-32768, 32767).astype(np.int16)


def strongest_hz(pcm: Int16, rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(pcm.size)))
    return float(np.argmax(spectrum[1:]) + 1) * rate_hz / pcm.size


def rms_db(pcm: NDArray[np.generic]) -> float:
    return float(10 * np.log10(np.mean(pcm.astype(np.float64) ** 2) + 1e-12))


def prompt(name: str, dbfs: float) -> Int16:
    """A human prompt brought to an active level of ``dbfs``."""
    pcm, rate_hz = soundfile.read(PROMPTS / f"{name}.wav", dtype="int16")
    assert rate_hz == 8000
    frames = pcm[: pcm.size // 160 * 160].reshape(-1, 160).astype(np.float64)
    powers = (frames**2).mean(axis=1)
    active = powers[powers > powers.max() * 0.01].mean()
    return (pcm * (32768 * 10 ** (dbfs / 20) / np.sqrt(active))).clip(-32768, 32767).astype(np.int16)
