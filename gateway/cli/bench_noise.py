# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench noise``: words under noise, and sounds that must not make the gateway speak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.noise_bench import NoiseOptions, bench_noise
from gateway.bench.stream_bench import SEED
from gateway.bench.talk import progress
from gateway.cli.bench_run import run_bench

WORD_COLUMNS = (
    *("wer", "first_word_recall", "last_word_recall"),
    *("undetected", "clipped", "rejected", "asked_to_repeat", "decodings"),
)
TRIGGER_COLUMNS = (
    *("minutes", "opened", "opened_s", "decodings", "decoding_s"),
    *("recognised", "spoken", "asked_to_repeat"),
)


def noise(
    sounds: Annotated[
        list[Path] | None, typer.Argument(help="Recordings without speech, such as your own hold music.")
    ] = None,
    utterances: Annotated[int, typer.Option(min=6, max=500, help="Utterances under each noise.")] = 24,
    minutes: Annotated[float, typer.Option(min=0.5, max=60, help="Of each sound that is not speech.")] = 10.0,
    quick: Annotated[bool, typer.Option("--quick", help="A quarter, at 10 dB; a tenth of the minutes.")] = False,
    language: Annotated[str, typer.Option(help="Language of the recorded speech.")] = "en",
    target: Annotated[str, typer.Option("--to", help="Language to translate into.")] = "pt",
    seed: Annotated[int, typer.Option(help="The same seed gives the same speech and the same noise.")] = SEED,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """What noise costs in words, and whether anything but speech makes the gateway speak. Exit status 1 if it does."""
    options = NoiseOptions(language, target, seed, utterances, minutes, quick, tuple(sounds or ()))
    report = run_bench(config, lambda loaded: bench_noise(loaded, options, say=progress))
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print(report)
    if report["spoken"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    table = Table(title=f"{report['utterances']} utterances, {report['language']}, through G.711")
    for heading in ("noise", "dB", *WORD_COLUMNS):
        table.add_column(heading.replace("_", " "), justify="left" if heading == "noise" else "right")
    for row in report["words"]:
        snr = "clean" if row["snr_db"] is None else f"{row['snr_db']:g}"
        table.add_row(row["noise"], snr, *(str(row[name]) for name in WORD_COLUMNS))
    console.print(table)
    table = Table(title="sounds that nobody said")
    for heading in ("sound", *TRIGGER_COLUMNS):
        table.add_column(heading.replace("_", " "), justify="left" if heading == "sound" else "right")
    for row in report["triggers"]:
        table.add_row(row["sound"], *(str(row[name]) for name in TRIGGER_COLUMNS))
    console.print(table)
    for row in report["triggers"]:
        for text in row["texts"]:
            console.print(f"{row['sound']}: {text}", markup=False)
