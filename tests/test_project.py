# SPDX-License-Identifier: GPL-3.0-or-later
"""The project's own promises: licences, compose file, rooms that keep to their imports."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for name in ("gateway", "tests", "scripts") for path in (ROOT / name).rglob("*.py"))


def test_every_source_file_carries_its_licence() -> None:
    bare = [path for path in SOURCES if "SPDX-License-Identifier: GPL-3.0-or-later" not in path.read_text()[:200]]
    assert not bare


def test_no_source_file_grows_beyond_what_can_be_read() -> None:
    long = {path.name: len(path.read_text().splitlines()) for path in SOURCES if path.is_relative_to(ROOT / "gateway")}
    assert {name: lines for name, lines in long.items() if lines > 600} == {}


def test_no_two_test_files_share_a_name() -> None:
    """They are imported by it: the second one could not be collected."""
    names = Counter(path.name for path in SOURCES if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("stream", r"asyncio|time|redis|pjsua2|gateway\.(?!stream)"),
        ("text", r"asyncio|time|redis|pjsua2|gateway\.(?!text)"),
        ("audio", r"redis|pjsua2|gateway\.(?!audio|stream\.events)"),
        ("call", r"pjsua2|redis|ctranslate2|faster_whisper|onnxruntime|piper|fxtranslate"),
        ("bench", r"pjsua2"),
        ("api", r"pjsua2|redis|ctranslate2|faster_whisper|onnxruntime|piper|fxtranslate"),
        ("telemetry", r"redis|pjsua2|fastapi|uvicorn|gateway\.(?!telemetry)"),
    ],
)
def test_a_room_imports_only_what_it_may(room: str, forbidden: str) -> None:
    pattern = re.compile(rf"^\s*(?:from|import)\s+(?:{forbidden})\b", re.MULTILINE)
    for path in (ROOT / "gateway" / room).rglob("*.py"):
        assert not pattern.search(path.read_text()), path


def test_pjsua2_is_imported_in_the_sip_room_alone() -> None:
    users = {
        path.relative_to(ROOT).parts[1] for path in SOURCES if re.search(r"^\s*import pjsua2", path.read_text(), re.M)
    }
    assert users <= {"sip"}


def test_c11_the_compose_file_starts_a_gateway_and_its_redis() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    gateway, redis = compose["services"]["gateway"], compose["services"]["redis"]
    assert gateway["depends_on"]["redis"]["condition"] == "service_healthy"
    socket = gateway["environment"]["GATEWAY__REDIS__URL"].removeprefix("unix://")
    assert socket in redis["command"]
    shared = {volume.split(":")[0] for volume in gateway["volumes"]} & {v.split(":")[0] for v in redis["volumes"]}
    assert shared and shared <= set(compose["volumes"])


def test_c11_the_composed_api_is_reached_from_this_machine_alone_and_keeps_its_tokens() -> None:
    gateway = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["gateway"]
    environ = gateway["environment"]
    assert environ["GATEWAY__API__BIND"] == "127.0.0.1"
    assert f":{environ['GATEWAY__API__PORT']}/readyz" in gateway["healthcheck"]["test"][-1]
    kept = [volume.partition(":")[2] for volume in gateway["volumes"]]
    assert str(Path(environ["GATEWAY__API__TOKENS"]).parent) in kept


def test_nothing_of_this_machine_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    binary = {".wav", ".bin", ".onnx", ".npz", ".whl"}
    assert not [name for name in listed.stdout.split() if Path(name).suffix in binary]
