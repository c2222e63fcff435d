# SPDX-License-Identifier: GPL-3.0-or-later
"""How every bench that works on the settings' own engines is run from the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from gateway.cli.errors import told
from gateway.settings import Loaded, load_settings
from gateway.telemetry.logs import configure_logging


def run_bench(config: Path | None, bench: Callable[[Loaded], dict[str, Any]]) -> dict[str, Any]:
    """Load the settings and run a bench; its failure is a line and exit status 1."""
    with told():
        loaded = load_settings(config, os.environ)
        configure_logging("error", loaded.settings.log.format, pii=False)
        try:
            return bench(loaded)
        except ValueError as error:
            typer.echo(f"gateway: the bench failed: {error}", err=True)
            raise typer.Exit(1) from None
