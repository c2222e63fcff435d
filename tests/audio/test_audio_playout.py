# SPDX-License-Identifier: GPL-3.0-or-later
"""A8, B09, J01, J03, S1.13: what a leg hears is one frame for each pull, without holes and without clicks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from audio_signals import Int16, noise, rms_db, strongest_hz, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.playout import Clip, ClipKind, PlayEvent, PlayOut

pytestmark = pytest.mark.unit

T, P, C = ClipKind.TRANSLATION, ClipKind.PROMPT, ClipKind.CUE


def play_out(**options: object) -> PlayOut:
    return PlayOut(8000, 160, now_ns=lambda: 0, **options)  # type: ignore[arg-type]


def pull(line: PlayOut, frames: int) -> Int16:
    out = [line.next_frame() for _ in range(frames)]
    assert {len(frame) for frame in out} == {320}
    return np.frombuffer(b"".join(out), "<i2")


def flat(samples: int, value: int = 8000) -> Int16:
    return np.full(samples, value, np.int16)


def told(line: PlayOut, what: str) -> list[str]:
    return [event.clip_id for event in line.events() if event.what == what]


def test_a8_b09_idle_is_exact_silence_for_ever() -> None:
    line = play_out()
    assert not pull(line, 3000).any()  # 60 s
    assert line.statistics()["frames"] == line.statistics()["silent_frames"] == 3000
    assert line.statistics()["egress_samples"] == 480_000
    assert line.is_idle()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.sampled_from(list(ClipKind)), st.integers(0, 30)), max_size=8),
    st.integers(1, 333),
)
def test_j03_every_pull_is_one_frame_and_every_clip_ends_once(
    clips: list[tuple[int, ClipKind, int]], frame_samples: int
) -> None:
    line = PlayOut(8000, frame_samples, now_ns=lambda: 0)
    for index, (samples, kind, gap_ms) in enumerate(clips):
        assert line.enqueue(Clip(str(index), kind, flat(samples), gap_ms))
    total = sum(samples + gap_ms * 8 for samples, _, gap_ms in clips)
    for _ in range(total // frame_samples + 2):
        assert len(line.next_frame()) == 2 * frame_samples
    events = line.events()
    ended = [event for event in events if event.what == "ended"]
    assert sorted(event.clip_id for event in ended) == sorted(str(index) for index in range(len(clips)))
    assert [e.clip_id for e in events if e.what == "started"] == [
        str(index) for kind in ClipKind for index, clip in enumerate(clips) if clip[1] is kind
    ]
    assert all(event.heard_samples == clips[int(event.clip_id)][0] for event in ended)
    assert line.statistics()["errors"] == 0
    assert line.is_idle() and line.pending_s() == 0


def test_a_clip_is_heard_in_the_next_frame_unchanged_but_for_its_fades() -> None:
    line = play_out()
    pcm = noise(1000, -20)
    line.enqueue(Clip("x", T, pcm))
    out = pull(line, 8)
    assert np.array_equal(out[80:920], pcm[80:920])
    assert not out[1000:].any()


def test_s1_13_a_join_leaves_no_hole_and_no_step() -> None:
    line = play_out()
    line.enqueue(Clip("x", T, flat(1001)))
    line.enqueue(Clip("y", T, flat(777)))
    out = pull(line, 20)
    last = np.flatnonzero(out)[-1]
    assert last + 1 == pytest.approx(1001 + 777 - 80, abs=1)  # one cross-fade of 10 ms
    assert np.all(np.abs(out[80 : last - 80] - 8000) <= 1)  # complementary fades of equal sound are that sound
    assert np.abs(np.diff(out.astype(int))).max() < 8000 * 0.03


@pytest.mark.parametrize("gap_ms", [0, 5, 120])
def test_s1_13_no_clicks_between_different_tones(gap_ms: int) -> None:
    line = play_out()
    line.enqueue(Clip("x", T, np.concatenate([tone(300, 8000, 0.2), flat(1)]), gap_ms))
    line.enqueue(Clip("y", T, (tone(520, 8000, 0.2) + 2000).astype(np.int16)))
    out = pull(line, 40).astype(int)
    own_slope = np.abs(np.diff(tone(520, 8000, 0.2).astype(int))).max()
    assert np.abs(np.diff(out)).max() < own_slope * 1.3


def test_gap_is_silence_of_the_asked_length() -> None:
    line = play_out()
    line.enqueue(Clip("x", T, flat(500), gap_ms=100))
    line.enqueue(Clip("y", T, flat(500)))
    pull(line, 20)
    at = {(event.clip_id, event.what): event.at_sample for event in line.events()}
    assert at["y", "started"] - at["x", "ended"] == 800
    assert line.statistics()["underruns"] == 0


def test_a_prompt_goes_next_but_cuts_no_word() -> None:
    line = play_out()
    for index in range(3):
        line.enqueue(Clip(f"t{index}", T, flat(400)))
    pull(line, 1)
    line.enqueue(Clip("cue", C, flat(400)))
    line.enqueue(Clip("prompt", P, flat(400)))
    pull(line, 20)
    events = line.events()
    assert [e.clip_id for e in events if e.what == "started"] == ["t0", "prompt", "cue", "t1", "t2"]
    assert next(e for e in events if e == PlayEvent("t0", "ended", 400, e.at_ns, 400))


def test_flush_fades_and_tells_how_much_was_heard() -> None:
    line = play_out()
    for name in ("x", "y"):
        line.enqueue(Clip(name, T, flat(4000)))
    line.enqueue(Clip("p", P, flat(4000)))
    pull(line, 30)  # the prompt has ended after 25 frames less the join, x plays
    assert line.flush(T) == ["x", "y"]
    out = pull(line, 3)
    assert np.all(np.diff(out[:240].astype(int)) <= 0) and out[0] > 7900 and not out[240:].any()
    dropped = [event for event in line.events() if event.what == "dropped"]
    assert [(event.clip_id, event.heard_samples) for event in dropped] == [("x", 30 * 160 - 3920 + 240), ("y", 0)]
    assert line.flush() == [] and line.is_idle()


def test_flush_leaves_the_other_kind() -> None:
    line = play_out()
    line.enqueue(Clip("p", P, flat(4000)))
    line.enqueue(Clip("t", T, flat(400)))
    pull(line, 2)
    assert line.flush(T) == ["t"]
    pull(line, 30)
    assert told(line, "ended") == ["p"]


def test_barge_in_prompt_starts_at_once_after_a_flush() -> None:
    line = play_out()
    line.enqueue(Clip("t", T, tone(300, 8000, 2.0)))
    pull(line, 5)
    line.flush(T)
    line.enqueue(Clip("p", P, tone(1000, 8000, 0.5)))
    out = pull(line, 20)
    assert abs(strongest_hz(out[320:3200], 8000) - 1000) < 10
    assert np.any(out[:80])


def test_underruns_are_counted_once_per_starved_burst() -> None:
    line = play_out()
    line.enqueue(Clip("x", T, flat(400), more_follows=True))
    pull(line, 20)
    assert line.statistics()["underruns"] == 1
    line.enqueue(Clip("y", T, flat(400), more_follows=True))
    line.enqueue(Clip("z", T, flat(400)))
    pull(line, 20)
    assert line.statistics()["underruns"] == 1


def test_the_queue_is_bounded_and_refusal_is_told() -> None:
    line = play_out(max_pending_s=1.0)
    assert line.enqueue(Clip("x", T, flat(8000)))
    assert not line.enqueue(Clip("y", T, flat(1)))
    assert told(line, "dropped") == ["y"]
    assert line.pending_s() == 1.0
    assert line.statistics()["clips_refused"] == 1


def test_events_carry_the_egress_sample_and_the_moment() -> None:
    clock = iter(range(0, 10**12, 20_000_000))
    line = PlayOut(8000, 160, now_ns=lambda: next(clock))
    pull(line, 1)
    line.enqueue(Clip("x", T, flat(240)))
    pull(line, 3)
    assert line.events() == [
        PlayEvent("x", "started", 160, 20_000_000, 0),
        PlayEvent("x", "ended", 400, 40_000_000 + 10_000_000, 240),
    ]


def test_the_tap_sees_every_frame_and_cannot_hurt() -> None:
    seen: list[tuple[int, bytes]] = []
    line = play_out(tap=lambda frame, first: seen.append((first, frame)))
    line.enqueue(Clip("x", T, flat(200)))
    out = pull(line, 3)
    assert [first for first, _ in seen] == [0, 160, 320]
    assert b"".join(frame for _, frame in seen) == out.tobytes()

    def broken(frame: bytes, first: int) -> None:
        raise OSError("disk full")

    line = play_out(tap=broken)
    pull(line, 2)
    assert line.statistics()["tap_errors"] == 2


def test_j01_a_stalled_loop_does_not_disturb_the_pull() -> None:
    """The queueing side stands still between bursts of work; the pulling side gets every sample in order."""
    line = PlayOut(8000, 160)
    total = 50
    ramp = np.arange(total * 400) % 3000 + 1

    def produce() -> None:
        for index in range(total):
            line.enqueue(Clip(str(index), T, ramp[index * 400 : index * 400 + 400].astype(np.int16)))

    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(400):
        assert len(line.next_frame()) == 320
    producer.join()
    pull(line, total * 400 // 160 + 1)
    assert told(line, "ended") == [str(index) for index in range(total)]


def test_wrong_arrays_are_refused_at_the_door() -> None:
    line = play_out()
    with pytest.raises(ValueError, match="int16"):
        line.enqueue(Clip("x", T, np.zeros(10, np.float32)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        line.enqueue(Clip("x", T, np.zeros((10, 2), np.int16)))


def test_comfort_noise_lies_under_everything_and_never_stops() -> None:
    line = play_out(comfort_dbfs=-60.0)
    out = pull(line, 500)
    for second in range(10):
        assert rms_db(out[second * 8000 : second * 8000 + 8000] / 32768) == pytest.approx(-60.0, abs=0.3)
    assert line.statistics()["silent_frames"] == 500 and line.is_idle()
    line.enqueue(Clip("x", T, flat(800)))
    spoken = pull(line, 10)
    assert abs(int(spoken[400]) - 8000) < 200 and spoken[1000:].any()
