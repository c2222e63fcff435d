# SPDX-License-Identifier: GPL-3.0-or-later
"""A language is chosen by naming it: what counts as a name, and what is not listened to (SPEC A2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.audio.frames import Frame
from gateway.call.desk import Booth
from gateway.call.party import LEG_RATE_HZ
from gateway.call.prompts import PromptBook
from gateway.call.spoken_choice import SpokenChoice, named_language
from gateway.speech.errors import WorkerLost
from gateway.speech.jobs import Recognition, RecognizeTask, Result, Task
from gateway.stream.plan import EndpointPlan
from tests.call.scripted import ScriptedSpeech, settle
from tests.call.test_direction import voice

pytestmark = pytest.mark.unit

FRAME = 160


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Português.", "pt"),
        ("Portugues, please.", "pt"),
        ("Portuguese", "pt"),
        ("English, por favor.", "en"),
        ("Ingles, se faz favor.", "en"),
        ("INGLÊS", "en"),
        ("2.", "pt"),
        ("1", "en"),
        ("3", None),
        ("0", None),
        ("2 1", None),
        ("Spanish", None),
        ("English or Portuguese?", None),
        ("for you guys.", None),
        ("Hello.", None),
        ("", None),
    ],
)
def test_a2_what_names_a_language(text: str, language: str | None) -> None:
    assert named_language(text, ("en", "pt")) == language


class Listener:
    """A choice between English and Portuguese whose recogniser hears what the test says, by language."""

    def __init__(self, **hears: str | BaseException) -> None:
        def answer(task: Task) -> Result | BaseException:
            assert isinstance(task, RecognizeTask)
            said = hears[str(task.language)]
            return said if isinstance(said, BaseException) else Recognition(said, str(task.language), 0.9)

        self.speech = ScriptedSpeech(answer)
        self.named: list[str] = []
        booth = Booth(
            speech=self.speech,
            prompts=PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent")),
            endpoint=EndpointPlan(),
        )
        self.choice = SpokenChoice("leg-a", booth, self.named.append)
        self._at = 0

    async def hear(self, seconds: float, *, loud: bool = True, silent: bool = True, offered: str = "en pt") -> None:
        pcm = voice(seconds) if loud else np.zeros(round(seconds * LEG_RATE_HZ), np.int16)
        for first in range(0, pcm.size - FRAME + 1, FRAME):
            frame = Frame("leg-a", self._at, LEG_RATE_HZ, pcm[first : first + FRAME].tobytes(), 0)
            self.choice.hear(frame, tuple(offered.split()), silent=silent)
            self._at += FRAME
        await settle()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_a2_the_recognition_that_names_one_language_decides() -> None:
    async def work() -> None:
        line = Listener(en="for you guys", pt="português")
        await line.hear(0.3, loud=False)
        await line.hear(0.8)
        assert line.choice.busy, "no answer is not late while somebody speaks"
        await line.hear(1.0, loud=False)
        assert line.named == ["pt"] and not line.choice.busy
        assert {ticket.task.hotwords for ticket in line.speech.of(RecognizeTask)} == {("English", "português")}

    run(work())


def test_a2_recognitions_that_disagree_name_nothing() -> None:
    async def work() -> None:
        line = Listener(en="English", pt="português")
        await line.hear(0.8)
        await line.hear(1.0, loud=False)
        assert len(line.speech.tickets) == 2 and line.named == []

    run(work())


def test_a2_what_is_said_into_the_menus_own_voice_is_not_listened_to() -> None:
    async def work() -> None:
        line = Listener(en="English", pt="English")
        await line.hear(0.8, silent=False)
        await line.hear(1.0, loud=False)
        assert not line.speech.tickets
        await line.hear(0.8)
        await line.hear(1.0, loud=False)
        assert line.named == ["en"]

    run(work())


def test_a2_neither_long_talk_nor_an_answer_to_another_question_is_recognised() -> None:
    async def work() -> None:
        line = Listener(en="English", pt="English")
        await line.hear(6.0)
        await line.hear(1.0, loud=False)
        await line.hear(0.8)
        await line.hear(1.0, loud=False, offered="")
        assert not line.speech.tickets and line.named == []

    run(work())


def test_a2_a_recogniser_that_fails_leaves_the_keys() -> None:
    async def work() -> None:
        line = Listener(en=WorkerLost("gone"), pt="português")
        await line.hear(0.8)
        await line.hear(1.0, loud=False)
        assert line.named == [] and not line.choice.busy
        line.choice.close()

    run(work())
