# SPDX-License-Identifier: GPL-3.0-or-later
"""How what works on the settings' own engines is begun from the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from gateway.cli.errors import told
from gateway.runtime import engine_spec, model_store
from gateway.settings import Loaded, load_settings
from gateway.telemetry.logs import configure_logging


def quiet_settings(config: Path | None) -> Loaded:
    """The settings, with only errors in the log. A room's own error names what is wrong in them."""
    loaded = load_settings(config, os.environ)
    configure_logging("error", loaded.settings.log.format, pii=False)
    return loaded


def settings_with_models(config: Path | None) -> Loaded:
    """As `quiet_settings`, and every model that they name is there and verified, before a gateway is started."""
    loaded = quiet_settings(config)
    store = model_store(loaded)
    for model in engine_spec(loaded.settings).models():
        store.ensure_verified(model)
    return loaded


def run_bench(config: Path | None, bench: Callable[[Loaded], dict[str, Any]]) -> dict[str, Any]:
    """Load the settings and run a bench; its failure is a line and exit status 1."""
    with told():
        loaded = quiet_settings(config)
        try:
            return bench(loaded)
        except ValueError as error:
            typer.echo(f"gateway: the bench failed: {error}", err=True)
            raise typer.Exit(1) from None
