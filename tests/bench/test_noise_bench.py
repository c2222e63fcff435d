# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.5, A7: noise comes at the ratio that was asked for, and what a detector loses is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.synthetic import tone
from gateway.bench.corpus import Line, Placed
from gateway.bench.noise_bench import missed, not_speech, opened, recorded, under_noise
from gateway.bench.noises import NOT_SPEECH, white_noise
from gateway.settings import load_settings
from gateway.stream.events import Span

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("snr_db", [20.0, 0.0])
def test_s1_5_noise_comes_at_its_ratio_to_the_speech(snr_db: float) -> None:
    line = Line(np.concatenate([tone(1000, amplitude=4000), np.zeros(8000, np.int16)]), ())
    clean = under_noise(line, None, 0.0, np.random.default_rng(1)).pcm.astype(float)
    noise = under_noise(line, white_noise, snr_db, np.random.default_rng(1)).pcm[8000:].astype(float)
    ratio_db = 10 * np.log10(np.mean(clean[:8000] ** 2) / np.mean(noise**2))
    assert ratio_db == pytest.approx(snr_db, abs=1.0)


def test_what_is_not_opened_or_opened_late_is_counted() -> None:
    placed = [Placed(str(at), "a", at, at + 7999) for at in (0, 20_000, 40_000, 60_000)]
    spans = [Span(0, 8000, 0), Span(21_000, 30_000, 0), Span(40_000, 43_000, 0)]
    assert missed(placed, spans) == (2, 1)
    assert missed(placed[:1], [Span(0, 3000, 0), Span(3500, 8000, 0)]) == (0, 0)


@pytest.mark.parametrize("name", sorted(set(NOT_SPEECH) - {"music", "street", "clicks"}))
def test_a7_e08_most_sounds_of_a_line_open_nothing(name: str) -> None:
    assert opened(not_speech(name, 60.0, 1), load_settings(None, {})) == []  # each level once


@pytest.mark.parametrize(("name", "most"), [("music", 12), ("street", 6), ("clicks", 6)])
def test_a7_e08_music_horns_and_knocks_open_little(name: str, most: int) -> None:
    assert len(opened(not_speech(name, 30.0, 1), load_settings(None, {}))) <= most


def test_a_recording_is_brought_to_the_line(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "hold.wav", np.stack([np.ones(48_000), np.zeros(48_000)], axis=1) * 0.1, 16_000)
    pcm = recorded(tmp_path / "hold.wav", 2.0)
    assert pcm.size == pytest.approx(16_000, abs=1)
    assert abs(int(np.median(pcm)) - 3277) < 120
    with pytest.raises(ValueError, match="missing"):
        recorded(tmp_path / "missing.wav", 1.0)
