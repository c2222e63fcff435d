# SPDX-License-Identifier: GPL-3.0-or-later
"""Ear latency on synthetic calls whose answer is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bench.synthetic import MS, capture_of, silence, tone
from gateway.bench.capture import Capture
from gateway.bench.ear import ASKED_AGAIN, REMAINDER, measure, spread
from gateway.bench.records import SegmentRecord, Spoken

pytestmark = pytest.mark.unit


def join(*parts: np.ndarray[tuple[int, ...], np.dtype[np.int16]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    return np.concatenate(parts)


def call() -> dict[str, Capture]:
    """A speaks 1.0-2.0 s; B hears 3.2-4.0 s. B speaks 5.0-5.5 s; A hears 6.0-7.0 s."""
    a_sent = join(silence(1000), tone(1000), silence(6000))
    b_heard = join(silence(3200), tone(800), silence(4000))
    b_sent = join(silence(5000), tone(500), silence(2500))
    a_heard = join(silence(6000), tone(1000), silence(1000))
    return {"a": capture_of(a_sent, a_heard), "b": capture_of(b_sent, b_heard)}


def record(name: str = "a-1", leg: str = "a", **changes: object) -> SegmentRecord:
    own = {
        "a": SegmentRecord(
            "a-1",
            "a",
            "en",
            "pt",
            "one two three",
            "um dois três",
            900 * MS,
            2050 * MS,
            3190 * MS,
            stages_ns={"endpoint": 400 * MS, "recognise": 500 * MS, "synthesise": 200 * MS},
        ),
        "b": SegmentRecord("b-1", "b", "pt", "en", "quatro", "four", 4950 * MS, 5520 * MS, 5990 * MS),
    }[leg]
    return dataclasses.replace(own, segment_id=name, **changes)  # type: ignore[arg-type]


def test_c10_latency_from_packets_alone_and_by_direction() -> None:
    report = measure([record(), record("b-1", "b")], call())
    # last loud sample of A is in the packet that left at 1.98 s, B's first in the one that came at 3.2 s
    assert [one.ear_ns / MS for one in report.heard] == [1220, 520]
    assert report.overall is not None
    assert report.overall.p50_ms == pytest.approx(870)
    assert {name: one.p50_ms for name, one in report.by_direction.items()} == {"en>pt": 1220, "pt>en": 520}
    assert not report.unheard
    assert report.egress_pps == pytest.approx({"a": 50.0, "b": 50.0})
    assert (report.lost_segments, report.duplicate_segments) == (0, 0)


def test_the_gateways_stamps_do_not_move_the_figure() -> None:
    for played, end in ((3160, 1900), (3235, 2250)):
        moved = record(played_ns=played * MS, audio_end_ns=end * MS)
        assert measure([moved], call()).heard[0].ear_ns == 1220 * MS


def test_stages_sum_to_the_latency_exactly() -> None:
    heard = measure([record()], call()).heard[0]
    assert sum(heard.stages_ns.values()) == heard.ear_ns
    assert list(heard.stages_ns)[-1] == REMAINDER
    assert heard.stages_ns[REMAINDER] == 120 * MS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"played_ns": None, "lost": "barge-in"}, "barge-in"),
        ({"played_ns": None, "source_text": ""}, "nothing-recognised"),
        ({"played_ns": None, "target_lang": "en"}, "same-language"),
        ({"played_ns": None}, "not-played"),
        ({"played_ns": 5000 * MS}, "nothing-received"),
        ({"played_ns": 1600 * MS}, "nothing-received"),
        ({"audio_first_ns": 7000 * MS, "audio_end_ns": 7400 * MS}, "no-speech-was-sent"),
    ],
)
def test_what_is_not_heard_is_reported_with_a_reason(changes: dict[str, object], reason: str) -> None:
    report = measure([record(**changes)], call())
    assert [one.reason for one in report.unheard] == [reason]
    assert report.overall is None
    assert report.lost_segments == (reason == "not-played")


def test_a_turn_without_a_segment_is_lost_and_named() -> None:
    turns = [
        Spoken("a01", "a", "en", "one", 1000 * MS, 1980 * MS),
        Spoken("b02", "b", "pt", "quatro", 5000 * MS, 5480 * MS),
    ]
    report = measure([record()], call(), turns)
    assert [(one.name, one.reason) for one in report.unheard] == [("b02", "no-segment")]
    assert report.lost_segments == 1


def test_b10_a_turn_that_was_too_unclear_to_be_spoken_is_asked_about_and_not_lost() -> None:
    turn = Spoken("b02", "b", "pt", "quatro", 5000 * MS, 5480 * MS)
    for leg, at_ms, reason in (("b", 5900, ASKED_AGAIN), ("a", 5900, "no-segment"), ("b", 4900, "no-segment")):
        report = measure([record()], call(), [turn], unclear=[(leg, at_ms * MS)])
        assert [(one.name, one.reason) for one in report.unheard] == [("b02", reason)]
        assert report.lost_segments == (reason == "no-segment")


def test_the_next_segments_speech_is_not_taken_for_the_end_of_this_one() -> None:
    captures = call()
    sent = join(silence(1000), tone(1000), silence(200), tone(300), silence(5500))
    captures["a"] = capture_of(sent, silence(8000))
    first = record()
    second = record("a-2", audio_first_ns=2180 * MS, audio_end_ns=2520 * MS, played_ns=4900 * MS)
    report = measure([second, first], captures)
    assert report.heard[0].speech_end_ns == 1980 * MS


def test_sound_that_was_there_before_marks_the_utterance() -> None:
    captures = call()
    original = join(silence(1000), tone(3000, amplitude=600), silence(4000))
    captures["b"] = capture_of(captures["b"].sent.pcm, original)
    heard = measure([record(played_ns=3190 * MS)], captures).heard[0]
    assert heard.masked
    assert heard.first_audio_ns == 3200 * MS
    assert not measure([record()], call()).heard[0].masked


def test_a_clause_spoken_before_the_end_has_a_negative_latency() -> None:
    captures = call()
    captures["a"] = capture_of(join(silence(1000), tone(4000), silence(3000)), silence(8000))
    early = record(audio_end_ns=5050 * MS)
    assert measure([early], captures).heard[0].ear_ns == (3200 - 4980) * MS


def test_duplicates_are_ids_and_repeated_joins() -> None:
    again = record(audio_first_ns=2100 * MS, audio_end_ns=2200 * MS)
    assert measure([record(), again], call()).duplicate_segments == 2  # the id, and its text joins onto itself
    other = dataclasses.replace(again, segment_id="a-2")
    assert measure([record(), other], call()).duplicate_segments == 1
    assert measure([record(), other], call(), references=["one two three one two three"]).duplicate_segments == 0


def test_wrong_input_is_named() -> None:
    with pytest.raises(ValueError, match="two ears"):
        measure([], {"a": call()["a"]})
    with pytest.raises(ValueError, match="leg c"):
        measure([dataclasses.replace(record(), leg="c")], call())


def test_s1_29_spread() -> None:
    found = spread([1, 2, 3, 4, 10])
    assert found is not None
    assert (found.count, found.p50_ms, found.p95_ms, found.max_ms) == (5, 3, pytest.approx(8.8), 10)
    assert found.sigma_ms == pytest.approx(3.5355, abs=1e-4)
    assert spread([]) is None
    one = spread([7])
    assert one is not None
    assert one.sigma_ms == 0


def test_records_from_the_gateways_json() -> None:
    data = {
        "segment_id": "a-1",
        "leg": "a",
        "source_lang": "en",
        "target_lang": "pt",
        "source_text": "x",
        "target_text": "y",
        "audio_first_ns": 5,
        "audio_end_ns": 9,
        "played_ns": 0,
        "confidence": 0.5,
        "lost": None,
        "stages": {"endpoint": 0.4},
    }
    read = SegmentRecord.from_json(data)
    assert (read.played_ns, read.stages_ns) == (None, {"endpoint": 400 * MS})
    assert measure([read], call()).as_json()["unheard"][0]["name"] == "a-1"
    with pytest.raises(ValueError, match="audio_end_ns"):
        SegmentRecord.from_json({key: value for key, value in data.items() if key != "audio_end_ns"})
    with pytest.raises(ValueError, match="segment record"):
        SegmentRecord.from_json({**data, "stages": 3})
