# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway timeline EVENTS``: where the time went behind each utterance, as text or as a drawing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gateway.bench.timeline import as_svg, as_text, read_rows


def timeline(
    events: Annotated[Path, typer.Argument(help="The file that gateway serve --events wrote.")],
    svg: Annotated[Path | None, typer.Option(help="Write a drawing instead of printing text.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Draw each segment's way from the talker's last sound to the listener's first."""
    try:
        rows = read_rows(events)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        typer.echo(f"gateway: {error}", err=True)
        raise typer.Exit(1) from None
    if not rows:
        typer.echo(f"gateway: {events} holds no utterance with its stamps", err=True)
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps({"segments": [asdict(row) for row in rows]}))
    elif svg is None:
        typer.echo(as_text(rows))
    else:
        svg.write_text(as_svg(rows), encoding="utf-8")
        typer.echo(f"{svg}: {len(rows)} segments")
