# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway token``: who may use the control API."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from gateway.api.server import token_file, utc_now
from gateway.api.tokens import ROLES, TokenFile
from gateway.cli.client import Config, Json
from gateway.cli.errors import told
from gateway.settings import load_settings

token_app = typer.Typer(help="Make, list and revoke the tokens of the control API.", no_args_is_help=True)


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Whose it is, such as console or prometheus.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(ROLES)}.")] = "viewer",
    days: Annotated[float | None, typer.Option(min=0.001, help="How long it lasts; default: until revoked.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it, this once: only its hash is kept. A running gateway knows it within a second."""
    expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds") if days else None
    with told():
        record, token = _file(config).create(name, role, created=utc_now(), expires=expires)
    if as_json:
        typer.echo(json.dumps({"id": record.id, "role": record.role, "expires": record.expires, "token": token}))
    else:
        typer.echo(token)


@token_app.command("list")
def list_tokens(config: Config = None, as_json: Json = False) -> None:
    """Show who has a token, without the tokens."""
    with told():
        records = _file(config).read()
    if as_json:
        shown = [{key: value for key, value in record.as_json().items() if key != "sha256"} for record in records]
        typer.echo(json.dumps({"tokens": shown}))
        return
    for record in records:
        until = f"until {record.expires}" if record.expires else ""
        typer.echo(f"{record.id}  {record.role:<8}  {record.name}  {record.created}  {until}".rstrip())


@token_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID|NAME", help="As `gateway token list` shows it.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take a token away; a running gateway refuses it within a second, and ends its streams."""
    with told():
        record = _file(config).revoke(token)
    typer.echo(json.dumps({"id": record.id}) if as_json else f"{record.id}: revoked")


def _file(config: Path | None) -> TokenFile:
    return TokenFile(token_file(load_settings(config, os.environ)))
