# SPDX-License-Identifier: GPL-3.0-or-later
"""E04: a telephone number with pauses of 0.9 s is several utterances, and the listener still writes down one number."""

from __future__ import annotations

import asyncio

import pytest

from gateway.speech.jobs import SynthesizeTask
from tests.call.duplex import Duplex
from tests.call.test_direction import voice

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("pause_s", "heard"), [(0.9, ["8 6 7", "5 3 0 9"]), (3.0, ["867", "5309"])])
def test_e04_groups_are_said_digit_by_digit_where_they_follow_each_other(pause_s: float, heard: list[str]) -> None:
    async def work() -> None:
        call = Duplex({"en": [""], "pt": [""]})
        call.translations = {"My number is 555.": "O meu número é 555."}
        await call.run(0.5)
        for text in ("My number is 555.", "867.", "5309."):
            call.script["en"] = [text]
            await call.run(voice(0.8))
            await call.run(pause_s)
        await call.run(3.0)
        spoken = [ticket.task.text for ticket in call.speech.of(SynthesizeTask)]
        assert [text.removeprefix("(pt) ").rstrip(".") for text in spoken] == ["O meu número é 555", *heard]
        records = call.of("utterance", "a")
        assert [record["source_text"] for record in records] == ["My number is 555.", "867.", "5309."]
        assert [record["numbers"]["continued"] for record in records] == [0, *(int(" " in one) for one in heard)]
        await call.close()

    asyncio.run(asyncio.wait_for(work(), 30))
