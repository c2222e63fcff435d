# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway demo``: see and hear one interpreted call, end to end, on this machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.bench.demo import run_demo
from gateway.bench.gateway_process import GatewayFailed
from gateway.bench.phone_process import PhoneError
from gateway.cli.bench_run import settings_with_models
from gateway.cli.errors import told


def demo(
    out: Annotated[Path, typer.Option(help="Folder for tracks, transcripts and the report.")] = Path("out/demo"),
    script: Annotated[str, typer.Option(help="A bundled script (demo, bench, regression) or a file.")] = "demo",
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the transcript.")] = False,
) -> None:
    """Start a gateway, let two simulated telephones talk through it, and measure at their ears."""
    console = Console(stderr=as_json, highlight=False)
    with told():
        loaded = settings_with_models(config)

        def show(event: dict[str, Any]) -> None:
            if event["kind"] == "utterance" and not as_json:
                console.print(_spoken(event))

        try:
            report = asyncio.run(run_demo(loaded, out, script=script, config=config, say=console.print, shown=show))
        except (GatewayFailed, PhoneError, ValueError) as error:
            typer.echo(f"gateway: the demo failed: {error}", err=True)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print(console, report)
    if report["lost_segments"] or report["unheard"]:
        raise typer.Exit(1)


def _spoken(event: dict[str, Any]) -> Table:
    """Two columns: the caller's side on the left, the called party's on the right, originals in bold."""
    table = Table.grid(expand=True, padding=(0, 2))
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    said = f"[bold]{escape(event['source_lang'])}[/] {escape(event['source_text'])}"
    heard = f"[dim]{escape(event['target_lang'])}[/] {escape(event['target_text'] or '—')}"
    table.add_row(*((said, heard) if event["leg"] == "a" else (heard, said)))
    return table


def _print(console: Console, report: dict[str, Any]) -> None:
    stages = list(dict.fromkeys(name for one in report["utterances"] for name in one["stages"]))
    table = Table(title="from the talker's last sound to the listener's first, on the telephones' RTP (seconds)")
    for heading in ("leg", "direction", "ear", *stages):
        table.add_column(heading.replace("_", " "), justify="right" if heading not in ("leg", "direction") else "left")
    for one in report["utterances"]:
        if one["ear_latency_s"] is None:
            continue
        cells = [f"{one['stages'].get(name, 0.0):.2f}" for name in stages]
        table.add_row(one["leg"], f"{one['source_lang']}→{one['target_lang']}", f"{one['ear_latency_s']:.2f}", *cells)
    console.print(table)
    spread = ", ".join(f"{name} {each['p50_s']:.2f}" for name, each in report["by_direction"].items())
    console.print(
        f"ear latency p50 {report['ear_latency_p50_s']} s ({spread}), p95 {report['ear_latency_p95_s']} s; "
        f"lost {report['lost_segments']}, duplicates {report['duplicate_segments']}, "
        f"egress {report['egress_pps']} packets/s; call {report['result']} ({report['reason']})"
    )
    for one in report["unheard"]:
        console.print(f"not heard: {one['name']}: {one['reason']}")
    for name, path in report["artifacts"].items():
        console.print(f"{name:<14} {path}", markup=False)
