# SPDX-License-Identifier: GPL-3.0-or-later
"""One direction as a whole, from frames to play-out, with scripted engines: the races of S4.11 and both modes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.audio.frames import Frame
from gateway.call.ahead import Ahead
from gateway.call.desk import Booth
from gateway.call.direction import Direction
from gateway.call.glossary import Glossary, parse_glossary
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import PromptBook
from gateway.speech.errors import WorkerLost
from gateway.speech.jobs import (
    HeardWord,
    Priority,
    Recognition,
    RecognizeTask,
    Result,
    Speech,
    SynthesizeTask,
    Task,
    TranslateTask,
)
from gateway.stream.plan import EndpointPlan
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle

pytestmark = pytest.mark.unit

FRAME = 160


def voice(seconds: float) -> np.ndarray[Any, np.dtype[np.int16]]:
    """A buzz with the rhythm of syllables, which the voice detector takes for a talker."""
    time = np.arange(round(seconds * LEG_RATE_HZ)) / LEG_RATE_HZ
    pitch = 120 + 10 * np.sin(2 * math.pi * 2 * time)
    phase = 2 * math.pi * np.cumsum(pitch) / LEG_RATE_HZ
    buzz = sum(np.sin(n * phase) / n for n in range(1, 20))
    return np.asarray(buzz * (0.7 + 0.3 * np.sin(2 * math.pi * 4 * time)) * 4000, np.int16)


class Line:
    """A direction with its two parties, fed by hand on a clock of its own."""

    def __init__(self, speech: ScriptedSpeech, mode: str = "consecutive") -> None:
        self.now_ns = 1
        self.glossary = Glossary()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.talker = Party("a", "leg-a", "en", lambda: None)
        self.listener = Party("b", "leg-b", "pt", lambda: None)
        self.speech = speech
        booth = Booth(
            speech=speech,
            prompts=PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent")),
            endpoint=EndpointPlan(),
            previews=mode == "simultaneous",
            glossary=lambda: self.glossary,
            clock=lambda: self.now_ns,
        )
        self.direction = Direction(
            "call",
            self.talker,
            self.listener,
            booth.plan("en", "pt", mode=mode),
            booth=booth,
            publish=lambda kind, data: self.events.append((kind, data)),
        )
        self.direction.listen()
        self._at = 0

    async def say(self, pcm: np.ndarray[Any, np.dtype[np.int16]], *, listen: bool = True) -> None:
        """Feed sound frame by frame, and let the listener hear."""
        for first in range(0, pcm.size - FRAME + 1, FRAME):
            frame = Frame("leg-a", self._at, LEG_RATE_HZ, pcm[first : first + FRAME].tobytes(), self.now_ns)
            self.talker.ring.put(frame)
            self._at += FRAME
            self.now_ns += 20_000_000
            self.direction.hear()
            await settle(6)
            if listen:
                self.listener.playout.next_frame()
            if self._at % (5 * FRAME) == 0:
                self.direction.tick()

    async def pause(self, seconds: float) -> None:
        await self.say(np.zeros(round(seconds * LEG_RATE_HZ), np.int16))

    async def hang_up(self) -> None:
        """The talker is gone; everything that is accepted is spoken and heard."""
        self.direction.stop()
        async with asyncio.timeout(5):
            while not self.direction.over:  # noqa: ASYNC110 - the state of the object under test
                await asyncio.sleep(0.01)
        for _ in range(1500):
            self.listener.playout.next_frame()
        self.direction.tick()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == kind]

    def ended_once(self) -> None:
        """Invariant 3: each segment is final once, or lost once."""
        ended = [data["segment_id"] for data in (*self.of("heard"), *self.of("lost"))]
        assert len(ended) == len(set(ended))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def test_an_utterance_is_heard_translated_and_spoken() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        await line.pause(0.3)
        await line.say(voice(1.2))
        await line.pause(1.0)
        await line.hang_up()
        (heard,) = line.of("heard")
        (spoken,) = line.of("utterance")
        assert heard["text"] == "heard" and spoken["target_text"] == "HEARD"
        assert spoken["speculative"] and spoken["lost"] is None and spoken["played_ns"] > 0
        assert sum(spoken["stages"].values()) == pytest.approx(
            (spoken["played_ns"] - spoken["clocks_ns"]["audio_end"]) / 1e9
        )
        assert line.direction.statistics()["ear"]["drift"]["verdict"] == "constant"

    run(work())


def test_s4_11_end_of_file_right_after_accept() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(hold=(RecognizeTask,)))
        await line.say(voice(1.0))
        await line.pause(0.5)  # the end is confirmed: the candidate is a job now
        ticket = line.speech.of(RecognizeTask)[0]
        assert ticket.priority is Priority.FINAL
        line.direction.stop()
        assert not line.direction.over, "an accepted job is waited for"
        ticket.answer(say_what_was_asked(ticket.task))
        await line.hang_up()
        assert [data["text"] for data in line.of("heard")] == ["heard"]
        assert len(line.of("utterance")) == 1
        line.ended_once()

    run(work())


def test_s4_11_speech_resumes_during_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        guessing: list[str] = []
        for name in ("hold", "go_on"):
            monkeypatch.setattr(Ahead, name, lambda ahead, name=name: guessing.append(name))
        line = Line(ScriptedSpeech(hold=(RecognizeTask,)))
        await line.say(voice(0.8))
        await line.pause(0.24)
        candidate = line.speech.of(RecognizeTask)[0]
        assert candidate.priority is Priority.PREPARE
        assert guessing == ["hold"], "the whole is being prepared"
        await line.say(voice(0.8))
        assert candidate.cancelled, "what was prepared is void"
        assert guessing == ["hold", "go_on"], "the beginning of its translation is guessed at again"
        await line.pause(0.6)
        final = line.speech.of(RecognizeTask)[-1]
        assert len(final.task.pcm) > 1.5 * len(candidate.task.pcm), "the whole utterance is recognised"
        final.answer(say_what_was_asked(final.task))
        await line.hang_up()
        assert len(line.of("heard")) == 1
        line.ended_once()

    run(work())


def test_s4_11_queue_full_is_retried_and_nothing_is_lost() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        await line.say(voice(1.0))
        line.speech.full = 3  # the candidate, the segment, and its first retry
        await line.pause(1.2)
        await line.hang_up()
        assert [data["text"] for data in line.of("heard")] == ["heard"] and not line.of("lost")
        segments = line.direction.statistics()["segments"]
        assert segments["refused"] >= 1 and segments["finalized"] == 1

    run(work())


def test_s4_11_a_new_prepare_cancels_the_old() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(hold=(RecognizeTask,)))
        for _ in range(3):
            await line.say(voice(0.5))
            await line.pause(0.24)
        first, second, third = line.speech.of(RecognizeTask)
        assert first.cancelled and second.cancelled and not third.cancelled
        await line.pause(0.4)
        third.answer(say_what_was_asked(third.task))
        await line.hang_up()
        assert len(line.of("heard")) == 1

    run(work())


def test_s4_11_a_plan_that_changes_takes_effect_with_the_next_utterance() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        await line.say(voice(0.8))
        line.glossary = replace(parse_glossary({"hotwords": {"en": ["Acme"]}}), version=(1, 0))
        await line.pause(0.8)
        await line.say(voice(0.8))
        await line.pause(0.8)
        await line.hang_up()
        before, after = (ticket.task.hotwords for ticket in line.speech.of(RecognizeTask))
        assert before == () and after == ("Acme",)
        assert len(line.of("heard")) == 2

    run(work())


def test_b12_hanging_up_in_mid_word_loses_nothing() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        await line.say(voice(1.0))
        await line.hang_up()
        assert len(line.of("heard")) == 1 and len(line.of("utterance")) == 1
        assert line.of("utterance")[0]["lost"] is None

    run(work())


def test_a7_sound_before_the_party_is_there_is_not_recognised() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        line.direction._listening = False  # what `listen` changes: early media comes before it
        await line.say(voice(1.5))
        await line.pause(0.8)
        line.direction.listen()
        await line.pause(0.5)
        await line.hang_up()
        assert not line.speech.of(RecognizeTask)

    run(work())


def test_a_lost_utterance_is_counted_once() -> None:
    def answer(task: Task) -> Result | BaseException:
        return WorkerLost("x") if isinstance(task, RecognizeTask) else say_what_was_asked(task)

    async def work() -> None:
        line = Line(ScriptedSpeech(answer))
        await line.say(voice(1.0))
        await line.pause(0.8)
        await line.hang_up()
        assert [data["lost"] for data in line.of("utterance")] == ["recogniser-failed"]
        assert not line.of("heard")

    run(work())


WORDS = ["please", "wait", "until", "the", "doctor", "is", "here", "because", "she", "must", "see", "you", "today"]


def hears_three_words_a_second(task: Task) -> Result:
    """As many words as fit into the sound, timed."""
    if not isinstance(task, RecognizeTask):
        return say_what_was_asked(task)
    count = min(len(WORDS), round(len(task.pcm) / 32_000 * 3))
    third = 16_000 // 3
    words = tuple(HeardWord(word, n * third, (n + 1) * third, 0.95) for n, word in enumerate(WORDS[:count]))
    return Recognition(" ".join(WORDS[:count]), "en", 0.95, words=words if task.words else ())


def test_b1_simultaneous_mode_speaks_before_the_talker_has_finished() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(hears_three_words_a_second), "simultaneous")
        await line.say(voice(5.0))
        assert line.speech.of(SynthesizeTask), "a clause is spoken while the talker goes on"
        assert line.of("preview")
        await line.pause(1.5)
        await line.hang_up()
        source = " ".join(data["text"] for data in line.of("clause"))
        assert source == line.of("heard")[0]["text"], "each word comes out once, in order"
        assert len(line.of("clause")) >= 2
        line.ended_once()

    run(work())


def test_b2_previews_may_change_but_what_is_translated_does_not() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(hears_three_words_a_second), "simultaneous")
        await line.say(voice(4.0))
        await line.pause(1.5)
        await line.hang_up()
        stable = [data["stable"] for data in line.of("preview")]
        for before, after in pairwise(stable):
            assert after.startswith(before)
        translated = [text for ticket in line.speech.of(TranslateTask) for text in ticket.task.texts]
        assert all(set(text.split()) <= set(WORDS) for text in translated)

    run(work())


def test_the_mode_can_be_switched_in_a_live_call() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(hears_three_words_a_second))
        await line.say(voice(1.0))
        line.direction.set_mode("simultaneous")
        await line.pause(0.8)
        assert not line.of("clause")
        await line.say(voice(3.0))
        await line.pause(1.2)
        line.direction.set_mode("consecutive")
        clauses = len(line.of("clause"))
        assert clauses
        await line.say(voice(1.0))
        await line.pause(0.8)
        await line.hang_up()
        assert len(line.of("clause")) == clauses
        assert len(line.of("heard")) == 3
        with pytest.raises(ValueError, match="fast"):
            line.direction.set_mode("fast")

    run(work())


def test_s1_18_the_languages_can_be_switched_in_a_live_call_from_the_next_utterance_on() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        await line.say(voice(1.0))
        line.listener.language = "es"
        line.direction.set_languages("maria")
        assert line.direction.plan.target == "pt", "the utterance that has begun keeps its plan"
        assert (line.direction.wanted().target, line.direction.wanted().voice) == ("es", "maria")
        await line.pause(0.8)
        await line.say(voice(1.0))
        await line.pause(0.8)
        await line.hang_up()
        assert [record["target_lang"] for record in line.of("utterance")] == ["pt", "es"]
        spoken = {(ticket.task.language, ticket.task.voice) for ticket in line.speech.of(SynthesizeTask)}
        assert spoken == {("pt", None), ("es", "maria")}
        assert line.direction.plan.version == 2

    run(work())


@pytest.mark.parametrize("seconds", [1.4, 2.0, 2.6])
def test_s1_18_words_that_wait_when_the_language_changes_are_spoken_in_the_old_one(seconds: float) -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(hears_three_words_a_second), "simultaneous")
        await line.say(voice(seconds))
        line.listener.language = "es"
        line.direction.set_languages(None)
        await line.pause(0.4)  # the utterance is over, and its last words wait for more of the sentence
        await line.say(voice(2.0))
        await line.pause(1.5)
        await line.hang_up()
        first, second = (data["text"] for data in line.of("heard"))
        by_target = {"pt": "", "es": ""}
        for record in line.of("utterance"):
            by_target[record["target_lang"]] += record["source_text"] + " "
        assert (by_target["pt"].strip(), by_target["es"].strip()) == (first, second)

    run(work())


@pytest.mark.parametrize("mode", ["consecutive", "simultaneous"])
def test_s3_1_s3_4_a_talker_who_never_pauses_loses_no_word_at_the_cuts_and_says_none_twice(mode: str) -> None:
    """One word every 350 ms for 45 s: two forced cuts. Each decoding hears the words that lie in its sound."""
    beat = 16_000 * 35 // 100

    async def work() -> None:
        speech = ScriptedSpeech()
        line = Line(speech, mode)

        def answer(task: Task) -> Result:
            if not isinstance(task, RecognizeTask):
                return say_what_was_asked(task)
            store = line.direction._ear._store
            assert store is not None
            whole = store.slice(store.first, store.end)
            start = whole.first_sample + whole.pcm.tobytes().find(task.pcm) // 2
            end = start + len(task.pcm) // 2
            words = []
            for number in range(-(-start // beat), end // beat + 1):
                first, last = number * beat, min((number + 1) * beat, end)
                if last - first > beat // 4:  # a word that is cut is heard, as something else
                    text = f"word{number}" if last == (number + 1) * beat else f"cut{number}"
                    words.append(HeardWord(text, first - start, last - start, 0.9))
            return Recognition(" ".join(word.text for word in words), "en", 0.9, words=tuple(words))

        speech._answer = answer
        noise = np.random.default_rng(5).normal(0, 60, 45 * LEG_RATE_HZ)
        await line.say((voice(45.0) + noise).astype(np.int16))
        await line.pause(1.0)
        await line.hang_up()
        said = " ".join(data["text"] for data in line.of("heard")).split()
        assert len(line.of("heard")) >= 3, "the talk was cut"
        numbers = [int(word.removeprefix("word")) for word in said if word.startswith("word")]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "none lost, none twice"
        assert numbers[0] <= 1 and numbers[-1] >= 126
        assert not [word for word in said[:-1] if word.startswith("cut")]
        behind = [task.task.context for task in speech.of(RecognizeTask) if task.task.context]
        assert behind, "s3.4: what stands behind a cut is heard in the company of what stands before it"
        assert all(set(context.split()) <= set(said) and len(context.split()) <= 20 for context in behind)
        if mode == "consecutive":
            assert line.direction.statistics()["joined-timestamps"] >= 2
        else:
            assert " ".join(data["text"] for data in line.of("clause")) == " ".join(said)

    run(work())


def test_a01_a_pause_ends_the_utterance_and_hears_nothing_until_its_last_reason_is_gone() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        await line.pause(0.3)
        await line.say(voice(0.8))
        line.direction.pause("hold-a")
        line.direction.pause("hold-b")
        await line.say(voice(1.5))
        line.direction.resume("hold-a")
        await line.say(voice(1.5))
        line.direction.resume("hold-b")
        await line.pause(0.8)
        assert len(line.of("heard")) == 1, "what was said before the pause, and nothing of the pause"
        await line.say(voice(0.8))
        await line.pause(0.8)
        await line.hang_up()
        assert len(line.of("heard")) == 2
        line.ended_once()


@pytest.mark.parametrize("on", [True, False])
def test_a9_the_original_reaches_the_ear_and_no_recogniser(on: bool) -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        line.direction.set_original(on)
        await line.pause(0.3)
        ear: list[bytes] = []
        for _ in range(20):
            await line.say(voice(0.06), listen=False)
            ear += [line.listener.playout.next_frame() for _ in range(3)]
        assert any(any(frame) for frame in ear) is on
        await line.pause(1.0)
        await line.hang_up()
        assert len(line.of("heard")) == 1
        assert not line.listener.ring.drain(), "what is given to a party must not look like what it said"

    run(work())


def test_b5_the_listeners_tempo_counts_in_what_waits() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech())
        line.listener.say("x", Speech(b"\x01\x00" * 8000, 8000, "v"), more_follows=False)
        line.direction.set_tempo(1.25)
        assert line.listener.playout.pending_s() == pytest.approx(0.8)
        with pytest.raises(ValueError, match="tempo"):
            line.direction.set_tempo(3.0)

    run(work())
