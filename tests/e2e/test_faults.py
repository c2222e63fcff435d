# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the gateway die or stall in the middle of a call, telephones hang up in the middle of a word."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.bench.capture import Capture, delivery, packet_rate, regularity
from gateway.bench.gateway_process import children
from gateway.bench.phone_process import PhoneProcess
from gateway.bench.processes import alive, command, redis_client, redis_server, until_gone, workers
from gateway.speech.local import Engines
from gateway.text.normal import normal_words, wer
from tests.e2e.conftest import FIFTY_PPS, REDIS_TIMEOUT_S, Site
from tests.e2e.sounds import SAID, first_and_last, heard_between, prompt, read_back

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]

RELOAD_S = 100.0  # until a new worker has read and warmed its models, on a busy machine
LONGEST_GAP_MS = 1000 * REDIS_TIMEOUT_S / 2  # a call that waits for Redis would show as a gap of all of it


async def connect(site: Site, a: PhoneProcess, b: PhoneProcess, number: str = "7001") -> None:
    """Dial, until both can talk."""
    since = site.position()
    a.send("call", uri=site.gateway.uri(number))
    await b.wait("established", timeout_s=30)
    await site.phase(since, "bridged")


async def say(phone: PhoneProcess, name: str, work: Path) -> dict[str, Any]:
    """Speak a prompt to its end."""
    phone.send("play", file=str(prompt(name, work)), id=name)
    return await phone.wait("played", timeout_s=30, such_that=lambda event: event["id"] == name)


def check_undisturbed(heard: Capture) -> None:
    """A8: packets at 50 a second, none missing, no hole, whatever happened inside the gateway."""
    assert packet_rate(heard.received).overall_pps == FIFTY_PPS
    spacing = delivery(heard.received)
    assert (spacing.lost, spacing.duplicate) == (0, 0)
    assert spacing.gap_max_ms < LONGEST_GAP_MS
    assert regularity(heard.received).irregular_unmarked == 0


def log_of(site: Site, name: str) -> int:
    """How often an event stands in the gateway's log."""
    return site.gateway.log_file.read_text(encoding="utf-8", errors="replace").count(f'"{name}"')


def test_c8_a_worker_killed_during_an_utterance_costs_at_most_that_utterance(plain: Site, work: Path) -> None:
    site = plain

    async def call() -> tuple[list[dict[str, Any]], dict[str, Any], Capture, list[dict[str, Any]], list[int]]:
        since = site.position()
        async with site.two_phones(quiet_ms=700) as (a, b):
            await connect(site, a, b)
            said = await say(a, "followme/status", work)
            victims = workers(site.gateway)
            await asyncio.sleep(max(0.0, said["last_ns"] / 1e9 + 0.3 - time.monotonic()))
            position = a.position
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            await site.done(since, 1, RELOAD_S)
            await say(a, "vm-whichbox", work)
            await site.done(since, 2, RELOAD_S)
            sounds = a.find("sound_started", position)
            a.send("hangup")
            await b.wait("ended", timeout_s=30)
            ended = await site.ended(since)
            return site.utterances(since), ended, await b.capture(work / "b.npz"), sounds, victims

    records, ended, heard, told, victims = site.run(call())
    assert victims and not any(alive(pid) for pid in victims)
    assert len(workers(site.gateway)) == len(victims), "a new worker took the place"
    assert log_of(site, "speech_worker_lost") + log_of(site, "speech_worker_ended") >= 1
    assert len({record["segment_id"] for record in records}) == len(records) == 2
    hit, later = records
    assert hit["lost"] is None or told, "what was lost is said to the talker"
    assert later["lost"] is None
    assert first_and_last(later["source_text"], "en") == first_and_last(SAID["vm-whichbox"], "en")
    assert (ended["result"], ended["reason"]) == ("completed", "caller-hung-up")
    check_undisturbed(heard)


def test_c7_redis_killed_and_stalled_during_speech_is_not_heard(plain: Site, work: Path) -> None:
    site = plain

    async def call() -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Capture], bool]:
        since = site.position()
        async with site.two_phones(quiet_ms=700) as (a, b):
            await connect(site, a, b)
            call_id = (await site.phase(since, "bridged"))["call"]
            a.send("play", file=str(prompt("followme/status", work)), id="killed")
            await asyncio.sleep(1)
            killed = redis_server(site.gateway)
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            await site.done(since, 1, RELOAD_S)
            back = await _holds_call(site, call_id, limit_s=5.0)

            stalled = redis_server(site.gateway)
            assert stalled not in (None, killed)
            os.kill(stalled, signal.SIGSTOP)
            try:
                await say(a, "queue-youarenext", work)
                await site.done(since, 2, RELOAD_S)
            finally:
                os.kill(stalled, signal.SIGCONT)
            a.send("hangup")
            await b.wait("ended", timeout_s=30)
            ended = await site.ended(since)
            captures = {"a": await a.capture(work / "a.npz"), "b": await b.capture(work / "b.npz")}
            return site.utterances(since), ended, captures, back

    records, ended, captures, back = site.run(call())
    assert back, "the live call stands in the new Redis within 5 s"
    assert [record["lost"] for record in records] == [None, None]
    for capture in captures.values():
        check_undisturbed(capture)
    assert (ended["result"], ended["reason"]) == ("completed", "caller-hung-up")


async def _holds_call(site: Site, call_id: str, limit_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while True:
                pid = redis_server(site.gateway)
                with contextlib.suppress(Exception):  # not there yet
                    if pid and redis_client(pid).exists(f"gw:call:{call_id}"):
                        return True
                await asyncio.sleep(0.1)
    return False


def test_f09_words_of_two_calls_never_cross(plain: Site, engines: Engines, work: Path) -> None:
    """Two calls at once, which is what the SIP library holds, with words that have nothing in common."""
    site = plain
    said = {"7001": "privacy-prompt", "7002": "queue-youarenext"}

    async def one(number: str, port: int) -> tuple[dict[str, Any], Capture, dict[str, Any]]:
        folder = work / number
        folder.mkdir()
        user = {"7001": "b", "7002": "c"}[number]
        async with (
            PhoneProcess(user=user, sip_port=port, answer_after_ms=100) as callee,
            PhoneProcess(user=f"a{number}") as caller,
        ):
            await connect(site, caller, callee, number)
            await asyncio.sleep(1)
            await say(caller, said[number], folder)
            caller.send("hangup")  # the other one stays until the translation is said
            gone = await callee.wait("ended", timeout_s=60)
            return {}, await callee.capture(folder / "callee.npz"), gone

    async def both() -> list[tuple[dict[str, Any], Capture, dict[str, Any]]]:
        return list(await asyncio.gather(one("7001", site.b_port), one("7002", site.c_port)))

    since = site.position()
    outcomes = site.run(both())
    site.run(site.done(since, 2, 10))
    routes = {event["call"]: event["route"] for event in site.gateway.events[since:] if event["kind"] == "call-started"}
    by_number = {routes[record["call"]]: record for record in site.utterances(since)}
    assert len(routes) == len(by_number) == 2
    heard = {}
    for number, (_, capture, gone) in zip(said, outcomes, strict=True):
        (record,) = (record for route, record in by_number.items() if number in route)
        assert first_and_last(record["source_text"], "en") == first_and_last(SAID[said[number]], "en")
        pcm = heard_between(capture.received, record["played_ns"], gone["at_ns"])
        text = read_back(engines, pcm, "pt").text
        assert wer(record["target_text"], text, "pt") <= 0.35, text
        heard[number] = set(normal_words(text, "pt"))
        assert packet_rate(capture.received).overall_pps == FIFTY_PPS
    own = {number: {word for word in words if len(word) > 4} for number, words in heard.items()}
    assert not own["7001"] & own["7002"], heard


def test_f13_a_callee_who_hangs_up_in_mid_sentence_ends_the_call_cleanly(plain: Site, work: Path) -> None:
    site = plain

    async def call() -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], float]:
        since = site.position()
        async with site.two_phones() as (a, b):
            await connect(site, a, b)
            a.send("play", file=str(prompt("followme/status", work)), id="cut")
            await asyncio.sleep(1.5)
            b.send("hangup")
            hung_up_ns = time.monotonic_ns()
            gone = await a.wait("ended", timeout_s=30)
            ended = await site.ended(since)
            return gone, ended, site.ends(since), (gone["at_ns"] - hung_up_ns) / 1e9

    gone, ended, ends, after_s = site.run(call())
    assert gone["by_remote"]
    assert after_s < 5, "nobody is left on a line without another end"
    assert (ended["result"], ended["reason"]) == ("completed", "callee-hung-up")
    assert len({end["segment_id"] for end in ends}) == len(ends), "each segment ends once"


def test_both_hang_up_at_once(plain: Site, work: Path) -> None:
    site = plain

    async def call() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        since = site.position()
        async with site.two_phones() as (a, b):
            await connect(site, a, b)
            a.send("play", file=str(prompt("followme/sorry", work)), id="cut")
            await asyncio.sleep(1)
            for phone in (a, b):
                phone.send("hangup")
            endings = [await phone.wait("ended", timeout_s=30) for phone in (a, b)]
            await site.ended(since)
            await asyncio.sleep(0.5)
            site.gateway.read_events()
            return endings, [event for event in site.gateway.events[since:] if event["kind"] == "call-ended"]

    endings, ended = site.run(call())
    assert [ending["code"] for ending in endings] == [200, 200]
    assert len(ended) == 1
    assert ended[0]["result"] == "completed"
    assert ended[0]["reason"] in ("caller-hung-up", "callee-hung-up")


def test_c9_sigterm_with_a_live_call_drains_and_leaves_nobody_behind(plain: Site, work: Path) -> None:
    site = plain

    async def life() -> tuple[int, dict[str, Any], dict[str, Any], list[int], list[dict[str, Any]]]:
        since = site.position()
        async with site.two_phones() as (a, b), PhoneProcess(user="late") as late:
            await connect(site, a, b)
            a.send("play", file=str(prompt("vm-whichbox", work)), id="said")
            await asyncio.sleep(1)
            family = children(site.gateway.pid)
            os.kill(site.gateway.pid, signal.SIGTERM)
            await asyncio.sleep(0.3)
            late.send("call", uri=site.gateway.uri("7001"))
            refused = await late.wait("ended", timeout_s=30)
            await site.done(since, 1, RELOAD_S)
            a.send("hangup")
            await b.wait("ended", timeout_s=30)
            ended = await site.ended(since)
            code = await site.gateway.wait_end(60)
            return code, refused, ended, await until_gone(family, 20), site.utterances(since)

    code, refused, ended, left, records = site.run(life())
    assert code == 0
    assert refused["code"] == 503
    assert [record["lost"] for record in records] == [None], "the live call was interpreted to its end"
    assert (ended["result"], ended["reason"]) == ("completed", "caller-hung-up")
    assert [command(pid) for pid in left] == []
    assert "Traceback" not in site.gateway.log_file.read_text(errors="replace")


def test_a_killed_gateway_takes_its_workers_and_redis_with_it(plain: Site) -> None:
    site = plain

    async def life() -> tuple[list[list[str]], list[int]]:
        family = children(site.gateway.pid)
        names = [command(pid) for pid in family]
        os.kill(site.gateway.pid, signal.SIGKILL)
        return names, await until_gone([site.gateway.pid, *family], 10)

    names, left = site.run(life())
    assert any("spawn_main" in word for words in names for word in words)
    assert any("valkey-server" in word or "redis-server" in word for words in names for word in words)
    assert [command(pid) for pid in left] == []
