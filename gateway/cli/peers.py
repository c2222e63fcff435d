# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway peers``: which trunks and PBXs are there."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.cli.client import Client, Config, Json, Url
from gateway.cli.errors import told


def peers(api: Url = None, config: Config = None, as_json: Json = False) -> None:
    """Show which trunks and PBXs answer, and where the gateway is registered."""
    with told(), Client(api, config) as client:
        found = client.ask("GET", "/v1/peers").json()
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("PEER", "REGISTERED", "ADDRESS", "HEALTH", "CODE", "MS"):
        table.add_column(heading, justify="right" if heading in ("CODE", "MS") else "left", overflow="fold")
    for peer in found["peers"]:
        registered = {None: "", True: f"at {peer['registrar']}", False: "no"}[peer["registered"]]
        for one in peer["addresses"] or [{"address": "", "health": "not asked", "code": "", "round_trip_ms": 0.0}]:
            cells = (
                peer["name"],
                registered,
                one["address"],
                one["health"],
                one["code"],
                f"{one['round_trip_ms']:.1f}",
            )
            table.add_row(*(escape(str(cell)) for cell in cells))
    Console().print(table)
