# SPDX-License-Identifier: GPL-3.0-or-later
"""J06: who talks over a translation cuts it, unless it was a nod or an echo; nothing stale is heard afterwards."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import numpy as np
import pytest

from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.call.interpretation import INTERRUPTED
from gateway.call.talkover import TalkOver
from gateway.speech.jobs import Result, Speech, SynthesizeTask, Task
from gateway.stream.events import VoiceFrame
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle
from tests.call.test_clauses import Listener
from tests.call.test_direction import Line, run, voice

pytestmark = pytest.mark.unit

FRAME = 160


class Played:
    """What the talker hears, written by hand."""

    def __init__(self) -> None:
        self.translating = True
        self.levels: deque[float] = deque([-127.0] * 100, maxlen=100)

    def recent_levels(self, frames: int) -> Sequence[float]:
        return list(self.levels)[-frames:]


def speech_levels(frames: int, seed: int) -> list[float]:
    """Levels that rise and fall as speech does: a syllable of 3 to 8 frames, then a fall."""
    chance = np.random.default_rng(seed)
    levels: list[float] = []
    while len(levels) < frames:
        levels += [chance.uniform(-26, -16)] * int(chance.integers(3, 9))
        levels += [chance.uniform(-50, -35)] * int(chance.integers(1, 5))
    return levels[:frames]


def fed(over: TalkOver, played: Played, heard: Sequence[float], given: Sequence[float]) -> int:
    """Feed levels frame by frame; how often it counted. Speech is what is louder than -45 dBFS."""
    counted = 0
    for number, (level, out) in enumerate(zip(heard, given, strict=True)):
        played.levels.append(out)
        over.feed(VoiceFrame(number * FRAME, FRAME, level > -45, level))
        counted += over.take()
    return counted


def test_j06_talking_over_counts_and_goes_on_counting() -> None:
    played = Played()
    over = TalkOver(700, 8000, played)
    assert fed(over, played, speech_levels(60, 1), speech_levels(60, 2)) == 1
    assert over.echoes == 0


@pytest.mark.parametrize("nod_ms", [200, 400, 600])
def test_j06_a_nod_does_not_count(nod_ms: int) -> None:
    played = Played()
    over = TalkOver(700, 8000, played)
    one = [-20.0] * (nod_ms // 20) + [-70.0] * 30
    assert fed(over, played, one * 5, speech_levels(len(one) * 5, 2)) == 0


def test_talking_while_nothing_is_translated_does_not_count() -> None:
    played = Played()
    played.translating = False
    assert fed(TalkOver(700, 8000, played), played, speech_levels(200, 1), [-127.0] * 200) == 0


def test_it_can_be_off() -> None:
    played = Played()
    assert fed(TalkOver(0, 8000, played), played, speech_levels(200, 1), speech_levels(200, 2)) == 0


@pytest.mark.parametrize("delay_frames", [1, 6, 14, 28])
@pytest.mark.parametrize("softer_db", [6.0, 20.0])
def test_b7_an_echo_of_the_translation_interrupts_nobody(delay_frames: int, softer_db: float) -> None:
    played = Played()
    over = TalkOver(700, 8000, played)
    given = speech_levels(300, 3)
    heard = [-70.0] * delay_frames + [max(-70.0, level - softer_db) for level in given[: 300 - delay_frames]]
    heard = [level + float(np.random.default_rng(n).normal(0, 1.0)) for n, level in enumerate(heard)]
    assert fed(over, played, heard, given) == 0
    assert over.echoes >= 1


def test_a_play_out_tells_what_it_plays() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0)
    line.enqueue(Clip("p", ClipKind.PROMPT, np.full(320, 8000, np.int16)))
    line.enqueue(Clip("t", ClipKind.TRANSLATION, np.full(1600, 3277, np.int16)))
    line.next_frame()
    assert not line.translating
    for _ in range(4):
        line.next_frame()
    assert line.translating
    assert line.recent_levels(2) == pytest.approx([-20.0, -20.0], abs=0.1)
    for _ in range(20):
        line.next_frame()
    assert not line.translating and line.recent_levels(1) == [-127.0]


def at_length(task: Task) -> Result:
    """Every piece takes 3 s to be heard."""
    return Speech(b"\x00\x10" * 24_000, 8000, "v") if isinstance(task, SynthesizeTask) else say_what_was_asked(task)


def test_j06_after_a_cut_nothing_stale_is_spoken_and_the_next_utterance_is() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(at_length))
        await line.pause(0.3)
        await line.say(voice(1.2))
        await line.pause(0.8)
        assert line.listener.playout.translating
        line.direction.cut()
        tail = np.frombuffer(b"".join(line.listener.playout.next_frame() for _ in range(3)), "<i2")
        assert not tail[240:].any(), "faded within 30 ms"
        await line.pause(1.0)
        assert not line.listener.playout.translating
        assert line.of("interrupted") == [{"leg": "a", "clips": 1}]
        await line.say(voice(1.2))
        await line.pause(0.8)
        assert line.listener.playout.translating, "what is said after the cut is translated and spoken"
        await line.hang_up()
        assert len(line.of("heard")) == 2
        line.ended_once()

    run(work())


def test_j06_what_was_not_begun_is_counted_as_interrupted_and_nobody_is_asked_to_repeat() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(hold=(SynthesizeTask,))
        line = Line(speech)
        await line.pause(0.3)
        await line.say(voice(1.2))
        await line.pause(0.8)
        line.direction.cut()
        speech.hold = ()
        for ticket in speech.of(SynthesizeTask):
            ticket.answer(speech._answer(ticket.task))
        await settle()
        await line.hang_up()
        (lost,) = line.of("utterance")
        assert lost["lost"] == INTERRUPTED
        assert not line.listener.playout.translating
        assert line.direction.statistics()[f"lost-{INTERRUPTED}"] == 1
        assert line.talker.playout.is_idle(), "no 'please repeat' for what the other did not want to hear"

    run(work())


def test_j06_clauses_that_wait_are_dropped_at_a_cut() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        heard.pending_s = 5.0
        heard.put(1, "one thing.")
        heard.put(2, "another thing.")
        await settle()
        heard.speaker.cut()
        heard.pending_s = 0.0
        await asyncio.sleep(0.15)
        assert heard.said == [] and heard.lost == [("c1", INTERRUPTED), ("c2", INTERRUPTED)]
        heard.put(3, "a new thing.")
        async with asyncio.timeout(5):
            while heard.said != ["c3"]:  # noqa: ASYNC110 - the state of the object under test
                await asyncio.sleep(0.01)
        await heard.speaker.close()

    run(work())
