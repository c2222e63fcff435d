# SPDX-License-Identifier: GPL-3.0-or-later
"""Many short calls leave nothing behind: no thread, no handle, no key, and no telephone that is still reserved."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from gateway.bench.churn import Churned, churn
from gateway.bench.dialogue import Turn, VoicedTurn
from gateway.bench.processes import open_files
from gateway.bench.soak import Soaked, soak
from tests.e2e.conftest import Site

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]

CALLS = 60


def test_s1_24_sixty_calls_leave_nothing_behind(site: Site) -> None:
    async def work() -> tuple[Churned, Counter[str], Counter[str], int]:
        since = site.position()
        await churn(site.gateway, "7001", 3)  # what is made once, at the first calls
        before = Counter(open_files(site.gateway.pid))
        done = await churn(site.gateway, "7001", CALLS)
        return done, before, Counter(open_files(site.gateway.pid)), since

    done, before, after, since = site.run(work())
    assert done.refused == 0
    first, last = done.footprints[0], done.footprints[-1]
    assert last.threads <= first.threads
    assert last.redis_keys <= first.redis_keys
    grown = after - before
    # a connection to Redis may just be renewing itself; sixty calls that each left one would be sixty
    assert sum(grown.values()) <= 2, f"more sockets, pipes or files than before the calls: {grown}"
    assert last.workers_kb - first.workers_kb < 20_000, "nothing was said, so the models had nothing to do"
    # Sound that stays in a heap with holes cost 35 MB here. The slope of a thousand calls is measured by
    # `gateway bench churn`: sixty are over before the first transactions end.
    assert last.rss_kb - first.rss_kb < 20_000

    events = [event for event in site.gateway.events[since:] if event["kind"] == "call-ended"]
    assert len(events) == CALLS + 3
    assert {event["reason"] for event in events} == {"caller-gave-up"}


def test_s1_24_a_soak_holds_a_conversation_while_short_calls_come_and_go(site: Site, work: Path) -> None:
    clip = work / "clip.wav"
    soundfile.write(clip, np.random.default_rng(5).integers(-3000, 3000, 8000).astype(np.int16), 8000)
    turn = VoicedTurn(Turn("a1", "a", "en", "", None, 0), clip, 8000, "recorded")
    done: Soaked = site.run(
        soak(
            site.gateway,
            talk_number="7001",
            talk_port=site.b_port,
            turns=[turn],
            short_number="7003",
            calls=8,
            minutes=0.1,
        )
    )
    told = done.as_json()
    assert (told["calls"], told["refused"], told["unanswered"], told["conversation_broken"]) == (8, 0, 0, False)
    assert told["said"] >= 1
    assert told["minutes"] >= 0.1
    assert {"rss_kb_per_hour", "threads_per_hour", "handles_per_hour", "redis_keys_per_hour"} <= told.keys()


def test_the_gateway_still_takes_a_call_afterwards(site: Site) -> None:
    async def work() -> str:
        since = site.position()
        async with site.two_phones() as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("established", timeout_s=30)
            await asyncio.sleep(0.5)
            b.send("hangup")
            await a.wait("ended", timeout_s=30)
            return str((await site.ended(since))["reason"])

    assert site.run(work()) == "callee-hung-up"
