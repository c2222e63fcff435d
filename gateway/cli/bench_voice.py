# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench voice``: the voices of the settings, as a telephone hears them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.talk import progress
from gateway.bench.voice_bench import bench_voices
from gateway.cli.errors import told
from gateway.settings import load_settings
from gateway.telemetry.logs import configure_logging

COLUMNS = ("first_audio_s", "rtf", "readback_wer_8k", "readback_wer_16k", "loudness_db", "alias_db", "gaps")


def voice(
    texts: Annotated[int, typer.Option(min=1, max=200, help="Sentences for each voice.")] = 16,
    out: Annotated[Path | None, typer.Option(help="Folder for WAV files to compare by ear.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """How soon, how fast, how loud and how intelligible each voice speaks; and whether bursts tear its clauses."""
    with told():
        loaded = load_settings(config, os.environ)
        configure_logging("error", loaded.settings.log.format, pii=False)
        try:
            report = bench_voices(loaded, texts=texts, out=out, say=progress)
        except ValueError as error:
            typer.echo(f"gateway: the bench failed: {error}", err=True)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print(report)
    if report["replay"]["torn_clips"] or report["replay"]["starved"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    table = Table(title=f"voices, {report['threads']} threads")
    for heading in ("voice", "first sound", "RTF", "WER 8 kHz", "WER 16 kHz", "loudness", "alias", "gaps"):
        table.add_column(heading, justify="left" if heading == "voice" else "right")
    for one in report["voices"]:
        table.add_row(f"{one['language']} {one['engine']} {one['voice']}", *(str(one[key]) for key in COLUMNS))
    console.print(table)
    bursts = report["replay"]
    console.print(
        f"bursts: {bursts['clips']} clauses of 3 s, {bursts['torn_clips']} torn, {bursts['starved']} starved, "
        f"at most {bursts['waited_most_s']} s waited"
    )
