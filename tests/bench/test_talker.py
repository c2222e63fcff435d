# SPDX-License-Identifier: GPL-3.0-or-later
"""What a telephone says and hears, frame by frame."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bench.synthetic import FRAME, MS, silence, tone
from gateway.bench import g711
from gateway.bench.hearing import Hearing, SoundEnded, SoundStarted
from gateway.bench.rtp import RtpPacket, parse_event
from gateway.bench.talker import Played, Talker

pytestmark = pytest.mark.unit


def talker(event_payload: int | None = 101) -> Talker:
    return Talker(codec="PCMU", payload_type=0, event_payload=event_payload, ssrc=9, sequence=65_534)


def run(one: Talker, frames: int, start: int = 0) -> tuple[list[RtpPacket], list[Played]]:
    found = [one.tick((start + index) * 20 * MS) for index in range(frames)]
    return [packet for packet, _ in found], [played for _, played in found if played is not None]


def test_silence_runs_on_with_regular_numbers() -> None:
    packets, _ = run(talker(), 5)
    assert [packet.sequence for packet in packets] == [65_534, 65_535, 0, 1, 2]
    assert np.diff([packet.timestamp for packet in packets]).tolist() == [FRAME] * 4
    assert [packet.marker for packet in packets] == [True, False, False, False, False]
    assert {packet.payload for packet in packets} == {b"\xff" * FRAME}


def test_clips_in_order_with_their_stamps_and_a_padded_end() -> None:
    one = talker()
    one.play("x", np.full(200, 4000, np.int16), not_before_ns=45 * MS)
    one.play("y", np.full(160, -4000, np.int16))
    packets, played = run(one, 8)
    assert played == [Played("x", 60 * MS, 80 * MS), Played("y", 100 * MS, 100 * MS)]
    line = g711.decode("PCMU", b"".join(packet.payload for packet in packets))
    loud = np.flatnonzero(np.abs(line) > 1000)
    assert (loud[0], loud[-1]) == (3 * FRAME, 6 * FRAME - 1)
    assert not line[3 * FRAME + 200 : 5 * FRAME].any()


def test_stop_forgets_the_clips() -> None:
    one = talker()
    one.play("x", tone(200))
    run(one, 2)
    one.stop()
    packets, played = run(one, 20, start=2)
    assert not played
    assert {packet.payload for packet in packets} == {b"\xff" * FRAME}


def test_c03_c08_equal_keys_are_two_events_with_silence_between() -> None:
    one = talker()
    one.press("55")
    packets, _ = run(one, 40)
    events = [packet for packet in packets if packet.payload_type == 101]
    begins = [packet.timestamp for packet in events if packet.marker]
    assert len(begins) == 2
    assert {packet.timestamp for packet in events} == set(begins)
    assert sum(parse_event(packet.payload).end for packet in events) == 6  # each end is sent three times
    assert [parse_event(packet.payload).duration_samples for packet in events][:9] == [*range(160, 1281, 160), 1280]
    between = [p for p in packets if p.payload_type == 0 and begins[0] < p.timestamp < begins[1]]
    assert between
    audio = [packet for packet in packets if packet.payload_type == 0]
    assert {b.timestamp - a.timestamp for a, b in pairwise(audio)} <= {FRAME, 12 * FRAME}


def test_refused_commands() -> None:
    with pytest.raises(RuntimeError):
        talker(event_payload=None).press("1")
    for digits in ("", "x", "1" * 33):
        with pytest.raises(ValueError, match="keys"):
            talker().press(digits)
    one = talker()
    for number in range(64):
        one.play(str(number), silence(20))
    with pytest.raises(RuntimeError):
        one.play("more", silence(20))


def test_hearing_ends_a_sound_behind_the_set_silence() -> None:
    hearing = Hearing(quiet_ms=100)
    found = []
    for index in range(30):
        loud = 5 <= index < 10 or 12 <= index < 15  # a pause of 40 ms is inside the sound
        found += hearing.feed(tone(20) if loud else silence(20), index * 20 * MS)
    assert found == [SoundStarted(100 * MS), SoundEnded(100 * MS, 280 * MS)]


def test_hearing_ends_a_sound_when_packets_stop() -> None:
    hearing = Hearing(quiet_ms=100)
    hearing.feed(tone(20), 0)
    assert hearing.tick(99 * MS) == []
    assert hearing.tick(100 * MS) == [SoundEnded(0, 0)]
    assert hearing.tick(500 * MS) == []


def test_a_loudspeaker_sends_back_what_is_heard_softer_and_later_beneath_what_is_said() -> None:
    one = talker()
    one.loudspeaker(-20.0)
    heard = np.full(FRAME, 8000, np.int16)
    frames = []
    for number in range(20):
        one.hear(heard)
        if number == 14:
            one.play("x", np.full(FRAME, 4000, np.int16))
        if number == 17:
            one.loudspeaker(None)
        packet, _ = one.tick(number * 20 * MS)
        frames.append(int(np.median(g711.decode("PCMU", packet.payload))))
    assert frames[:6] == [0] * 6
    assert all(frame == pytest.approx(800, rel=0.05) for frame in (*frames[6:14], *frames[15:17]))
    assert frames[14] == pytest.approx(4800, rel=0.05)
    assert frames[17:] == [0] * 3
