# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench soak``: what grows in an hour of calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gateway.bench.churn import Footprint
from gateway.bench.conversation import b_ports, route, voice
from gateway.bench.dialogue import load_script
from gateway.bench.gateway_process import GatewayFailed, GatewayProcess
from gateway.bench.phone_process import PhoneError
from gateway.bench.soak import Soaked
from gateway.bench.soak import soak as run_soak
from gateway.cli.bench_churn import NOWHERE, footprint_line
from gateway.cli.bench_run import settings_with_models
from gateway.cli.errors import told

TALK, SHORT = "7001", "7002"


def soak(
    minutes: Annotated[float, typer.Option(min=0.1, max=10_000, help="How long, in minutes.")] = 60.0,
    calls: Annotated[int, typer.Option(min=1, max=1_000_000, help="Short calls, spread over the time.")] = 10_000,
    out: Annotated[Path, typer.Option(help="Folder for events and logs.")] = Path("out/bench-soak"),
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """One long conversation and many short calls: slopes of memory, threads, handles and Redis keys."""
    console = Console(stderr=True, highlight=False)
    with told():
        loaded = settings_with_models(config)
    script = load_script("bench")
    port = b_ports(1)[0]
    talk = route(script, port, TALK)
    routes = [talk, {**talk, "number": SHORT, "destination": NOWHERE}]

    def show(one: Footprint) -> None:
        console.print(footprint_line(one), soft_wrap=True)

    async def run() -> Soaked:
        voiced = await voice(script, loaded, out / "script", console.print)
        async with GatewayProcess(out, routes=routes, config=config) as gateway:
            return await run_soak(
                gateway,
                talk_number=TALK,
                talk_port=port,
                turns=voiced.turns,
                short_number=SHORT,
                calls=calls,
                minutes=minutes,
                shown=show,
            )

    try:
        done = asyncio.run(run())
    except (GatewayFailed, PhoneError) as error:
        typer.echo(f"gateway: the bench failed: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        _print(done)
    if done.refused or done.unanswered or done.broken:
        raise typer.Exit(1)


def _print(done: Soaked) -> None:
    for one in (done.footprints[0], done.footprints[-1]):
        typer.echo(footprint_line(one))
    figures = done.as_json()
    typer.echo(f"{done.said} times somebody spoke; {done.refused} calls refused, {done.unanswered} unanswered")
    typer.echo(f"media process {done.kb_per_call:.2f} KB a call; over the last two thirds, an hour:")
    for what, unit in (("rss_kb", "KB"), ("workers_kb", "KB"), ("threads", ""), ("handles", ""), ("redis_keys", "")):
        typer.echo(f"  {what.removesuffix('_kb'):<11} {figures[f'{what}_per_hour']:+.2f} {unit}".rstrip())
    if done.broken:
        typer.echo("the long conversation ended by itself")
