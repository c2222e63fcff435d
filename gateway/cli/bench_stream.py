# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway bench stream|long|tail|confidence``: figures of the pipeline on a continuous line, without a telephone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gateway.bench.confidence_bench import bench_confidence
from gateway.bench.corpus import LINE_NOISE_DBFS
from gateway.bench.long_bench import bench_long
from gateway.bench.stream_bench import SEED, StreamOptions, bench_stream
from gateway.bench.tail_bench import bench_tail
from gateway.bench.talk import progress
from gateway.cli.bench_run import run_bench

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
    report = run_bench(config, lambda loaded: bench_stream(loaded, options, say=progress, events=events))
    _show(report, as_json, _print_stream)
    if not report["segments"] or report["duplicates"]["segment_ids"]:
        raise typer.Exit(1)


def long(
    minutes: Annotated[float, typer.Option(min=0.2, max=240, help="Length of the monologue.")] = 10.0,
    mode: Annotated[str, typer.Option(help="consecutive or simultaneous.")] = "simultaneous",
    language: Language = "en",
    target: Target = "pt",
    seed: Seed = SEED,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """A monologue without pauses, in virtual time: does the interpreter keep up?"""
    report = run_bench(
        config,
        lambda loaded: bench_long(
            loaded, minutes=minutes, language=language, target=target, mode=mode, seed=seed, say=progress
        ),
    )
    _show(report, as_json, _print_long)
    if not report["segments"]:
        raise typer.Exit(1)


def tail(
    utterances: Annotated[int, typer.Option(min=4, max=1000, help="Utterances, those with the weakest ends.")] = 60,
    noise: Annotated[float, typer.Option(min=-90, max=-20, help="Level of the line's noise, dBFS.")] = LINE_NOISE_DBFS,
    language: Language = "en",
    target: Target = "pt",
    seed: Seed = SEED,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """How much silence to keep behind the last speech, on a continuous line."""
    report = run_bench(
        config,
        lambda loaded: bench_tail(
            loaded,
            utterances=utterances,
            language=language,
            target=target,
            seed=seed,
            noise_dbfs=noise,
            say=progress,
        ),
    )
    _show(report, as_json, _print_tail)


def confidence(
    utterances: Annotated[int, typer.Option(min=4, max=1000, help="Utterances, each at five noise levels.")] = 80,
    language: Language = "en",
    seed: Seed = SEED,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Is the recogniser right as often as it says? Fits a temperature and reports on held-out speech."""
    report = run_bench(
        config,
        lambda loaded: bench_confidence(loaded, utterances=utterances, language=language, seed=seed, say=progress),
    )
    _show(report, as_json, _print_confidence)


def _show(report: dict[str, Any], as_json: bool, table: Callable[[dict[str, Any]], None]) -> None:
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    else:
        table(report)


def _print_stream(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(
        f"{report['utterances']} utterances, {report['segments']} segments, {report['line_s']:.0f} s, "
        f"{report['mode']}, {report['clock']} time, load average {report['load_average'][1]}"
    )
    for name in ("audio_end_to_final", "audio_end_to_heard", "first_preview", "lag"):
        console.print(f"{name.replace('_', ' ')}: {_spread(report[name])}")
    console.print(f"stop to terminal {report['stop_to_terminal_s']} s")
    console.print(f"word error rate {report['wer']}: {report['wrong_words']} of {report['words']} words")
    console.print(
        f"first words {report['first_word_recall']}, last words {report['last_word_recall']}, "
        f"merged {report['merged_groups']}, split {report['split_utterances']}, "
        f"unheard {report['unheard_utterances']}"
    )
    if plain := report.get("plain"):
        console.print(
            f"plain pipeline: word error rate {plain['wer']}, first words {plain['first_word_recall']}, "
            f"last words {plain['last_word_recall']}; heard there and not here: "
            f"first words {len(plain['first_words_lost'])}, last words {len(plain['last_words_lost'])}"
        )
    console.print(f"duplicates {report['duplicates']}, lost {report['lost']} {report['lost_reasons']}", markup=False)
    console.print(f"CPU {report['cpu_s_per_audio_s']} s per second of speech")
    console.print(f"StreamLAAL of text {report['stream_laal_text_s']} s, of sound {report['stream_laal_sound_s']} s")


def _print_long(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(
        f"{report['sentences']} sentences in {report['line_s']:.0f} s, {report['mode']}, {report['segments']} segments "
        f"({report['forced_cuts']} forced cuts, longest {report['longest_segment_s']} s), "
        f"lost {report['lost']} {report['lost_reasons']}, "
        f"load average {report['load_average'][1]}",
        markup=False,
    )
    console.print(f"lag: {_spread(report['lag'])}, slope {report['lag_slope_s_per_min']} s/min")
    console.print(f"lag by minute: {report['lag_by_minute_s']}", markup=False)
    console.print(f"StreamLAAL of text {report['stream_laal_text_s']} s, of sound {report['stream_laal_sound_s']} s")
    console.print(f"behind: {_spread(report['behind'])}, slope {report['behind_slope_s_per_min']} s/min")
    console.print(
        f"speech that waits: longest {report['longest_waiting_s']} s, slope {report['waiting_slope_s_per_min']} s/min"
    )
    memory = report["memory"]
    console.print(f"pipeline objects: {memory['first_mb']} to {memory['last_mb']} MB, most {memory['most_mb']} MB")
    console.print(f"word error rate {report['wer']}, CPU {report['cpu_s_per_audio_s']} s per second")


def _print_tail(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    table = Table(title=f"{report['utterances']} utterances on a continuous line of {report['line_s']:.0f} s")
    for heading in ("prepare", "tail", "end", "recognised tail", "last words", "extra", "loops", "merged", "WER"):
        table.add_column(heading, justify="right")
    for row in report["rows"]:
        table.add_row(
            *(str(row[key]) for key in ("prepare_ms", "keep_tail_ms", "end_ms", "recognised_tail_ms")),
            *(str(row[key]) for key in ("last_word_recall", "extra_words_at_end", "loops", "merged", "wer")),
        )
    console.print(table)
    console.print(f"verdict: {report['verdict']}", markup=False)


def _print_confidence(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(
        f"temperature {report['temperature']} ({report['form']}), fitted on {report['fitted_on']}; on the other "
        f"{report['reported_on']}: ECE {report['ece_before']} before, {report['ece_after']} after"
    )
    for name in ("before", "after"):
        table = Table(title=f"reliability {name}")
        for heading in ("confidence", "count", "mean confidence", "accuracy"):
            table.add_column(heading, justify="right")
        for one in report[name]:
            bounds = f"{one['low']:.1f} to {one['high']:.1f}"
            table.add_row(bounds, str(one["count"]), str(one["mean_confidence"]), str(one["accuracy"]))
        console.print(table)


def _spread(one: dict[str, Any]) -> str:
    if not one["count"]:
        return "none"
    return f"p50 {one['p50_s']} s, p95 {one['p95_s']} s, max {one['max_s']} s ({one['count']})"
