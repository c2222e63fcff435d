# SPDX-License-Identifier: GPL-3.0-or-later
"""Ring, formats, chunks, store, re-framer and drift ledger: S0.2, S0.4, S0.5, S0.7, S0.10, E01."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from audio_signals import ODD_SIZES, noise, pieces, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.chunk import Chunker
from gateway.audio.drift import DriftLedger
from gateway.audio.errors import AudioFormatError
from gateway.audio.frames import Frame
from gateway.audio.pcm import (
    DcBlocker,
    SampleFormat,
    downmix,
    fade_in,
    fade_out,
    level_dbfs,
    rising,
    to_float32,
    to_int16,
    unpack,
)
from gateway.audio.pcmstore import PcmStore
from gateway.audio.reframe import FrameGap, GapAction, Reframer
from gateway.audio.ring import FrameRing

pytestmark = pytest.mark.unit


def frame(first: int, samples: int, value: int = 0) -> Frame:
    return Frame("a", first, 8000, np.full(samples, value, "<i2").tobytes(), first * 125_000)


# --- ring ---------------------------------------------------------------------------------------------------------


def test_ring_drops_the_oldest_and_counts() -> None:
    woken: list[int] = []
    ring = FrameRing(3, lambda: woken.append(1))
    for index in range(5):
        ring.put(frame(index * 160, 160))
    assert [f.first_sample for f in ring.drain()] == [320, 480, 640]
    assert ring.drain() == []
    assert len(woken) == 5
    assert ring.statistics() == {
        "capacity_frames": 3,
        "queued_frames": 0,
        "high_water_frames": 3,
        "frames_in": 5,
        "frames_out": 3,
        "frames_dropped": 2,
        "wake_errors": 0,
    }


def test_ring_does_not_raise_when_the_loop_is_gone() -> None:
    def gone() -> None:
        raise RuntimeError("event loop is closed")

    ring = FrameRing(2, gone)
    ring.put(frame(0, 160))
    assert ring.statistics()["wake_errors"] == 1
    assert len(ring.drain()) == 1


def test_ring_loses_nothing_uncounted_between_threads() -> None:
    ring = FrameRing(50)
    seen: list[int] = []
    done = threading.Event()

    def write() -> None:
        for index in range(20_000):
            ring.put(frame(index, 0))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        seen += [f.first_sample for f in ring.drain()]
    writer.join()
    seen += [f.first_sample for f in ring.drain()]
    assert seen == sorted(set(seen))
    assert len(seen) + ring.statistics()["frames_dropped"] == 20_000


# --- formats ------------------------------------------------------------------------------------------------------


def test_s0_7_each_format_gives_the_same_sound() -> None:
    wanted = np.array([0.0, 0.5, -0.5, -1.0], np.float32)
    packed = {
        SampleFormat.U8: np.array([128, 192, 64, 0], np.uint8).tobytes(),
        SampleFormat.S16: np.array([0, 16384, -16384, -32768], "<i2").tobytes(),
        SampleFormat.S24: b"".join(v.to_bytes(3, "little", signed=True) for v in (0, 1 << 22, -(1 << 22), -(1 << 23))),
        SampleFormat.S32: np.array([0, 1 << 30, -(1 << 30), -(1 << 31)], "<i4").tobytes(),
        SampleFormat.F32: wanted.tobytes(),
        SampleFormat.F64: wanted.astype("<f8").tobytes(),
    }
    for sample_format, data in packed.items():
        sound = unpack(data, sample_format)
        assert sound.shape == (4, 1) and sound.dtype == np.float32, sample_format
        assert np.array_equal(sound[:, 0], wanted), sample_format


def test_s0_7_int16_is_rounded_and_clipped() -> None:
    assert to_int16(np.array([2.0, -2.0, 1.6 / 32768, 0.4 / 32768], np.float32)).tolist() == [32767, -32768, 2, 0]
    every = np.arange(-32768, 32768).astype(np.int16)
    assert np.array_equal(to_int16(to_float32(every)), every)


def test_s0_6_what_is_not_sound_is_refused() -> None:
    with pytest.raises(AudioFormatError, match="NaN"):
        to_float32(np.array([0.0, np.nan], np.float32))
    with pytest.raises(AudioFormatError, match="int64"):
        to_float32(np.zeros(3, np.int64))
    with pytest.raises(AudioFormatError, match="whole frames"):
        unpack(bytes(7), SampleFormat.S16, 2)


def test_s0_2_downmix_is_the_mean() -> None:
    stereo = np.stack([np.full(5, 0.5), np.full(5, -0.25)], axis=1).astype(np.float32)
    assert downmix(stereo).tolist() == [0.125] * 5


def test_levels() -> None:
    assert level_dbfs(np.full(160, -32768, np.int16)) == pytest.approx(0.0)
    assert level_dbfs(tone(1000, 8000, 1.0, -30)) == pytest.approx(-30, abs=0.1)
    assert level_dbfs(np.zeros(160, np.int16)) == -127.0
    assert level_dbfs(np.zeros(0, np.int16)) == -127.0


@pytest.mark.parametrize("size", ODD_SIZES)
def test_dc_removal_streams_bit_for_bit(size: int) -> None:
    pcm = (tone(400, 8000, 0.3) + 5000).astype(np.int16)
    stream = DcBlocker(8000)
    whole = DcBlocker(8000).feed(pcm)
    assert np.array_equal(np.concatenate([stream.feed(piece) for piece in pieces(pcm, size)]), whole)
    assert abs(whole[800:].mean()) < 20
    assert abs(level_dbfs(to_int16((whole / 32768).astype(np.float32))) + 20) < 0.5


def test_fades_are_complementary() -> None:
    assert np.allclose(rising(80) + rising(80)[::-1], 1.0)
    flat = np.full(200, 10000, np.int16)
    assert fade_in(flat, 80)[0] < 10 and fade_in(flat, 80)[80] == 10000
    assert fade_out(flat, 80)[-1] < 10 and fade_out(flat, 80)[119] == 10000
    assert fade_in(flat[:3], 80).size == 3 and fade_out(flat[:0], 80).size == 0


# --- chunks -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.lists(st.integers(0, 700), max_size=10))
def test_s0_4_s0_5_chunks_are_whole_numbers_and_the_tail_is_told(size: int, cuts: list[int]) -> None:
    pcm = noise(sum(cuts), -10)
    chunker = Chunker(size)
    chunks, at = [], 0
    for cut in cuts:
        chunks += chunker.feed(pcm[at : at + cut])
        at += cut
    chunks.append(chunker.flush())
    assert np.array_equal(np.concatenate([chunk.pcm for chunk in chunks]), pcm)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.first_sample for chunk in chunks] == [size * index for index in range(len(chunks))]
    assert all(chunk.pcm.size == size for chunk in chunks[:-1])
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].pcm.size == pcm.size % size


def test_s0_5_a_border_still_tells_the_last_chunk() -> None:
    chunker = Chunker(160)
    assert [c.is_last for c in chunker.feed(np.zeros(320, np.int16))] == [False, False]
    last = chunker.flush()
    assert last.is_last and last.pcm.size == 0 and last.first_sample == 320
    with pytest.raises(ValueError, match="ended"):
        chunker.feed(np.zeros(1, np.int16))


def test_chunks_keep_their_sound_when_the_buffer_goes_on() -> None:
    chunker = Chunker(4)
    first = chunker.feed(np.array([1, 2, 3, 4], np.int16))[0]
    chunker.feed(np.array([9, 9, 9, 9], np.int16))
    assert first.pcm.tolist() == [1, 2, 3, 4]


# --- store --------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 130), max_size=12), st.integers(0, 600), st.integers(0, 300))
def test_store_slices_are_the_samples_asked_for(sizes: list[int], first: int, length: int) -> None:
    store = PcmStore(100, 1.0)
    whole = np.arange(sum(sizes), dtype=np.int16)
    at = 0
    for size in sizes:
        store.append(whole[at : at + size])
        at += size
    assert store.end == whole.size and store.first == max(0, whole.size - 100)
    got = store.slice(first, first + length)
    low, high = max(first, store.first), min(first + length, store.end)
    assert got.pcm.tolist() == whole[low : max(low, high)].tolist()
    assert got.overwritten_samples + got.pcm.size + got.beyond_samples == length
    assert got.complete == (got.pcm.size == length)


def test_store_tells_what_is_gone() -> None:
    store = PcmStore(100, 1.0)
    store.append(np.arange(250, dtype=np.int16))
    got = store.slice(140, 160)
    assert (got.first_sample, got.overwritten_samples, got.pcm.tolist()) == (150, 10, list(range(150, 160)))
    assert store.statistics()["truncated_reads"] == 1


def test_store_keeps_the_timeline_over_gaps() -> None:
    store = PcmStore(100, 1.0)
    store.append(np.full(10, 5, np.int16))
    store.append(np.full(10, 7, np.int16), first_sample=20)
    assert store.slice(5, 25).pcm.tolist() == [5] * 5 + [0] * 10 + [7] * 5
    store.append(np.full(5, 9, np.int16), first_sample=10_000)
    assert store.slice(9998, 10_005).pcm.tolist() == [0, 0] + [9] * 5
    with pytest.raises(ValueError, match="before"):
        store.append(np.zeros(1, np.int16), first_sample=3)


# --- re-framer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ptime_ms", [10, 20, 30, 40, 60])
def test_e01_any_ptime_and_a_short_tail(ptime_ms: int) -> None:
    whole = noise(8 * ptime_ms * 9 + 56, -10)  # nine packets and a 7 ms tail
    reframer = Reframer(160)
    out: list[Frame | FrameGap] = []
    at = 0
    for piece in pieces(whole, 8 * ptime_ms):
        out += reframer.feed(Frame("a", 1000 + at, 8000, piece.tobytes(), at))
        at += piece.size
    out += reframer.flush()
    frames = [item for item in out if isinstance(item, Frame)]
    assert all(len(item.pcm) == 320 for item in frames)
    assert [item.first_sample for item in frames] == [1000 + 160 * index for index in range(len(frames))]
    sound = np.frombuffer(b"".join(item.pcm for item in frames), "<i2")
    assert np.array_equal(sound[: whole.size], whole)
    assert not sound[whole.size :].any()
    gaps = [item for item in out if isinstance(item, FrameGap)]
    assert sum(gap.zeros for gap in gaps) == sound.size - whole.size


def test_e01_a_short_gap_is_filled_and_told() -> None:
    reframer = Reframer(160)
    out = reframer.feed(frame(0, 160, 5)) + reframer.feed(frame(320, 160, 7))
    assert out[1] == FrameGap("a", 160, 160, 160, GapAction.FILLED)
    frames = [item for item in out if isinstance(item, Frame)]
    assert [(f.first_sample, np.frombuffer(f.pcm, "<i2")[0]) for f in frames] == [(0, 5), (160, 0), (320, 7)]


def test_e01_a_long_gap_restarts_at_the_new_position() -> None:
    reframer = Reframer(160)
    out = reframer.feed(frame(0, 200, 5)) + reframer.feed(frame(80_000, 160, 7))
    frames = [item for item in out if isinstance(item, Frame)]
    assert [f.first_sample for f in frames] == [0, 160, 80_000]
    assert FrameGap("a", 200, 79_800, 120, GapAction.RESTARTED) in out


def test_e01_samples_seen_twice_are_dropped_and_told() -> None:
    reframer = Reframer(160)
    out = reframer.feed(frame(0, 160, 5)) + reframer.feed(frame(80, 160, 7)) + reframer.feed(frame(0, 100, 9))
    assert FrameGap("a", 80, 80, 0, GapAction.OVERLAP_DROPPED) in out
    assert FrameGap("a", 0, 100, 0, GapAction.OVERLAP_DROPPED) in out
    assert reframer.statistics()["dropped_samples"] == 180
    with pytest.raises(ValueError, match="another leg"):
        reframer.feed(Frame("b", 0, 8000, b"", 0))


# --- drift --------------------------------------------------------------------------------------------------------


def test_s0_10_a_delay_is_constant() -> None:
    ledger = DriftLedger(8000, 16000)
    rng = np.random.default_rng(3)
    for index in range(1, 3000):
        jitter = int(rng.integers(-160, 161))
        ledger.note(index * 320, index * 640 - 4800 + jitter)
    verdict = ledger.verdict()
    assert verdict.verdict == "constant"
    assert len(ledger.rows) <= 1025
    assert ledger.note(3000 * 320, 3000 * 640 - 4800) == pytest.approx(300.0)


@pytest.mark.parametrize("ppm", [-500, 300, 81_000])
def test_s0_10_a_wrong_rate_drifts(ppm: int) -> None:
    ledger = DriftLedger(8000, 16000)
    for index in range(1, 6000):
        ledger.note(index * 320, round(index * 640 * (1 - ppm / 1e6)))
    verdict = ledger.verdict()
    assert verdict.verdict == "drifting"
    assert verdict.slope_ppm == pytest.approx(ppm, rel=0.02)
    assert "ppm" in verdict.reason


def test_s0_10_table_and_json_agree() -> None:
    ledger = DriftLedger(8000, 16000)
    assert ledger.verdict().verdict == "constant"
    for index in range(1, 11):
        ledger.note(index * 8000, index * 16000)
    report = json.loads(ledger.to_json())
    assert report["verdict"] == "constant" and len(report["rows"]) == 10
    assert len(ledger.table().splitlines()) == 12
    assert ledger.table().splitlines()[-1].startswith("constant")


def test_s0_10_memory_is_bounded_and_the_ends_are_kept() -> None:
    ledger = DriftLedger(8000, 8000, rows_kept=16)
    for index in range(1000):
        ledger.note(index, index)
    rows = ledger.rows
    assert len(rows) <= 17 and rows[0].chunk == 0 and rows[-1].chunk == 999
