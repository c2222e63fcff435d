# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.3: pitch, speed and likeness are measured right where they are known."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.audio.pcm import Int16
from gateway.bench.prosody import contour, distance

pytestmark = pytest.mark.unit

RATE_HZ = 8000


def sung(hz: np.ndarray[tuple[int], np.dtype[np.float64]], dbfs: float = -20.0) -> Int16:
    """A buzz whose pitch follows ``hz`` sample by sample."""
    phase = 2 * np.pi * np.cumsum(hz) / RATE_HZ
    wave = sum(np.sin(n * phase) / n for n in range(1, 12))
    return np.asarray(wave / np.std(wave) * 32768 * 10 ** (dbfs / 20)).clip(-32768, 32767).astype(np.int16)


def steps(*hz: float, seconds: float = 1.0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.repeat(np.array(hz, dtype=np.float64), round(seconds * RATE_HZ / len(hz)))


@pytest.mark.parametrize("hz", [75.0, 110.0, 220.0, 350.0])
def test_a_steady_pitch_has_no_melody(hz: float) -> None:
    how = contour(sung(steps(hz)), RATE_HZ)
    assert np.nanmax(np.abs(how.semitones)) < 0.3
    assert np.isfinite(how.semitones).mean() > 0.95


def test_an_octave_is_twelve_semitones() -> None:
    how = contour(sung(steps(100.0, 200.0)), RATE_HZ)
    inner = how.semitones[np.isfinite(how.semitones)]
    assert np.percentile(inner, 90) - np.percentile(inner, 10) == pytest.approx(12.0, abs=0.4)


def test_pauses_do_not_count_as_speech() -> None:
    half = sung(steps(120.0, seconds=0.5))
    how = contour(np.concatenate([half, np.zeros(RATE_HZ // 2, np.int16), half]), RATE_HZ)
    assert how.speech_s == pytest.approx(1.0, abs=0.1)


def test_likeness_is_of_the_melody_not_of_voice_speed_or_level() -> None:
    rising, falling = (90.0, 100.0, 120.0, 150.0), (150.0, 120.0, 100.0, 90.0)
    one = contour(sung(steps(*rising)), RATE_HZ)
    higher_slower_softer = contour(sung(steps(*(2 * hz for hz in rising), seconds=1.4), -32.0), RATE_HZ)
    other = contour(sung(steps(*falling)), RATE_HZ)
    assert distance(one, one) == 0
    assert distance(one, higher_slower_softer) < 0.3 * distance(one, other)


@pytest.mark.parametrize("pcm", [np.zeros(10, np.int16), np.zeros(8000, np.int16)])
def test_what_has_no_melody_is_refused(pcm: Int16) -> None:
    with pytest.raises(ValueError, match=r"short|voiced"):
        contour(pcm, RATE_HZ)
