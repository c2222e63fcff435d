# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.26: how far a leg's speech stands out of its noise, and when nobody can say."""

from __future__ import annotations

import numpy as np
import pytest
from audio_signals import PROMPTS, Int16, g711, noise, prompt, tone

from gateway.audio.frames import frame_samples
from gateway.audio.loudness import active_level
from gateway.audio.pcm import level_dbfs
from gateway.audio.snr import SnrMeter
from gateway.audio.vad import VoiceDetector
from gateway.stream.events import VoiceFrame

pytestmark = pytest.mark.unit

RATE_HZ = 8000
FRAME = 160


class Leg:
    """A leg whose sound and verdicts are laid out by the test."""

    def __init__(self, rate_hz: int = RATE_HZ) -> None:
        self.meter = SnrMeter(rate_hz)
        self.frame = frame_samples(rate_hz, 20)
        self.at = 0

    def hear(self, pcm: Int16, *, speech: bool) -> None:
        for first in range(0, pcm.size - self.frame + 1, self.frame):
            frame = pcm[first : first + self.frame]
            self.meter.feed(frame.tobytes(), VoiceFrame(self.at, self.frame, speech, level_dbfs(frame)))
            self.at += self.frame

    @property
    def snr_db(self) -> float | None:
        return self.meter.statistics()["snr_db"]


def hum(seconds: float, dbfs: float, seed: int = 7) -> Int16:
    return noise(round(seconds * RATE_HZ), dbfs, seed)


def test_nothing_is_said_before_there_is_enough_of_both() -> None:
    leg = Leg()
    leg.hear(hum(5, -40), speech=False)
    assert leg.snr_db is None, "no speech yet"
    leg.hear(tone(1000, RATE_HZ, 0.4, -20), speech=True)
    assert leg.snr_db is None, "a syllable is not enough"
    leg.hear(tone(1000, RATE_HZ, 0.2, -20), speech=True)
    # of white noise the band between 300 and 3400 Hz has 3100 Hz of 4000: -1.1 dB
    assert leg.snr_db == pytest.approx(21.1, abs=1.5)


@pytest.mark.parametrize("true_db", [0, 5, 10, 20])
def test_the_ratio_is_right_within_two_db_in_steady_noise(true_db: int) -> None:
    leg = Leg()
    for turn in range(4):
        around = hum(2, -25, turn)
        words = tone(1000, RATE_HZ, 1, -25 - 1.1 + true_db).astype(np.int32) + hum(1, -25, turn + 50)
        leg.hear(around, speech=False)
        leg.hear(words.clip(-32768, 32767).astype(np.int16), speech=True)
    assert leg.snr_db == pytest.approx(true_db, abs=2)


def test_hum_and_rumble_below_the_telephone_band_are_no_noise() -> None:
    leg = Leg()
    mains = tone([50, 100], RATE_HZ, 3, -25).astype(np.int32)
    leg.hear((mains + hum(3, -60)).astype(np.int16), speech=False)
    leg.hear((mains[:8000] + tone(1000, RATE_HZ, 1, -25)).astype(np.int16), speech=True)
    assert (leg.snr_db or 0) > 30


def test_digital_silence_is_no_quiet_room() -> None:
    leg = Leg()
    nothing = np.zeros(3 * RATE_HZ, np.int16)
    for turn in range(3):
        leg.hear(nothing, speech=False)
        leg.hear(tone(1000, RATE_HZ, 0.3, -20), speech=True)
        assert leg.snr_db is None, turn
    leg.hear(hum(2, -30), speech=False)
    assert leg.snr_db == pytest.approx(11, abs=2), "the noise that was sent counts"


def test_a_step_of_the_noise_is_seen_while_the_party_listens() -> None:
    leg = Leg()
    leg.hear(tone(1000, RATE_HZ, 2, -20), speech=True)
    leg.hear(hum(3, -50), speech=False)
    assert (leg.snr_db or 0) > 29
    leg.hear(hum(0.4, -25), speech=False)
    assert (leg.snr_db or 0) > 29, "a door that slams is not the noise of the place"
    leg.hear(hum(2.2, -25), speech=False)
    assert leg.snr_db == pytest.approx(6, abs=2)
    leg.hear(hum(1.0, -50), speech=False)
    assert (leg.snr_db or 0) > 25, "it is over soon after it is over"


def test_an_automatic_gain_that_lifts_the_pauses_is_not_taken_for_noise_under_the_words() -> None:
    leg = Leg()
    for turn in range(4):
        leg.hear(tone(1000, RATE_HZ, 1, -20), speech=True)
        for step in range(10):  # the gain creeps up by 15 dB in the pause, and falls back with the first word
            leg.hear(hum(0.1, -50 + 1.5 * step, turn * 10 + step), speech=False)
    assert (leg.snr_db or 0) > 25


def test_a_talker_who_never_pauses_is_measured_by_the_dips_of_the_speech() -> None:
    leg = Leg()
    for turn in range(20):
        leg.hear((tone(800, RATE_HZ, 0.24, -20) + hum(0.24, -40, turn)).astype(np.int16), speech=True)
        leg.hear(hum(0.06, -40, turn + 50), speech=True)
    assert leg.snr_db == pytest.approx(21, abs=3)


def test_after_a_minute_of_silence_nobody_knows() -> None:
    leg = Leg()
    leg.hear(tone(1000, RATE_HZ, 1, -20), speech=True)
    leg.hear(hum(55, -40), speech=False)
    assert leg.snr_db is not None
    leg.hear(hum(6, -40), speech=False)
    assert leg.snr_db is None


def test_music_is_no_noise() -> None:
    leg = Leg()
    leg.hear(tone(1000, RATE_HZ, 2, -20), speech=True)
    leg.hear(hum(3, -50), speech=False)
    loud = hum(0.02, -20)
    for _ in range(500):  # ten seconds of which every fourth frame is known for music
        for music in (True, False, False, False):
            leg.meter.feed(loud.tobytes(), VoiceFrame(leg.at, FRAME, False, -20.0, is_music=music))
            leg.at += FRAME
        assert leg.snr_db is None
    leg.hear(hum(4.6, -50), speech=False)
    assert (leg.snr_db or 0) > 29, "and it leaves nothing behind"


def test_it_measures_the_same_band_at_16_khz() -> None:
    leg = Leg(16000)
    leg.hear(noise(32000, -40), speech=False)
    leg.hear(tone(1000, 16000, 1, -20), speech=True)
    assert leg.snr_db == pytest.approx(20 + 4.1, abs=1.5), "3100 Hz of 8000"


def test_a_frame_of_another_length_is_left_out() -> None:
    meter = SnrMeter(RATE_HZ)
    for at in range(200):
        meter.feed(b"\x10\x00" * 80, VoiceFrame(at * 80, 80, at % 2 == 0, -30.0))
    assert meter.ratio() is None


@pytest.mark.skipif(not PROMPTS.exists(), reason="needs Debian's asterisk-core-sounds-en-wav")
def test_human_speech_clean_quiet_and_in_noise() -> None:
    words = [prompt(name, -20) for name in ("agent-pass", "all-circuits-busy-now", "auth-incorrect", "conf-getpin")]
    line = np.concatenate([np.concatenate((np.zeros(4000, np.int16), each)) for each in words]).astype(np.float64)
    line *= 10 ** (-active_level((line / 32768).astype(np.float32), RATE_HZ) / 20)

    def measured(level_dbfs: float, true_db: float) -> float:
        sound = line * 10 ** (level_dbfs / 20) + noise(line.size, level_dbfs - true_db)
        pcm = g711(sound.clip(-32768, 32767).astype(np.int16))
        detector, meter = VoiceDetector(RATE_HZ), SnrMeter(RATE_HZ)
        for at in range(0, pcm.size - FRAME + 1, FRAME):
            frame = pcm[at : at + FRAME].tobytes()
            meter.feed(frame, detector.feed(frame, at))
        ratio = meter.ratio()
        assert ratio is not None
        return ratio.snr_db

    assert measured(-20, 60) > 25
    assert measured(-38, 60) > 20, "a soft voice on a quiet line is no noisy one"
    assert measured(-20, 5) == pytest.approx(5, abs=3)
    assert measured(-20, 15) == pytest.approx(15, abs=3)
