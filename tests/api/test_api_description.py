# SPDX-License-Identifier: GPL-3.0-or-later
"""The API against its own description: generated requests, with and without a token (SPEC C4)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.api.control_room import Room, room, utterance

pytestmark = [pytest.mark.unit, pytest.mark.slow, pytest.mark.timeout(240)]

# What a schema cannot say is refused too (a number that the dial plan has not), and pydantic takes 0 for false.
NOT_MEANT = "positive_data_acceptance,negative_data_rejection"


async def generated(one: Room, work: Path, role: str | None) -> tuple[int, str]:
    """Exit status and report of a bounded run against a live gateway."""
    token = ["-H", f"Authorization: Bearer {one.tokens[role]}"] if role else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("run", f"{one.url}/v1/openapi.json", "--phases", "fuzzing", "--max-examples", "2", "--seed", "7"),
        *("--checks", "all", "--exclude-checks", NOT_MEANT, "--request-timeout", "60", "--no-color", *token),
        *("--suppress-health-check", "all"),  # they judge how long a machine took to generate
        cwd=work,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")


async def live(one: Room) -> None:
    """A call with something said in it."""
    one.publish(await one.bridge(), "utterance", **utterance(1, "good day", "bom dia"))


async def hang_up_on_listeners(one: Room) -> None:
    """A stream ends with its call: end those that are listened to, so that nobody waits for a time-out."""
    while True:
        if one.api.statistics()["streams"]:
            for call_id in one.exchange.board.calls():
                await one.end(call_id)
            await live(one)
        await asyncio.sleep(0.1)


def test_c4_no_generated_request_breaks_the_gateway_or_its_promises(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one:
            await live(one)
            ending = asyncio.create_task(hang_up_on_listeners(one))
            for role in ("admin", None):
                status, report = await generated(one, tmp_path, role)
                assert status == 0, report[-6000:]
                assert "passed" in report
            ending.cancel()
            async with one.client() as admin:
                assert (await admin.get("/healthz")).is_success
                assert 'status="500"' not in (await admin.get("/metrics")).text
            for call in one.exchange.board.calls():
                await one.end(call)

    asyncio.run(asyncio.wait_for(work(), 220))
