# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation against the code: what it names exists, and what exists is named (SPEC S1.20)."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer
import yaml

from gateway.api.app import build_app
from gateway.api.shapes import CallChange, CallOrder, PartyChange, TransferOrder
from gateway.api.tokens import ROLES
from gateway.call import termination
from gateway.call.dialplan import load_dialplan
from gateway.call.events import KINDS
from gateway.call.glossary_document import read_document
from gateway.call.star_codes import CONTROLS
from gateway.call.states import mermaid
from gateway.cli.app import app
from gateway.settings import Settings
from gateway.settings.faults import all_keys
from gateway.settings.model import Registration, Trunk
from gateway.telemetry.metrics import Meters

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")), ROOT / "models" / "README.md", ROOT / "CHANGELOG.md")
EACH_PAGE = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
SOURCES = ("gateway", "config", "dialplans", "scripts", "models", "Makefile", "pyproject.toml", "docker-compose.yml")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST_CELL = 220  # characters; what needs more is a section of its own
NAME = r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+"


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose(path: Path) -> str:
    return FENCE.sub("", text_of(path))


def blocks(path: Path, kind: str) -> list[str]:
    return [text for found, text in FENCE.findall(text_of(path)) if found == kind]


def spans(text: str) -> list[str]:
    """What stands in backquotes; a bar that a table has to escape is given back."""
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`\n]+)`", text)]


def code(path: Path) -> list[str]:
    """Code in the prose, and the lines of the blocks that hold commands."""
    return spans(prose(path)) + [line.split(" #")[0].strip() for text in blocks(path, "") for line in text.splitlines()]


CODE = [line for path in PAGES for line in code(path)]


def table(page: str, heading: str) -> list[str]:
    """What stands in backquotes in the first column of the tables under a heading."""
    section = text_of(DOCS / page).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [span for cell in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for span in spans(cell)]


# --- pages


@EACH_PAGE
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            page = (path.parent / name).resolve() if name else path
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), target


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@EACH_PAGE
def test_every_table_can_be_read(path: Path) -> None:
    rows = [line for line in text_of(path).splitlines() if line.startswith("|")]
    assert [cell for row in rows for cell in re.split(r"(?<!\\)\|", row) if len(cell) > LONGEST_CELL] == []


@EACH_PAGE
def test_no_code_is_broken_over_two_lines(path: Path) -> None:
    """It could not be searched for, nor checked here."""
    assert [line for line in prose(path).splitlines() if line.count("`") % 2] == []


def test_every_page_is_linked_from_the_first_one() -> None:
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", text_of(ROOT / "README.md")))
    assert {page.name for page in DOCS.glob("*.md")} == linked


# --- commands


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command of the command line, by its words behind ``gateway``."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        if hasattr(command, "commands"):
            for name, each in command.commands.items():
                yield from walk(each, (*words, name))
        else:
            yield words, command

    return dict(walk(typer.main.get_command(app), ()))


def written(line: str) -> Iterator[tuple[str, ...]]:
    """The words behind ``gateway`` in a piece of code. ``list|pull`` stands for two commands, ``…`` for some more."""
    found = re.match(r"(?:\.venv/bin/)?gateway (?![a-z-]*[:/])(.+)", line)
    if found is not None:
        words = shlex.split(re.split(r" [|>] ", found[1])[0])
        yield from itertools.product(*([one for one in word.split("|") if one != "…"] for word in words))


def test_s1_20_every_command_that_is_named_parses() -> None:
    named = 0
    for line in CODE:
        for words in written(line):
            at = next((n for n in (2, 1) if words[:n] in commands()), None)
            if at is None:
                assert any(name[: len(words)] == words for name in commands()), line
                continue
            command = commands()[words[:at]]
            context = command.make_context(None, [], resilient_parsing=True)
            _, left, _ = command.make_parser(context).parse_args(list(words[at:]))  # raises where an option is none
            assert not left, line
            named += 1
    assert named > 40


def test_every_command_is_named() -> None:
    named = {words[:n] for line in CODE for words in written(line) for n in (1, 2)}
    assert set(commands()) - named == set()


def test_c2_all_commands_but_one_print_json() -> None:
    without = {
        words for words, command in commands().items() if not any("--json" in each.opts for each in command.params)
    }
    assert without == {("serve",), ("dict", "schema")}  # which prints nothing else


def test_every_target_of_make_is_named() -> None:
    makefile = text_of(ROOT / "Makefile")
    found = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert found is not None
    targets = set(found[1].split())
    named = {found[1] for line in CODE if (found := re.match(r"make ([a-z][a-z0-9-]*)", line))}
    assert named <= targets
    helped = set(re.findall(r'"make ([a-z0-9-]+) ', makefile))
    assert targets - named - helped == {"help", "setup", "system-packages", "clean"} - named


# --- settings


def test_every_setting_that_is_named_exists() -> None:
    known = {*all_keys(), *(f"sip.trunks.{key}" for key in Trunk.model_fields)}
    known |= {f"sip.registrations.{key}" for key in Registration.model_fields}
    dotted = rf"(?:{'|'.join(Settings.model_fields)})(?:\.[a-z_]+)+(?=: |$)"
    named = {found[0] for line in CODE if (found := re.match(dotted, line))}
    for line in CODE:
        for variable in re.findall(r"GATEWAY__([A-Z_]+)", line):
            named.add(variable.replace("__", ".").lower().removesuffix("_file"))
    files = {name for name in named if name.endswith((".py", ".yaml", ".json", ".file"))} - known
    assert len(named) > 40
    assert named - known - files == set()


def test_every_example_of_settings_can_be_used() -> None:
    examples = [yaml.safe_load(text) for path in PAGES for text in blocks(path, "yaml")]
    settings = [one for one in examples if isinstance(one, dict) and set(one) <= set(Settings.model_fields)]
    assert len(settings) >= 4
    for one in settings:
        Settings.model_validate(one)
    trunks = [trunk for one in examples if isinstance(one, list) for trunk in one]
    assert trunks
    for trunk in trunks:
        Trunk.model_validate(trunk)


def test_every_example_of_a_dial_plan_and_of_terms_can_be_used(tmp_path: Path) -> None:
    plan, terms = tmp_path / "plan.yaml", 0
    for path in PAGES:
        for text in blocks(path, "yaml"):
            if text.startswith("routes:"):
                plan.write_text(text, encoding="utf-8")
                assert load_dialplan(plan).routes
        for text in blocks(path, "json"):
            read_document(json.loads(text))
            terms += 1
    assert plan.exists() and terms


def test_every_example_of_a_request_can_be_sent() -> None:
    orders = [
        (found[1], found[2])
        for text in blocks(DOCS / "api.md", "")
        for found in re.finditer(r"(/v1/calls\S*) -d '(.*?)'", text, re.DOTALL)
    ]
    shapes = {"/v1/calls": CallOrder, "/v1/calls/ID": CallChange, "/v1/calls/ID/transfer": TransferOrder}
    assert {path for path, _ in orders} == set(shapes)
    for path, order in orders:
        shapes[path].model_validate_json(order)
    named = set(spans(prose(DOCS / "api.md")))
    assert {*CallChange.model_fields, *PartyChange.model_fields} <= named


# --- what programs and people meet


def test_c6_every_metric_is_described() -> None:
    source = text_of(ROOT / "gateway" / "telemetry" / "metrics.py")
    families = Meters(lambda: {}).registry.collect()
    there = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    described = [re.sub(r"\{.*", "", name) for name in table("api.md", "Watching")]
    assert sorted(described) == sorted(name for name in there if name.startswith("gateway_"))
    for line in CODE:
        if (found := re.fullmatch(r"(gateway_\w+)(?:\{([\w,]+)\})?", line)) and found[1] not in source:
            assert found[1] in {*there, "gateway_ready"}, line
            assert all(f'"{label}"' in source for label in (found[2] or "").split(",") if label), line


def test_c4_every_route_is_described() -> None:
    parts = dict.fromkeys(("tokens", "meters", "readiness", "models", "sip"), Mock())
    served = {
        (method.upper(), path)
        for path, item in build_app(Mock(), **parts, dialplan_pairs=(), open_metrics=False).openapi()["paths"].items()  # type: ignore[arg-type]
        for method in item
    }
    named = set()
    for line in CODE:
        if found := re.match(
            r"(?:(GET|POST|PUT|PATCH|DELETE) )?(/(?:v1/|healthz|readyz|metrics|load_dict|docs$)[^?\s]*)", line
        ):
            path = re.sub(r"\{\w+\}", "{}", found[2])
            fitting = {route for route in served if re.sub(r"\{\w+\}", "{}", route[1]) == path}
            fitting = {route for route in fitting if found[1] in (None, route[0])}
            assert fitting or path in ("/docs", "/v1/openapi.json"), line
            named |= {path for _, path in fitting}
    assert {path for _, path in served} - named == set()


def test_every_event_is_described_and_nothing_else_is_published() -> None:
    assert sorted(table("api.md", "Events")) == sorted(KINDS)
    published = set()
    for path in sorted((ROOT / "gateway" / "call").glob("*.py")):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("publish", "_publish", "tell", "_tell"):
                    published |= {each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)}
    assert published == KINDS


def test_every_ending_is_described() -> None:
    endings = [each for each in vars(termination).values() if isinstance(each, termination.Ending)]
    told = set(spans(text_of(DOCS / "operations.md").split("\n## How calls end\n")[1].split("\n## ")[0]))
    assert {word for each in endings for word in (each.result, each.reason)} - told <= {"caller-no-answer"}


def test_every_role_is_described() -> None:
    assert re.findall(r"`(\w+)`:", text_of(DOCS / "security.md")) == list(ROLES)


def test_a6_every_key_is_described() -> None:
    assert sorted(table("calls.md", "Keys during a call")) == sorted(f"*{key}" for key in CONTROLS)


def test_the_diagram_of_states_is_drawn_from_the_table() -> None:
    assert mermaid().strip() in text_of(DOCS / "architecture.md")


# --- names


def test_every_file_that_is_named_exists() -> None:
    names = {file.name for folder in ("gateway", "scripts") for file in (ROOT / folder).rglob("*.py")}
    for line in (span for path in PAGES for span in spans(prose(path))):
        if re.fullmatch(r"(gateway|config|docs|dialplans|scripts|models)/[\w./*-]*", line):
            assert list(ROOT.glob(line.rstrip("/"))), line
        elif re.fullmatch(r"(\w+/)*\w+\.py", line):
            assert line.rpartition("/")[2] in names, line


def test_every_room_is_described() -> None:
    rooms = {f"gateway/{path.parent.name}/" for path in (ROOT / "gateway").glob("*/__init__.py")}
    assert set(table("architecture.md", "Rooms")) == rooms


def test_every_name_is_one_of_the_sources() -> None:
    """Reasons, log lines, keys of records: whatever has a hyphen or an underscore in it."""
    files = [
        file for name in SOURCES for file in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])
    ]
    kinds = {".py", ".yaml", ".yml", ".json", ".toml", ".patch", ""}
    known: set[str] = set()
    for file in files:
        if file.is_file() and file.suffix in kinds:
            known |= set(re.findall(NAME, file.read_text(encoding="utf-8", errors="replace")))
    named = {line for line in CODE if re.fullmatch(NAME, line) and not line.startswith("gateway_")}
    assert sorted(named - known) == []
