# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway probe FILE``: what a sound file really holds, measured from the stream (SPEC S0.1)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from gateway.audio.portrait import probe as measure
from gateway.cli.errors import told


def probe(
    file: Annotated[Path, typer.Argument(help="Any sound file that ffmpeg or libsndfile can read.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print codec, rate, channels, sample format and duration of a file, as measured, not as labelled."""
    with told():
        portrait = dataclasses.asdict(measure(file))
    if as_json:
        typer.echo(json.dumps(portrait, ensure_ascii=False))
        return
    width = max(map(len, portrait))
    for name, value in portrait.items():
        typer.echo(f"{name:<{width}}  {value}")
