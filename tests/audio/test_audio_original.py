# SPDX-License-Identifier: GPL-3.0-or-later
"""A9: the talker's own voice sinks under translated speech and comes back after it."""

from __future__ import annotations

import numpy as np
import pytest
from audio_signals import Int16, noise, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.original import Ducking, OriginalVoice
from gateway.audio.playout import Clip, ClipKind, PlayOut

pytestmark = pytest.mark.unit

DUCKING = Ducking(on=True, open_db=-6, under_db=-20, attack_ms=40, hold_ms=300, release_ms=400)
SAID_HZ, SPOKEN_HZ = 1000, 2000


def level_db(pcm: Int16, hz: int) -> float:
    """Level of one tone in a whole number of its periods, dB of full scale (RMS of a sine is -3)."""
    at = np.arange(pcm.size) / 8000
    return float(20 * np.log10(np.abs(np.mean(pcm / 32768 * np.exp(-2j * np.pi * hz * at))) * 2 / np.sqrt(2) + 1e-9))


def heard(line: PlayOut, said: Int16, frames: int) -> Int16:
    """Feed the talker's sound frame by frame and pull as many."""
    out = []
    for at in range(0, frames * 160, 160):
        line.hear_original(said[at : at + 160].tobytes())
        out.append(line.next_frame())
    return np.frombuffer(b"".join(out), "<i2")


def test_a9_the_original_sinks_under_speech_and_comes_back() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0, ducking=DUCKING)
    said = tone(SAID_HZ, 8000, 6.0, -20.0)
    before = heard(line, said, 100)
    line.enqueue(Clip("t", ClipKind.TRANSLATION, tone(SPOKEN_HZ, 8000, 2.0, -19.0)))
    during, after = heard(line, said, 100), heard(line, said, 100)
    assert level_db(before[1600:], SAID_HZ) == pytest.approx(-26.0, abs=0.2)
    assert level_db(during[800:], SAID_HZ) == pytest.approx(-40.0, abs=0.3)
    assert level_db(during[800:], SPOKEN_HZ) == pytest.approx(-19.0, abs=0.2)
    assert level_db(after[: 300 * 8], SAID_HZ) == pytest.approx(-40.0, abs=0.5)  # the hold
    assert level_db(after[720 * 8 :], SAID_HZ) == pytest.approx(-26.0, abs=0.2)


def test_a9_the_gain_slides_by_the_sample_and_never_jumps() -> None:
    voice = OriginalVoice(DUCKING, 8000)
    flat = np.full(160, 10_000, np.int16)
    gains = []
    for frame in range(100):
        voice.put(flat)
        out = np.zeros(160, np.float32)
        voice.add_to(out, spoken=20 <= frame < 40)
        gains.append(out / 10_000)
    gain = 20 * np.log10(np.concatenate(gains)[4 * 160 :] + 1e-9)
    start = 16 * 160  # what the first four frames took away
    assert gain[start - 1] == pytest.approx(-6.0, abs=0.01)
    assert gain[start + 160] == pytest.approx(-13.0, abs=0.1)  # half of the attack
    assert gain[start + 320] == pytest.approx(-20.0, abs=0.1)
    held = start + 20 * 160 + 300 * 8
    assert gain[held - 1] == pytest.approx(-20.0, abs=0.01)
    assert gain[held + 1600] == pytest.approx(-13.0, abs=0.1)  # half of the release
    assert gain[held + 3200] == pytest.approx(-6.0, abs=0.1)
    assert np.abs(np.diff(gain)).max() < 14 / 320 + 0.001


def test_a9_a_pause_within_a_translation_does_not_pump() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0, ducking=DUCKING)
    said = tone(SAID_HZ, 8000, 4.0)
    heard(line, said, 20)
    line.enqueue(Clip("x", ClipKind.TRANSLATION, tone(SPOKEN_HZ, 8000, 0.5), gap_ms=200))
    line.enqueue(Clip("y", ClipKind.TRANSLATION, tone(SPOKEN_HZ, 8000, 0.5)))
    out = heard(line, said, 60)
    for at in range(800, 9600, 400):
        assert level_db(out[at : at + 400], SAID_HZ) == pytest.approx(-40.0, abs=1.0)


def test_a9_it_can_be_switched_while_it_sounds() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0, ducking=Ducking())
    said = tone(SAID_HZ, 8000, 2.0)
    assert not heard(line, said, 20).any()
    line.set_original(True)
    on = heard(line, said, 20)
    assert level_db(on[1600:], SAID_HZ) == pytest.approx(-26.0, abs=0.2)
    line.set_original(False)
    off = heard(line, said, 20)
    assert off[:40].any() and not off[40:].any()
    assert np.abs(np.diff(np.concatenate([on[-1:], off]).astype(int))).max() < 32768 * 10 ** (-23 / 20) * 0.9
    assert line.statistics()["original"]["on"] is False


def test_a9_the_sum_is_limited_and_never_wraps() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0, ducking=Ducking(on=True, open_db=0, under_db=0))
    line.enqueue(Clip("t", ClipKind.TRANSLATION, np.full(8000, 32000, np.int16)))
    out = heard(line, np.full(8000, 32000, np.int16), 40)
    assert out[1600:].min() > 0 and out[1600:].max() <= round(32768 * 10 ** (-1 / 20)) + 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_a_late_or_early_loop_makes_no_click_and_no_growing_delay(steps: list[tuple[int, int]]) -> None:
    """So many frames come, so many are pulled, in any order."""
    voice = OriginalVoice(Ducking(on=True, open_db=0, under_db=0), 8000)
    flat = np.full(160, 1000, np.int16)
    out = [np.zeros(1, np.float32)]
    for puts, pulls in steps:
        for _ in range(puts):
            voice.put(flat)
        for _ in range(pulls):
            frame = np.zeros(160, np.float32)
            if voice.sounds:
                voice.add_to(frame, spoken=False)
            out.append(frame)
    sound = np.concatenate(out)
    assert np.abs(np.diff(sound)).max(initial=0) <= 45  # a raised cosine of 5 ms, no edge of 1000
    assert sound.max() <= 1000
    before = voice.statistics()["played_samples"]
    for _ in range(12):
        frame = np.zeros(160, np.float32)
        if voice.sounds:
            voice.add_to(frame, spoken=False)
    assert voice.statistics()["played_samples"] - before <= 1600  # 200 ms


def test_what_was_said_before_anybody_pulled_does_not_stay_late() -> None:
    voice = OriginalVoice(DUCKING, 8000)
    for _ in range(100):
        voice.put(noise(160, -20.0))
    out = np.zeros(160, np.float32)
    voice.add_to(out, spoken=False)
    assert voice.statistics()["late_samples"] == (100 - 3) * 160


@pytest.mark.parametrize("wrong", [{"under_db": -3.0}, {"open_db": 1.0}, {"attack_ms": 0}, {"hold_ms": -1}])
def test_gains_out_of_order_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Ducking(**wrong)  # type: ignore[arg-type]
