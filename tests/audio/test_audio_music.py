# SPDX-License-Identifier: GPL-3.0-or-later
"""A7, S1.21: music is found by its held notes; voices hold none, and are heard over it and behind it."""

from __future__ import annotations

import numpy as np
import pytest
from audio_signals import PROMPTS, Int16, g711, noise, prompt

from gateway.audio.music import STEP, MusicDetector
from gateway.audio.vad import VoiceDetector
from gateway.bench.noises import as_pcm, at_level, music, pink_noise

pytestmark = pytest.mark.unit

VOICES = ("agent-pass", "all-circuits-busy-now", "conf-getpin", "demo-congrats", "demo-thanks", "vm-intro")
recordings = pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")


def covered(pcm: Int16, frame: int = STEP) -> list[bool]:
    detector = MusicDetector()
    frames = [pcm[at : at + frame] for at in range(0, pcm.size - frame + 1, frame)]
    return [detector.feed(one.astype(np.float64)) for one in frames]


def heard(pcm: Int16) -> list[bool]:
    detector = VoiceDetector(8000)
    return [detector.feed(pcm[at : at + STEP].tobytes(), at).is_speech for at in range(0, pcm.size - STEP + 1, STEP)]


def hold_music(seconds: float, dbfs: float, seed: int = 1) -> Int16:
    return g711(as_pcm(at_level(music(round(seconds * 8000), np.random.default_rng(seed)), dbfs)))


@pytest.mark.parametrize("dbfs", [-40, -25, -12])
def test_a7_hold_music_is_found_within_two_seconds_and_kept(dbfs: int) -> None:
    found = covered(hold_music(20, dbfs))
    assert any(found[:100])
    assert np.mean(found[100:]) > 0.8


@recordings
@pytest.mark.parametrize("snr_db", [None, 10])
def test_s1_21_a_voice_is_never_music(snr_db: int | None) -> None:
    for index, name in enumerate(VOICES):
        pcm = prompt(name, -25)
        if snr_db is not None:
            hiss = at_level(pink_noise(pcm.size, np.random.default_rng(index)), -25 - snr_db)
            pcm = as_pcm(pcm + hiss)
        assert not any(covered(g711(pcm))), name


def test_noise_is_not_music() -> None:
    assert not any(covered(noise(80_000, -25)))
    assert not any(covered(as_pcm(at_level(pink_noise(80_000, np.random.default_rng(1)), -25))))


@recordings
@pytest.mark.parametrize("pause_ms", [0, 240])
def test_a_voice_behind_music_is_heard_from_its_beginning(pause_ms: int) -> None:
    """Within the end-pointer's 300 ms of pre-roll."""
    before = hold_music(8, -25)
    voice = prompt("demo-congrats", -19)
    rest = noise(pause_ms * 8, -66)
    begin = int(np.flatnonzero(np.abs(voice) > 184)[0])
    speech = heard(g711(np.concatenate([before, rest, voice[begin:]])))
    first = speech.index(True, (before.size + rest.size) // STEP)
    assert (first - (before.size + rest.size) // STEP) * 20 < 300


@recordings
def test_a_voice_over_music_is_heard() -> None:
    voice = np.concatenate([np.zeros(32_000, np.int16), prompt("demo-congrats", -20)[:48_000]])
    alone = heard(g711(voice))
    over = heard(g711(as_pcm(voice + at_level(music(voice.size, np.random.default_rng(2)), -30))))
    assert sum(over[200:]) > 0.8 * sum(alone[200:]) > 100


def test_frames_of_ten_and_twenty_ms_find_the_same_music() -> None:
    pcm = hold_music(10, -25)
    shares = [np.mean(covered(pcm, frame)) for frame in (80, 160)]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_what_cannot_be_heard_is_not_music() -> None:
    detector = MusicDetector()
    pcm = hold_music(5, -25)
    frames = [pcm[at : at + STEP].astype(np.float64) for at in range(0, pcm.size - STEP + 1, STEP)]
    assert not any(detector.feed(frame, audible=False) for frame in frames)
