# SPDX-License-Identifier: GPL-3.0-or-later
"""Finishing synthesized sound, without a voice."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.speech.engines.clip import LONGEST_PIECE, Sound, finished, limited, shortest_s, spoken, trimmed

pytestmark = pytest.mark.unit
RATE_HZ = 22_050


def voice(seconds: float, level: float = 0.1) -> Sound:
    time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    return (level * np.sin(2 * np.pi * 200 * time)).astype(np.float32)


def silence(seconds: float) -> Sound:
    return np.zeros(int(seconds * RATE_HZ), dtype=np.float32)


def samples_of(pcm: bytes) -> Sound:
    return (np.frombuffer(pcm, dtype="<i2") / 32767).astype(np.float32)


def test_silence_at_the_ends_is_cut() -> None:
    clip = trimmed(np.concatenate([silence(0.4), voice(1.0), silence(0.6)]), RATE_HZ)
    assert len(clip) / RATE_HZ == pytest.approx(1.0 + 0.02 + 0.12, abs=0.012)
    assert np.flatnonzero(np.abs(clip) > 0.01)[0] / RATE_HZ <= 0.03


@pytest.mark.parametrize("level", [0.004, 0.1, 0.9])
def test_loudness_is_one(level: float) -> None:
    clip = finished(np.concatenate([silence(0.2), voice(1.0, level)]), RATE_HZ)
    middle = clip[RATE_HZ // 4 : RATE_HZ // 2]
    assert 20 * np.log10(np.sqrt(np.mean(middle**2))) == pytest.approx(-19.0, abs=0.6)


def test_peaks_stay_below_minus_one_dbfs_and_quiet_samples_are_untouched() -> None:
    loud = np.linspace(-3, 3, 1000, dtype=np.float32)
    bent = limited(loud)
    assert np.abs(bent).max() <= 10 ** (-1 / 20) + 1e-6
    assert np.all(np.diff(bent) >= -1e-6)
    quiet = np.abs(loud) < 0.6
    assert np.array_equal(bent[quiet], loud[quiet])


@pytest.mark.parametrize("text", ["", "...", "😀", "​", "？", "你好"])
def test_i01_nothing_to_say_asks_no_engine(text: str) -> None:
    def never(piece: str) -> Sound:
        raise AssertionError(piece)

    assert spoken(text, language="en", rate_hz=RATE_HZ, voice="v", tempo=1.0, speak=never).pcm == b""


def test_i02_long_text_is_spoken_in_pieces() -> None:
    asked: list[str] = []

    def speak(piece: str) -> Sound:
        asked.append(piece)
        return voice(len(piece) / 15)

    text = "the quick brown fox jumps over the lazy dog, " * 12
    sound = spoken(text, language="en", rate_hz=RATE_HZ, voice="v", tempo=1.0, speak=speak)
    assert max(map(len, asked)) <= LONGEST_PIECE
    assert " ".join(asked) == text.strip()
    assert len(sound.pcm) / 2 / RATE_HZ >= len(text) / 15


def test_i02_a_clip_that_is_too_short_is_spoken_again_in_halves() -> None:
    asked: list[str] = []

    def forgetful(piece: str) -> Sound:
        asked.append(piece)
        return voice(min(len(piece) / 15, 1.0))  # drops what comes after one second

    text = "one two three four five six seven, eight nine ten eleven twelve thirteen"
    sound = spoken(text, language="en", rate_hz=RATE_HZ, voice="v", tempo=1.0, speak=forgetful)
    assert len(asked) > 1
    assert len(samples_of(sound.pcm)) / RATE_HZ >= shortest_s(text, "en", 1.0)


def test_i02_an_engine_that_never_speaks_enough_ends() -> None:
    calls = 0

    def mute(piece: str) -> Sound:
        nonlocal calls
        calls += 1
        return silence(0.1)

    assert (
        spoken(
            "many words that nobody hears " * 4, language="en", rate_hz=RATE_HZ, voice="v", tempo=1.0, speak=mute
        ).pcm
        == b""
    )
    assert calls < 40
