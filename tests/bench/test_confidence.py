# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.7: a temperature is found where it is known, and the report shows what it is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.synthetic import tone
from gateway.bench.confidence_bench import (
    Judged,
    calibrated,
    calibration,
    expected_error,
    fitted,
    log_odds_scaled,
    nll,
    noisy,
    powered,
    reliability,
)
from gateway.bench.corpus import Prompt

pytestmark = pytest.mark.unit


def world(temperature: float, count: int = 4000, seed: int = 1) -> list[Judged]:
    """Confidences that are right as often as ``powered`` with this temperature says."""
    chance = np.random.default_rng(seed)
    confidences = chance.uniform(0.3, 0.99, count)
    return [Judged(float(c), bool(chance.random() < powered(float(c), temperature))) for c in confidences]


@pytest.mark.parametrize("temperature", [0.15, 0.5, 1.0, 3.0])
def test_s1_7_the_temperature_of_a_known_world_is_found(temperature: float) -> None:
    assert fitted(world(temperature), powered) == pytest.approx(temperature, rel=0.1)


def test_s1_7_calibration_lowers_the_error_on_speech_it_was_not_fitted_on() -> None:
    found = calibration(world(0.2, seed=1), world(0.2, seed=2))
    assert found["ece_before"] > 0.2
    assert found["ece_after"] < 0.03
    assert found["nll_after"] < found["nll_before"]
    assert found["fitted_on"] == found["reported_on"] == 4000


def test_the_fit_is_the_least_of_its_neighbours() -> None:
    judged = world(0.4, 500)
    best = fitted(judged, log_odds_scaled)
    assert nll(judged, log_odds_scaled, best) <= min(
        nll(judged, log_odds_scaled, best * factor) for factor in (0.8, 0.95, 1.05, 1.25)
    )


@given(st.floats(0, 1), st.floats(0.05, 20))
def test_probabilities_stay_probabilities_and_keep_their_order(confidence: float, temperature: float) -> None:
    for form in (powered, log_odds_scaled):
        assert 0 <= form(confidence, temperature) <= 1
        assert form(min(1, confidence + 0.1), temperature) >= form(confidence, temperature)
        assert form(0.3, 1.0) == pytest.approx(0.3)


def test_bins_hold_everything_once_and_the_error_is_their_mean_distance() -> None:
    judged = [Judged(0.05, False), Judged(0.95, True), Judged(1.0, False), Judged(0.55, True)]
    table = reliability(judged)
    assert sum(one.count for one in table) == 4
    assert [(one.low, one.count, one.accuracy) for one in table] == [(0.0, 1, 0.0), (0.5, 1, 1.0), (0.9, 2, 0.5)]
    assert expected_error(judged) == pytest.approx((0.05 + 0.45 + 2 * 0.475) / 4)


def test_a_temperature_of_one_changes_nothing() -> None:
    judged = [Judged(0.5, True), Judged(0.9, False)]
    assert [one.confidence for one in calibrated(judged, powered, 1.0)] == [pytest.approx(0.5), pytest.approx(0.9)]


def test_what_is_always_right_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="some must be right"):
        calibration([Judged(0.9, True)] * 5, [Judged(0.9, True)])


@pytest.mark.parametrize("babble", [True, False])
@pytest.mark.parametrize("snr_db", [20.0, 0.0])
def test_noise_comes_at_the_ratio_that_was_asked_for(snr_db: float, babble: bool) -> None:
    prompt = Prompt("p", "p", tone(2000, amplitude=3000))
    others = [Prompt(str(hz), "p", tone(900, hz, amplitude=2000)) for hz in (300, 700, 1100)]
    clean = noisy(prompt, None, others, np.random.default_rng(1), over_voices=babble).astype(float)
    mixed = noisy(prompt, snr_db, others, np.random.default_rng(1), over_voices=babble).astype(float)
    speech = clean[2400:-2400]
    added = (mixed - clean)[2400:-2400]
    measured = 10 * np.log10(np.mean(speech**2) / np.mean(added**2))
    assert measured == pytest.approx(snr_db, abs=1.0)


def test_a_prompt_does_not_babble_over_itself() -> None:
    mine, other = Prompt("a", "a", tone(500, 440)), Prompt("b", "b", tone(500, 1000))
    clean = noisy(mine, None, [mine, other], np.random.default_rng(1), over_voices=True).astype(float)
    mixed = noisy(mine, 0.0, [mine, other], np.random.default_rng(1), over_voices=True).astype(float)
    spectrum = np.abs(np.fft.rfft((mixed - clean)[2400:-2400]))
    hz = np.fft.rfftfreq(mixed.size - 4800, 1 / 8000)
    assert spectrum[np.argmin(abs(hz - 1000))] > 20 * spectrum[np.argmin(abs(hz - 440))]
