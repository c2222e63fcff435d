# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway dict`` and ``gateway hotwords``: the term lists of running gateways, through Redis.

A scope is ``global``, ``trunk:NAME`` or ``call:ID``. What is loaded holds from the next utterance of every
live call on.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from gateway.call.glossary import GLOBAL_SCOPE, load_glossary
from gateway.call.glossary_document import GlossaryError, json_schema, read_document
from gateway.cli.errors import told
from gateway.settings import load_settings
from gateway.state import TermShelf, open_shelf
from gateway.telemetry.logs import configure_logging

dict_app = typer.Typer(help="Term lists of running gateways.", no_args_is_help=True)
hotwords_app = typer.Typer(help="Hotwords of running gateways.", no_args_is_help=True)

Scope = Annotated[str, typer.Option(help="global, trunk:NAME or call:ID.")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Words = Annotated[Path, typer.Argument(help="One word or name a line, or a JSON list.")]
Language = Annotated[str, typer.Option(help="Language of the words.")]
T = TypeVar("T")


@dict_app.command("list")
def list_dictionaries(config: Config = None, as_json: Json = False) -> None:
    """Every list there is, with its version and size."""
    rows = []
    for scope, terms in _run(config, lambda shelf: shelf.scopes()).items():
        sizes = {
            key: sum(map(len, value.values())) if isinstance(value, dict) else len(value)
            for key, value in terms.data.items()
        }
        rows.append({"scope": scope, "version": terms.version, **sizes})
    if as_json:
        typer.echo(json.dumps({"dictionaries": rows}))
        return
    columns = ("scope", "version", "terms", "hotwords", "rules", "idioms", "pronunciations")
    table = Table()
    for column in columns:
        table.add_column(column, justify="left" if column == "scope" else "right")
    for row in rows:
        table.add_row(*(str(row.get(column, 0)) for column in columns))
    Console(highlight=False).print(table)


@dict_app.command("show")
def show_dictionary(scope: Scope = GLOBAL_SCOPE, config: Config = None, as_json: Json = False) -> None:
    """One list, as it can be loaded again."""
    terms = _run(config, lambda shelf: shelf.read(scope))
    typer.echo(
        _told(scope, terms.version, terms.data) if as_json else json.dumps(terms.data, ensure_ascii=False, indent=2)
    )


@dict_app.command("load")
def load_dictionary(
    file: Annotated[Path, typer.Argument(help="The list, JSON.")],
    scope: Scope = GLOBAL_SCOPE,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Put a file's list in the place of a scope's; refused as a whole when an entry cannot be used."""
    with told():
        data = load_glossary(file)
    terms = _run(config, lambda shelf: shelf.write(scope, data))
    _done(scope, terms.version, as_json)


@dict_app.command("delete")
def delete_dictionary(scope: Scope = GLOBAL_SCOPE, config: Config = None, as_json: Json = False) -> None:
    """Empty a scope's list."""
    terms = _run(config, lambda shelf: shelf.write(scope, {}))
    _done(scope, terms.version, as_json)


@dict_app.command("schema")
def schema() -> None:
    """The JSON Schema of a list, for editors."""
    typer.echo(json.dumps(json_schema(), ensure_ascii=False, indent=2))


@hotwords_app.command("list")
def list_hotwords(config: Config = None, as_json: Json = False) -> None:
    """How many hotwords each scope and language has."""
    rows = [
        {"scope": scope, "language": language, "words": len(words)}
        for scope, terms in _run(config, lambda shelf: shelf.scopes()).items()
        for language, words in terms.data.get("hotwords", {}).items()
    ]
    if as_json:
        typer.echo(json.dumps({"hotwords": rows}))
        return
    for row in rows:
        typer.echo(f"{row['scope']}  {row['language']}  {row['words']}")


@hotwords_app.command("show")
def show_hotwords(
    language: Language, scope: Scope = GLOBAL_SCOPE, config: Config = None, as_json: Json = False
) -> None:
    """A language's hotwords, one a line."""
    terms = _run(config, lambda shelf: shelf.read(scope))
    words = terms.data.get("hotwords", {}).get(language, [])
    typer.echo(_told(scope, terms.version, {"language": language, "words": words}) if as_json else "\n".join(words))


@hotwords_app.command("load")
def load_hotwords(
    file: Words, language: Language, scope: Scope = GLOBAL_SCOPE, config: Config = None, as_json: Json = False
) -> None:
    """Put a file's words in the place of a language's hotwords; the rest of the list stays."""
    with told():
        words = _words(file)
    version = _run(config, lambda shelf: _with_hotwords(shelf, scope, language, words))
    _done(scope, version, as_json)


@hotwords_app.command("delete")
def delete_hotwords(
    language: Language, scope: Scope = GLOBAL_SCOPE, config: Config = None, as_json: Json = False
) -> None:
    """Take a language's hotwords away; the rest of the list stays."""
    version = _run(config, lambda shelf: _with_hotwords(shelf, scope, language, []))
    _done(scope, version, as_json)


async def _with_hotwords(shelf: TermShelf, scope: str, language: str, words: list[str]) -> int:
    data = dict((await shelf.read(scope)).data)
    hotwords = {**data.get("hotwords", {}), language: words}
    data["hotwords"] = {name: each for name, each in hotwords.items() if each}
    read_document(data)
    return (await shelf.write(scope, data)).version


def _words(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8")
        words = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise GlossaryError(f"{file}: cannot be read: {error}") from None
    if not all(isinstance(word, str) for word in words):
        raise GlossaryError(f"{file}: must be a list of words")
    return [word.strip() for word in words if word.strip()]


def _run(config: Path | None, work: Callable[[TermShelf], Awaitable[T]]) -> T:
    async def act() -> T:
        redis = load_settings(config, os.environ).settings.redis
        async with open_shelf(
            url=redis.url,
            password=redis.password.get_secret_value() if redis.password else None,
            prefix=redis.prefix,
            ttl_s=redis.ttl_s,
            timeout_s=redis.timeout_s,
        ) as shelf:
            return await work(shelf)

    with told():
        configure_logging("error", "auto", pii=False)
        try:
            return asyncio.run(act())
        except ValueError as error:
            if isinstance(error, GlossaryError):
                raise
            raise GlossaryError(str(error)) from None


def _told(scope: str, version: int, data: Any) -> str:
    return json.dumps({"scope": scope, "version": version, "dictionary": data}, ensure_ascii=False)


def _done(scope: str, version: int, as_json: bool) -> None:
    typer.echo(
        json.dumps({"scope": scope, "version": version}) if as_json else f"{scope}: version {version} is in force"
    )
