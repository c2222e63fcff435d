# SPDX-License-Identifier: GPL-3.0-or-later
"""A9 at the telephones: who presses *3 hears the other's own voice as it is spoken, and no recogniser does.

And S1.15: ticks that the gateway hands through tell what the line itself takes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.bench.capture import Capture, first_above
from gateway.bench.conversation import converse
from gateway.bench.loop_bench import figures, script
from tests.e2e.conftest import Site
from tests.e2e.sounds import heard_between, prompt

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.timeout(240)]

MS = 1_000_000
LATE_NS = 600 * MS  # 60 ms in the gateway, a jitter buffer each way, and a loaded machine


def test_a9_the_original_is_heard_at_once_and_interpreted_once(plain: Site, work: Path) -> None:
    site = plain

    async def call() -> tuple[dict[str, Any], Capture]:
        since = site.position()
        async with site.two_phones(quiet_ms=700) as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await a.wait("established", timeout_s=30)
            await b.wait("established", timeout_s=30)
            await site.phase(since, "bridged")
            before = b.position
            b.send("dtmf", digits="*3")
            async with asyncio.timeout(20):
                while not any(one["kind"] == "control" for one in site.gateway.events[since:]):
                    site.gateway.read_events()
                    await asyncio.sleep(0.05)
            await b.wait("sound_ended", timeout_s=30, since=before)  # the answer to the keys
            a.send("play", file=str(prompt("followme/status", work)), id="said")
            said = await a.wait("played", timeout_s=30, such_that=lambda event: event["id"] == "said")
            await site.spoken(since, 1)
            await asyncio.sleep(2.0)  # what came back of the translation would be there by now
            a.send("hangup")
            await b.wait("ended", timeout_s=30)
            return said, await b.capture(work / "b.npz")

    since = site.position()
    said, heard = site.run(call())
    first = first_above(heard.received, said["first_ns"], said["last_ns"])
    assert first is not None and 0 < first.at_ns - said["first_ns"] < LATE_NS
    while_speaking = heard_between(heard.received, said["first_ns"] + LATE_NS, said["last_ns"])
    assert 20 * np.log10(np.std(while_speaking) / 32768 + 1e-9) > -40
    spoken = site.utterances(since)
    assert [(record["leg"], record["lost"]) for record in spoken] == [("a", None)], "nothing of it came back from B"


def test_s1_15_ticks_between_two_who_share_a_language_take_what_the_line_takes(plain: Site, work: Path) -> None:
    voiced = script(6, work / "script")
    held = plain.run(converse(plain.gateway, voiced, work, b_port=plain.b_port, number="7003"))
    found = figures(held.outcome.spoken, held.outcome.captures)
    for direction in ("a_to_b", "b_to_a"):
        assert (found[direction]["sent"], found[direction]["lost"]) == (6, 0), found
        assert found[direction]["min_ms"] > 0 and found[direction]["max_ms"] < LATE_NS / MS, found
    assert not held.records, "ticks are no words"
