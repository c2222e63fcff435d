# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway models``: which models there are, fetching them, and proving the bytes on disk.

Results go to standard output, progress to standard error: bars on a terminal, plain lines elsewhere, nothing with
``--json``. Exit status 1 means that a model is missing, damaged or could not be fetched.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from gateway.settings import SettingsError, load_settings
from gateway.speech.carriers import Progress, Report, Stage
from gateway.speech.errors import SpeechError
from gateway.speech.manifest import Licence, Model, load_manifest
from gateway.speech.own_models import licence_text, take_in
from gateway.speech.store import Fault, ModelStore, Pulled, PullFailed, State

models_app = typer.Typer(help="Fetch, list and verify the speech models.", no_args_is_help=True)

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Model ids; default: the bundle.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and no progress.")]
Dir = Annotated[Path | None, typer.Option("--dir", help="Model store instead of the one in the settings.")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")]

_VERB = {Stage.DOWNLOAD: "downloading", Stage.UNPACK: "unpacking", Stage.CHECK: "checking"}


@models_app.command("list")
def list_models(as_json: Json = False, folder: Dir = None, config: Config = None) -> None:
    """Show every known model, its licence and size, and whether it is in the store."""
    with _told(as_json):
        store = _store(folder, config)
        rows = [_row(store, model) for model in store.manifest.models]
    if as_json:
        _print_json({"store": str(store.folder), "models": rows})
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("ID", "KIND", "LANGUAGES", "LICENCE", "SIZE", "BUNDLE", "STATE"):
        table.add_column(heading, justify="right" if heading == "SIZE" else "left", overflow="fold")
    for row in rows:
        languages = [f"{source}→{target}" for source, target in row["pairs"]] or row["languages"] or ["any"]
        state = "ready" if row["state"] == State.VERIFIED else row["state"]
        cells = [row["id"], row["kind"], " ".join(languages), row["licence"]["spdx"]]
        cells += [decimal(row["size_bytes"]), "yes" if row["bundle"] else "", str(state)]
        table.add_row(*map(escape, cells))
    console = Console()
    console.print(table)
    console.print(f"store: {store.folder}", markup=False, highlight=False, soft_wrap=True)


@models_app.command("pull")
def pull_models(ids: Ids = None, as_json: Json = False, folder: Dir = None, config: Config = None) -> None:
    """Fetch models that are not already good in the store; the bundle if none is named."""
    results: tuple[Pulled, ...]
    with _told(as_json):
        store = _store(folder, config)
        try:
            with _shown(as_json) as report:
                results = store.pull(ids, report)
        except PullFailed as error:
            results = error.results
    failed = any(result.error for result in results)
    if as_json:
        _print_json({"store": str(store.folder), "ok": not failed, "models": [_outcome(result) for result in results]})
    else:
        for result in results:
            size = decimal(result.size_bytes)
            if result.result == "pulled":
                typer.echo(f"{result.model}: pulled, {size} in {result.seconds:.1f} s")
            elif result.result == "kept":
                typer.echo(f"{result.model}: already good, {size}")
            else:
                typer.echo(result.error, err=True)
        if not failed:
            typer.echo(f"store: {store.folder}")
    if failed:
        raise typer.Exit(1)


@models_app.command("verify")
def verify_models(ids: Ids = None, as_json: Json = False, folder: Dir = None, config: Config = None) -> None:
    """Hash every file of the named models (default: the bundle and all others that are present)."""
    with _told(as_json):
        store = _store(folder, config)
        models = store.manifest.select(ids)
        if not ids:
            others = [model for model in store.manifest.models if model not in models]
            models += tuple(model for model in others if store.status(model.id).state != State.ABSENT)
        with _shown(as_json) as report:
            faults = {model.id: store.verify(model.id, report) for model in models}
    bad = any(faults.values())
    if as_json:
        rows = [{"id": model, "ok": not found, "faults": list(map(_fault, found))} for model, found in faults.items()]
        _print_json({"store": str(store.folder), "ok": not bad, "models": rows})
    else:
        for model, found in faults.items():
            if not found:
                typer.echo(f"{model}: ok")
            for fault in found:
                typer.echo(str(fault), err=True)
            if found:
                typer.echo(f"{model}: run: gateway models pull {model}", err=True)
    if bad:
        raise typer.Exit(1)


@models_app.command("import")
def import_model(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="A Piper, Coqui VITS or XTTS voice.")],
    model_id: Annotated[str, typer.Option("--id", help="The name by which the settings will call it.")],
    licence: Annotated[str, typer.Option(help="Its licence, as an SPDX name.")],
    languages: Annotated[list[str] | None, typer.Option("--language", help="What it speaks; may be repeated.")] = None,
    note: Annotated[str, typer.Option(help="The licence in plain words.")] = "",
    as_json: Json = False,
    folder: Dir = None,
    config: Config = None,
) -> None:
    """Take a voice of your own into the store, pinned by sha256; a .pth becomes safetensors on the way."""
    with _told(as_json):
        store = _store(folder, config)
        terms = Licence(spdx=licence, note=note)
        model = take_in(
            source, store.folder, model_id, licence=terms, languages=languages or (), shipped=load_manifest()
        )
    if as_json:
        _print_json({"ok": True, "id": model.id, "engine": model.engine, "licence": model.licence.model_dump()})
        return
    typer.echo(
        f"{model.id}: taken in, {decimal(model.size_bytes)}; name it in speech.voices: {model.engine}:{model.id}"
    )
    if model.licence.accept:
        typer.echo(f"{model.id}: {model.licence.spdx}: {model.licence.note}; see: gateway models licence {model.id}")


@models_app.command("licence")
def show_licence(
    model_id: Annotated[str, typer.Argument(metavar="ID")],
    as_json: Json = False,
    folder: Dir = None,
    config: Config = None,
) -> None:
    """Show a model's licence, and the texts that came with it."""
    with _told(as_json):
        store = _store(folder, config)
        model = store.manifest.get(model_id)
    text = licence_text(model, store.folder / model.id)
    if as_json:
        _print_json({"id": model.id, **model.licence.model_dump(), "text": text})
    else:
        typer.echo(text)


def _store(folder: Path | None, config: Path | None) -> ModelStore:
    return ModelStore(folder or load_settings(config, os.environ).settings.models.dir)


@contextlib.contextmanager
def _told(as_json: bool) -> Iterator[None]:
    """Turn an error of the rooms below into its words and exit status 1."""
    try:
        yield
    except SettingsError as error:
        _refuse("\n".join(str(fault) for fault in error.faults), as_json)
    except SpeechError as error:
        _refuse(str(error), as_json)


def _refuse(message: str, as_json: bool) -> NoReturn:
    if as_json:
        _print_json({"ok": False, "error": message})
    else:
        typer.echo(message, err=True)
    raise typer.Exit(1)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _row(store: ModelStore, model: Model) -> dict[str, Any]:
    status = store.status(model.id)
    return {
        "id": model.id,
        "kind": model.kind.value,
        "engine": model.engine,
        "bundle": model.bundle,
        "languages": list(model.languages),
        "pairs": [list(pair) for pair in model.pairs],
        "licence": {"spdx": model.licence.spdx, "note": model.licence.note},
        "size_bytes": model.size_bytes,
        "state": status.state.value,
        "path": str(status.path),
    }


def _outcome(result: Pulled) -> dict[str, Any]:
    return {
        "id": result.model,
        "result": result.result,
        "source": result.source or None,
        "size_bytes": result.size_bytes,
        "seconds": round(result.seconds, 3),
        "error": result.error or None,
    }


def _fault(fault: Fault) -> dict[str, str]:
    return {"file": fault.file, "kind": fault.kind, "expected": fault.expected, "found": fault.found}


@contextlib.contextmanager
def _shown(as_json: bool) -> Iterator[Report]:
    """Where progress goes: nowhere, to bars, or to lines."""
    if as_json:
        yield _nothing
    elif sys.stderr.isatty():
        with _bars() as report:
            yield report
    else:
        yield _Lines()


def _nothing(_progress: Progress) -> None:
    return None


class _Lines:
    """One line when an item begins, and one for each thing that a reader of a log wants to know."""

    def __init__(self) -> None:
        self._item: tuple[str, Stage, str] | None = None

    def __call__(self, progress: Progress) -> None:
        item = (progress.model, progress.stage, progress.item)
        if progress.stage in _VERB and item != self._item:
            size = decimal(progress.total_bytes)
            typer.echo(f"{progress.model}: {_VERB[progress.stage]} {progress.item} ({size})", err=True)
        elif progress.stage in {Stage.SOURCE_FAILED, Stage.WAITING}:
            typer.echo(_remark(progress), err=True)
        self._item = item


@contextlib.contextmanager
def _bars() -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    tasks: dict[tuple[str, Stage, str], TaskID] = {}
    with Bars(*columns, console=Console(stderr=True)) as bars:

        def report(progress: Progress) -> None:
            if progress.stage in {Stage.SOURCE_FAILED, Stage.WAITING}:
                bars.console.print(_remark(progress), markup=False, highlight=False)
            if progress.stage not in _VERB:
                return
            item = (progress.model, progress.stage, progress.item)
            if item not in tasks:
                label = escape(f"{progress.model}: {_VERB[progress.stage]} {progress.item}")
                tasks[item] = bars.add_task(label, total=progress.total_bytes)
            bars.update(tasks[item], completed=progress.done_bytes)

        yield report


def _remark(progress: Progress) -> str:
    if progress.stage is Stage.WAITING:
        return f"waiting: {progress.note}"
    return f"{progress.model}: {progress.item} failed: {progress.note}"
