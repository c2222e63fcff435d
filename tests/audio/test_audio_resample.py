# SPDX-License-Identifier: GPL-3.0-or-later
"""S0.3, S0.6, B23-B26: the stream resampler against one-shot, the clock, and the spectrum."""

from __future__ import annotations

import numpy as np
import pytest
from audio_signals import ODD_SIZES, Int16, noise, pieces, rms_db, strongest_hz, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.errors import AudioFormatError, ResampleError
from gateway.audio.resample import StreamResampler, resample

pytestmark = pytest.mark.unit

PAIRS = [(8000, 16000), (16000, 8000), (22050, 8000), (24000, 8000), (24000, 16000), (48000, 16000), (44100, 8000)]


def streamed(pcm: Int16, in_hz: int, out_hz: int, size: int) -> Int16:
    stream = StreamResampler(in_hz, out_hz)
    return np.concatenate([*(stream.feed(piece) for piece in pieces(pcm, size)), stream.flush()])


@pytest.mark.parametrize(("in_hz", "out_hz"), PAIRS)
@pytest.mark.parametrize("size", ODD_SIZES)
def test_s0_3_chunked_equals_whole(in_hz: int, out_hz: int, size: int) -> None:
    pcm = noise(4801, -10)
    assert np.array_equal(streamed(pcm, in_hz, out_hz, size), resample(pcm, in_hz, out_hz))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([*PAIRS, (8000, 8000), (11025, 8000), (8000, 48000)]),
    st.lists(st.integers(0, 700), max_size=12),
    st.integers(0, 9),
)
def test_b25_any_cut_gives_the_whole_and_the_exact_length(pair: tuple[int, int], cuts: list[int], seed: int) -> None:
    in_hz, out_hz = pair
    pcm = noise(sum(cuts), -12, seed)
    stream = StreamResampler(in_hz, out_hz)
    out, at = [], 0
    for cut in cuts:
        out.append(stream.feed(pcm[at : at + cut]))
        at += cut
    whole = np.concatenate([*out, stream.flush()])
    assert abs(whole.size - pcm.size * out_hz / in_hz) <= 0.5
    assert np.array_equal(whole, resample(pcm, in_hz, out_hz))


@pytest.mark.parametrize(("in_hz", "out_hz"), PAIRS)
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_b25_lengths_around_a_frame(in_hz: int, out_hz: int, extra: int) -> None:
    for count in (0, 1, in_hz // 50 + extra):
        out = streamed(noise(count, -20), in_hz, out_hz, 160)
        assert abs(out.size - count * out_hz / in_hz) <= 0.5


@pytest.mark.parametrize(("in_hz", "out_hz"), PAIRS)
def test_b25_output_is_aligned_with_the_input(in_hz: int, out_hz: int) -> None:
    hz = 500.0
    out = streamed(tone(hz, in_hz, 1.0), in_hz, out_hz, in_hz // 50).astype(np.float64)
    at = np.arange(out_hz // 4, out_hz * 3 // 4)
    phase = np.angle(np.sum(out[at] * np.exp(-2j * np.pi * hz * at / out_hz))) + np.pi / 2  # a sine, from its start
    late_samples = -phase / (2 * np.pi * hz) * out_hz
    assert abs(late_samples) < 0.6
    impulse = np.zeros(in_hz, np.int16)
    impulse[in_hz // 2] = 20000
    peak = int(np.argmax(np.abs(streamed(impulse, in_hz, out_hz, 509))))
    assert abs(peak - out_hz / 2) <= 1


@pytest.mark.parametrize(("in_hz", "out_hz"), [(24000, 8000), (22050, 8000), (48000, 16000), (24000, 16000)])
def test_b23_nothing_folds_back(in_hz: int, out_hz: int) -> None:
    for hz in np.arange(out_hz / 2 * 1.1, in_hz / 2 * 0.95, 700):
        source = tone(float(hz), in_hz, 0.5, -6)
        out = resample(source, in_hz, out_hz)[out_hz // 10 : -out_hz // 10]
        assert rms_db(out) < rms_db(source) - 40, hz


def test_b23_up_sampling_leaves_no_image() -> None:
    out = resample(tone(3000, 8000, 1.0, -6), 8000, 16000)[1600:-1600].astype(np.float64)
    power = np.abs(np.fft.rfft(out * np.hanning(out.size))) ** 2
    hz = np.fft.rfftfreq(out.size, 1 / 16000)
    assert 10 * np.log10(power[hz > 4200].sum() / power.sum()) < -60


@pytest.mark.parametrize("in_hz", [22050, 24000, 16000])
def test_b24_duration_and_pitch_stay(in_hz: int) -> None:
    out = resample(tone(440, in_hz, 1.5), in_hz, 8000)
    assert abs(out.size / 8000 - 1.5) < 0.001
    assert abs(strongest_hz(out, 8000) - 440) < 2


def test_b26_sine_has_no_seams() -> None:
    out = streamed(tone(997, 8000, 2.0, -6), 8000, 16000, 160)[3200:-3200].astype(np.float64)
    at = np.arange(out.size) / 16000
    basis = np.stack([np.sin(2 * np.pi * 997 * at), np.cos(2 * np.pi * 997 * at)], axis=1)
    fit = basis @ np.linalg.lstsq(basis, out, rcond=None)[0]
    assert rms_db(fit) - rms_db(out - fit) > 60


def test_b26_an_error_inside_drops_the_sound_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StreamResampler(8000, 16000)
    assert stream.feed(noise(160, -20)).size <= 320

    class Broken:
        def resample_chunk(self, samples: object, last: bool = False) -> None:
            raise RuntimeError("out of order")

    monkeypatch.setattr(stream._core, "_soxr", Broken())
    with pytest.raises(ResampleError, match="dropped"):
        stream.feed(noise(160, -20))
    monkeypatch.undo()
    with pytest.raises(ResampleError):
        stream.feed(noise(160, -20))
    assert stream.statistics()["failed"]


def test_full_scale_is_clipped_not_wrapped() -> None:
    square = np.where(np.arange(4000) % 80 < 40, 32767, -32768).astype(np.int16)
    out = resample(square, 8000, 16000)
    assert out.max() == 32767 and out.min() == -32768  # the filter overshoots, so clipping was needed
    place = np.arange(out.size) % 80  # each half wave is 80 output samples; look away from its edges
    inner = (place > 15) & (place < 65) & (np.arange(out.size) > 200) & (np.arange(out.size) < out.size - 200)
    assert np.array_equal(np.sign(out[inner]), np.sign(np.repeat(square, 2)[inner]))


def test_equal_rates_pass_through() -> None:
    pcm = noise(1001, -10)
    assert np.array_equal(streamed(pcm, 8000, 8000, 17), pcm)


def test_s0_6_wrong_input_is_named() -> None:
    stream = StreamResampler(8000, 16000)
    with pytest.raises(AudioFormatError, match="float32"):
        stream.feed(np.zeros(10, np.float32))  # type: ignore[arg-type]
    with pytest.raises(AudioFormatError, match="mono"):
        stream.feed(np.zeros((10, 2), np.int16))
    with pytest.raises(AudioFormatError, match="smaller"):
        stream.feed(np.zeros(8000 * 601, np.int16))
    with pytest.raises(AudioFormatError, match="rate"):
        StreamResampler(0, 16000)
    assert stream.feed(np.zeros(0, np.int16)).size == 0
    stream.flush()
    with pytest.raises(ResampleError, match="flushed"):
        stream.feed(np.zeros(1, np.int16))


def test_float32_keeps_its_type_and_scale() -> None:
    out = resample((tone(440, 24000, 0.5) / 32768).astype(np.float32), 24000, 16000)
    assert out.dtype == np.float32
    assert abs(rms_db(out) + 20) < 0.5


@pytest.mark.parametrize(("in_hz", "out_hz"), PAIRS)
def test_little_is_held_back(in_hz: int, out_hz: int) -> None:
    stream = StreamResampler(in_hz, out_hz)
    worst = 0.0
    for piece in pieces(noise(in_hz, -20), in_hz // 50):
        stream.feed(piece)
        worst = max(worst, stream.delay_ms)
    assert worst <= 31  # one frame of 20 ms and 10 ms of filter
