# SPDX-License-Identifier: GPL-3.0-or-later
"""ITU-T P.56: the level of speech, without its pauses."""

from __future__ import annotations

import numpy as np
import pytest
from audio_signals import noise, prompt, tone

from gateway.audio.loudness import active_level
from gateway.audio.pcm import SILENCE_DBFS, to_float32

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 24000])
@pytest.mark.parametrize("dbfs", [-3.0, -19.0, -45.0])
def test_a_sine_has_its_own_level(rate_hz: int, dbfs: float) -> None:
    assert active_level(to_float32(tone(440, rate_hz, 2.0, dbfs)), rate_hz) == pytest.approx(dbfs, abs=0.2)


def test_pauses_do_not_count() -> None:
    burst = to_float32(tone(440, 8000, 1.0, -20.0))
    pause = np.zeros(8000, np.float32)
    talk = np.concatenate([part for _ in range(5) for part in (burst, pause)])
    assert active_level(talk, 8000) == pytest.approx(-20.0, abs=1.3)  # hangover and decay count, by the standard
    assert 20 * np.log10(np.sqrt(np.mean(talk**2))) == pytest.approx(-23.0, abs=0.1)


def test_noise_far_below_does_not_matter() -> None:
    speech = to_float32(prompt("vm-intro", -20.0))
    line = to_float32(noise(speech.size, -66.0))
    assert active_level(speech + line, 8000) == pytest.approx(active_level(speech, 8000), abs=0.1)


def test_a_gain_is_a_gain() -> None:
    speech = to_float32(prompt("vm-intro", -20.0))
    assert active_level(speech * np.float32(0.1), 8000) == pytest.approx(active_level(speech, 8000) - 20.0, abs=0.2)


@pytest.mark.parametrize("samples", [0, 1, 7, 8, 4000])
def test_silence_has_no_level(samples: int) -> None:
    assert active_level(np.zeros(samples, np.float32), 8000) == SILENCE_DBFS
