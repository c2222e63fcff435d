# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench churn``: what many short calls leave behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gateway.bench.churn import Churned, Footprint
from gateway.bench.churn import churn as run_churn
from gateway.bench.gateway_process import GatewayFailed, GatewayProcess
from gateway.bench.phone_process import PhoneError
from gateway.cli.bench_run import settings_with_models
from gateway.cli.errors import told

NUMBER = "7001"
NOWHERE = "sip:nobody@127.0.0.1:9"
"""Never dialled: the caller has hung up before."""


def churn(
    calls: Annotated[int, typer.Option(min=3, max=100_000, help="Calls, one after the other.")] = 200,
    out: Annotated[Path, typer.Option(help="Folder for events and logs.")] = Path("out/bench-churn"),
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Memory, threads, handles and Redis keys of a gateway through many short calls."""
    console = Console(stderr=True, highlight=False)
    with told():
        loaded = settings_with_models(config)
    source, target = (list(loaded.settings.speech.voices) * 2)[:2]
    route = {"number": NUMBER, "from": source, "to": target, "destination": NOWHERE}

    async def run() -> Churned:
        async with GatewayProcess(out, routes=[route], config=config) as gateway:
            return await run_churn(gateway, NUMBER, calls, shown=None if as_json else show)

    def show(one: Footprint) -> None:
        console.print(footprint_line(one), soft_wrap=True)

    try:
        done = asyncio.run(run())
    except (GatewayFailed, PhoneError) as error:
        typer.echo(f"gateway: the bench failed: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        for one in (done.footprints[0], done.footprints[-1]):
            typer.echo(footprint_line(one))
        typer.echo(f"{done.slope_kb:.2f} KB a call over the last two thirds; {done.refused} calls refused")
    if done.refused:
        raise typer.Exit(1)


def footprint_line(one: Footprint) -> str:
    """A footprint for the eye."""
    memory = f"{one.rss_kb / 1024:7.1f} MB  workers {one.workers_kb / 1024:7.1f} MB"
    kept = f"{one.threads} threads  {one.handles} handles  {one.redis_keys} Redis keys"
    return f"{one.at_s:7.1f} s  {one.calls:6d} calls  {memory}  {kept}"
