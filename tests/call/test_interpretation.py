# SPDX-License-Identifier: GPL-3.0-or-later
"""One utterance from sound to speech: the gate between guess and job, order, failure, load."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.call.glossary import Lexicon
from gateway.call.interpretation import Interpretation, Outcome
from gateway.call.plan import DirectionPlan
from gateway.speech.errors import QueueFull, TaskFailed, WorkerLost
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
from gateway.stream.manner import Manner
from gateway.text.terms import Term, TermList
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle

pytestmark = pytest.mark.unit

PLAN = DirectionPlan(1, "xx", "yy")


class Mouth:
    def __init__(self) -> None:
        self.said: list[tuple[str, int, bool]] = []

    def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
        self.said.append((name, len(speech.pcm) // 200, more_follows))


class Bench:
    """One interpretation with all that it touches."""

    def __init__(self, speech: ScriptedSpeech, plan: DirectionPlan = PLAN) -> None:
        self.mouth = Mouth()
        self.texts: list[tuple[str, str]] = []
        self.it = Interpretation(
            "candidate", b"\0\0", plan, leg="a", speech=speech, mouth=self.mouth, on_text=self._on_text
        )

    def _on_text(self, name: str, outcome: Outcome) -> None:
        self.texts.append((name, outcome.source_text))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_s4_8_a_candidate_stops_at_the_gate_with_its_sound_in_hand() -> None:
    async def work() -> None:
        speech = ScriptedSpeech()
        bench = Bench(speech)
        bench.it.start(confirmed=False)
        await settle()
        assert [type(ticket.task) for ticket in speech.tickets] == [RecognizeTask, TranslateTask, SynthesizeTask]
        assert all(ticket.priority is Priority.PREPARE for ticket in speech.tickets)
        assert bench.mouth.said == [] and bench.texts == []
        bench.it.confirm("s1", None)
        assert bench.texts == [("s1", "heard")]
        assert await bench.it.finished() is None
        assert bench.mouth.said == [("s1", 5, False)]

    run(work())


def test_s4_8_a_candidate_that_is_confirmed_early_is_promoted() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(hold=(RecognizeTask,))
        bench = Bench(speech)
        bench.it.start(confirmed=False)
        bench.it.confirm("s1", None)
        assert speech.tickets[0].priority is Priority.FINAL
        speech.tickets[0].answer(say_what_was_asked(speech.tickets[0].task))
        assert await bench.it.finished() is None
        assert bench.texts == [("s1", "heard")]
        assert speech.of(SynthesizeTask)[0].priority is Priority.CLAUSE

    run(work())


def test_a_withdrawn_candidate_says_nothing_and_frees_its_place() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(hold=(RecognizeTask,))
        bench = Bench(speech)
        bench.it.start(confirmed=False)
        await settle()
        bench.it.withdraw()
        await settle()
        assert speech.tickets[0].cancelled
        assert bench.texts == [] and bench.mouth.said == []

    run(work())


def test_invariant_5_a_confirmed_job_cannot_be_withdrawn() -> None:
    async def work() -> None:
        bench = Bench(ScriptedSpeech())
        bench.it.start(confirmed=True)
        with pytest.raises(RuntimeError, match="cannot be withdrawn"):
            bench.it.withdraw()
        assert await bench.it.finished() is None

    run(work())


def test_utterances_are_spoken_in_the_order_in_which_they_were_said() -> None:
    async def work() -> None:
        bench = Bench(ScriptedSpeech())
        earlier = asyncio.Event()
        bench.it.start(confirmed=True)
        bench.it.confirm("s2", earlier)
        await settle()
        assert bench.mouth.said == []
        earlier.set()
        assert await bench.it.finished() is None
        assert bench.mouth.said and bench.it.spoken.is_set()

    run(work())


def test_a_shed_guess_runs_again_when_it_is_more_than_a_guess() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(hold=(RecognizeTask,))
        bench = Bench(speech)
        bench.it.start(confirmed=False)
        await settle()
        speech.tickets[0].answer(QueueFull("shed"))
        await settle()
        assert len(speech.tickets) == 1, "a guess that was shed must not come back by itself"
        bench.it.confirm("s1", None)
        await settle()
        again = speech.of(RecognizeTask)[1]
        assert again.priority is Priority.FINAL
        again.answer(say_what_was_asked(again.task))
        assert await bench.it.finished() is None
        assert bench.mouth.said

    run(work())


def test_a_full_queue_refuses_a_confirmed_one_at_the_start() -> None:
    async def work() -> None:
        speech = ScriptedSpeech()
        speech.full = 1
        with pytest.raises(QueueFull):
            Bench(speech).it.start(confirmed=True)

    run(work())


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        (RecognizeTask, WorkerLost("x"), "recogniser-failed"),
        (TranslateTask, TaskFailed("x"), "speech-failed"),
        (SynthesizeTask, WorkerLost("x"), "speech-failed"),
    ],
)
def test_a_failure_is_a_reason_not_an_exception(kind: type, error: Exception, reason: str) -> None:
    def answer(task: Task) -> Result | BaseException:
        return error if isinstance(task, kind) else say_what_was_asked(task)

    async def work() -> None:
        bench = Bench(ScriptedSpeech(answer))
        bench.it.start(confirmed=True)
        assert await bench.it.finished() == reason
        assert bench.mouth.said == [] and bench.it.spoken.is_set()

    run(work())


def test_b11_what_was_not_speech_is_final_and_silent() -> None:
    def answer(task: Task) -> Result:
        return Recognition("", "xx", 0.1, rejected="no-speech")

    async def work() -> None:
        speech = ScriptedSpeech(answer)
        bench = Bench(speech)
        bench.it.start(confirmed=True)
        bench.it.confirm("s1", None)
        assert await bench.it.finished() is None
        assert bench.texts == [("s1", "")]
        assert [type(ticket.task) for ticket in speech.tickets] == [RecognizeTask]

    run(work())


def test_the_first_piece_is_short_and_says_that_more_follows() -> None:
    def answer(task: Task) -> Result:
        if isinstance(task, RecognizeTask):
            return Recognition("we will call you, when the doctor is back in the office", "en", 0.9)
        return say_what_was_asked(task)

    async def work() -> None:
        plan = DirectionPlan(1, "en", "en", first_chars=20)
        bench = Bench(ScriptedSpeech(answer), plan)
        bench.it.start(confirmed=True)
        assert await bench.it.finished() is None
        assert [more for _, _, more in bench.mouth.said] == [True, False]
        assert bench.mouth.said[0][1] == len("WE WILL CALL YOU,")

    run(work())


def test_b8_a_term_the_engine_garbles_is_held_by_a_placeholder() -> None:
    def answer(task: Task) -> Result | BaseException:
        if isinstance(task, RecognizeTask):
            return Recognition("open the valve", "en", 0.9)
        if isinstance(task, TranslateTask):
            return Translation(tuple(text.replace("the valve", "blah") for text in task.texts), ("en", "pt"))
        return say_what_was_asked(task)

    async def work() -> None:
        terms = TermList(1, (Term(("the valve",), "a comporta"),))
        speech = ScriptedSpeech(answer)
        bench = Bench(speech, DirectionPlan(1, "en", "pt", lexicon=Lexicon(terms=terms)))
        bench.it.start(confirmed=True)
        assert await bench.it.finished() is None
        assert bench.it.outcome.target_text == "open a comporta"
        assert (bench.it.outcome.rendered.repairs, bench.it.outcome.rendered.misses) == (1, 0)

    run(work())


def test_b9_a_number_the_engine_changes_is_repaired_and_counted() -> None:
    def answer(task: Task) -> Result | BaseException:
        if isinstance(task, RecognizeTask):
            return Recognition("we owe you one hundred and twenty pounds", "en", 0.9)
        if isinstance(task, TranslateTask):
            return Translation(tuple(text.replace("120 pounds", "12 euros") for text in task.texts), ("en", "pt"))
        return say_what_was_asked(task)

    async def work() -> None:
        bench = Bench(ScriptedSpeech(answer), DirectionPlan(1, "en", "pt"))
        bench.it.start(confirmed=True)
        assert await bench.it.finished() is None
        assert bench.it.outcome.target_text == "we owe you £ 120"
        numbers = bench.it.outcome.rendered.numbers
        assert (numbers.checked, numbers.repaired, numbers.unrepaired) == (1, 1, 0)

    run(work())


def test_b9_a_clause_takes_the_rest_of_a_joint_translation_only_if_its_numbers_hold() -> None:
    def translation(task: Task) -> Result | BaseException:
        if isinstance(task, TranslateTask):
            return Translation(tuple(text.replace("gate", "portão") for text in task.texts), ("en", "pt"))
        return say_what_was_asked(task)

    async def work(known: str, expected: str) -> None:
        clause = Interpretation(
            "c1", "gate 42", DirectionPlan(1, "en", "pt"), leg="a", speech=ScriptedSpeech(translation), mouth=Mouth(),
            on_text=lambda name, outcome: None, translation=known,
        )  # fmt: skip
        clause.start(confirmed=True)
        assert await clause.finished() is None
        assert clause.outcome.target_text == expected

    run(work("o portão 42", "o portão 42"))
    run(work("o portão 24", "portão 42"))


def test_b10_a_doubtful_hypothesis_is_not_spoken() -> None:
    def answer(task: Task) -> Result:
        return Recognition("gibberish", "xx", 0.4) if isinstance(task, RecognizeTask) else say_what_was_asked(task)

    async def work() -> None:
        speech = ScriptedSpeech(answer)
        bench = Bench(speech, DirectionPlan(1, "xx", "yy", temperature=0.5, repeat_below=0.2))
        bench.it.start(confirmed=True)
        assert await bench.it.finished() is None
        assert bench.it.outcome.rejected == "low-confidence"
        assert bench.it.outcome.confidence == pytest.approx(0.16), "calibrated, not raw"
        assert bench.mouth.said == [] and not speech.of(TranslateTask)

    run(work())


@pytest.mark.parametrize(("lag_tempo", "manner_tempo", "asked"), [(1.0, 0.9, 0.9), (1.0, 1.15, 1.15), (1.2, 0.9, 1.2)])
def test_s1_3_the_voice_follows_the_talker_unless_that_would_fall_behind(
    lag_tempo: float, manner_tempo: float, asked: float
) -> None:
    async def work() -> None:
        speech, heard = ScriptedSpeech(), list[bytes]()

        class Ear:
            def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
                heard.append(speech.pcm)

        def manner(text: str) -> Manner:
            assert text == "heard"
            return Manner(manner_tempo, 6.02)

        it = Interpretation(
            "s1",
            b"\0\0",
            PLAN,
            leg="a",
            speech=speech,
            mouth=Ear(),
            on_text=lambda name, outcome: None,
            tempo=lag_tempo,
            manner=manner,
        )
        it.start(confirmed=True)
        assert await it.finished() is None
        (ticket,) = speech.of(SynthesizeTask)
        assert ticket.task.tempo == asked
        assert heard == [b"\x02\x00" * 500]  # twice the amplitude

    run(work())
