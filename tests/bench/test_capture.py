# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures of a track: exact to the sample, and able to tell bad streams from good ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.synthetic import FRAME, MS, capture_of, packets_of, silence, tone, track_of
from gateway.bench.capture import (
    build_track,
    by_time,
    by_timestamp,
    delivery,
    first_above,
    last_above,
    level_envelope,
    load_capture,
    packet_rate,
    regularity,
    save_capture,
    tone_share,
)
from gateway.bench.rtp import RtpPacket

pytestmark = pytest.mark.unit


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 1500))
def test_onset_and_offset_are_exact_to_the_sample(begin: int, length: int) -> None:
    pcm = np.zeros(FRAME * 40, np.int16)
    pcm[begin : begin + length] = 4000
    track = track_of(pcm, start_ns=5 * MS)
    first, last = first_above(track, 0, 10**12), last_above(track, 0, 10**12)
    assert first is not None
    assert last is not None
    assert (first.packet * FRAME + first.offset, last.packet * FRAME + last.offset) == (begin, begin + length - 1)
    assert first.at_ns == 5 * MS + begin // FRAME * 20 * MS
    assert first.line_ns == pytest.approx(5 * MS + begin * 125_000, abs=1)


def test_threshold_is_minus_45_dbfs() -> None:
    # 32768 * 10**(-45/20) = 184.3; mu-law has 180 and 196 next to it
    assert first_above(track_of(np.full(FRAME, 180, np.int16)), 0, MS) is None
    assert first_above(track_of(np.full(FRAME, -196, np.int16)), 0, MS) is not None


def test_search_is_bounded_by_packet_times() -> None:
    track = track_of(np.concatenate([tone(100), silence(100), tone(100)]))
    found = first_above(track, 101 * MS, 10**12)
    assert found is not None
    assert found.at_ns == 200 * MS
    assert first_above(track, 101 * MS, 199 * MS) is None
    last = last_above(track, 0, 199 * MS)
    assert last is not None
    assert last.at_ns == 80 * MS


def test_numbers_that_wrap_make_one_line() -> None:
    pcm = tone(2000)
    track = build_track(packets_of(pcm, 0, sequence=65_530, timestamp=2**32 - 300))
    assert (np.diff(track.sequence) == 1).all()
    assert (np.diff(track.timestamp) == FRAME).all()
    assert np.abs(by_timestamp(track).astype(int) - pcm).max() < 300  # what mu-law costs at this level


def test_lost_late_and_repeated_packets() -> None:
    packets = packets_of(tone(400), 0)
    order = [0, 1, 2, 5, 4, 4, *range(6, 20)]  # 3 lost, 5 before 4, 4 twice
    track = build_track([(at * 20 * MS, packets[index][1]) for at, index in enumerate(order)])
    found = delivery(track)
    assert (found.lost, found.duplicate, found.reordered) == (1, 1, 1)
    line = by_timestamp(track)
    assert not line[3 * FRAME : 4 * FRAME].any()
    assert line[4 * FRAME : 6 * FRAME].any()
    assert delivery(track_of(tone(400))).lost == 0


def test_a8_packet_rate() -> None:
    steady = packet_rate(track_of(silence(5020)))
    assert steady.overall_pps == pytest.approx(50.0)
    assert steady.per_second == (50,) * 5
    packets = [pair for index, pair in enumerate(packets_of(silence(5020), 0)) if not 100 <= index < 125]
    hole = packet_rate(build_track(packets))
    assert hole.per_second == (50, 50, 25, 50, 50)
    assert hole.overall_pps < 46
    assert packet_rate(build_track(packets), 0, 2000 * MS).overall_pps == pytest.approx(50.0)
    assert packet_rate(build_track([])).overall_pps == 0.0


def test_b03_timestamp_jumps_are_seen_marked_or_not() -> None:
    packets = packets_of(silence(400), 0)
    jumped = [
        (
            at,
            RtpPacket(
                one.payload_type,
                one.sequence,
                (one.timestamp + 999 * (index >= 10)) % 2**32,
                one.ssrc,
                one.payload,
                one.marker,
            ),
        )
        for index, (at, one) in enumerate(packets)
    ]
    assert (regularity(build_track(jumped)).irregular, regularity(build_track(jumped)).irregular_unmarked) == (1, 1)
    at, one = jumped[10]
    jumped[10] = (at, RtpPacket(one.payload_type, one.sequence, one.timestamp, one.ssrc, one.payload, True))
    assert (regularity(build_track(jumped)).irregular, regularity(build_track(jumped)).irregular_unmarked) == (1, 0)
    assert regularity(build_track(packets)).irregular == 0


def test_b01_a_new_ssrc_goes_on_by_the_clock() -> None:
    packets = packets_of(tone(200), 0) + packets_of(tone(200), 1000 * MS, ssrc=8, sequence=3, timestamp=5)
    track = build_track(packets)
    assert track.timestamp[10] - track.timestamp[9] == (1000 - 180) * 8
    assert len(by_timestamp(track)) == 1200 * 8
    assert regularity(track).irregular_unmarked == 0


def test_a_line_of_hours_is_refused() -> None:
    packets = packets_of(silence(40), 0)
    packets[1] = (packets[1][0], RtpPacket(0, 65_001, 2**31 - 900, 7, packets[1][1].payload))
    with pytest.raises(ValueError, match="hours"):
        by_timestamp(build_track(packets))


def test_by_time_has_no_seams_under_jitter() -> None:
    rng = np.random.default_rng(5)
    pcm = tone(2000, hz=500)
    jittered = [(at + int(rng.uniform(0, 15)) * MS, packet) for at, packet in packets_of(pcm, 3000 * MS)]
    line = by_time(build_track(jittered), 2000 * MS, 6000 * MS)
    assert len(line) == 4000 * 8
    loud = np.flatnonzero(np.abs(line.astype(int)) > 200)
    assert 1000 * 8 <= loud[0] <= 1015 * 8
    assert loud[-1] - loud[0] + 1 >= len(pcm) - 8
    assert tone_share(line[loud[0] : loud[-1]], 500) > 0.99


def test_by_time_cuts_at_its_borders() -> None:
    track = track_of(np.full(8000, 4000, np.int16), start_ns=0)
    assert (by_time(track, 100 * MS, 150 * MS) > 3000).all()
    assert not by_time(track, 2000 * MS, 2100 * MS).any()
    assert len(by_time(track, 100 * MS, 50 * MS)) == 0


def test_level_envelope() -> None:
    sine = (32767 * np.sin(2 * np.pi * 1000 * np.arange(800) / 8000)).astype(np.int16)
    levels = level_envelope(np.concatenate([sine, silence(50)]))
    assert len(levels) == 30
    assert levels[:20] == pytest.approx(-3.01, abs=0.01)
    assert (levels[20:] == -120).all()


def test_fingerprint_tells_tones_apart() -> None:
    mixed = tone(1000, 440)
    assert tone_share(mixed, 440) > 0.99
    assert tone_share(mixed, 1000) < 0.001
    assert tone_share(mixed[:0], 440) == 0


def test_events_hold_no_sound() -> None:
    packets = packets_of(silence(60), 0)
    packets[1] = (packets[1][0], RtpPacket(101, 65_001, packets[0][1].timestamp, 7, b"\1\n\0\xa0"))
    track = build_track(packets)
    assert np.diff(track.offset).tolist() == [160, 0, 160]


def test_captures_survive_the_disk(tmp_path: Path) -> None:
    capture = capture_of(tone(200), tone(100, 1000), start_ns=7)
    save_capture(tmp_path / "a.npz", capture)
    again = load_capture(tmp_path / "a.npz")
    assert again.info == capture.info
    assert (again.sent.pcm == capture.sent.pcm).all()
    assert (again.received.at_ns == capture.received.at_ns).all()
    np.savez(tmp_path / "b.npz", other=np.zeros(3))
    with pytest.raises(ValueError, match="not a capture"):
        load_capture(tmp_path / "b.npz")
