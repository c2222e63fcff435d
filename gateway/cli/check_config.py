# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway check-config``: the settings in force, where each came from, or what is wrong with them (SPEC C3)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gateway.settings import Loaded, SettingsError, effective, load_settings

Check = Callable[[Loaded], Iterable[str]]
"""Looks at loaded settings and names each fault in one line, such as a dial plan that cannot be read."""

extra_checks: list[Check] = []
"""Checks of other rooms, run after the settings themselves are found valid."""


def check_config(
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Print every setting in force and where it came from; exit 1 with the faults if it cannot be used."""
    try:
        loaded = load_settings(config, os.environ)
    except SettingsError as error:
        _refuse([str(fault) for fault in error.faults])
    values = effective(loaded.settings)
    if as_json:
        report = {key: {"value": value, "source": loaded.provenance[key]} for key, value in values.items()}
        typer.echo(json.dumps({"file": str(loaded.file), "settings": report}, ensure_ascii=False, indent=2))
    else:
        name_width, value_width = max(map(len, values)), max(map(len, values.values()))
        for key, value in values.items():
            typer.echo(f"{key:<{name_width}}  {value:<{min(value_width, 48)}}  {loaded.provenance[key]}")
    if faults := [fault for check in extra_checks for fault in check(loaded)]:
        _refuse(faults)


def _refuse(faults: list[str]) -> NoReturn:
    for fault in faults:
        typer.echo(fault, err=True)
    typer.echo(f"{len(faults)} fault{'s' if len(faults) > 1 else ''} found", err=True)
    raise typer.Exit(1)
