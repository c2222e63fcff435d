# SPDX-License-Identifier: GPL-3.0-or-later
"""Subtitles, tracks and the page: times right, and no text of a call becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.synthetic import MS, capture_of, silence, tone
from gateway.bench.capture import Capture
from gateway.bench.checks import check_all
from gateway.bench.ear import measure
from gateway.bench.records import SegmentRecord, Spoken
from gateway.bench.report import peaks, render
from gateway.bench.tracks import write_tracks
from gateway.call.captions import Cue, cues, subrip, webvtt

pytestmark = pytest.mark.unit

EVIL = '<script>alert("1")</script> & --> 00:00.000'
START = 500 * MS


def call() -> dict[str, Capture]:
    a = capture_of(np.concatenate([silence(1000), tone(1000, 440), silence(4000)]), silence(6000))
    b = capture_of(silence(6000), np.concatenate([silence(3000), tone(1000, 1000), silence(2000)]))
    return {"a": a, "b": b}


RECORDS = [
    SegmentRecord("a-1", "a", "en", "pt", EVIL, "um", 1000 * MS, 2000 * MS, 3000 * MS, stages_ns={EVIL: 5 * MS}),
    SegmentRecord("a-2", "a", "en", "pt", "two", "dois " * 40, 2500 * MS, 2600 * MS, 3400 * MS),
    SegmentRecord("b-1", "b", "pt", "en", "três", "three", 4000 * MS, 4500 * MS, None, lost="barge-in"),
]


def test_a13_cues_of_each_language() -> None:
    english, portuguese = cues(RECORDS, "en", START), cues(RECORDS, "pt", START)
    assert [(cue.start_ms, cue.end_ms, cue.speaker) for cue in english] == [(500, 1500, "a"), (2000, 2100, "a")]
    assert english[0].text == EVIL
    # a translation ends where the next one of the same talker begins
    assert [(cue.start_ms, cue.end_ms) for cue in portuguese][:2] == [(2500, 2900), (2900, 16_900)]
    assert [cue.speaker for cue in portuguese] == ["a", "a", "b"]
    assert cues(RECORDS, "fr", START) == ()


def test_a13_webvtt_is_escaped_and_well_formed() -> None:
    text = webvtt([Cue(3_723_004, 3_724_000, "a", EVIL), Cue(5, 5, "b\n\n", "x\n\ny")], language="en")
    lines = text.split("\n")
    assert lines[:2] == ["WEBVTT", "Language: en"]
    assert "01:02:03.004 --> 01:02:04.000" in lines
    assert "00:00:00.005 --> 00:00:00.006" in lines
    assert text.count("-->") == 2
    assert "<script" not in text
    assert lines[-2] == "<v b>x y"


def test_a13_subrip_holds_neither_markup_nor_an_arrow_of_the_text() -> None:
    text = subrip([Cue(3_723_004, 3_724_000, "a", EVIL), Cue(5, 5, "b", "x\n\ny")])
    assert text.startswith("1\n01:02:03,004 --> 01:02:04,000\na: ")
    assert text.endswith("2\n00:00:00,005 --> 00:00:00,006\nb: x y\n")
    assert text.count("-->") == 2
    assert "<" not in text
    assert subrip([]) == ""


def test_a13_four_aligned_tracks(tmp_path: Path) -> None:
    write_tracks(tmp_path / "call.wav", call(), START, START + 5000 * MS)
    sound, rate_hz = soundfile.read(tmp_path / "call.wav", dtype="int16")
    assert (rate_hz, sound.shape) == (8000, (40_000, 4))
    onsets = [int(np.flatnonzero(np.abs(track) > 200)[0]) if np.abs(track).max() > 200 else None for track in sound.T]
    assert onsets == [500 * 8, 2500 * 8, None, None]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_is_self_contained_and_escaped() -> None:
    ear = measure(RECORDS, call(), [Spoken(EVIL, "b", "pt", EVIL, 100 * MS, 200 * MS)])
    page = render(
        EVIL,
        captures=call(),
        records=RECORDS,
        ear=ear,
        start_ns=START,
        end_ns=START + 5000 * MS,
        checks=check_all(RECORDS, call()),
    )
    found = _Tags()
    found.feed(page)
    assert "script" not in found.tags
    assert not found.links
    assert not re.search(r"https?:|url\(", page)
    assert page.count("<path") >= 5
    assert "barge-in" in page
    assert "no-segment" in page
    assert "1020" in page  # the latency of a-1: 1.98 s to 3.0 s


def test_the_page_of_a_call_without_sound() -> None:
    empty = {leg: capture_of(silence(0), silence(0)) for leg in "ab"}
    page = render("nothing", captures=empty, records=[], ear=measure([], empty), start_ns=0, end_ns=0)
    assert "nothing was heard" in page


def test_peaks() -> None:
    assert peaks(np.array([1, -5, 3, 9], np.int16), 3) == [(-5, 3), (0, 9)]
    assert peaks(silence(0), 3) == []
