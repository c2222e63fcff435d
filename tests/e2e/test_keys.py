# SPDX-License-Identifier: GPL-3.0-or-later
"""Through the menu with real voices: a language named aloud, a number in keys, read back so that it is understood."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from gateway.bench.capture import Capture
from gateway.bench.phone_process import PhoneProcess
from gateway.bench.sdp import RATE_HZ
from gateway.speech.jobs import Speech, SynthesizeTask
from gateway.speech.local import Engines
from gateway.text.normal import normal_words
from tests.e2e.conftest import Site
from tests.e2e.sounds import heard_between, read_back

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]

NUMBER = "48151623"
"""Dialled in the menu; it must turn up nowhere but in the caller's ear."""


async def dialled(phone: PhoneProcess, uri: str) -> None:
    """Call until it is taken: on a fresh machine a menu is refused while its prompts are made (C9)."""
    for _ in range(45):
        since = phone.position
        phone.send("call", uri=uri)
        came = await phone.wait("established", "ended", timeout_s=30, since=since)
        if came["event"] == "established":
            return
        assert came["code"] == 503
        await asyncio.sleep(2)
    raise AssertionError("the menu's prompts were not made in 90 s")


def spoken(engines: Engines, text: str, language: str, work: Path) -> Path:
    """A text in a synthetic voice, as a file that a telephone can play."""
    speech = engines.run(SynthesizeTask(text, language))
    assert isinstance(speech, Speech)
    pcm = soxr.resample(np.frombuffer(speech.pcm, np.int16), speech.rate_hz, RATE_HZ)
    file = work / "spoken.wav"
    soundfile.write(file, np.asarray(pcm, np.int16), RATE_HZ, subtype="PCM_16")
    return file


def test_a2_k07_from_the_menu_to_an_interpreted_call(site: Site, engines: Engines, work: Path) -> None:
    before = {file: file.stat().st_size for file in (site.gateway.log_file, site.gateway.events_file)}

    async def call() -> tuple[dict[str, Any], Capture, int, int]:
        since = site.position()
        async with site.two_phones(quiet_ms=1500) as (a, b):
            await dialled(a, site.gateway.uri("7000"))
            await a.wait("sound_ended", timeout_s=30, since=a.position)  # it has offered its languages
            a.send("play", file=str(spoken(engines, "Português.", "pt", work)), id="choice")
            await a.wait("sound_started", timeout_s=30, since=a.position)  # it asks for the number
            a.send("dtmf", digits=NUMBER)
            await a.wait("sound_ended", timeout_s=30, since=a.position)  # and is cut off
            read = await a.wait("sound_ended", timeout_s=60, since=a.position)  # the number, behind the pause
            assert not b.find("incoming"), "nobody is rung before it is confirmed"
            a.send("dtmf", digits="1", by="info")
            await b.wait("established", timeout_s=30)
            await site.phase(since, "bridged")
            heard = await a.capture(work / "a.npz")
            a.send("hangup")
            return await site.ended(since), heard, read["first_ns"], read["last_ns"]

    ended, heard, first_ns, last_ns = site.run(call())
    assert ended["languages"] == ["pt", "en"], "who said so speaks Portuguese"
    assert (ended["result"], ended["reason"]) == ("completed", "caller-hung-up")
    said = read_back(engines, heard_between(heard.received, first_ns, last_ns), "pt").text
    assert "".join(word for word in normal_words(said, "pt") if word.isdecimal()).find(NUMBER) >= 0, said
    for file, size in before.items():  # the rest of a long file may hold any eight digits in its stamps
        assert NUMBER not in file.read_bytes()[size:].decode(errors="replace")
