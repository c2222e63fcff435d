# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway prompts``: what the gateway says on its own account, by which name, and whether it can be said already."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gateway.call.prompts import PromptBook
from gateway.cli.errors import told
from gateway.runtime import prompt_book, speech_service
from gateway.settings import Loaded, load_settings
from gateway.telemetry.logs import configure_logging


def prompts(
    make: Annotated[bool, typer.Option("--make", help="Synthesize now what is not there yet.")] = False,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List what the gateway says itself; a recording in call.prompt_dir takes its file's name from here."""
    with told():
        loaded = load_settings(config, os.environ)
        configure_logging("warning", loaded.settings.log.format, pii=False)
        book = prompt_book(loaded)
        asyncio.run(_look(book, loaded if make else None))
    lines = book.lines()
    if as_json:
        typer.echo(json.dumps({"prompts": [asdict(line) for line in lines]}, ensure_ascii=False))
    else:
        width = max((len(line.name) for line in lines), default=0)
        for line in lines:
            typer.echo(f"{line.language:<3} {line.name:<{width}}  {line.state:<11}  {line.text}")
    if make and any(line.state == "absent" for line in lines):
        raise typer.Exit(1)


async def _look(book: PromptBook, make_for: Loaded | None) -> None:
    """Find what is in the cache; with settings, start the engines for the rest if there is any."""
    if await book.missing() and make_for is not None:
        async with speech_service(make_for) as speech:
            await book.load(speech)
