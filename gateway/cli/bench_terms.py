# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench terms``: do prescribed terms come through, and is everything else left as it was?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.talk import progress
from gateway.bench.terms_bench import bench_terms
from gateway.cli.errors import told
from gateway.settings import load_settings
from gateway.telemetry.logs import configure_logging


def terms(
    prompts: Annotated[int, typer.Option(min=1, max=1000, help="Recorded prompts without any term.")] = 60,
    numbers: Annotated[int, typer.Option(min=1, max=1_000_000, help="Random numbers.")] = 5000,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Terms in sentences through the real translators; neutral speech and text with and without them; numbers."""
    with told():
        loaded = load_settings(config, os.environ)
        configure_logging("error", loaded.settings.log.format, pii=False)
        try:
            report = bench_terms(loaded, prompts=prompts, numbers=numbers, say=progress)
        except LookupError as error:
            typer.echo(f"gateway: {error}", err=True)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print(report)
    if report["hit_rate"] < 1 or report["numbers_wrong"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    table = Table(title=f"{report['terms']} terms in sentences")
    for heading in ("direction", "by itself", "repaired", "missed", "ms a sentence"):
        table.add_column(heading, justify="left" if heading == "direction" else "right")
    for name, one in report["directions"].items():
        table.add_row(name, *(str(one[key]) for key in ("hits", "repairs", "misses", "mean_ms")))
    console.print(table)
    console.print(f"hit rate {report['hit_rate']}, numbers wrong {report['numbers_wrong']}/{report['numbers_checked']}")
    if report["neutral_wer_delta"] is not None:
        console.print(
            f"{report['neutral_prompts']} neutral prompts: word errors {report['neutral_wer']} without hotwords, "
            f"with so many {report['neutral_wer_by_hotwords']}; "
            f"translations moved by {report['neutral_chrf_delta']} chrF",
            markup=False,
        )
    for one in (miss for direction in report["directions"].values() for miss in direction["missed"]):
        console.print(f"missed: {one['term']} → {one['wanted']}: {one['text']}", markup=False)
