# SPDX-License-Identifier: GPL-3.0-or-later
"""A beginning made ahead is used only when the translation really begins with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.call.ahead import Ahead, beginning_said
from gateway.call.interpretation import Interpretation
from gateway.call.plan import DirectionPlan
from gateway.speech.jobs import (
    Priority,
    Recognition,
    RecognizeTask,
    Result,
    Speech,
    SynthesizeTask,
    Task,
    TranslateTask,
    Translation,
)
from gateway.stream.words import words_of
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle

pytestmark = pytest.mark.unit

PLAN = DirectionPlan(1, "en", "pt", first_chars=12)
SENTENCE = "please wait here until the doctor has time for you"


def as_it_is(task: Task) -> Result:
    """The translator gives back what it gets; all else as scripted."""
    if isinstance(task, TranslateTask):
        return Translation(task.texts, (task.source, task.target))
    return Recognition(SENTENCE, "en", 0.9) if isinstance(task, RecognizeTask) else say_what_was_asked(task)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def guess(speech: ScriptedSpeech, known: str, counts: Counter[str]) -> Ahead:
    ahead = Ahead(PLAN, speech, "a", counts)
    ahead.consider(tuple(words_of(known)))
    await settle()
    return ahead


def test_the_beginning_is_made_with_low_priority_and_taken() -> None:
    async def work() -> None:
        speech, counts = ScriptedSpeech(as_it_is), Counter[str]()
        ahead = await guess(speech, "please wait here until the doctor", counts)
        assert all(ticket.priority is Priority.PREPARE for ticket in speech.tickets)
        taken = await ahead.take(SENTENCE)
        assert taken is not None and SENTENCE.startswith(taken[0])
        assert counts["ahead_taken"] == 1

    run(work())


def test_nothing_is_begun_where_it_is_not_wanted() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(as_it_is)
        ahead = Ahead(PLAN, speech, "a", Counter(), wanted=False)
        ahead.consider(tuple(words_of("please wait here until the doctor")))
        await settle()
        assert not speech.tickets and await ahead.take(SENTENCE) is None

    run(work())


@pytest.mark.parametrize(
    ("text", "piece", "said"),
    [
        ("Por favor, adicione o número.", "Por favor adicione", "Por favor, adicione"),
        ("Por favor adicione o número.", "Por favor,", "Por favor"),
        ("Sinto muito.", "Sinto muito", "Sinto muito."),
        ("Sinto muito.", "Sinto muito.", "Sinto muito."),
        ("Sinto muito, senhor.", "Sinto muito.", ""),  # one hears that it is over
        ("Não há mais entradas", "Não há entradas", ""),
        ("São 20 euros", "São 20,5", ""),
        ("São 1.200 euros", "São 1200 euros", ""),
        ("Sim", "Sim senhor", ""),
        ("", "Sim", ""),
        ("Sim", "", ""),
        ("请稍等,医生", "请稍等", ""),
        ("... e então", "... e", "... e"),
    ],
)
def test_the_same_words_are_the_same_beginning_whatever_commas_stand_between(text: str, piece: str, said: str) -> None:
    assert beginning_said(text, piece) == said
    assert text.startswith(said)


def test_b2_another_beginning_is_not_spoken() -> None:
    async def work() -> None:
        speech, counts = ScriptedSpeech(as_it_is), Counter[str]()
        ahead = await guess(speech, "please wait here until the doctor", counts)
        assert await ahead.take("pleased to meet you all") is None
        assert counts["ahead_missed"] == 1

    run(work())


def test_s4_8_a_pause_that_was_none_ends_no_guessing() -> None:
    """The candidate of a pause asks for the beginning; when its talker goes on, the next candidate asks again."""

    async def work() -> None:
        speech = ScriptedSpeech(as_it_is)
        ahead = await guess(speech, "pleased to meet you and", Counter())
        assert await ahead.take(SENTENCE) is None
        ahead.consider(tuple(words_of("please wait here until the")))
        await settle()
        assert await ahead.take(SENTENCE) is None, "between the question and the end nothing is begun"
        ahead.go_on()
        ahead.consider(tuple(words_of("please wait here until the doctor")))
        await settle()
        assert await ahead.take(SENTENCE) is not None

    run(work())


def test_s4_8_in_a_pause_nothing_is_begun() -> None:
    """Not even the guess whose translation is there already: the whole utterance is being prepared beside it."""

    async def work() -> None:
        speech = ScriptedSpeech(as_it_is, hold=(TranslateTask,))
        ahead = await guess(speech, "please wait here until the doctor", Counter())
        (translating,) = speech.of(TranslateTask)
        ahead.hold()
        translating.answer(as_it_is(translating.task))
        await settle()
        assert not speech.of(SynthesizeTask)

    run(work())


def test_who_does_not_want_it_gets_none_after_a_pause_either() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(as_it_is)
        ahead = Ahead(PLAN, speech, "a", Counter(), wanted=False)
        ahead.go_on()
        ahead.consider(tuple(words_of(SENTENCE)))
        await settle()
        assert not speech.tickets

    run(work())


@pytest.mark.parametrize("known", ["", "please", "please wait"])
def test_too_little_is_known(known: str) -> None:
    async def work() -> None:
        speech = ScriptedSpeech(as_it_is)
        await guess(speech, known, Counter())
        assert not speech.of(SynthesizeTask)

    run(work())


def test_a_voice_that_is_fast_enough_needs_no_guess() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(as_it_is)
        ahead = Ahead(DirectionPlan(1, "en", "pt", first_chars=0), speech, "a", Counter())
        ahead.consider(tuple(words_of(SENTENCE)))
        await settle()
        assert not speech.tickets

    run(work())


def test_under_load_a_guess_is_simply_not_made() -> None:
    async def work() -> None:
        speech, counts = ScriptedSpeech(as_it_is), Counter[str]()
        speech.full = 1
        ahead = await guess(speech, SENTENCE, counts)
        assert await ahead.take(SENTENCE) is None
        assert counts["ahead_failed"] == 1

    run(work())


def test_one_that_is_being_made_is_waited_for() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(as_it_is, hold=(SynthesizeTask,))
        ahead = await guess(speech, SENTENCE, Counter())
        taking = asyncio.create_task(ahead.take(SENTENCE))
        await settle()
        assert not taking.done()
        speech.of(SynthesizeTask)[0].answer(say_what_was_asked(speech.of(SynthesizeTask)[0].task))
        assert await taking is not None

    run(work())


def test_the_interpretation_says_each_word_once() -> None:
    class Mouth:
        def __init__(self) -> None:
            self.samples: list[int] = []

        def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
            self.samples.append(len(speech.pcm) // 200)

    async def work() -> None:
        speech, mouth = ScriptedSpeech(as_it_is), Mouth()
        ahead = await guess(speech, "please wait here until the doctor", Counter())
        it = Interpretation(
            "s", b"\0\0", PLAN, leg="a", speech=speech, mouth=mouth, on_text=lambda name, outcome: None, ahead=ahead
        )
        it.start(confirmed=True)
        assert await it.finished() is None
        texts = [ticket.task.text for ticket in speech.of(SynthesizeTask)]
        assert " ".join(texts) == SENTENCE, "the guess was not synthesized a second time"
        assert mouth.samples == [len(text) for text in texts]
        assert it.outcome.begun_ahead

    run(work())


def test_b9_a_beginning_goes_through_the_guard_of_numbers() -> None:
    async def work() -> None:
        speech, counts = ScriptedSpeech(as_it_is), Counter[str]()
        await guess(speech, "gate forty two is, where we wait for you", counts)
        assert speech.of(TranslateTask)[0].task.texts == ("gate 42 is, where we wait for you",)

    run(work())


@pytest.mark.parametrize(
    ("said", "made"),
    [("after the meal, I am going to wait for the doctor", True), ("I am going to wait for the doctor on", False)],
)
def test_a_quick_voice_begins_early_only_where_one_pauses(said: str, made: bool) -> None:
    async def work() -> None:
        speech = ScriptedSpeech(as_it_is)
        ahead = Ahead(DirectionPlan(1, "pt", "en", first_chars=90), speech, "a", Counter())
        ahead.consider(tuple(words_of(said)))
        await settle()
        assert bool(speech.of(SynthesizeTask)) == made
        assert (await ahead.take(f"{said} until noon") is not None) == made

    run(work())
