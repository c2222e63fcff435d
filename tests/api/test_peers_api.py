# SPDX-License-Identifier: GPL-3.0-or-later
"""`GET /v1/peers` and the metric: which trunks and PBXs are there (A4, A18)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.control_room import room, run
from tests.api.test_api_commands import command

pytestmark = pytest.mark.unit

SIP = {
    "registrations": {"pbx": {"registered": True, "registrar": "sip:192.0.2.10", "code": 200, "expires_s": 300}},
    "peers": {
        "pbx": {"sip:192.0.2.10": {"health": "up", "code": 401, "round_trip_ms": 2.5}},
        "carrier": {
            "sip:198.51.100.7": {"health": "down", "code": 408, "round_trip_ms": 0.0},
            "sip:198.51.100.8": {"health": "unknown", "code": 0, "round_trip_ms": 0.0},
        },
    },
}


def test_a4_peers_are_shown_with_what_they_say_to_options(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, sip=SIP) as one, one.client("viewer") as viewer, one.client("monitor") as monitor:
            carrier, pbx = (await viewer.get("/v1/peers")).json()["peers"]
            assert (pbx["name"], pbx["registered"], pbx["registrar"]) == ("pbx", True, "sip:192.0.2.10")
            assert pbx["addresses"][0] == {
                "address": "sip:192.0.2.10",
                "health": "up",
                "code": 401,
                "round_trip_ms": 2.5,
            }
            assert (carrier["registered"], [each["health"] for each in carrier["addresses"]]) == (
                None,
                ["down", "unknown"],
            )
            assert (await monitor.get("/v1/peers")).status_code == 403
            metrics = (await monitor.get("/metrics")).text
            assert 'gateway_sip_peer_up{address="sip:192.0.2.10",peer="pbx"} 1.0' in metrics
            assert 'gateway_sip_peer_up{address="sip:198.51.100.7",peer="carrier"} 0.0' in metrics

    run(work())


def test_a4_the_command_shows_them_in_a_table_or_as_json(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, sip=SIP) as one:
            shown = await command(one, "peers")
            assert shown.exit_code == 0, shown.output
            rows = [line.split() for line in shown.output.splitlines()]
            assert rows[1] == ["carrier", "sip:198.51.100.7", "down", "408", "0.0"]
            assert rows[3] == ["pbx", "at", "sip:192.0.2.10", "sip:192.0.2.10", "up", "401", "2.5"]
            told = json.loads((await command(one, "peers", "--json")).output)
            assert [peer["name"] for peer in told["peers"]] == ["carrier", "pbx"]

    run(work())


def test_a_gateway_without_peers_shows_none(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("viewer") as viewer:
            assert (await viewer.get("/v1/peers")).json() == {"peers": []}

    run(work())
