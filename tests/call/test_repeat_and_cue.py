# SPDX-License-Identifier: GPL-3.0-or-later
"""What is repeated on demand (SPEC A6), and when a waiting listener hears the cue (SPEC A10)."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.audio.playout import Clip, ClipKind, PlayEvent
from gateway.call.cue import WaitingCue, cue_sound
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.repeat import KEPT_S, LastWords
from gateway.speech.jobs import Speech

pytestmark = pytest.mark.unit

RATE = 8000
SECOND = 1_000_000_000


def sound(seconds: float, value: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.full(round(seconds * RATE), value, np.int16)


def started(name: str) -> PlayEvent:
    return PlayEvent(name, "started", 0, 0, 0)


def values(words: LastWords) -> list[int]:
    """The utterances that are repeated, by the value of their sound."""
    taken = words.take()
    return [int(value) for n, value in enumerate(taken) if value and (n == 0 or taken[n - 1] != value)]


def test_a6_nothing_is_repeated_before_something_was_heard() -> None:
    words = LastWords(RATE)
    assert not words.take().size
    words.keep("one", sound(4, 1))
    assert not words.take().size, "it is queued, and not heard yet"
    words.note(started("one"))
    assert words.take().size == 4 * RATE


def test_a6_the_last_utterance_that_was_heard_is_repeated_whole() -> None:
    words = LastWords(RATE)
    for name, value in (("one", 1), ("two", 2), ("three", 3)):
        words.keep(name, sound(2, value))
        words.keep(name, sound(2, value))
    words.note(started("one"))
    words.note(started("two"))
    words.note(started("prompt"))
    assert values(words) == [2] and words.take().size == 4 * RATE


def test_a6_a_short_one_is_repeated_with_what_went_before() -> None:
    words = LastWords(RATE)
    for n in (1, 2, 3, 4):
        words.keep(str(n), sound(1.2, n))
        words.note(started(str(n)))
    assert values(words) == [2, 3, 4]
    assert values(words) == [2, 3, 4], "again and again"


def test_a6_only_a_minute_is_kept() -> None:
    words = LastWords(RATE)
    for n in range(1, 30):
        words.keep(str(n), sound(7, n))
    assert words.statistics()["seconds"] <= KEPT_S
    words.note(started("29"))
    assert values(words) == [29]


def test_a10_the_cue_comes_when_the_wait_is_long_and_again_each_time() -> None:
    cue = WaitingCue(2 * SECOND)
    waits = [now / 10 for now in range(100, 160) if cue.due(now * SECOND // 10, 10 * SECOND, silent=True)]
    assert waits == [12.0, 14.0]
    assert cue.told == 2


@pytest.mark.parametrize(
    ("limit_ns", "since_ns", "silent"),
    [(0, 0, True), (2 * SECOND, None, True), (2 * SECOND, 0, False), (2 * SECOND, 9 * SECOND, True)],
)
def test_a10_no_cue_without_a_wait_or_into_sound(limit_ns: int, since_ns: int | None, silent: bool) -> None:
    assert not WaitingCue(limit_ns).due(10 * SECOND, since_ns, silent=silent)


def test_a10_the_cue_is_soft_and_neither_clicks_nor_lasts() -> None:
    pcm = cue_sound(RATE).astype(np.int32)
    assert 100 < np.abs(pcm).max() < 600, "audible, and 16 dB below speech"
    assert pcm.size < 0.4 * RATE
    assert abs(pcm[0]) < 5 and abs(pcm[-1]) < 5 and np.abs(np.diff(pcm)).max() < 200


def test_a10_a_translation_does_not_wait_for_the_cue() -> None:
    party = Party("b", "leg-b", "pt", lambda: None)
    party.cue = WaitingCue(SECOND)
    party.wait(3 * SECOND, SECOND)
    first = np.frombuffer(party.playout.next_frame(), np.int16)
    assert first.any()
    party.wait(9 * SECOND, SECOND)
    assert party.cue.told == 1, "only into silence"
    party.say("one", Speech(sound(1, 9000).tobytes(), LEG_RATE_HZ, "v"), more_follows=False)
    party.playout.next_frame()
    assert np.abs(np.frombuffer(party.playout.next_frame(), np.int16)).max() > 8000
    kinds = [event.clip_id for event in party.playout.events() if event.what == "dropped"]
    assert kinds == ["waiting"]
    assert not party.playout.enqueue(Clip("x", ClipKind.CUE, sound(200, 1))), "bounded like everything"
