# SPDX-License-Identifier: GPL-3.0-or-later
"""J01, B23: bursts of synthesis are heard whole, and the bench would notice if they were not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.playout import PlayOut
from gateway.bench.burst_replay import MARK, RATE_HZ, Arrival, bursty_clauses, replay
from gateway.bench.voice_bench import alias_db, over_the_phone, texts_for

pytestmark = pytest.mark.unit


def sound(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.full(round(seconds * RATE_HZ), MARK, np.int16)


@pytest.mark.parametrize("seed", range(3))
def test_j01_clauses_of_three_seconds_at_uneven_times_have_no_gap_inside(seed: int) -> None:
    done = bursty_clauses(30, seed)
    assert (done.clips, done.torn_clips, done.starved) == (30, 0, 0)
    assert done.heard_s == pytest.approx(90.0, abs=0.6)  # they are made faster than they are heard: no pause at all


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.05, 3)), min_size=1, max_size=12))
def test_j01_no_clip_is_torn_whenever_it_comes(clips: list[tuple[float, float]]) -> None:
    assert replay([Arrival(at_s, sound(seconds)) for at_s, seconds in clips]).torn_clips == 0


def test_a_clause_whose_next_piece_is_late_counts_as_starved() -> None:
    pieces = [Arrival(0.0, sound(1.0), more_follows=True), Arrival(1.5, sound(1.0))]
    assert replay(pieces).starved == 1
    assert replay([pieces[0], Arrival(0.9, sound(1.0))]).starved == 0


def test_a_torn_clip_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PlayOut.next_frame

    def with_a_hole(line: PlayOut) -> bytes:
        frame = whole(line)
        return bytes(320) if line.statistics()["frames"] == 40 else frame

    monkeypatch.setattr(PlayOut, "next_frame", with_a_hole)
    assert replay([Arrival(0.0, sound(3.0))]).torn_clips == 1


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 24_000])
def test_b23_nothing_above_the_telephone_band_comes_back(rate_hz: int) -> None:
    assert alias_db(rate_hz) < -60


def test_the_telephone_keeps_length_and_level() -> None:
    at = np.arange(24_000) / 24_000
    pcm = np.round(6000 * np.sin(2 * np.pi * 440 * at)).astype(np.int16)
    heard = over_the_phone(pcm, 24_000)
    assert heard.size == 8000
    assert np.std(heard) == pytest.approx(np.std(pcm), rel=0.01)


@pytest.mark.parametrize("language", ["en", "pt", "es", "fr", "de"])
def test_there_are_sentences_to_speak_in_every_language_with_prompts(language: str) -> None:
    texts = texts_for(language, 8)
    assert len(set(texts)) == len(texts) >= 6
    assert not any(character.isdigit() for text in texts for character in text)


def test_a_language_without_sentences_is_named() -> None:
    with pytest.raises(ValueError, match="'xx'"):
        texts_for("xx", 4)
