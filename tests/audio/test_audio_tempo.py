# SPDX-License-Identifier: GPL-3.0-or-later
"""B5: speech goes faster and slower at its own pitch, at any moment, without a click."""

from __future__ import annotations

import numpy as np
import pytest
from audio_signals import Int16, prompt, strongest_hz, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.audio.tempo import FASTEST, SLOWEST, TempoReader

pytestmark = pytest.mark.unit


def read(pcm: Int16, ratio: float, count: int = 160) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    reader = TempoReader(pcm.astype(np.float32), 8000)
    out = []
    while reader.left:
        out.append(reader.read(count, ratio))
    assert not reader.read(count, ratio).size
    return np.concatenate(out)


def buzz(seconds: float, hz: float = 118.0) -> Int16:
    """A voiced sound: many harmonics."""
    return tone([hz * n for n in range(1, 20)], 8000, seconds)


@pytest.mark.parametrize("ratio", [SLOWEST, 0.8, 1.15, 1.3, FASTEST])
def test_b5_duration_follows_the_ratio_and_pitch_does_not(ratio: float) -> None:
    pcm = buzz(3.0)
    out = read(pcm, ratio)
    assert out.size * ratio == pytest.approx(pcm.size, abs=400)  # the last 50 ms are spoken as they are
    spectrum = np.abs(np.fft.rfft(out[:8000] * np.hanning(8000)))
    assert abs(int(np.argmax(spectrum[100:140])) + 100 - 118) <= 1
    assert np.abs(np.diff(out)).max() <= np.abs(np.diff(pcm.astype(int))).max() * 1.05  # no click
    level = 20 * np.log10(np.sqrt(np.mean(out**2)) / np.sqrt(np.mean(pcm.astype(float) ** 2)))
    assert abs(level) < 0.5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5000), st.lists(st.sampled_from([1, 17, 160, 509]), min_size=1, max_size=5))
def test_at_its_own_tempo_the_sound_passes_bit_for_bit(samples: int, counts: list[int]) -> None:
    pcm = np.random.default_rng(samples).integers(-9000, 9000, samples).astype(np.float32)
    reader = TempoReader(pcm, 8000)
    out = [np.zeros(0, np.float32)]
    while reader.left:
        out.append(reader.read(counts[len(out) % len(counts)]))
    assert np.array_equal(np.concatenate(out), pcm)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 4000), st.lists(st.floats(SLOWEST, FASTEST), min_size=1, max_size=6), st.sampled_from([1, 80, 509])
)
def test_every_clip_ends_whatever_the_tempo_does(samples: int, ratios: list[float], count: int) -> None:
    reader = TempoReader(np.random.default_rng(1).standard_normal(samples).astype(np.float32), 8000)
    given_samples = turn = 0
    while reader.left:
        part = reader.read(count, ratios[turn % len(ratios)])
        assert 0 < part.size <= count
        given_samples, turn = given_samples + part.size, turn + 1
    assert samples / FASTEST - 600 <= given_samples <= samples / SLOWEST + 600


def test_the_same_sound_whatever_the_size_of_the_reads() -> None:
    pcm = buzz(1.0, 97.0)
    assert np.array_equal(read(pcm, 1.3, 160), read(pcm, 1.3, 17))


def test_the_scale_of_the_sound_does_not_matter() -> None:
    pcm = prompt("vm-goodbye", -20.0)
    quiet = read(pcm, 1.3) / 32768
    reader = TempoReader((pcm / 32768).astype(np.float32), 8000)
    assert np.allclose(reader.read(2 * pcm.size, 1.3), quiet, atol=1e-5)


def test_b5_a_listener_hears_the_change_within_the_word() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0)
    line.enqueue(Clip("t", ClipKind.TRANSLATION, tone(500, 8000, 10.0)))
    for _ in range(50):
        line.next_frame()
    assert line.pending_s() == pytest.approx(9.0, abs=0.03)
    line.set_tempo(1.25)
    assert line.pending_s() == pytest.approx(9.0 / 1.25, abs=0.03)
    frames = []
    while not line.is_idle():
        frames.append(line.next_frame())
    out = np.frombuffer(b"".join(frames), "<i2")
    assert len(frames) * 0.02 == pytest.approx(9.0 / 1.25, abs=0.06)
    assert strongest_hz(out[: out.size - 400], 8000) == pytest.approx(500, abs=2)
    (started, ended) = line.events()
    assert (started.what, ended.what, ended.heard_samples) == ("started", "ended", 80_000)


def test_prompts_keep_their_own_tempo() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0)
    line.set_tempo(1.5)
    line.enqueue(Clip("p", ClipKind.PROMPT, tone(500, 8000, 2.0)))
    assert line.pending_s() == 2.0


def test_a_cut_tells_how_much_of_the_clip_was_heard_at_any_tempo() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0)
    line.set_tempo(1.5)
    line.enqueue(Clip("t", ClipKind.TRANSLATION, buzz(4.0)))
    for _ in range(50):
        line.next_frame()
    line.flush()
    dropped = line.events()[-1]
    assert dropped.heard_samples == pytest.approx(1.5 * (8000 + 240), abs=500)
    out = np.frombuffer(line.next_frame() + line.next_frame(), "<i2")
    assert out[:160].any() and not out[240:].any()


@pytest.mark.parametrize("ratio", [0.59, 1.61, 0.0, -1.0, float("nan")])
def test_tempos_out_of_range_are_refused_with_the_limits(ratio: float) -> None:
    with pytest.raises(ValueError, match=r"0\.6"):
        PlayOut(8000, 160).set_tempo(ratio)


def test_human_speech_keeps_its_loudness_and_its_length() -> None:
    pcm = prompt("vm-goodbye", -20.0)
    for ratio in (0.75, 1.3):
        out = read(pcm, ratio)
        assert out.size * ratio == pytest.approx(pcm.size, abs=400)
        assert 20 * np.log10(np.std(out) / np.std(pcm)) == pytest.approx(0, abs=0.7)
