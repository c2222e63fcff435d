# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns with real models: a loudspeaker that echoes (B7, E09), and a caller whose language is found out (B3, B4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.bench.capture import Capture
from gateway.speech.local import Engines
from tests.e2e.conftest import Site
from tests.e2e.sounds import heard_between, holds, prompt, read_back

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]


async def say(phone: Any, name: str, work: Path) -> dict[str, Any]:
    phone.send("play", file=str(prompt(name, work)), id=name)
    told: dict[str, Any] = await phone.wait("played", timeout_s=30, such_that=lambda event: event["id"] == name)
    return told


def test_b7_e09_what_a_loudspeaker_sends_back_is_not_interpreted_again(site: Site, work: Path) -> None:
    since = site.position()

    async def call() -> dict[str, Any]:
        async with site.two_phones(quiet_ms=900) as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("established", timeout_s=30)
            b.send("loudspeaker", gain_db=-14.0)  # from the announcement on
            await b.wait("sound_ended", timeout_s=30)
            await say(a, "vm-msgforwarded", work)
            (spoken,) = await site.spoken(since, 1)
            await b.wait("sound_ended", timeout_s=30, such_that=lambda event: event["last_ns"] > spoken["played_ns"])
            await asyncio.sleep(2.5)  # an utterance of the echo would be heard by now
            a.send("hangup")
            await b.wait("ended", timeout_s=30)
            return await site.ended(since)

    ended = site.run(call())
    assert [(record["leg"], record["lost"]) for record in site.utterances(since)] == [("a", None)]
    turns = ended["directions"]["b_to_a"]["turns"]
    assert turns["withheld-echo"] >= 2, "the announcement and the translation came back"
    assert ended["utterances"] == {"spoken": 1}


def test_b3_b4_a_caller_who_turns_out_to_speak_the_others_language_is_passed_through(
    site: Site, engines: Engines, work: Path
) -> None:
    since = site.position()

    async def call() -> tuple[dict[str, Any], Capture, dict[str, Any]]:
        async with site.two_phones(quiet_ms=900) as (a, b):
            a.send("call", uri=site.gateway.uri("7006"))
            await b.wait("established", timeout_s=30)
            told = await b.wait("sound_ended", timeout_s=30)
            await say(a, "vm-msgforwarded", work)
            # the same words are handed on, and both are told that they hear each other from now on
            await b.wait("sound_ended", timeout_s=30, such_that=lambda event: event["first_ns"] > told["last_ns"])
            said = await say(a, "conf-waitforleader", work)
            await site.spoken(since, 2)
            a.send("hangup")
            await b.wait("ended", timeout_s=30)
            return said, await b.capture(work / "b.npz"), await site.ended(since)

    said, heard, ended = site.run(call())
    events = site.gateway.events[since:]
    (found,) = [event for event in events if event["kind"] == "language"]
    assert (found["leg"], found["language"], found["before"]) == ("a", "en", None) and found["share"] > 0.8
    assert [event["on"] for event in events if event["kind"] == "passed-through"] == [True]
    records = site.utterances(since)
    assert [(record["source_lang"], record["lost"]) for record in records] == [("en", "same-language")] * 2
    assert "leader" in records[1]["source_text"], "it is still in the transcript"
    first_words = heard_between(heard.received, records[0]["audio_end_ns"], said["first_ns"])
    assert holds(["forwarded"], read_back(engines, first_words, "en").text, "en"), "no word of A's was lost to B"
    meanwhile = heard_between(heard.received, said["first_ns"] + 500_000_000, said["last_ns"])
    assert 20 * np.log10(np.std(meanwhile) / 32768 + 1e-9) > -32, "B hears A's own voice, at the level of a translation"
    assert ended["languages"] == ["en", "en"]
