# SPDX-License-Identifier: GPL-3.0-or-later
"""Term lists from outside of a gateway: the commands, against the server that a gateway runs for itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.app import app
from gateway.state import StateStore, open_store
from gateway.state.embedded import running_urls

pytestmark = pytest.mark.unit

LIST = {"terms": [{"from": "en", "to": "pt", "forms": "dose", "target": "toma"}], "hotwords": {"en": ["Acme"]}}


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def store(runner: asyncio.Runner) -> Iterator[StateStore]:
    one = runner.run(open_store(url=None, instance="terms-test", prefix="gwt"))
    yield one
    runner.run(one.close())


@pytest.fixture
def command(store: StateStore, runner: asyncio.Runner) -> Any:
    assert store.embedded is not None
    url = store.embedded.url

    def run(*words: str, status: int = 0) -> str:
        environ = {"GATEWAY__REDIS__URL": url, "GATEWAY__REDIS__PREFIX": "gwt"}

        async def elsewhere() -> Any:
            return await asyncio.to_thread(CliRunner().invoke, app, list(words), env=environ)

        result = runner.run(elsewhere())
        assert result.exit_code == status, result.output
        return str(result.output)

    return run


def test_s1_19_what_a_command_loads_is_in_force_in_a_running_gateway(
    store: StateStore, runner: asyncio.Runner, command: Any, tmp_path: Path
) -> None:
    heard: list[tuple[str, Any]] = []
    store.on_terms_changed(lambda scope, terms: heard.append((scope, terms.data)))
    store.terms("trunk:pbx")
    file = tmp_path / "list.json"
    file.write_text(json.dumps(LIST))
    assert json.loads(command("dict", "load", str(file), "--scope", "trunk:pbx", "--json"))["version"] == 1

    async def until_heard() -> None:
        async with asyncio.timeout(10):
            while not heard:  # noqa: ASYNC110  # a notice of another process
                await asyncio.sleep(0.01)

    runner.run(until_heard())
    assert heard == [("trunk:pbx", LIST)]
    (row,) = json.loads(command("dict", "list", "--json"))["dictionaries"]
    assert row == {"scope": "trunk:pbx", "version": 1, "terms": 1, "hotwords": 1}
    assert json.loads(command("dict", "show", "--scope", "trunk:pbx")) == LIST
    assert "trunk:pbx" in command("dict", "list")


def test_hotwords_change_and_the_rest_of_the_list_stays(command: Any, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps(LIST))
    words = tmp_path / "words.txt"
    words.write_text("Kowalczyk\n\n Itaú \n")
    command("dict", "load", str(file))
    command("hotwords", "load", str(words), "--language", "pt")
    assert command("hotwords", "show", "--language", "pt").split() == ["Kowalczyk", "Itaú"]
    words.write_text('["Zolpidem"]')
    command("hotwords", "load", str(words), "--language", "pt")
    shown = json.loads(command("dict", "show", "--json"))
    assert shown["dictionary"] == {**LIST, "hotwords": {"en": ["Acme"], "pt": ["Zolpidem"]}}
    assert "global  pt  1" in command("hotwords", "list")
    command("hotwords", "delete", "--language", "pt")
    assert json.loads(command("dict", "show")) == LIST
    command("dict", "delete")
    assert json.loads(command("dict", "show")) == {}


def test_a_file_that_cannot_be_used_is_told_and_changes_nothing(command: Any, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text('{"terms": [{"from": "en", "to": "pt", "forms": "x"}]}')
    before = json.loads(command("dict", "show", "--json"))
    assert "terms 1: the term 'x' needs a target" in command("dict", "load", str(file), status=1)
    assert json.loads(command("dict", "show", "--json")) == before
    command("hotwords", "load", str(tmp_path / "none"), "--language", "en", status=1)


def test_a_gateways_own_server_is_found_while_it_runs(store: StateStore) -> None:
    assert store.embedded is not None
    assert store.embedded.url in running_urls()


def test_the_schema_is_printed(command: Any) -> None:
    assert json.loads(command("dict", "schema"))["title"] == "Gateway terms"
