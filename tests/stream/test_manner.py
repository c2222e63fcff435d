# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.3: the interpreter's voice follows how somebody speaks, against how they usually do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stream.events import VoiceFrame
from gateway.stream.manner import FASTEST, MOST_GAIN_DB, SLOWEST, USUAL, Manner, Talker

pytestmark = pytest.mark.unit

FRAME = 160
TEXT = "thirty letters of ordinary talk"  # 27 letters


class Line:
    """A talker who says the text in a given time at a given level."""

    def __init__(self) -> None:
        self.talker = Talker(8000)
        self.at = 0

    def say(self, seconds: float, level_dbfs: float, pause_s: float = 0.0) -> tuple[int, int]:
        first = self.at
        for number in range(round((seconds + pause_s) / 0.02)):
            speech = number < round(seconds / 0.02)
            self.talker.feed(VoiceFrame(self.at, FRAME, speech, level_dbfs if speech else -70.0))
            self.at += FRAME
        return first, self.at

    def usual(self, times: int = 3) -> None:
        for _ in range(times):
            self.talker.learn(*self.say(2.0, -25.0), TEXT)


def test_the_first_utterances_only_teach() -> None:
    line = Line()
    line.usual(2)
    assert line.talker.manner(*line.say(1.0, -15.0), TEXT) == USUAL
    line.usual(1)
    assert line.talker.manner(*line.say(1.0, -15.0), TEXT) != USUAL


def test_s1_3_speed_and_level_follow_the_talker() -> None:
    line = Line()
    line.usual()
    assert line.talker.manner(*line.say(2.0, -25.0), TEXT) == USUAL
    assert line.talker.manner(*line.say(2.0 / 1.1, -22.0), TEXT) == Manner(pytest.approx(1.1, abs=0.01), 3.0)  # type: ignore[arg-type]
    assert line.talker.manner(*line.say(2.2, -27.0), TEXT) == Manner(pytest.approx(0.91, abs=0.01), -2.0)  # type: ignore[arg-type]


def test_s1_3_pauses_within_an_utterance_do_not_count_as_slowness() -> None:
    line = Line()
    line.usual()
    assert line.talker.manner(*line.say(2.0, -25.0, pause_s=1.0), TEXT) == USUAL


@pytest.mark.parametrize(("text", "seconds"), [("yes", 2.0), (TEXT, 0.4), ("", 2.0)])
def test_what_is_too_short_says_nothing(text: str, seconds: float) -> None:
    line = Line()
    line.usual()
    assert line.talker.manner(*line.say(seconds, -10.0), text) == USUAL


@given(st.lists(st.tuples(st.floats(0.1, 8.0), st.floats(-80, 0)), min_size=4, max_size=12))
def test_the_voice_stays_within_bounds(utterances: list[tuple[float, float]]) -> None:
    line = Line()
    for seconds, level_dbfs in utterances:
        span = line.say(seconds, level_dbfs)
        manner = line.talker.manner(*span, TEXT)
        assert SLOWEST <= manner.tempo <= FASTEST and abs(manner.gain_db) <= MOST_GAIN_DB
        line.talker.learn(*span, TEXT)
