# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.5, A7: the sounds that the noise bench plays are what they are called, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest

from bench.synthetic import tone
from gateway.bench.noises import (
    NOT_SPEECH,
    UNDER_SPEECH,
    Wave,
    as_pcm,
    at_level,
    babble,
    cadence,
    dtmf,
    hum,
    in_steps,
    pink_noise,
)
from gateway.bench.sdp import RATE_HZ

pytestmark = pytest.mark.unit


def rms_dbfs(wave: Wave) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(wave**2)) / 32768))


def strongest_hz(wave: Wave, count: int) -> list[float]:
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(wave.size)))
    found = []
    for _ in range(count):
        peak = int(spectrum.argmax())
        found.append(peak * RATE_HZ / wave.size)
        spectrum[max(0, peak - 20) : peak + 21] = 0
    return sorted(found)


@pytest.mark.parametrize("name", sorted({*NOT_SPEECH, *UNDER_SPEECH}))
def test_a_sound_is_the_same_for_the_same_seed_and_fits_the_line(name: str) -> None:
    make = {**UNDER_SPEECH, **NOT_SPEECH}[name]
    for samples in (1, 159, 8 * RATE_HZ):
        wave = make(samples, np.random.default_rng(3))
        assert wave.shape == (samples,)
        assert np.isfinite(wave).all()
        assert (wave == make(samples, np.random.default_rng(3))).all()
    assert np.abs(as_pcm(at_level(wave, -20)).astype(int)).max() > (0 if name != "silence" else -1)


def test_levels_are_what_was_asked_for() -> None:
    wave = in_steps(pink_noise(6 * RATE_HZ, np.random.default_rng(1)), (-45.0, -15.0), step_s=2)
    parts = [rms_dbfs(part) for part in np.split(wave, 3)]
    assert parts == pytest.approx([-45, -15, -45], abs=1.5)


def test_pink_noise_falls_by_three_decibels_an_octave() -> None:
    power = np.abs(np.fft.rfft(pink_noise(80_000, np.random.default_rng(2)))) ** 2
    octaves = [10 * np.log10(np.mean(power[low : 2 * low])) for low in (500, 1000, 2000, 4000, 8000)]
    assert np.diff(octaves) == pytest.approx([-3] * 4, abs=1)


@pytest.mark.parametrize("mains_hz", [50.0, 60.0])
def test_hum_has_the_mains_and_its_harmonics(mains_hz: float) -> None:
    wave = hum(mains_hz)(4 * RATE_HZ, np.random.default_rng(1))
    assert strongest_hz(wave, 3) == pytest.approx([mains_hz, 2 * mains_hz, 3 * mains_hz], abs=1)


def test_a7_a_busy_tone_has_its_lines_and_its_cadence() -> None:
    wave = cadence(((480, 620),), (500, 500))(2 * RATE_HZ, np.random.default_rng(1))
    on, off, again, _ = np.split(wave, 4)
    assert strongest_hz(on, 2) == pytest.approx([480, 620], abs=4)
    assert not off.any() and again.any()


def test_a7_each_key_has_a_row_and_a_column() -> None:
    wave = dtmf(10 * RATE_HZ, np.random.default_rng(1))
    begin = int(np.flatnonzero(wave)[0])
    low, high = strongest_hz(wave[begin : begin + 480], 2)
    assert min(abs(low - row) for row in (697, 770, 852, 941)) < 17
    assert min(abs(high - column) for column in (1209, 1336, 1477)) < 17


def test_babble_is_made_of_all_its_voices_equally() -> None:
    loud, soft = tone(900, 400, amplitude=9000), tone(700, 1000, amplitude=300)
    wave = babble([loud, soft])(RATE_HZ, np.random.default_rng(1))
    spectrum = np.abs(np.fft.rfft(wave))
    assert 0.5 < spectrum[400] / spectrum[1000] < 2
