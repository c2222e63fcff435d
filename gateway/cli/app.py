# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``gateway`` command: one file per subcommand, mounted here."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway import __version__
from gateway.cli.bench import bench_app
from gateway.cli.calls import call, calls, hangup, transcript, transfer
from gateway.cli.check_config import check_config, extra_checks
from gateway.cli.console import console
from gateway.cli.demo import demo
from gateway.cli.dictionary import dict_app, hotwords_app
from gateway.cli.doctor import doctor
from gateway.cli.models import models_app
from gateway.cli.peers import peers
from gateway.cli.probe import probe
from gateway.cli.prompts import prompts
from gateway.cli.rooms_check import check_rooms
from gateway.cli.serve import serve
from gateway.cli.timeline import timeline
from gateway.cli.token import token_app

app = typer.Typer(
    help="A telephone interpreter on your own machine: two people, two languages, one call.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

app.command()(serve)
app.command()(demo)
app.command()(console)
app.command()(doctor)
app.command("check-config")(check_config)
app.command()(probe)
app.command()(prompts)
app.command()(timeline)
app.command()(call)
app.command()(calls)
app.command()(hangup)
app.command()(transfer)
app.command()(transcript)
app.command()(peers)
app.add_typer(token_app, name="token")
app.add_typer(models_app, name="models")
app.add_typer(dict_app, name="dict")
app.add_typer(hotwords_app, name="hotwords")
app.add_typer(bench_app, name="bench")
extra_checks.append(check_rooms)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"gateway {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point of the console script."""
    app()
