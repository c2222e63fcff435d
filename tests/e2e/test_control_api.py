# SPDX-License-Identifier: GPL-3.0-or-later
"""A live call placed, watched, changed and ended through the control API (SPEC A3, C4, S1.18; CASES K07)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.api.server import local_notes
from gateway.bench.gateway_process import free_port
from gateway.bench.phone_process import PhoneProcess
from gateway.text.normal import normal_words
from tests.e2e.conftest import Site
from tests.e2e.sounds import SAID, first_and_last, prompt

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]

Events = list[dict[str, Any]]


def client_of(site: Site) -> httpx2.AsyncClient:
    """As the user who runs the gateway."""
    (note,) = local_notes(site.gateway.tokens_file)
    headers = {"Authorization": f"Bearer {note['token']}"}
    return httpx2.AsyncClient(base_url=note["url"], headers=headers, timeout=30, trust_env=False, verify=False)


async def follow(api: httpx2.AsyncClient, call_id: str, told: Events) -> None:
    """Collect a call's events to its end, cutting the line once in the middle."""
    for most in (6, 10_000):
        last = {"Last-Event-ID": str(told[-1]["id"])} if told else {}
        async with api.stream("GET", f"/v1/calls/{call_id}/events", headers=last) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    told.append(json.loads(line.removeprefix("data: ")))
                    most -= 1
                if not most:
                    break


async def say(phone: PhoneProcess, name: str, work: Path, told: Events, count: int) -> None:
    """Speak a prompt, and wait until so many segments of the call have been spoken or lost."""
    phone.send("play", file=str(prompt(name, work)), id=name)
    await phone.wait("played", timeout_s=30, such_that=lambda event: event["id"] == name)
    async with asyncio.timeout(40):
        while sum(event["kind"] in ("utterance", "lost") for event in told) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def test_a3_c4_click_to_call_is_watched_changed_and_ended_over_http(plain: Site, work: Path) -> None:
    site, a_port = plain, free_port()
    told: Events = []

    async def call() -> tuple[dict[str, Any], dict[str, Any], str, str]:
        async with (
            client_of(site) as api,
            PhoneProcess(user="b", sip_port=site.b_port, answer_after_ms=100) as b,
            PhoneProcess(user="a", sip_port=a_port, answer_after_ms=100, quiet_ms=700) as a,
        ):
            since = site.position()
            order = {"a": {"to": f"sip:a@127.0.0.1:{a_port}", "language": "en"}, "b": {"to": "7001"}}
            placed = (await api.post("/v1/calls", json=order)).raise_for_status().json()
            call_id = placed["id"]
            following = asyncio.create_task(follow(api, call_id, told))
            await b.wait("established", timeout_s=30)
            await site.phase(since, "bridged")
            await say(a, "vm-whichbox", work, told, 1)
            swapped = {"a": {"language": "pt"}, "b": {"language": "en"}}
            changed = (await api.patch(f"/v1/calls/{call_id}", json=swapped)).raise_for_status().json()
            await say(b, "queue-youarenext", work, told, 2)
            (await api.patch(f"/v1/calls/{call_id}", json={"mode": "simultaneous"})).raise_for_status()
            await say(b, "vm-whichbox", work, told, 3)
            said = (await api.get(f"/v1/calls/{call_id}/transcript.json")).raise_for_status().json()
            (await api.delete(f"/v1/calls/{call_id}")).raise_for_status()
            await b.wait("ended", timeout_s=30)
            await asyncio.wait_for(following, 20)
            metrics = (await api.get("/metrics")).text
            return changed, said, metrics, call_id

    changed, said, metrics, call_id = site.run(call())
    assert [event["id"] for event in told] == list(range(1, len(told) + 1)), "none missing, none twice, in order"
    kinds = [event["kind"] for event in told]
    assert (kinds[0], kinds[-1]) == ("call-started", "call-ended")
    assert kinds.index("heard") < kinds.index("utterance")
    assert (told[-1]["result"], told[-1]["reason"]) == ("completed", "operator-hung-up")
    assert changed["a"]["language"] == "pt"
    first, second = [event for event in told if event["kind"] == "utterance"][:2]
    assert (first["leg"], first["source_lang"], first["target_lang"]) == ("a", "en", "pt")
    assert (second["leg"], second["source_lang"], second["target_lang"]) == ("b", "en", "pt"), "S1.18"
    assert first_and_last(second["source_text"], "en") == first_and_last(SAID["queue-youarenext"], "en")
    assert "clause" in kinds, "simultaneous mode is in force"
    assert [line["target_text"] for line in said["lines"]][:2] == [first["target_text"], second["target_text"]]
    assert 'gateway_utterances_total{outcome="spoken",source="en",target="pt"}' in metrics
    log = site.gateway.log_file.read_text(encoding="utf-8", errors="replace").lower()
    assert call_id in log
    for event in (first, second):
        for text, language in ((event["source_text"], "en"), (event["target_text"], "pt")):
            words = normal_words(text, language)
            assert " ".join(words[:4]) not in log and text.lower() not in log, "K07: no word of a call is logged"
            assert text not in metrics
    assert f"127.0.0.1:{a_port}" not in log, "nor a number that was dialled"
