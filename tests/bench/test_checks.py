# SPDX-License-Identifier: GPL-3.0-or-later
"""S0.9: each check passes on a good record and fails on a bad one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bench.synthetic import MS, capture_of, silence, tone
from gateway.bench.capture import Capture
from gateway.bench.checks import (
    check_all,
    cuts_only_in_silence,
    long_silence_yields_nothing,
    no_repeated_half_sentence,
    repeated_inside,
    repeated_join,
    times_rise,
)
from gateway.bench.records import SegmentRecord

pytestmark = pytest.mark.unit


def captures() -> dict[str, Capture]:
    """A speaks 1-3 s and 4-5 s, then is silent to 12 s, then speaks for a second."""
    sent = np.concatenate([silence(1000), tone(2000), silence(1000), tone(1000), silence(7000), tone(1000)])
    return {"a": capture_of(sent, silence(13_000)), "b": capture_of(silence(13_000), silence(13_000))}


def record(name: str, first_ms: int, end_ms: int, text: str, played_ms: int) -> SegmentRecord:
    return SegmentRecord(name, "a", "en", "pt", text, text, first_ms * MS, end_ms * MS, played_ms * MS)


GOOD = [
    record("a-1", 900, 3050, "please hold the line", 3900),
    record("a-2", 3950, 5040, "while we connect you", 5900),
    record("a-3", 11_950, 12_990, "you are next", 13_900),
]


def changed(index: int, **values: object) -> list[SegmentRecord]:
    records = [*GOOD]
    records[index] = dataclasses.replace(records[index], **values)  # type: ignore[arg-type]
    return records


def test_s0_9_a_good_conversation_passes_all_four() -> None:
    checks = check_all(GOOD, captures())
    assert [(check.name, check.findings) for check in checks] == [
        ("cuts-only-in-silence", ()),
        ("no-repeated-half-sentence", ()),
        ("long-silence-yields-nothing", ()),
        ("times-rise", ()),
    ]


@pytest.mark.parametrize(("field", "at_ms", "name"), [("audio_end_ns", 2000, "end"), ("audio_first_ns", 1500, "begin")])
def test_s0_9_a_cut_in_mid_speech_is_found(field: str, at_ms: int, name: str) -> None:
    check = cuts_only_in_silence(changed(0, **{field: at_ms * MS}), captures())
    assert check.findings == (f"{name} of a-1 cuts into speech",)


def test_s0_9_a_short_closure_inside_a_word_is_no_silence() -> None:
    sent = np.concatenate([silence(1000), tone(1000), silence(40), tone(1000), silence(9000)])
    legs = {"a": capture_of(sent, silence(12_000)), "b": capture_of(silence(12_000), silence(12_000))}
    assert not cuts_only_in_silence([record("a-1", 900, 2020, "x", 3000)], legs).passed


def test_s0_9_a_repeated_half_sentence_is_found() -> None:
    check = no_repeated_half_sentence(changed(1, source_text="Hold the line, while we connect you."))
    assert check.findings == ("a-2 repeats 3 words",)
    check = no_repeated_half_sentence(changed(2, source_text="you are next, you are next"))
    assert check.findings == ("a-3 repeats 3 words",)


def test_s3_3_what_the_talker_repeats_is_no_fault() -> None:
    assert repeated_join("call five five five", "five five five please") == "five five five"
    assert repeated_join("call five five five", "five five five please", ["five five five five five five"]) is None
    assert repeated_join("no, no", "no, no") is None
    assert repeated_inside("one two three, one two three", ["One two three one two three!"]) is None
    assert repeated_inside("one two three, one two") is None


def test_s0_9_words_out_of_a_long_silence_are_found() -> None:
    invented = record("a-9", 7500, 8500, "thank you for watching", 9000)
    check = long_silence_yields_nothing([*GOOD[:2], invented, GOOD[2]], captures())
    assert check.findings == ("a-9 was made of silence",)
    empty = dataclasses.replace(invented, source_text="", played_ns=None)
    assert long_silence_yields_nothing([empty], captures()).passed


@pytest.mark.parametrize(
    ("records", "finding"),
    [
        (changed(0, audio_end_ns=800 * MS), "a-1 ends before it begins"),
        (changed(1, audio_first_ns=2900 * MS), "a-2 begins before the segment in front has ended"),
        ([GOOD[1], GOOD[0], GOOD[2]], "a-1 begins before the segment in front has ended"),
        (changed(1, played_ns=3800 * MS), "a-2 is played too early"),
        (changed(0, played_ns=100 * MS), "a-1 is played too early"),
    ],
)
def test_s0_9_times_that_do_not_rise_are_found(records: list[SegmentRecord], finding: str) -> None:
    assert finding in times_rise(records).findings


def test_s0_9_a_segment_that_was_lost_and_noted_late_is_no_fault() -> None:
    lost = dataclasses.replace(GOOD[0], segment_id="a-0", lost="barge-in", played_ns=None)
    assert times_rise([*GOOD, lost]).passed
