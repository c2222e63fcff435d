# SPDX-License-Identifier: GPL-3.0-or-later
"""The benches' evaluations by hand, and the talk itself with a recogniser that is not one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.bench.corpus import Line, Placed, Prompt, lay
from gateway.bench.long_bench import Handed, behind_s, by_minute, handed, memory_figures, object_bytes
from gateway.bench.simulate import Run, VirtualSpeech
from gateway.bench.stream_bench import event_lines, figures, first_previews_s, segments_of, write_events
from gateway.bench.stream_figures import slope_per_min
from gateway.bench.tail_bench import Asked, HearingEngines, TailRow, _fixed, sign_test, tail_row, verdict
from gateway.bench.talk import Look, Talk, TalkFailed, Told, hold, in_virtual_time
from gateway.call.desk import Booth
from gateway.settings import load_settings
from gateway.speech.jobs import Recognition, Result
from gateway.speech.protocols import RecognizerCapabilities

pytestmark = pytest.mark.unit

S = 8000


def buzz(seconds: float) -> Prompt:
    """Passes for speech with a voice detector: a buzz with the rhythm of syllables and a pitch that is not held."""
    time = np.arange(round(seconds * S)) / S
    phase = 2 * np.pi * np.cumsum(130 + 12 * np.sin(2 * np.pi * 2 * time)) / S
    tone = sum(np.sin(phase * n) / n for n in range(1, 20)) * np.sin(np.pi * 4 * time) ** 2
    return Prompt(f"buzz-{seconds}", "alpha beta gamma", (tone * 6000).astype(np.int16))


class SameWords:
    """Recognises three words in everything."""

    capabilities = RecognizerCapabilities(frozenset({"en"}), identifies_language=False, hotwords=False, longest_s=30)

    def recognize(
        self, pcm: bytes, *, language: str | None, hotwords: Sequence[str] = (), context: str = "", words: bool = False
    ) -> Recognition:
        return Recognition("Alpha beta gamma.", "en", 0.9)


def talk_over(line: Line, *, mode: str = "consecutive", legs: int = 1) -> tuple[Talk, HearingEngines]:
    engines = HearingEngines(SameWords(), ("en", "pt"))

    async def act(desk: Booth) -> Talk:
        return await hold(desk, [line] * legs, ("en", "pt"), mode, say=lambda message: None)

    speech = VirtualSpeech(engines, measure=_fixed)
    talk, _ = in_virtual_time(load_settings(None, {}), act, speech)
    return talk, engines


@pytest.fixture(scope="module")
def line() -> Line:
    return lay([buzz(1.2), buzz(2.0)], utterances=4, pause_ms=(900, 1500), seed=5)[0]


@pytest.fixture(scope="module")
def talk(line: Line) -> Talk:
    return talk_over(line)[0]


def test_s4_2_every_utterance_of_a_line_becomes_one_final_right_behind_its_end(line: Line, talk: Talk) -> None:
    found = figures([line], talk, "en", "pt")
    assert (found["utterances"], found["segments"], found["merged_groups"], found["lost"]) == (4, 4, 0, 0)
    assert (found["wer"], found["first_word_recall"], found["last_word_recall"]) == (0.0, 1.0, 1.0)
    assert found["duplicates"] == {"segment_ids": 0, "joins": 0}
    # the end window is 400 ms, and all but the last utterance wait for it; the recognition was ready before
    assert 0.38 <= found["audio_end_to_final"]["p50_s"] <= 0.48
    assert found["stop_to_terminal_s"][0] is not None
    assert found["audio_end_to_heard"]["count"] == 4
    assert found["audio_end_to_heard"]["max_s"] < 2


def test_sound_up_to_a_moment_arrives_at_that_moment(talk: Talk) -> None:
    """An end is confirmed when its span has been heard: the span's end on the line is the stamp on the clock."""
    confirmed = [one.data for one in talk.of("heard", "a")][:3]
    stamps = [talk.seconds(data["clocks_ns"]["vad_end"]) for data in confirmed]
    assert stamps == pytest.approx([data["source_span"][1] / S for data in confirmed], abs=1e-4)


def test_a_talk_in_virtual_time_is_the_same_twice(line: Line, talk: Talk) -> None:
    again, _ = talk_over(line)
    assert [(one.kind, round(one.at_s, 6)) for one in again.told] == [
        (one.kind, round(one.at_s, 6)) for one in talk.told
    ]


def test_a_talk_that_does_not_come_to_rest_fails_or_is_broken_off(line: Line) -> None:
    engines = HearingEngines(SameWords(), ("en", "pt"))

    def measure(kind: str, threads: int, work: Callable[[], Result]) -> tuple[Result, Run]:
        return work(), Run(kind, 1, 1, 9_000_000_000)

    async def act(desk: Booth) -> Talk:
        return await hold(
            desk, [line], ("en", "pt"), "consecutive", say=lambda message: None, rest_s=2, must_rest=False
        )

    async def strict(desk: Booth) -> Talk:
        return await hold(desk, [line], ("en", "pt"), "consecutive", say=lambda message: None, rest_s=2)

    talk, _ = in_virtual_time(load_settings(None, {}), act, VirtualSpeech(engines, measure=measure))
    assert not talk.came_to_rest
    assert {one.data.get("lost") or one.data.get("reason") for one in talk.of("utterance") + talk.of("lost")} >= {
        "call-ended"
    }
    with pytest.raises(TalkFailed, match="did not come to rest"):
        in_virtual_time(load_settings(None, {}), strict, VirtualSpeech(engines, measure=measure))


def test_two_legs_each_have_their_own_segments(line: Line) -> None:
    talk, _ = talk_over(line, legs=2)
    assert len(segments_of(talk, "a")) == len(segments_of(talk, "b")) == 4


def test_the_event_log_has_exactly_three_fields_and_rising_times(talk: Talk, tmp_path: Path) -> None:
    write_events(tmp_path / "deep" / "events.jsonl", talk)
    lines = [json.loads(each) for each in (tmp_path / "deep" / "events.jsonl").read_text().splitlines()]
    assert all(set(each) == {"t", "kind", "text"} for each in lines)
    assert [each["t"] for each in lines] == sorted(each["t"] for each in lines)
    assert [each["kind"] for each in lines if each["kind"] != "partial"] == ["final"] * 4 + ["end"]


def told(kind: str, at_s: float, **data: Any) -> Told:
    return Told("a", kind, at_s, data)


def test_a_stream_without_previews_has_no_first_preview() -> None:
    line = Line(np.zeros(S, np.int16), (Placed("p", "p", 0, S),))
    assert first_previews_s(Talk(0), {"a": line}) == []
    assert [each["kind"] for each in event_lines(Talk(0))] == ["end"]


def test_the_first_preview_counts_from_the_first_sound_and_its_own_stamp() -> None:
    line = Line(np.zeros(9 * S, np.int16), (Placed("p", "p", S, 3 * S), Placed("q", "q", 5 * S, 6 * S)))
    talk = Talk(10**9)
    talk.told += [
        told("preview", 1.2, text=""),
        told("preview", 2.1, text="one", at_ns=3 * 10**9),
        told("preview", 2.5, text="one two"),
        told("preview", 5.9, text="three"),
    ]
    assert first_previews_s(talk, {"a": line}) == [pytest.approx(1.0), pytest.approx(0.9)]


# --- long -----------------------------------------------------------------------------------------------------------


def record(first_audio_s: float, end_s: float) -> Told:
    clocks = {"first_audio": round(first_audio_s * 1e9)} if first_audio_s else {}
    return told("utterance", 99.0, clocks_ns=clocks, source_span=[0, round(end_s * S)])


def test_what_was_handed_over_never_falls_back() -> None:
    talk = Talk(0)
    talk.told += [record(5.0, 4.0), record(9.0, 8.0), record(8.5, 2.0), record(0, 9.0)]
    assert handed(talk) == [Handed(5.0, 4.0), Handed(8.5, 4.0), Handed(9.0, 8.0), Handed(99.0, 9.0)]


def test_behind_is_the_age_of_what_was_handed_over_plus_what_waits() -> None:
    looks = [Look("a", 1.0, 0.0), Look("a", 5.0, 3.0), Look("b", 5.0, 9.0), Look("a", 6.0, 2.0), Look("a", 60.0, 0.0)]
    assert behind_s(looks, [Handed(5.0, 4.0)], 10.0) == [(1.0, 1.0), (5.0, 4.0), (6.0, 4.0)]


def test_an_interpreter_that_falls_behind_has_a_slope() -> None:
    """Every 10 s of speech is handed over 1 s later than the 10 s before."""
    steps = [Handed(10 * n + n, 10 * n) for n in range(1, 60)]
    slope = slope_per_min(behind_s([Look("a", float(at), 0.0) for at in range(600)], steps, 600.0))
    assert slope == pytest.approx(60 / 11, rel=0.1)
    keeping_up = [Handed(10 * n + 1.0, 10 * n) for n in range(1, 60)]
    flat = slope_per_min(behind_s([Look("a", float(at), 0.0) for at in range(600)], keeping_up, 600.0))
    assert flat == pytest.approx(0, abs=0.1)


def test_minutes_are_means() -> None:
    assert by_minute([(0, 1.0), (59, 3.0), (60, 5.0)]) == [2.0, 5.0]


def test_object_bytes_sees_growth_and_counts_shared_objects_once() -> None:
    held: list[bytes] = []
    before = object_bytes([held])
    held.append(bytes(100_000))
    assert 100_000 <= object_bytes([held]) - before < 101_000
    held.append(held[0])
    assert object_bytes([held, held]) - before < 101_000
    assert object_bytes([{"x": np.zeros(10_000, np.int16)[:5]}]) >= 20_000


def test_memory_figures_of_growth() -> None:
    found = memory_figures([(60, 1.0), (120, 2.0), (180, 3.0)])
    assert (found["first_mb"], found["last_mb"], found["slope_mb_per_min"]) == (1.0, 3.0, pytest.approx(1.0))


# --- tail -----------------------------------------------------------------------------------------------------------


def test_s4_4_e07_a_tail_row_counts_what_a_wrong_tail_causes() -> None:
    """A last word that is missed, words that nobody said, sentences that run together."""
    placed = (
        Placed("p", "press the pound key", 0, 2 * S),
        Placed("q", "thank you all", 3 * S, 4 * S),
        Placed("r", "good bye now", 4 * S + 2400, 6 * S),
    )
    texts = [("Press the pound.", 0, 2.4), ("Thank you all. Good bye now. Thanks for watching.", 2.8, 6.4)]
    talk, asked = Talk(0), []
    for text, first_s, end_s in texts:
        clocks = {"audio_end": round((end_s - 0.4) * 1e9)}
        span = [round(first_s * S), round(end_s * S)]
        talk.told.append(told("heard", end_s, segment_id=text, text=text, source_span=span, clocks_ns=clocks))
        # recognised was the candidate's sound, 160 ms behind the speech
        samples = round((end_s - 0.24 - first_s) * 16_000)
        asked.append(Asked(end_s - 0.1, samples, Recognition(text, "en", 0.9)))
    row = tail_row(Line(np.zeros(7 * S, np.int16), placed), talk, asked, "en", (160, 400, 400))
    assert row.recognised_tail_ms == 160
    assert (row.utterances, row.missed_last_words, row.extra_words_at_end, row.merged) == (3, 1, 3, 1)
    assert row.loops == 0
    assert row.faults == 5


def row(prepare_ms: int, keep_ms: int, missed: int, extra: int = 0) -> TailRow:
    hits = (False,) * missed + (True,) * (50 - missed)
    return TailRow(prepare_ms, keep_ms, 400, keep_ms, 50, 1.0, missed, extra, 0, 0, 0, 0.0, hits)


@pytest.mark.parametrize(
    ("rows", "keep_right", "prepare_right"),
    [
        ([row(0, 40, 9), row(0, 400, 3), row(160, 400, 4)], True, True),
        ([row(0, 40, 1), row(0, 400, 3), row(160, 400, 9)], True, False),  # 2 more is chance, 6 more is not
        ([row(0, 40, 1), row(0, 400, 8), row(160, 400, 8)], False, True),
        ([row(0, 40, 3), row(0, 400, 3, extra=2), row(160, 400, 3)], False, True),
    ],
)
def test_a_verdict_compares_with_the_best_and_with_preparing_off(
    rows: list[TailRow], keep_right: bool, prepare_right: bool
) -> None:
    found = verdict(rows, 400, 160)
    assert (found["keep_tail_right"], found["prepare_right"]) == (keep_right, prepare_right)


def test_the_sign_test_by_hand() -> None:
    """Five differing utterances, all one way: twice 1/32; one against one: certain to be at least so unequal."""
    assert sign_test([True] * 5 + [False], [False] * 6) == pytest.approx(2 / 32)
    assert sign_test([True, False, True], [False, True, True]) == 1.0
    assert sign_test([], []) == 1.0


def test_equal_sound_is_recognised_once(line: Line) -> None:
    _, engines = talk_over(line)
    assert len(engines.known) <= len(engines.asked)
    assert len(engines.asked) >= 4
