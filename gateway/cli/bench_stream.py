# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench stream|long|tail|confidence``: figures of the pipeline on a continuous line, without a telephone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gateway.bench.stream_bench import SEED, StreamOptions, bench_stream
from gateway.bench.talk import progress
from gateway.cli.errors import told
from gateway.settings import Loaded, load_settings
from gateway.telemetry.logs import configure_logging

Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Language = Annotated[str, typer.Option(help="Language of the recorded speech.")]
Target = Annotated[str, typer.Option("--to", help="Language to translate into.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same speech and the same pauses.")]


def stream(
    seconds: Annotated[float, typer.Option(min=5, max=14_400, help="Length of the dialogue.")] = 240.0,
    mode: Annotated[str, typer.Option(help="consecutive or simultaneous.")] = "consecutive",
    legs: Annotated[int, typer.Option(min=1, max=2, help="Legs that speak, in turns.")] = 1,
    real: Annotated[bool, typer.Option("--real", help="At the speed of speech, with real workers.")] = False,
    plain: Annotated[bool, typer.Option("--plain/--no-plain", help="Word errors of a plain pipeline too.")] = True,
    events: Annotated[Path | None, typer.Option(help="Write the event log, JSON lines, to this file.")] = None,
    language: Language = "en",
    target: Target = "pt",
    seed: Seed = SEED,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """A continuous dialogue: how late and how right the words are."""
    options = StreamOptions(language, target, mode, seconds, legs, real, plain, seed)
    report = _run(config, lambda loaded: bench_stream(loaded, options, say=progress, events=events), mode=mode)
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        _print_stream(report)
    if not report["segments"] or report["duplicates"]["segment_ids"]:
        raise typer.Exit(1)


def _run(config: Path | None, bench: Callable[[Loaded], dict[str, Any]], *, mode: str | None = None) -> dict[str, Any]:
    """Load the settings, in the wanted mode, and run a bench; its failure is a line and exit status 1."""
    environ = {**os.environ, **({"GATEWAY__CALL__MODE": mode} if mode else {})}
    with told():
        loaded = load_settings(config, environ)
        configure_logging("error", loaded.settings.log.format, pii=False)
        try:
            return bench(loaded)
        except ValueError as error:
            typer.echo(f"gateway: the bench failed: {error}", err=True)
            raise typer.Exit(1) from None


def _print_stream(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(
        f"{report['utterances']} utterances, {report['segments']} segments, {report['line_s']:.0f} s, "
        f"{report['mode']}, {report['clock']} time, load average {report['load_average'][1]}"
    )
    for name in ("audio_end_to_final", "audio_end_to_heard", "first_preview", "lag"):
        console.print(f"{name.replace('_', ' ')}: {_spread(report[name])}")
    console.print(f"stop to terminal {report['stop_to_terminal_s']} s")
    console.print(f"word error rate {report['wer']}, plain pipeline {report.get('plain_wer')}")
    console.print(
        f"first words {report['first_word_recall']}, last words {report['last_word_recall']}, "
        f"merged {report['merged_groups']}, split {report['split_utterances']}, "
        f"unheard {report['unheard_utterances']}"
    )
    console.print(f"duplicates {report['duplicates']}, lost {report['lost']} {report['lost_reasons']}", markup=False)
    console.print(f"CPU {report['cpu_s_per_audio_s']} s per second of speech")
    console.print(f"StreamLAAL of text {report['stream_laal_text_s']} s, of sound {report['stream_laal_sound_s']} s")


def _spread(one: dict[str, Any]) -> str:
    if not one["count"]:
        return "none"
    return f"p50 {one['p50_s']} s, p95 {one['p95_s']} s, max {one['max_s']} s ({one['count']})"
