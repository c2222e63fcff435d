# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.12, S1.25: styles are data, and a variation is small and repeatable."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.delivery import PITCH_VARIES, TEMPO_VARIES, Delivery, StyleError, load_delivery, shipped_styles
from gateway.call.plan import DirectionPlan

pytestmark = pytest.mark.unit


def written(folder: Path, text: str) -> Path:
    path = folder / "styles.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("style", ["formal", "friendly", "urgent"])
@pytest.mark.parametrize("voice", ["piper:piper-en_US-joe-medium", "kokoro:kokoro-82m-int8:jm_kumo"])
def test_s1_12_the_shipped_styles_differ_from_the_voices_own_way(style: str, voice: str) -> None:
    own = load_delivery(shipped_styles(), "neutral", voice)
    assert own == Delivery(pace=own.pace), "neutral is the voice's own way"
    assert load_delivery(shipped_styles(), style, voice) != own


def test_s1_12_a_voice_may_have_values_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, "styles: {calm: {tempo: 0.9, pitch: 0.98}}\nvoices: {'x:y': {calm: {tempo: 0.95}}}")
    assert load_delivery(path, "calm", "x:y") == Delivery(tempo=0.95, pitch=0.98)
    assert load_delivery(path, "calm", "x:z") == Delivery(tempo=0.9, pitch=0.98)


def test_b5_a_slow_voices_pace_holds_in_every_style(tmp_path: Path) -> None:
    path = written(tmp_path, "styles: {calm: {}, quick: {tempo: 1.1}}\nvoices: {'x:y': {every: {pace: 1.15}}}")
    assert load_delivery(path, "calm", "x:y") == Delivery(pace=1.15)
    assert load_delivery(path, "quick", "x:y") == Delivery(tempo=1.1, pace=1.15)
    assert load_delivery(path, "quick", "x:z").pace == 1.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("styles: {calm: {tempo: 3}}", "0.8 to 1.25"),
        ("styles: {calm: {pace: 1.5}}", "1 to 1.2"),
        ("styles: {calm: {speed: 1}}", "speed"),
        ("styles: {calm: {tempo: fast}}", "numbers"),
        ("styles: {loud: {}}", "there are loud"),
        ("styles: []", "map of styles"),
        ("{", "cannot be read"),
    ],
)
def test_a_bad_styles_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(StyleError, match=says):
        load_delivery(written(tmp_path, text), "calm", "x:y")


@given(st.integers(0, 10**9))
def test_s1_25_a_variation_is_small_and_the_same_for_the_same_utterance(key: int) -> None:
    varied = Delivery().varied(key)
    assert varied == Delivery().varied(key)
    assert abs(varied.tempo - 1) <= TEMPO_VARIES + 1e-4 and abs(varied.pitch - 1) <= PITCH_VARIES + 1e-4
    assert Delivery(tempo=1.25, pitch=1.1).varied(key).tempo <= 1.25


def test_s1_25_it_can_be_switched() -> None:
    steady, varying = DirectionPlan(1, "xx", "yy"), DirectionPlan(1, "xx", "yy", varies=True)
    assert steady.for_utterance(7) is steady
    assert varying.for_utterance(7).delivery != varying.for_utterance(8).delivery
