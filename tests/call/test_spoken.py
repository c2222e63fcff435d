# SPDX-License-Identifier: GPL-3.0-or-later
"""What a party was given to hear: pieces, prompts that are said twice, and cuts."""

from __future__ import annotations

from typing import Literal

import pytest

from gateway.audio.playout import ClipKind, PlayEvent
from gateway.call.spoken import KEPT, SpokenLog

pytestmark = pytest.mark.unit

MS = 1_000_000


def event(name: str, what: Literal["started", "ended", "dropped"], at_ms: int) -> PlayEvent:
    return PlayEvent(name, what, 0, at_ms * MS, 0)


def test_pieces_of_a_translation_are_one_and_it_sounds_through_the_pause_between_them() -> None:
    log = SpokenLog()
    log.queue("s1", ClipKind.TRANSLATION, 500 * MS)
    log.note(event("s1", "started", 1000), "um dois", "pt", 700 * MS)
    log.queue("s1", ClipKind.TRANSLATION, 800 * MS)
    log.note(event("s1", "started", 1490), "", "")  # a piece begins under the fall of the one before
    log.note(event("s1", "ended", 1500), "", "")
    (one,) = log.during(0, 5000 * MS)
    assert (one.text, one.language, one.said_ns, one.began_ns) == ("um dois", "pt", 700 * MS, 1000 * MS)
    assert log.sounding(2000 * MS) is one and one.until_ns == 2300 * MS
    log.note(event("s1", "ended", 2350), "", "")
    assert log.sounding(2360 * MS) is None and one.until_ns == 2350 * MS


def test_what_is_queued_does_not_sound_yet() -> None:
    log = SpokenLog()
    log.queue("s1", ClipKind.TRANSLATION, 500 * MS)
    assert log.during(0, 9000 * MS) == [] and log.sounding(100 * MS) is None
    assert log.note(event("s1", "dropped", 100), "", "") is None, "it was not cut off: it never began"


def test_a_cut_tells_how_much_was_heard_and_is_told_once() -> None:
    log = SpokenLog()
    for _ in range(3):
        log.queue("s1", ClipKind.TRANSLATION, 500 * MS)
    log.note(event("s1", "started", 1000), "text", "pt")
    cut = log.note(event("s1", "dropped", 1300), "", "")
    assert cut is not None and cut.cut_ns == 300 * MS
    assert log.note(event("s1", "dropped", 1300), "", "") is None
    assert log.sounding(1400 * MS) is None


def test_a_cut_in_the_pause_between_two_pieces_counts_what_was_heard_before() -> None:
    log = SpokenLog()
    log.queue("s1", ClipKind.TRANSLATION, 500 * MS)
    log.queue("s1", ClipKind.TRANSLATION, 500 * MS)
    log.note(event("s1", "started", 1000), "text", "pt")
    log.note(event("s1", "ended", 1500), "", "")
    cut = log.note(event("s1", "dropped", 1700), "", "")
    assert cut is not None and cut.cut_ns == 500 * MS


def test_a_prompt_that_is_said_twice_is_two() -> None:
    log = SpokenLog()
    for at_ms in (1000, 5000):
        log.queue("please-repeat", ClipKind.PROMPT, 400 * MS)
        log.note(event("please-repeat", "started", at_ms), "again", "en")
        log.note(event("please-repeat", "ended", at_ms + 400), "again", "en")
    assert [one.began_ns for one in log.during(0, 9000 * MS)] == [1000 * MS, 5000 * MS]
    assert log.sounding(1100 * MS) is None, "a prompt is nobody's turn"


def test_it_is_bounded_and_knows_nothing_of_others() -> None:
    log = SpokenLog()
    for number in range(3 * KEPT):
        log.queue(f"s{number}", ClipKind.TRANSLATION, MS)
        log.note(event(f"s{number}", "started", number + 1), "x", "pt")
    assert len(log.during(0, 10**15)) == KEPT and log.statistics() == {"kept": KEPT, "cut": 0}
    assert log.note(event("never-queued", "started", 1), "x", "pt") is None
