# SPDX-License-Identifier: GPL-3.0-or-later
"""B4: two parties of one language hear each other directly, as loud as a translation, and are told so once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.audio.original import Ducking, OriginalVoice
from gateway.call.bridge import TICK_S
from gateway.call.dialplan import DialPlan, Route
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import PromptBook
from gateway.sip.events import Answered
from gateway.speech.jobs import SynthesizeTask, TranslateTask
from tests.call.duplex import Duplex
from tests.call.scripted_exchange import Exchange
from tests.call.test_direction import voice
from tests.call.test_keys_in_a_call import end, listen

pytestmark = pytest.mark.unit


async def told(party: Party) -> list[str]:
    """What the party is told next."""
    async with asyncio.timeout(20):
        while not (names := await listen(party)):  # noqa: ASYNC110 - the state under test
            await asyncio.sleep(TICK_S / 10)
    return names


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


@pytest.mark.parametrize("mode", ["consecutive", "simultaneous"])
def test_b4_the_same_language_is_heard_and_not_translated_and_both_are_in_the_transcript(mode: str) -> None:
    async def work() -> None:
        call = Duplex({"en": ["good morning to you"], "pt": [""]}, mode=mode)
        call.b.language = "en"
        call.a_to_b.set_languages(None)
        call.b_to_a.set_languages(None)
        await call.run(0.4)
        ear = [frame async for frame in call.heard_by_b(voice(1.2))]
        assert np.abs(np.concatenate(ear)).max() > 3000, "the talker's own voice"
        await call.run(1.5)
        assert not call.speech.of(TranslateTask) and not call.speech.of(SynthesizeTask)
        assert {record["lost"] for record in call.of("utterance", "a")} == {"same-language"}
        assert {record["outcome"] for record in call.of("utterance", "a")} == {"withheld"}
        await call.run(0.0, voice(1.2))
        await call.run(1.5)
        assert [heard["text"] for heard in call.of("heard", "b")] == ["good morning to you"]
        call.b.language = "pt"
        call.a_to_b.set_languages(None)
        call.b_to_a.set_languages(None)
        await call.run(voice(1.2))
        await call.run(1.5)
        assert call.speech.of(TranslateTask), "interpreted again"
        assert not call.b.playout.statistics()["original"]["on"]
        await call.close()

    run(work())


@pytest.mark.parametrize("loudness", [0.4, 1.5])
def test_b4_a_soft_and_a_loud_talker_are_brought_to_the_level_of_a_voice(loudness: float) -> None:
    async def work() -> None:
        call = Duplex({"en": ["good morning to all of you"], "pt": [""]})
        call.b.language = "en"
        call.a_to_b.set_languages(None)
        sound = (voice(1.6) * loudness).astype(np.int16)
        for _ in range(2):
            await call.run(0.6)
            await call.run(sound)
        await call.run(0.8)
        ear = np.concatenate([frame async for frame in call.heard_by_b(sound)][20:]).astype(float)
        level = 20 * np.log10(np.sqrt((ear**2).mean()) / 32768)
        assert level == pytest.approx(-19, abs=2.5)
        await call.close()

    run(work())


def test_b4_the_gain_slides_and_ends_where_it_was() -> None:
    voice_under = OriginalVoice(Ducking(on=True, open_db=-6.0), 8000)
    tone = np.full(160, 8000, np.int16)

    def frames(count: int) -> list[float]:
        told = []
        for _ in range(count):
            voice_under.put(tone)
            out = np.zeros(160, np.float32)
            voice_under.add_to(out, spoken=False)
            told.append(20 * np.log10(max(1.0, float(out[-1])) / 8000))
        return told

    assert frames(10)[-1] == pytest.approx(-6, abs=0.1)
    voice_under.set_passing(3.0)
    sliding = frames(12)
    assert max(np.diff(sliding)) <= 1.05 and sliding[-1] == pytest.approx(3, abs=0.1)
    voice_under.set_passing(None)
    assert frames(12)[-1] == pytest.approx(-6, abs=0.1)


def test_b4_both_are_told_once_when_it_begins_and_once_when_it_ends() -> None:
    async def work() -> None:
        clip = np.full(320, 3000, np.int16)
        spoken = {(lang, name): clip for lang in ("xx", "yy") for name in ("same-language", "control-resumed")}
        book = PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent"), recorded=spoken)
        plan = DialPlan((Route("same", "xx", "xx", "sip:b@host", number="1"),))
        site = Exchange(dialplan=plan, prompts=book, ducking=Ducking(on=False))
        subscription = site.bus.subscribe()
        call = await site.take("1")
        await site.hear(Answered(call.a.leg))
        assert await listen(call.a) == [], "nobody is there yet"
        await site.hear(Answered(call.b.leg))
        for party in (call.a, call.b):
            assert await told(party) == ["same-language"]
            assert party.playout.statistics()["original"]["on"]
        call.set_language("b", "xx")
        await asyncio.sleep(2.5 * TICK_S)
        assert await listen(call.b) == []
        call.set_language("b", "yy")
        for party in (call.a, call.b):
            assert await told(party) == ["control-resumed"]
            assert not party.playout.statistics()["original"]["on"]
        await end(site, call)
        site.bus.close()
        assert [e.data["on"] async for e in subscription if e.kind == "passed-through"] == [True, False]

    run(work())
