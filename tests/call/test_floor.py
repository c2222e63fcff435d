# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns in a call of two directions: nods, interruptions, echoes (B6, B7, E09, J06, J08)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from gateway.call.turns import TurnRules
from gateway.speech.jobs import HeardWord, Recognition, RecognizeTask, Result, Task, TranslateTask
from tests.call.duplex import MS_PER_CHARACTER, Duplex
from tests.call.test_direction import voice

pytestmark = pytest.mark.unit

RULES = TurnRules(barge_in_ms=700)
LONG = "the meeting is on tuesday in the morning and you should bring all of your papers"
ASKS = "would you like to come to the meeting on tuesday at nine in the morning with your papers?"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def a_says(call: Duplex, text: str) -> None:
    """A says something, and its translation begins to be heard by B; it lasts 60 ms per character."""
    call.script["en"] = [text]
    await call.run(voice(1.2))
    async with asyncio.timeout(10):
        while not call.b.playout.translating:
            await call.run(0.1)


def translated(call: Duplex, source: str) -> list[str]:
    return [text for t in call.speech.of(TranslateTask) if t.task.source == source for text in t.task.texts]


@pytest.mark.parametrize("nod", ["Sim.", "Uh-huh.", "Claro, claro."])
def test_b6_a_nod_beneath_a_translation_neither_interrupts_nor_is_translated(nod: str) -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": [nod]}, RULES)
        await call.run(0.4)
        await a_says(call, LONG)
        await call.run(0.8)
        await call.run(0.0, voice(0.5))
        await call.run(1.0)
        assert call.b.playout.translating, "it goes on"
        assert call.lost("b") == ["backchannel"]
        assert translated(call, "pt") == []
        (heard,) = call.of("heard", "b")
        assert (heard["text"], heard["withheld"]) == (nod, "backchannel"), "the transcript has it"
        assert call.b_to_a.statistics()["turns"]["withheld-backchannel"] == 1
        await call.close()

    run(work())


@pytest.mark.parametrize("asked", [True, False])
def test_b6_the_same_word_is_an_answer_in_silence_or_to_a_question(asked: bool) -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["Sim."]}, RULES)
        await call.run(0.4)
        if asked:
            await a_says(call, ASKS)
        await call.run(0.8)
        await call.run(0.0, voice(0.5))
        await call.run(1.2)
        assert translated(call, "pt") == ["Sim."]
        await call.close()

    run(work())


def test_b6_an_unclear_nod_is_not_asked_to_be_repeated() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["Mm."]}, RULES)
        await call.run(0.4)
        await a_says(call, LONG)
        call.confidence = 0.05
        await call.run(0.8)
        await call.run(0.0, voice(0.5))
        await call.run(1.0)
        assert call.lost("b") == ["backchannel"] and not call.of("unclear")
        await call.close()

    run(work())


def test_j06_who_talks_over_a_translation_stops_the_rest_of_it_and_the_record_says_so() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["não posso na terça"]}, RULES)
        await call.run(0.4)
        await a_says(call, LONG)
        await call.run(2.0)
        await call.run(0.0, voice(1.2))
        assert not call.b.playout.translating
        (cut,) = call.of("cut")
        assert cut["leg"] == "a" and 2000 <= cut["heard_ms"] <= 3500
        assert cut["segment_id"] == call.of("utterance", "a")[0]["segment_id"]
        await call.run(1.2)
        assert translated(call, "pt") == ["não posso na terça"], "the new turn is translated"
        assert call.a.playout.translating or call.of("utterance", "b")
        await call.close()

    run(work())


@pytest.mark.parametrize(
    ("rules", "reason"),
    [(replace(RULES, barge_in_grace_s=8.0), "it has just begun"), (replace(RULES, stale_s=20.0), "it is news")],
)
def test_b6_nothing_is_cut_that_has_just_begun_or_was_just_said(rules: TurnRules, reason: str) -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["não posso na terça"]}, rules)
        await call.run(0.4)
        await a_says(call, LONG)
        await call.run(0.3)
        await call.run(0.0, voice(1.2))
        assert call.b.playout.translating and not call.of("cut"), reason
        assert call.b_to_a.statistics()["turns"]["too-early"] >= 1
        await call.close()

    run(work())


def test_j08_both_speak_at_once_and_both_transcripts_are_complete() -> None:
    async def work() -> None:
        call = Duplex({"en": ["one thing"], "pt": ["outra coisa"]}, RULES)
        await call.run(0.4)
        for _ in range(3):
            await call.run(voice(1.4), voice(1.2))
            await call.run(0.8)
        await call.run(6.0)
        for leg, text in (("a", "one thing"), ("b", "outra coisa")):
            assert [heard["text"] for heard in call.of("heard", leg)] == [text] * 3
            assert len(call.lost(leg)) == 3
        await call.close()

    run(work())


async def echo_once(call: Duplex, text: str) -> None:
    """A says something; B's loudspeaker sends the translation back, as it is played, 160 ms later."""
    call.script["pt"] = [call.translations.get(text, f"(pt) {text}")]
    call.loudspeaker_db = -10.0
    await a_says(call, text)
    await call.run(call.b.playout.pending_s() + 1.5)
    call.loudspeaker_db = None


def test_e09_an_echo_is_not_translated_again_and_counted() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": [""]}, RULES)
        await call.run(0.4)
        await echo_once(call, LONG)
        assert call.lost("b") == [] and translated(call, "pt") == [] and not call.of("heard", "b")
        assert call.b_to_a.statistics()["turns"]["withheld-echo"] == 1 and call.of("echo") == [{"leg": "b"}]
        assert not call.of("cut"), "nobody interrupts themselves"
        call.script["pt"] = ["e o que é que eu levo?"]
        await call.run(0.0, voice(1.2))
        await call.run(1.0)
        assert translated(call, "pt") == ["e o que é que eu levo?"], "the human on that telephone is still heard"
        await call.close()

    run(work())


def test_b7_a_human_who_repeats_what_they_were_told_is_translated() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": [""]}, RULES)
        call.translations["tomorrow at nine then"] = "então amanhã às nove"
        await call.run(0.4)
        await a_says(call, "tomorrow at nine then")
        await call.run(call.b.playout.pending_s() + 0.4)
        call.script["pt"] = ["Sim, amanhã às nove."]
        await call.run(0.0, voice(1.3))
        await call.run(1.0)
        assert translated(call, "pt") == ["Sim, amanhã às nove."]
        await call.close()

    run(work())


def test_b7_too_many_echoes_pause_the_translation_of_that_party_and_both_are_told() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": [""]}, replace(RULES, echo_hits=2, echo_window_s=60, echo_pause_s=4))
        await call.run(0.4)
        for text in ("the first of two sentences for the loudspeaker", "and here there is another one to come back"):
            await echo_once(call, text)
        assert call.of("loop-broken") == [{"leg": "b", "pause_s": 4}]
        call.script["pt"] = ["isto não se ouve"]
        await call.run(0.0, voice(1.2))
        await call.run(1.0)
        assert call.lost("b") == ["loop"]
        assert [heard["text"] for heard in call.of("heard", "b")][-1] == "isto não se ouve"
        await call.run(3.0)
        call.script["pt"] = ["e isto outra vez"]
        await call.run(0.0, voice(1.2))
        await call.run(1.0)
        assert translated(call, "pt") == ["e isto outra vez"]
        told = [one.name for party in (call.a, call.b) for one in party.spoken.during(0, call.now_ns)]
        assert "echo-pause" in told and "echoing" in told
        await call.close()

    run(work())


def test_j05_what_a_party_is_given_to_hear_is_never_recognised_and_is_not_dropped_for_what_is() -> None:
    """Each direction hears what its own telephone sends, and nothing else: no tap on both ways of a leg."""

    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["outra coisa"]}, replace(RULES, barge_in_ms=0))
        await call.run(0.4)
        await a_says(call, LONG)
        asked = [ticket.task.language for ticket in call.speech.of(RecognizeTask)]
        assert asked and set(asked) == {"en"}, "the translation that B hears is nobody's speech"
        await call.run(0.0, voice(1.2))
        assert call.b.playout.translating, "it goes on while B's own words are recognised"
        await call.run(6.0)
        assert [entry["target_text"] for entry in call.of("utterance", "a")] == [f"(pt) {LONG}"]
        await call.close()

    run(work())


def test_b7_an_announcement_that_comes_back_is_an_echo_too() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["please-repeat in pt"]}, RULES)
        await call.run(0.4)
        call.loudspeaker_db = -10.0
        call.b.prompt("please-repeat", voice(2.0))
        await call.run(3.5)
        assert call.of("echo") == [{"leg": "b"}] and not call.of("heard", "b")
        await call.close()

    run(work())


def test_the_guards_can_be_off() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": ["Sim."]}, TurnRules(barge_in_ms=0, backchannels=False, echo_guard=False))
        await call.run(0.4)
        await echo_once(call, LONG)
        await a_says(call, LONG)
        call.script["pt"] = ["Sim."]
        await call.run(0.8)
        await call.run(0.0, voice(0.5))
        await call.run(1.2)
        assert translated(call, "pt") == [f"(pt) {LONG}", "Sim."]
        await call.close()

    run(work())


def test_b7_in_simultaneous_mode_the_clauses_of_an_echo_are_withheld() -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": [""]}, RULES, mode="simultaneous")
        await call.run(0.4)
        words = f"(pt) {LONG}".split()
        each = round(16 * MS_PER_CHARACTER * len(f"(pt) {LONG}") / len(words))

        def hears(task: Task) -> Result:
            """As much of the echo as there is sound, timed; in the other direction what A says."""
            if not isinstance(task, RecognizeTask) or task.language != "pt":
                return call.answer(task)
            count = min(len(words), len(task.pcm) // 2 // each)
            timed = tuple(HeardWord(word, n * each, (n + 1) * each, 0.9) for n, word in enumerate(words[:count]))
            return Recognition(" ".join(words[:count]), "pt", 0.9, words=timed)

        call.speech._answer = hears
        await echo_once(call, LONG)
        assert call.of("echo") and call.lost("b") == [] and translated(call, "pt") == []
        await call.close()

    run(work())
