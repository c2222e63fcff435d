# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench media``: legs in one media process."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer
from rich.console import Console

from gateway.bench.media_bench import MediaBenchFailed, MediaFigures, bench_media
from gateway.telemetry.logs import configure_logging


def media(
    legs: Annotated[int, typer.Option(min=1, max=512, help="Calls at the same time.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.5, max=3600, help="How long to measure.")] = 20.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Legs in one media process: packets a second, gaps between them, CPU and memory. No models take part."""
    console = Console(stderr=True, highlight=False)
    configure_logging("error", "auto", pii=False)
    try:
        found = asyncio.run(bench_media(legs, seconds, say=console.print))
    except MediaBenchFailed as error:
        typer.echo(f"gateway: the bench failed: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(found.as_json()) if as_json else _words(found))
    if found.void:
        typer.echo("gateway: void: the simulated peers themselves were too busy; measure with fewer legs", err=True)
        raise typer.Exit(1)


def _words(found: MediaFigures) -> str:
    return "\n".join(
        (
            f"{found.legs} legs for {found.seconds:g} s with PJSIP {found.library}",
            f"packets a second  {found.pps_mean:.2f} (from {found.pps_min:.2f} to {found.pps_max:.2f})",
            f"gap between them  p50 {found.gap_p50_ms:.1f}, p99 {found.gap_p99_ms:.1f}, "
            f"p99.9 {found.gap_p999_ms:.1f}, longest {found.gap_max_ms:.1f} ms",
            f"CPU               {found.core_pct:.1f} % of a core, {found.core_pct_per_leg:.3f} % a leg",
            f"CPU of the peers  {found.peers_core_pct:.1f} % of a core",
            f"memory            {found.rss_mb:.1f} MB",
            f"late frames       {found.late_frames}; longest time between two callbacks of a leg "
            f"{found.worst_callback_gap_ms:.1f} ms",
        )
    )
