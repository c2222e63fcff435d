# SPDX-License-Identifier: GPL-3.0-or-later
"""The API against its own description: generated requests, with and without a token (SPEC C4)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.api.control_room import Room, room, utterance

pytestmark = [pytest.mark.unit, pytest.mark.slow]

# What a schema cannot say is refused too (a number that the dial plan has not), and pydantic takes 0 for false.
NOT_MEANT = "positive_data_acceptance,negative_data_rejection"


async def generated(one: Room, work: Path, role: str | None) -> tuple[int, str]:
    """Exit status and report of a bounded run against a live gateway."""
    token = ["-H", f"Authorization: Bearer {one.tokens[role]}"] if role else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("run", f"{one.url}/v1/openapi.json", "--phases", "fuzzing", "--max-examples", "2", "--seed", "7"),
        *("--checks", "all", "--exclude-checks", NOT_MEANT, "--request-timeout", "10", "--no-color", *token),
        cwd=work,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")


def test_c4_no_generated_request_breaks_the_gateway_or_its_promises(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one:
            call_id = await one.bridge()
            one.publish(call_id, "utterance", **utterance(1, "good day", "bom dia"))
            for role in ("admin", None):
                status, report = await generated(one, tmp_path, role)
                assert status == 0, report[-6000:]
                assert "passed" in report
            async with one.client() as admin:
                assert (await admin.get("/healthz")).is_success
                assert 'status="500"' not in (await admin.get("/metrics")).text
            for call in one.exchange.board.calls():
                await one.end(call)

    asyncio.run(asyncio.wait_for(work(), 100))
