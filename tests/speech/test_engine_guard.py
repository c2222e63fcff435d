# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence against invented text, without a model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.speech.engines import whisper_guard as guard

pytestmark = pytest.mark.unit
RATE_HZ = 16_000


def tone(*frequencies_hz: float, seconds: float = 2.0, level: float = 0.2) -> guard.Samples:
    time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    tones = [np.sin(2 * np.pi * f * time) for f in frequencies_hz]
    return np.asarray(level * np.sum(tones, axis=0), dtype="float32")


def speech_like(level: float = 0.2) -> guard.Samples:
    """A gliding buzz with the rhythm of syllables."""
    time = np.arange(2 * RATE_HZ) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(120 + 40 * np.sin(2 * np.pi * 0.7 * time)) / RATE_HZ
    buzz = sum(np.sin(n * phase) / n for n in range(1, 20))
    return (level * buzz * np.sin(np.pi * 3 * time) ** 2).astype(np.float32)


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(RATE_HZ, np.float32),
        np.zeros(0, np.float32),
        np.random.default_rng(1).normal(0, 0.1, 2 * RATE_HZ).astype(np.float32),
        np.random.default_rng(1).normal(0, 0.0005, 2 * RATE_HZ).astype(np.float32),
        tone(50, 100, 150),
        tone(350, 440),
        tone(1000) * (np.arange(2 * RATE_HZ) % RATE_HZ < RATE_HZ // 2),
        tone(770, 1336) * (np.arange(2 * RATE_HZ) % 3200 < 1600),
    ],
    ids=["zeros", "empty", "noise", "comfort-noise", "hum", "dial", "busy", "dtmf"],
)
def test_b11_no_speech_by_its_sound(samples: guard.Samples) -> None:
    assert guard.portrait(samples.astype(np.float32), RATE_HZ).speechless


@pytest.mark.parametrize("level", [0.3, 0.05, 0.01])
def test_speech_like_sound_passes(level: float) -> None:
    assert not guard.portrait(speech_like(level), RATE_HZ).speechless


@pytest.mark.parametrize(
    ("language", "text", "kept"),
    [
        ("en", "you have success. " * 6, "you have success."),
        ("en", "and so on and so on and so on and so on", "and so on"),
        ("pt", "Se me der um pouco, " * 5, "Se me der um pouco"),
        ("zh", "谢谢观看" * 5, "谢谢观看"),
        ("en", "M-m-m-m-m-m-m-m-m-m-", "M"),
    ],
)
def test_f02_a_loop_is_cut_to_its_first_round(language: str, text: str, kept: str) -> None:
    assert guard.cut_loop(text, language) == (kept, True)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "no no no"),
        ("en", "No, no, no, no."),
        ("en", "five five, seven seven seven"),
        ("en", "0 0 0 0 0 0 0 0 0"),
        ("zh", "不不不"),
        ("pt", "muito muito muito bom"),
        ("en", "and so on and so on and so on"),
        ("en", "hello hello, can you hear me? can you hear me?"),
    ],
)
def test_f05_real_repeats_survive(language: str, text: str) -> None:
    assert guard.cut_loop(text, language) == (text, False)


@given(st.lists(st.sampled_from(["a", "bo", "cat", "7", "!", "dê"]), max_size=40))
@settings(max_examples=150)
def test_cutting_a_loop_only_shortens(words: list[str]) -> None:
    text = " ".join(words)
    kept, looped = guard.cut_loop(text, "en")
    assert text.startswith(kept)
    assert looped or kept == text


def portrait_of(peak_dbfs: float = -20.0, active_s: float = 1.0) -> guard.SoundPortrait:
    return guard.SoundPortrait(2.0, peak_dbfs, 30.0, active_s, tonal=False)


def test_f01_credits_go_whatever_the_confidence() -> None:
    for text in (
        "Subtitles by the Amara.org community",
        "Legendas pela comunidade Amara.org",
        "由Amara.org社区提供的字幕",
    ):
        assert guard.rejection(text, portrait_of(), 0.0, -0.05) == "boiler-plate"


def test_f01_thank_you_survives_when_it_was_said() -> None:
    assert guard.rejection("Thank you.", portrait_of(), 0.05, -0.3) is None
    assert guard.rejection("Thank you.", portrait_of(), 0.35, -0.3) == "boiler-plate"
    assert guard.rejection("Thank you.", portrait_of(peak_dbfs=-50.0), 0.05, -0.3) == "boiler-plate"
    assert guard.rejection("Thank you for your help.", portrait_of(), 0.35, -0.5) is None


def test_b11_confident_no_speech_is_rejected() -> None:
    assert guard.rejection("I'm falling right out", portrait_of(), 0.6, -0.9) == "no-speech"
    assert guard.rejection("Press one.", portrait_of(), 0.28, -0.4) is None


def test_f02_speech_rate() -> None:
    assert guard.too_fast("word " * 40, "en", active_s=1.0)
    assert not guard.too_fast("yes please do", "en", active_s=0.3)
    assert guard.too_fast("字" * 40, "zh", active_s=1.0)


def test_g05_two_decodings_of_one_utterance_are_alike() -> None:
    assert guard.similarity("Take on Brazil before lunch.", "take omeprazole before lunch") > 70
    assert guard.similarity("Take on Brazil before lunch.", "Omeprazole, Kowalczyk, Itaú") < 50


def test_a_phrase_twice_is_worth_a_second_look() -> None:
    assert guard.repeats_phrase("Follow by the town key. Follow by the town key. Follow", "en")
    assert not guard.repeats_phrase("no no no five five", "en")


def test_g05_a_mentioned_hotword() -> None:
    assert guard.mentions("Call Mr. Kowalczyk, please", ("Itaú", "kowalczyk"))
    assert not guard.mentions("Police Press 1", ("press one", ""))
