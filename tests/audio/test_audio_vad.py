# SPDX-License-Identifier: GPL-3.0-or-later
"""E02, E03, E08, A7: voices on a telephone line are kept; tones, hum, clicks and noise are not voices."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import structlog
from audio_signals import PROMPTS, Int16, g711, noise, prompt, tone

from gateway.audio.pcm import level_dbfs
from gateway.audio.vad import VoiceDetector, self_test
from gateway.bench.noises import UNDER_SPEECH, as_pcm, at_level

pytestmark = pytest.mark.unit

NAMES = ("agent-pass", "all-circuits-busy-now", "auth-incorrect", "conf-getpin", "demo-congrats", "demo-thanks")


def test_e12_the_detector_needs_no_part_of_setuptools() -> None:
    """The package's first edition imports pkg_resources, which newer environments do not have."""
    look = "import sys; sys.modules['pkg_resources'] = None; import gateway.audio.vad, webrtcvad; print(webrtcvad.Vad)"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


def verdicts(pcm: Int16, detector: VoiceDetector | None = None) -> list[bool]:
    detector = detector or VoiceDetector(8000)
    size = detector.frame_samples
    return [detector.feed(pcm[at : at + size].tobytes(), at).is_speech for at in range(0, pcm.size - size + 1, size)]


def starts_an_utterance(speech: list[bool]) -> bool:
    """3 of 5 frames: the end-pointer's default."""
    return any(sum(speech[at : at + 5]) >= 3 for at in range(len(speech)))


def in_bursts(pcm: Int16, on_ms: int, off_ms: int) -> Int16:
    at = np.arange(pcm.size) - 77  # not on a frame's border
    return np.where((at >= 0) & (at % ((on_ms + off_ms) * 8) < on_ms * 8), pcm, 0).astype(np.int16)


@pytest.mark.parametrize(("seconds", "alarms"), [(9, 0), (25, 2)])
def test_e06_a_detector_that_throws_most_of_the_sound_away_says_so(seconds: int, alarms: int) -> None:
    detector = VoiceDetector(8000)
    with structlog.testing.capture_logs() as logs:
        verdicts(noise(seconds * 8000, -20), detector)  # loud noise is speech to WebRTC's detector, and has no pitch
    assert detector.statistics()["kept_share"] < 0.05
    assert [line["event"] for line in logs] == ["voice_mostly_refused"] * alarms
    assert all(line["unvoiced"] > 400 for line in logs)


@pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")
def test_e06_speech_raises_no_alarm() -> None:
    detector = VoiceDetector(8000)
    with structlog.testing.capture_logs() as logs:
        for name in NAMES:
            verdicts(prompt(name, -30), detector)
    assert detector.statistics()["kept_share"] > 0.6
    assert logs == []


@pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")
def test_e03_quiet_phone_speech_is_kept() -> None:
    voiced = kept = 0
    for name in NAMES:
        if not (PROMPTS / f"{name}.wav").exists():
            continue
        pcm = g711(np.concatenate([np.zeros(4000, np.int16), prompt(name, -30)]))
        speech = verdicts(pcm)
        # ITU-T P.56: active is what lies within 15.9 dB of the active level
        active = [level_dbfs(pcm[at : at + 160]) > -45.9 for at in range(0, pcm.size - 159, 160)]
        voiced += sum(active)
        kept += sum(a and s for a, s in zip(active, speech, strict=True))
    assert voiced > 300
    assert kept / voiced >= 0.95


@pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")
def test_e03_a_dc_offset_of_17_percent_does_not_deafen() -> None:
    clean = verdicts(prompt("agent-pass", -30))
    shifted = verdicts((prompt("agent-pass", -30) + 5500).clip(-32768, 32767).astype(np.int16))
    assert sum(shifted) >= 0.95 * sum(clean) > 0


@pytest.mark.parametrize("dbfs", [-10, -20, -35])
@pytest.mark.parametrize(
    "hz",
    [(440, 480), (480, 620), (400, 450), (350, 440), (425,), (1000,), (2100,), (697, 1209), (770, 1336), (941, 1477)],
)
def test_a7_call_progress_tones_and_dtmf_are_not_speech(hz: tuple[float, ...], dbfs: int) -> None:
    rest = noise(32_000, -68)
    for on_ms, off_ms in ((4000, 0), (500, 500), (250, 250), (100, 100)):
        pcm = g711((in_bursts(tone(hz, 8000, 4.0, dbfs), on_ms, off_ms) + rest).astype(np.int16))
        assert not starts_an_utterance(verdicts(pcm)), (on_ms, off_ms)


@pytest.mark.parametrize("mains_hz", [50, 60])
def test_e08_hum_is_not_speech(mains_hz: int) -> None:
    for lines in ([1], [1, 2, 3], [1, 2, 3, 4, 5], [1, 3, 5, 7]):
        pcm = g711(tone([mains_hz * line for line in lines], 8000, 4.0, -25))
        assert not starts_an_utterance(verdicts(pcm)), lines


def test_e08_noise_is_not_speech_at_any_level() -> None:
    spectrum = np.fft.rfft(noise(32_000, -20).astype(np.float64))
    spectrum[1:] /= np.sqrt(np.arange(1, spectrum.size))
    pink = np.fft.irfft(spectrum)
    for dbfs in (-15, -30, -45):
        white = noise(32_000, dbfs)
        assert not starts_an_utterance(verdicts(white))
        scaled = (pink / pink.std() * 32768 * 10 ** (dbfs / 20)).clip(-32768, 32767).astype(np.int16)
        assert not starts_an_utterance(verdicts(scaled))


def test_e08_clicks_and_knocks_are_not_speech() -> None:
    at = np.arange(800)
    rng = np.random.default_rng(5)
    knock = 15000 * np.exp(-at / 120) * np.sin(2 * np.pi * 180 * at / 8000) + 3000 * np.exp(-at / 60) * rng.normal(
        size=800
    )
    for sound in (np.full(8, 20000.0), knock, 3000 * rng.normal(size=800)):
        pcm = np.zeros(32_000)
        for start in range(77, 31_000, 4000):
            pcm[start : start + sound.size] = sound
        assert not starts_an_utterance(verdicts(pcm.clip(-32768, 32767).astype(np.int16)))


@pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")
@pytest.mark.parametrize(("sound", "snr_db"), [("white", 5), ("white", 0), ("pink", 5), ("hum-50", 0), ("street", 5)])
def test_s1_5_a_voice_under_noise_is_heard(sound: str, snr_db: int) -> None:
    voice = np.concatenate([np.zeros(24_000, np.int16), prompt("demo-congrats", -20)[:64_000]])
    under = at_level(UNDER_SPEECH[sound](voice.size, np.random.default_rng(1)), -20 - snr_db)
    alone, heard = verdicts(g711(voice)), verdicts(g711(as_pcm(voice + under)))
    assert not starts_an_utterance(heard[:140])
    both = sum(a and b for a, b in zip(alone[150:], heard[150:], strict=True))
    assert both > 0.6 * sum(alone[150:]) > 100


@pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")
def test_speech_after_a_long_noise_and_after_a_tone_is_heard() -> None:
    speech = prompt("demo-congrats", -25)[:32_000]
    before = np.concatenate([noise(80_000, -48), in_bursts(tone(425, 8000, 4.0, -20), 500, 500)])
    heard = verdicts(np.concatenate([before, speech]))[before.size // 160 :]
    assert sum(heard) >= 0.9 * sum(verdicts(speech)) > 50


@pytest.mark.parametrize("rate_hz", [8000, 16000, 48000])
@pytest.mark.parametrize("frame_ms", [10, 20, 30])
def test_e02_the_canary_is_heard_at_every_rate(rate_hz: int, frame_ms: int) -> None:
    assert self_test(rate_hz, frame_ms)


def test_e02_a_wrong_frame_alarms_and_does_not_raise() -> None:
    detector = VoiceDetector(8000)
    assert detector.healthy
    verdict = detector.feed(bytes(112), 0)  # a 7 ms tail
    assert not verdict.is_speech and verdict.samples == 56
    assert not detector.healthy and detector.statistics()["errors"] == 1
    verdicts(np.zeros(160 * 250, np.int16), detector)
    assert detector.healthy
    assert detector.statistics()["errors"] == 1  # the count stays


def test_e02_impossible_settings_are_refused() -> None:
    for rate_hz, frame_ms in ((11025, 20), (8000, 25), (44100, 20)):
        with pytest.raises(ValueError, match="voice detection"):
            VoiceDetector(rate_hz, frame_ms)


def test_positions_and_levels_are_told() -> None:
    verdict = VoiceDetector(8000).feed(tone(1000, 8000, 0.02, -20).tobytes(), 4711)
    assert (verdict.first_sample, verdict.samples, verdict.end_sample) == (4711, 160, 4871)
    assert verdict.level_dbfs == pytest.approx(-20, abs=0.5)


def test_the_same_sound_gives_the_same_verdicts() -> None:
    pcm = noise(8000, -20)
    assert verdicts(pcm) == verdicts(pcm)
