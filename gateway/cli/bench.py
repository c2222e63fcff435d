# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench``: figures for this machine, from real calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.ear_bench import bench_ear
from gateway.bench.gateway_process import GatewayFailed
from gateway.cli import (
    bench_churn,
    bench_loop,
    bench_media,
    bench_noise,
    bench_soak,
    bench_stream,
    bench_terms,
    bench_voice,
)
from gateway.cli.bench_run import quiet_settings
from gateway.cli.errors import told

bench_app = typer.Typer(help="Measure this machine with real calls.", no_args_is_help=True)

Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@bench_app.callback()
def _bench() -> None:
    """Keep `bench` a group of commands."""


bench_app.command("churn")(bench_churn.churn)
bench_app.command("loop")(bench_loop.loop)
bench_app.command("media")(bench_media.media)
bench_app.command("noise")(bench_noise.noise)
bench_app.command("soak")(bench_soak.soak)
bench_app.command("stream")(bench_stream.stream)
bench_app.command("long")(bench_stream.long)
bench_app.command("tail")(bench_stream.tail)
bench_app.command("confidence")(bench_stream.confidence)
bench_app.command("terms")(bench_terms.terms)
bench_app.command("voice")(bench_voice.voice)
bench_app.command("prosody")(bench_voice.prosody)


@bench_app.command("ear")
def ear(
    calls: Annotated[int, typer.Option(min=1, max=64, help="Simultaneous calls.")] = 1,
    script: Annotated[str, typer.Option(help="A bundled script (bench, demo) or a file.")] = "bench",
    turns: Annotated[int | None, typer.Option(min=2, help="Only the first so many turns.")] = None,
    plain: Annotated[bool, typer.Option("--plain/--no-plain", help="Compare with a plain pipeline.")] = True,
    out: Annotated[Path, typer.Option(help="Folder for captures, events, logs, utterances.")] = Path("out/bench-ear"),
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Ear latency of simultaneous interpreted calls, beside a plain pipeline in the same run."""
    console = Console(stderr=True, highlight=False)
    with told():
        loaded = quiet_settings(config)
        try:
            report = asyncio.run(
                bench_ear(
                    loaded,
                    out,
                    calls=calls,
                    script=script,
                    turns=turns,
                    plain=plain,
                    config=config,
                    say=console.print,
                )
            )
        except (GatewayFailed, ValueError) as error:
            typer.echo(f"gateway: the bench failed: {error}", err=True)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print_ear(report)
    if report["failed_calls"] or not report["utterances"]:
        raise typer.Exit(1)


def _print_ear(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    table = Table(title=f"ear latency, {report['calls']} simultaneous call(s), seconds")
    for heading in ("pipeline", "direction", "utterances", "p50", "p95", "sigma"):
        table.add_column(heading, justify="left" if heading in ("pipeline", "direction") else "right")
    for name, one in (("ours", report), ("plain", report.get("plain"))):
        for direction, spread in (one or {}).get("by_direction", {}).items():
            cells = [f"{spread[key]:.2f}" for key in ("p50_s", "p95_s", "sigma_s")]
            table.add_row(name, direction, str(spread["count"]), *cells)
    console.print(table)
    stages = " + ".join(f"{name} {seconds:.2f}" for name, seconds in report["stages"].items())
    console.print(f"mean {report['ear_latency_mean_s']:.2f} = {stages}")
    if "ratio" in report:
        console.print("ratio to the plain pipeline: " + ", ".join(f"{k} {v:.2f}" for k, v in report["ratio"].items()))
    console.print(
        f"word error rate {report['wer']}, CPU {report['cpu_s_per_audio_s']} s per second of speech, "
        f"lost {report['lost_segments']}, duplicates {report['duplicate_segments']}"
    )
    for line in (*report["unheard"], *report["failed_calls"]):
        console.print(f"not measured: {line}", markup=False)
