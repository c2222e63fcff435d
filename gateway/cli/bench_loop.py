# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench loop``: what the line itself takes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.gateway_process import GatewayFailed
from gateway.bench.loop_bench import bench_loop
from gateway.bench.phone_process import PhoneError
from gateway.cli.bench_run import quiet_settings
from gateway.cli.errors import told


def loop(
    ticks: Annotated[int, typer.Option(min=2, max=600, help="Ticks each way, one a second.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for captures, events and logs.")] = Path("out/bench-loop"),
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Ticks from telephone to telephone: how long the line takes without any words."""
    console = Console(stderr=True, highlight=False)
    with told():
        quiet_settings(config)
        try:
            found = asyncio.run(bench_loop(out, ticks=ticks, config=config, say=console.print))
        except (GatewayFailed, PhoneError, ValueError) as error:
            typer.echo(f"gateway: the bench failed: {error}", err=True)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(found))
    else:
        Console(highlight=False).print(_table(found))
    if not found or any(each["lost"] or not each["sent"] for each in found.values()):
        raise typer.Exit(1)


def _table(found: dict[str, Any]) -> Table:
    table = Table(title="from telephone to telephone, ms")
    for heading in ("direction", "ticks", "lost", "p50", "p95", "sigma", "least", "most"):
        table.add_column(heading, justify="left" if heading == "direction" else "right")
    for direction, each in found.items():
        times = [
            f"{each[key]:.0f}" if key in each else "" for key in ("p50_ms", "p95_ms", "sigma_ms", "min_ms", "max_ms")
        ]
        table.add_row(direction.replace("_", " "), str(each["sent"]), str(each["lost"]), *times)
    return table
