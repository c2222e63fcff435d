# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench voice|prosody``: the voices of the settings, as a telephone hears them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.prosody_bench import bench_prosody
from gateway.bench.talk import progress
from gateway.bench.voice_bench import bench_voices
from gateway.cli.bench_run import run_bench

COLUMNS = ("first_audio_s", "rtf", "readback_wer_8k", "readback_wer_16k", "loudness_db", "alias_db", "gaps")


def voice(
    texts: Annotated[int, typer.Option(min=1, max=200, help="Sentences for each voice.")] = 16,
    out: Annotated[Path | None, typer.Option(help="Folder for WAV files to compare by ear.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """How soon, how fast, how loud and how intelligible each voice speaks; and whether bursts tear its clauses."""
    report = run_bench(config, lambda loaded: bench_voices(loaded, texts=texts, out=out, say=progress))
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print(report)
    if report["replay"]["torn_clips"] or report["replay"]["starved"]:
        raise typer.Exit(1)


def prosody(
    source: Annotated[str, typer.Option("--from", help="Language of the recorded talker.")] = "es",
    target: Annotated[str, typer.Option("--to", help="Language of the voice; recorded too, as the yardstick.")] = "en",
    prompts: Annotated[int, typer.Option(min=8, max=500, help="Prompts recorded in both languages.")] = 40,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """How like its talker a voice sounds, by itself and when it follows; beside a human interpreter."""
    report = run_bench(
        config, lambda loaded: bench_prosody(loaded, source=source, target=target, prompts=prompts, say=progress)
    )
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    table = Table(title=f"{report['prompts']} prompts from {source} to {target}, against the recorded talker")
    for heading in ("who speaks", "speed correlation", "level correlation", "contour distance"):
        table.add_column(heading, justify="left" if heading == "who speaks" else "right")
    for name, one in report["against_source"].items():
        table.add_row(name.replace("_", ", "), *(str(value) for value in one.values()))
    Console(highlight=False).print(table)


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
