# SPDX-License-Identifier: GPL-3.0-or-later
"""What callers get when something is not as it should be: a clear answer on the wire, and a clean end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.bench.capture import last_above
from gateway.bench.phone_process import PhoneProcess
from tests.e2e.conftest import Site

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]


async def refused(site: Site, number: str, **options: Any) -> dict[str, Any]:
    async with PhoneProcess(user="a", **options) as a:
        a.send("call", uri=site.gateway.uri(number))
        return await a.wait("ended", timeout_s=30)


def test_a22_an_unknown_number_is_404(site: Site) -> None:
    assert site.run(refused(site, "9999"))["code"] == 404


def test_a22_a_language_that_is_not_served_is_488(site: Site) -> None:
    assert site.run(refused(site, "7005"))["code"] == 488


def test_a_trusted_trunk_may_name_the_languages(site: Site) -> None:
    async def work() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        since = site.position()
        async with site.two_phones() as (a, b):
            a.send("call", uri=site.gateway.uri("7001"), headers={"X-Translate": "pt-en"})
            await b.wait("established", timeout_s=30)
            a.send("hangup")
            ended = await site.ended(since)
        return ended, site.gateway.events[since:]

    ended, events = site.run(work())
    started = next(event for event in events if event["kind"] == "call-started")
    assert ended["languages"] == ["pt", "en"]
    assert started["effective"]["a_to_b"]["source"] == "pt"
    assert (ended["result"], ended["reason"]) == ("completed", "caller-hung-up")


def test_a_nonsense_language_header_is_refused(site: Site) -> None:
    async def work() -> dict[str, Any]:
        async with PhoneProcess(user="a") as a:
            a.send("call", uri=site.gateway.uri("7001"), headers={"X-Translate": "english"})
            return await a.wait("ended", timeout_s=30)

    assert site.run(work())["code"] == 488


@pytest.mark.parametrize(
    ("code", "reason"), [(486, "callee-busy"), (603, "callee-declined"), (480, "callee-no-answer")]
)
def test_a_callee_who_refuses_is_told_to_the_caller_in_words(site: Site, work: Path, code: int, reason: str) -> None:
    async def talk() -> tuple[dict[str, Any], dict[str, Any], float]:
        since = site.position()
        async with site.two_phones(answer_after_ms=None) as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("incoming", timeout_s=30)
            rejected_ns = time.monotonic_ns()
            b.send("reject", code=code)
            gone = await a.wait("ended", timeout_s=30)
            heard = (await a.capture(work / "a.npz")).received
            last = last_above(heard, rejected_ns, gone["at_ns"])
            return await site.ended(since), gone, (last.at_ns - rejected_ns) / 1e9 if last else 0.0

    ended, gone, heard_s = site.run(talk())
    assert (ended["result"], ended["reason"]) == ("unanswered", reason)
    assert gone["by_remote"], "the gateway hangs up after the announcement"
    assert heard_s > 1.0, "the caller hears why"


def test_a_callee_who_does_not_answer_is_given_up_and_cancelled(site: Site) -> None:
    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        since = site.position()
        async with site.two_phones(answer_after_ms=None) as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("incoming", timeout_s=30)
            cancelled = await b.wait("ended", timeout_s=30)
            await a.wait("ended", timeout_s=30)
            return await site.ended(since), cancelled

    ended, cancelled = site.run(work())
    assert (ended["result"], ended["reason"]) == ("unanswered", "callee-no-answer")
    assert cancelled["by_remote"]


def test_a_destination_that_cannot_be_reached_is_told(site: Site) -> None:
    async def work() -> dict[str, Any]:
        since = site.position()
        async with PhoneProcess(user="a") as a:
            a.send("call", uri=site.gateway.uri("7003"))
            await a.wait("ended", timeout_s=45)
            return await site.ended(since)

    ended = site.run(work())
    assert (ended["result"], ended["reason"]) == ("unanswered", "callee-unreachable")


def test_a05_a_caller_who_gives_up_cancels_the_callee(site: Site) -> None:
    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        since = site.position()
        async with site.two_phones(answer_after_ms=None) as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("incoming", timeout_s=30)
            a.send("hangup")
            gone = await b.wait("ended", timeout_s=30)
            return await site.ended(since), gone

    ended, gone = site.run(work())
    assert (ended["result"], ended["reason"]) == ("cancelled", "caller-gave-up")
    assert gone["by_remote"]


def test_a11_the_third_call_is_refused_before_it_is_answered(site: Site) -> None:
    """The library holds four legs: two calls. The third gets 486 with Retry-After, and the two go on."""

    async def work() -> tuple[int, bool]:
        since = site.position()
        async with site.two_phones() as (a, b), PhoneProcess(user="c") as c, PhoneProcess(user="d") as d:
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("established", timeout_s=30)
            c.send("call", uri=site.gateway.uri("7001"))  # B is busy now: this one waits in its announcement
            await c.wait("established", timeout_s=30)
            d.send("call", uri=site.gateway.uri("7001"))
            refusal = await d.wait("ended", timeout_s=30)
            alive = not a.find("ended")
            a.send("hangup")
            c.send("hangup")
            await site.ended(since)
            await asyncio.sleep(1)
            return int(refusal["code"]), alive

    code, alive = site.run(work())
    assert code == 486 and alive
