# SPDX-License-Identifier: GPL-3.0-or-later
"""Clauses spoken while their talker goes on: in order, never revised, better in company, bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from gateway.call.clauses import ClauseSpeaker, SpokenClause, rest_behind
from gateway.call.delivery import Delivery
from gateway.call.interpretation import Outcome
from gateway.call.plan import DirectionPlan
from gateway.speech.errors import WorkerLost
from gateway.speech.jobs import Result, Speech, SynthesizeTask, Task, TranslateTask, Translation
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle, until

pytestmark = pytest.mark.unit

PLAN = DirectionPlan(1, "en", "pt", "simultaneous")


class Listener:
    """What the other party is given to hear."""

    def __init__(self, speech: ScriptedSpeech) -> None:
        self.said: list[str] = []
        self.begun: list[str] = []
        self.lost: list[tuple[str, str]] = []
        self.notices = 0
        self.pending_s = 0.0
        self.speaker = ClauseSpeaker(
            leg="a",
            speech=speech,
            mouth=self,
            pending_s=lambda: self.pending_s,
            on_begin=self._begin,
            on_lost=lambda clause, reason: self.lost.append((clause, reason)),
            on_notice=self._notice,
            clock=time.monotonic_ns,
        )
        self.speech = speech

    def _begin(self, clause: SpokenClause, outcome: Outcome) -> None:
        self.begun.append(clause.clause_id)

    def _notice(self) -> None:
        self.notices += 1

    def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
        self.said.append(name)

    def put(self, number: int, text: str, *, follows: bool = False, plan: DirectionPlan = PLAN) -> None:
        self.speaker.put(SpokenClause(f"c{number}", text, plan, follows, time.monotonic_ns()))

    def spoken_texts(self) -> list[str]:
        return [ticket.task.text for ticket in self.speech.of(SynthesizeTask)]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_clauses_are_spoken_in_order() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        for number, text in enumerate(("one.", "two.", "three."), 1):
            heard.put(number, text)
        await until(lambda: heard.speaker.idle)
        assert heard.said == ["c1", "c2", "c3"] and not heard.lost
        await heard.speaker.close()

    run(work())


def test_a_clause_waits_while_the_listener_is_busy_and_is_then_refined_with_its_neighbour() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        heard.pending_s = 5.0
        heard.put(1, "I will call")
        await settle()
        await asyncio.sleep(0.15)
        assert heard.said == [], "a clause that could still get better is not spoken early"
        heard.put(2, "the doctor.", follows=True)
        heard.pending_s = 0.0
        await until(lambda: heard.speaker.idle and heard.said)
        assert heard.spoken_texts() == ["I WILL CALL THE DOCTOR."]
        assert heard.lost == [("c2", "merged-c1")]
        await heard.speaker.close()

    run(work())


def test_b2_what_was_spoken_stays_and_only_the_rest_of_the_joint_translation_is_said() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        heard.put(1, "I will call")
        await until(lambda: heard.speaker.idle and heard.said)
        heard.put(2, "the doctor.", follows=True)
        await until(lambda: heard.speaker.idle and len(heard.said) == 2)
        assert heard.spoken_texts() == ["I WILL CALL", "THE DOCTOR."]
        assert heard.speaker.statistics()["continued"] == 1
        await heard.speaker.close()

    run(work())


def test_s1_10_a_joint_translation_that_would_revise_is_not_used() -> None:
    def answer(task: Task) -> Result | BaseException:
        if isinstance(task, TranslateTask) and "doctor" in task.texts[0] and "call" in task.texts[0]:
            return Translation(("Something else entirely was meant here.",), ("en", "pt"))
        return say_what_was_asked(task)

    async def work() -> None:
        heard = Listener(ScriptedSpeech(answer))
        heard.put(1, "I will call")
        await until(lambda: heard.speaker.idle and heard.said)
        heard.put(2, "the doctor.", follows=True)
        await until(lambda: heard.speaker.idle and len(heard.said) == 2)
        assert heard.spoken_texts() == ["I WILL CALL", "THE DOCTOR."]
        assert heard.speaker.statistics()["diverged"] == 1
        await heard.speaker.close()

    run(work())


def test_b5_far_behind_the_oldest_are_left_out_counted_and_told() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        heard.pending_s = 0.8
        for number in range(40):
            heard.put(number, "a clause of some forty characters, about.")
        await until(lambda: heard.speaker.idle)
        dropped = [clause for clause, reason in heard.lost if reason == "lag"]
        assert dropped and heard.notices >= 1
        assert "c39" not in dropped, "the newest is never dropped"
        ended = {*heard.begun, *(clause for clause, _ in heard.lost)}
        assert ended == {f"c{number}" for number in range(40)}, "every clause ends, spoken or counted"
        tempos = [ticket.task.tempo for ticket in heard.speech.of(SynthesizeTask)]
        assert max(tempos) > 1.0 and max(tempos) <= 1.3
        await heard.speaker.close()

    run(work())


def test_b5_a_voice_slower_than_people_talk_speaks_at_their_pace_and_hurries_from_there() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        slow = replace(PLAN, delivery=Delivery(pace=1.15))
        heard.put(0, "in time.", plan=slow)
        await until(lambda: heard.speaker.idle and heard.said)
        heard.pending_s = 0.8
        for number in range(1, 40):
            heard.put(number, "a clause of some forty characters, about.", plan=slow)
        await until(lambda: heard.speaker.idle)
        tempos = [ticket.task.tempo for ticket in heard.speech.of(SynthesizeTask)]
        assert tempos[0] == 1.15 and 1.15 < max(tempos[1:]) <= 1.3 * 1.15
        await heard.speaker.close()

    run(work())


def test_a_failure_costs_one_clause() -> None:
    def answer(task: Task) -> Result | BaseException:
        if isinstance(task, SynthesizeTask) and task.text == "TWO.":
            return WorkerLost("x")
        return say_what_was_asked(task)

    async def work() -> None:
        heard = Listener(ScriptedSpeech(answer))
        for number, text in enumerate(("one.", "two.", "three."), 1):
            heard.put(number, text)
        await until(lambda: heard.speaker.idle)
        assert heard.said == ["c1", "c3"] and heard.lost == [("c2", "speech-failed")]
        await heard.speaker.close()

    run(work())


def test_what_still_waits_at_the_end_of_the_call_is_counted() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        heard.pending_s = 9.0
        heard.put(1, "one.")
        await settle()
        await heard.speaker.close()
        assert heard.lost == [("c1", "call-ended")]

    run(work())


@pytest.mark.parametrize(
    ("spoken", "joint", "rest"),
    [
        ("Vou ligar", "Vou ligar para o médico.", "para o médico."),
        ("Vou ligar.", "vou ligar para o médico.", "para o médico."),
        ("Vou ligar", "Ligarei ao médico amanhã.", None),
        ("Vou ligar para o médico.", "Vou ligar", None),
        ("", "Vou ligar", None),
    ],
)
def test_the_rest_behind_what_was_spoken(spoken: str, joint: str, rest: str | None) -> None:
    assert rest_behind(spoken, joint) == rest
