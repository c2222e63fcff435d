# SPDX-License-Identifier: GPL-3.0-or-later
"""`gateway call`, `calls`, `hangup`, `transcript`, `token` as clients of a running API (SPEC C2)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gateway.cli.app import app
from gateway.telemetry.logs import configure_logging
from tests.api.control_room import Room, room, run, utterance

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def quiet() -> None:
    """The gateway runs in this process: its log must not mix with what the command prints."""
    configure_logging("error", "json")


async def command(one: Room, *words: str, **environ: str) -> Result:
    """A command beside the gateway, as its own user."""
    config = ["--config", str(one.work / "gateway.yaml")]
    return await asyncio.to_thread(CliRunner().invoke, app, [*words, *config], env={"COLUMNS": "200", **environ})


def test_c2_a_call_from_the_command_line_from_beginning_to_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one:
            placed = await command(one, "call", "sip:ana@192.0.2.1", "7001", "--from", "xx", "--voice-a", "mia")
            assert placed.exit_code == 0, placed.output
            call_id = placed.output.strip()
            listed = await command(one, "calls")
            assert call_id in listed.output and "xx ↔ yy" in listed.output
            one.publish(call_id, "utterance", **utterance(1, "good day", "bom dia"))
            await asyncio.sleep(0.05)
            assert (await command(one, "transcript", call_id)).output == "A  good day\n   bom dia\n"
            assert (await command(one, "transcript", call_id, "--format", "vtt")).output.startswith("WEBVTT")
            told = json.loads((await command(one, "transcript", call_id, "--format", "json")).output)
            assert told["lines"][0]["target_text"] == "bom dia"
            assert json.loads((await command(one, "transcript", call_id, "--json")).output) == told
            assert json.loads((await command(one, "hangup", call_id, "--json")).output) == {"id": call_id}
            following = asyncio.create_task(command(one, "transcript", call_id, "--follow"))
            async with asyncio.timeout(20):
                while not one.api.statistics()["streams"]:  # noqa: ASYNC110 - the state under test
                    await asyncio.sleep(0.01)
            await one.end(call_id)
            assert (await following).output == "A  good day\n   bom dia\n"
            await one.written()
            ended = json.loads((await command(one, "calls", "--ended", "--json")).output)["calls"]
            assert [(call["id"], call["reason"]) for call in ended] == [(call_id, "operator-hung-up")]

    run(work())


def test_refusals_are_one_line_that_names_the_remedy(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one:
            for words, environ, remedy in (
                (("hangup", "000000000000"), {}, "There is no such call"),
                (("call", "9", "7001"), {}, "no number of the dial plan"),
                (("call", "7001", "7001", "--mode", "fast"), {}, "body.mode"),
                (("calls",), {"GATEWAY_API_TOKEN": "gw_x"}, "gateway token create"),
                (("calls", "--api", "http://127.0.0.1:9"), {}, "GATEWAY_API_TOKEN"),
                (("calls", "--api", "http://127.0.0.1:9"), {"GATEWAY_API_TOKEN": "x"}, "gateway serve"),
                (("calls",), {"GATEWAY_API_TOKEN_FILE": "/nonexistent"}, "/nonexistent"),
            ):
                refused = await command(one, *words, **environ)
                assert refused.exit_code == 1, words
                assert remedy in refused.output, refused.output
                assert refused.output.count("\n") == 1
        nobody = await command(one, "calls")
        assert "gateway serve" in nobody.output, "the gateway took its token away"

    run(work())


def test_tokens_are_made_listed_and_revoked_while_the_gateway_runs(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client(None) as client:
            made = await command(one, "token", "create", "desk", "--role", "operator", "--json")
            token = json.loads(made.output)["token"]
            headers = {"Authorization": f"Bearer {token}"}
            await asyncio.sleep(1.1)
            assert (await client.get("/v1/calls", headers=headers)).is_success
            listed = await command(one, "token", "list")
            assert "desk" in listed.output and token not in listed.output
            assert "sha256" not in (await command(one, "token", "list", "--json")).output
            revoked = json.loads((await command(one, "token", "revoke", "desk", "--json")).output)
            assert revoked == {"id": token.split("_")[1]}
            await asyncio.sleep(1.1)
            assert (await client.get("/v1/calls", headers=headers)).status_code == 401
            assert "choose one of" in (await command(one, "token", "create", "x", "--role", "god")).output

    run(work())
