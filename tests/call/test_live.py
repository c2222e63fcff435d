# SPDX-License-Identifier: GPL-3.0-or-later
"""The growing utterance: when it is decoded, what becomes stable, and that nothing comes late."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from gateway.audio.frames import Frame
from gateway.call.ahead import Ahead
from gateway.call.ear import Ear
from gateway.call.live import LiveUtterance, Step
from gateway.call.plan import DirectionPlan
from gateway.speech.jobs import HeardWord, Recognition, RecognizeTask, Result, Task
from gateway.stream.buffering import AdaptiveBuffer
from gateway.stream.events import Span
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle

pytestmark = pytest.mark.unit

RATE = 8000
TALK = [
    "the",
    "person",
    "you",
    "are",
    "calling",
    "is",
    "not",
    "at",
    "their",
    "desk",
    "today",
    "and",
    "nobody",
    "knows",
    "when",
    "they",
    "will",
    "be",
    "back",
]


def words_until(task: RecognizeTask, from_s: float) -> tuple[HeardWord, ...]:
    """A talker who says three words a second; the task's sound begins at ``from_s``."""
    end_s = from_s + len(task.pcm) / 2 / 16_000
    found = []
    for number, word in enumerate(TALK):
        first_s, last_s = number / 3, (number + 1) / 3
        if first_s >= from_s - 0.01 and last_s <= end_s:
            found.append(HeardWord(word, round((first_s - from_s) * 16_000), round((last_s - from_s) * 16_000), 0.9))
    return tuple(found)


class Talk:
    """An utterance at the start of a leg, with sound to decode."""

    def __init__(self, mode: str = "simultaneous", *, hold: bool = False) -> None:
        self.now_ns = 0
        self.steps: list[Step] = []
        self.speech = ScriptedSpeech(self._answer, hold=(RecognizeTask,) if hold else ())
        self.ear = Ear(RATE, 20, 2)
        self.live = LiveUtterance(
            0,
            DirectionPlan(1, "en", "pt", mode),
            ear=self.ear,
            speech=self.speech,
            leg="a",
            rate_hz=RATE,
            buffer=AdaptiveBuffer(RATE),
            on_step=lambda live, step: self.steps.append(step),
            ahead=Ahead(DirectionPlan(1, "en", "pt", mode), self.speech, "a", Counter()),
            clock=lambda: self.now_ns,
        )
        self._fed = 0

    def _answer(self, task: Task) -> Result | BaseException:
        if not isinstance(task, RecognizeTask):
            return say_what_was_asked(task)
        words = words_until(task, self.live.from_sample / RATE)
        return Recognition(" ".join(word.text for word in words), "en", 0.9, words=words)

    async def talk_until(self, seconds: float) -> bool:
        """More sound; whether that led to a decoding."""
        asked = False
        while self._fed < seconds * RATE:
            pcm = np.full(160, 1000, np.int16).tobytes()
            list(self.ear.feed(Frame("a", self._fed, RATE, pcm, self.now_ns)))
            self._fed += 160
            self.now_ns += 20_000_000
            asked = self.live.grow(self.ear.heard) or asked
            await settle(4)
        return asked


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_s1_1_words_become_stable_and_stay() -> None:
    async def work() -> None:
        talk = Talk()
        await talk.talk_until(3.0)
        texts = [step.text for step in talk.steps if step.agreement.is_preview]
        assert len(texts) >= 4
        stable = talk.live.agreement.text
        await talk.talk_until(5.0)
        assert talk.live.agreement.text.startswith(stable), "committed text only grows"
        assert stable.split() == TALK[: len(stable.split())]

    run(work())


def test_one_decoding_at_a_time() -> None:
    async def work() -> None:
        talk = Talk(hold=True)
        await talk.talk_until(4.0)
        assert len(talk.speech.tickets) == 1

    run(work())


@pytest.mark.parametrize("started", [True, False])
def test_decodings_go_on_after_a_pause(started: bool) -> None:
    """One that runs when the talker pauses is heard, one that waits is taken back; either way the next one comes."""

    async def work() -> None:
        talk = Talk(hold=True)
        await talk.talk_until(1.0)
        (first,) = talk.speech.tickets
        first.started = started
        talk.live.pause()
        assert first.cancelled != started
        if started:
            first.answer(Recognition("the person", "en", 0.9, words=words_until(first.task, 0.0)))
            await settle(4)
            assert len(talk.steps) == 1
        await talk.talk_until(2.0)
        assert len(talk.speech.tickets) == 2

    run(work())


def test_in_consecutive_mode_decodings_take_half_of_the_time_at_most() -> None:
    async def work() -> None:
        simultaneous, consecutive = Talk("simultaneous"), Talk("consecutive")
        for talk in (simultaneous, consecutive):
            talk.speech.run_ns = 1_000_000_000
            await talk.talk_until(6.0)
        assert len(simultaneous.speech.tickets) > 2 * len(consecutive.speech.tickets)
        assert 2 <= len(consecutive.speech.tickets) <= 6

    run(work())


def test_f06_committed_sound_is_trimmed_so_that_decoding_does_not_grow_without_end() -> None:
    async def work() -> None:
        talk = Talk()
        await talk.talk_until(9.0)
        assert talk.live.from_sample > 0
        longest_s = max(len(ticket.task.pcm) / 32_000 for ticket in talk.speech.tickets)
        assert longest_s < 8.0
        said = talk.live.agreement.text.split()
        assert said == TALK[: len(said)], "trimming neither loses nor doubles a word"

    run(work())


def test_b12_the_final_decoding_brings_the_last_words() -> None:
    async def work() -> None:
        talk = Talk()
        await talk.talk_until(6.4)
        span = Span(talk.live.from_sample, talk.ear.heard, 1)
        task = RecognizeTask(talk.ear.cut(span), "en", words=True)
        words = words_until(task, span.first_sample / RATE)
        rest = talk.live.finish(Recognition("x", "en", 0.9, words=words), span)
        assert rest and talk.live.agreement.text.split() == TALK
        assert talk.live.finish(Recognition("x", "en", 0.9, words=words), span) == (), "only the first call counts"

    run(work())


def test_a_decoding_that_comes_after_the_end_changes_nothing() -> None:
    async def work() -> None:
        talk = Talk(hold=True)
        await talk.talk_until(2.0)
        talk.live.finish(Recognition("", "en", 0.0), Span(0, talk.ear.heard, 1))
        ticket = talk.speech.tickets[0]
        ticket.answer(say_what_was_asked(ticket.task))
        await settle()
        assert talk.steps == []

    run(work())


def test_s4_3_a_hypothesis_without_new_words_is_no_preview() -> None:
    async def work() -> None:
        talk = Talk()
        await talk.talk_until(1.0)
        before = len([step for step in talk.steps if step.agreement.is_preview])
        talk.speech._answer = lambda task: Recognition("the person", "en", 0.9)  # type: ignore[assignment]
        await talk.talk_until(3.0)
        after = [step for step in talk.steps if step.agreement.is_preview][before:]
        assert len(after) <= 1
        assert len(talk.steps) > before + 2

    run(work())
