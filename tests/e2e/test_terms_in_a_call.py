# SPDX-License-Identifier: GPL-3.0-or-later
"""A term that is loaded while people talk is heard in the next utterance of the call."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rapidfuzz import fuzz

from gateway.bench.capture import Capture
from gateway.bench.gateway_process import children
from gateway.speech.local import Engines
from tests.e2e.conftest import Site
from tests.e2e.sounds import heard_between, prompt, read_back

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]

PROMPT = "conf-waitforleader"
LIST = {"terms": [{"from": "en", "to": "pt", "forms": "conference", "target": "assembleia"}]}


def redis_of(site: Site) -> str:
    """The URL of the gateway's own Redis: several gateways may run on this machine."""
    for pid in children(site.gateway.pid):
        socket = Path(f"/proc/{pid}/cwd").readlink() / "socket"  # the server works in the folder of its socket
        if socket.is_socket():
            return f"unix://{socket}"
    raise AssertionError("the gateway has no Redis of its own")


async def command(site: Site, *words: str) -> dict[str, Any]:
    """A `gateway` command beside the running gateway."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *words, "--json"),
        env={**os.environ, "GATEWAY__REDIS__URL": redis_of(site)},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    told: dict[str, Any] = json.loads(said)
    return told


def test_s1_19_b8_a_term_loaded_during_a_call_is_heard_in_its_next_utterance(
    plain: Site, engines: Engines, work: Path
) -> None:
    site, file = plain, work / "list.json"
    file.write_text(json.dumps(LIST), encoding="utf-8")

    async def call() -> tuple[list[dict[str, Any]], Capture, int]:
        since = site.position()
        async with site.two_phones(quiet_ms=700) as (a, b):
            a.send("call", uri=site.gateway.uri("7001"))
            await b.wait("established", timeout_s=30)
            await site.phase(since, "bridged")
            for turn in (1, 2):
                a.send("play", file=str(prompt(PROMPT, work)), id=f"turn{turn}")
                await site.spoken(since, turn)
                if turn == 1:
                    told = await command(site, "dict", "load", str(file))
                    assert told["version"] >= 1
            a.send("hangup")  # B stays until it has heard the rest
            gone = await b.wait("ended", timeout_s=30)
            return site.utterances(since), await b.capture(work / "b.npz"), gone["at_ns"]

    try:
        records, heard, gone_ns = site.run(call())
    finally:
        site.run(command(site, "dict", "delete"))
    before, after = records
    assert "assembleia" not in before["target_text"].lower()
    assert before["terms"]["hits"] + before["terms"]["repairs"] == 0
    assert "assembleia" in after["target_text"].lower()
    assert after["terms"]["hits"] + after["terms"]["repairs"] == 1
    assert after["terms"]["misses"] == 0
    sound = heard_between(heard.received, after["played_ns"], gone_ns)
    heard_text = read_back(engines, sound, "pt").text.lower()
    assert fuzz.partial_ratio("assembleia", heard_text) >= 80, heard_text  # a recogniser may write "asempleia"
