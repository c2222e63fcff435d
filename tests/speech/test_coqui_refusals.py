# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Coqui voice is refused for, without Coqui: pickles, licences, a missing environment, letters it lacks."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_speech_engines import FakeEngines, run
from model_shelf import manifest, voice
from typer.testing import CliRunner

from gateway.cli.models import models_app
from gateway.cli.rooms_check import check_rooms
from gateway.resources import resource
from gateway.runtime import speech_service
from gateway.settings import load_settings
from gateway.speech.engines import coqui_place
from gateway.speech.engines.alphabet import letters, unsaid
from gateway.speech.engines.registry import SYNTHESIZERS, build
from gateway.speech.errors import EngineMissing, LicenceNotAccepted, ModelMissing, SpeechError, UnsafeModel
from gateway.speech.jobs import Priority, SynthesizeTask
from gateway.speech.manifest import ManifestError, load_manifest
from gateway.speech.own_models import OWN, XTTS_LICENCE, refuse_unaccepted, take_in, with_own
from gateway.speech.service import LocalSpeechService
from gateway.speech.store import ModelStore

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]


class Trap:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def host() -> Any:
    """The script of Coqui's interpreter, whose head needs the standard library alone."""
    spec = importlib.util.spec_from_file_location("coqui_host", coqui_place.HOST)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def xtts(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model": "xtts"}))
    (folder / "vocab.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"tensors")
    (folder / "LICENSE.txt").write_text("Coqui Public Model License, in full")
    return folder


@pytest.mark.parametrize("name", ["model.pth", "deep/best_model.pth", "speakers.PT", "pytorch_model.bin"])
def test_i10_a_pickled_checkpoint_in_a_model_is_refused_unread(tmp_path: Path, name: str) -> None:
    bad = tmp_path / "voice" / name
    bad.parent.mkdir(parents=True)
    bad.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(UnsafeModel, match=re.escape(name)):
        build("coqui:voice", SYNTHESIZERS, lambda model: tmp_path / model, 1)
    assert not (tmp_path / "sprung").exists()


def test_i10_the_host_unpickles_nothing_and_i09_asks_nobody(tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    with host().guarded():
        with pytest.raises(PermissionError, match="find_class"):
            pickle.loads(trap)
        with socket.socket() as line, pytest.raises(PermissionError, match="connect"):
            line.connect(("127.0.0.1", 9))
    assert not (tmp_path / "sprung").exists()


def test_i10_a_pickle_that_slips_into_the_store_stops_the_start(tmp_path: Path) -> None:
    take_in(xtts(tmp_path / "x"), tmp_path / "store", "x", licence=XTTS_LICENCE, languages=(), shipped=load_manifest())
    store = ModelStore(tmp_path / "store")
    store.ensure_verified("x")
    (store.folder / "x" / "model.pth").write_bytes(b"")
    with pytest.raises(ModelMissing, match="pickled checkpoint"):
        store.ensure_verified("x")


def test_i10_a_model_that_was_changed_after_it_was_taken_in_is_refused(tmp_path: Path) -> None:
    take_in(xtts(tmp_path / "x"), tmp_path / "store", "x", licence=XTTS_LICENCE, languages=(), shipped=load_manifest())
    (tmp_path / "store" / "x" / "model.safetensors").write_bytes(b"TENSORS")
    with pytest.raises(ModelMissing, match="sha256"):
        ModelStore(tmp_path / "store").ensure_verified("x")


def test_i09_check_config_says_that_a_coqui_voice_needs_make_coqui(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(voice: str) -> list[str]:
        config = tmp_path / "gateway.yaml"
        voices = {"en": voice, "pt": "kokoro:kokoro-82m-int8"}
        config.write_text(yaml.safe_dump({"speech": {"voices": voices}}))
        return [fault for fault in check_rooms(load_settings(config, {})) if fault.startswith("speech")]

    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    (fault,) = told("coqui:piper-en_US-joe-medium")
    assert fault.endswith("run `make coqui`")
    assert told("piper:piper-en_US-joe-medium") == []
    python = tmp_path / ".venv-coqui" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert told("coqui:piper-en_US-joe-medium") == []


def test_i09_without_coqui_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    with pytest.raises(EngineMissing, match="make coqui"):
        coqui_place.coqui_python()
    (tmp_path / "voice").mkdir()
    (tmp_path / "voice" / "config.json").write_text('{"model": "vits"}')
    (tmp_path / "voice" / "model.pth").write_bytes(b"")
    with pytest.raises(EngineMissing):
        take_in(
            tmp_path / "voice",
            tmp_path / "store",
            "v",
            licence=XTTS_LICENCE,
            languages=["tr"],
            shipped=load_manifest(),
        )
    assert list((tmp_path / "store").iterdir()) == []


def settings_with(tmp_path: Path, accepted: str) -> Any:
    environ = {
        "GATEWAY__MODELS__DIR": str(tmp_path / "store"),
        "GATEWAY__MODELS__ACCEPTED_LICENCES": accepted,
        "GATEWAY__SPEECH__VOICES": '{"en": "coqui:mine", "pt": "kokoro:kokoro-82m-int8"}',
    }
    return load_settings(resource("config/gateway.yaml"), environ)


def test_s1_12_xtts_speaks_only_when_its_licence_is_accepted(tmp_path: Path) -> None:
    command = [
        "import",
        str(xtts(tmp_path / "x")),
        "--id",
        "mine",
        "--licence",
        "MIT",
        "--dir",
        str(tmp_path / "store"),
    ]
    said = CliRunner().invoke(models_app, command)
    assert said.exit_code == 0 and "non-commercial" in said.output, "whoever imports it cannot make it free"
    shown = CliRunner().invoke(models_app, ["licence", "mine", "--dir", str(tmp_path / "store")]).output
    assert "LicenseRef-CPML" in shown and "in full" in shown and "accepted_licences" in shown
    with pytest.raises(LicenceNotAccepted, match=r"gateway models licence mine"):
        speech_service(settings_with(tmp_path, "[]"))
    with pytest.raises(ModelMissing):  # the next thing it looks for: the other models are not in this store
        speech_service(settings_with(tmp_path, "[LicenseRef-CPML]"))


def test_the_shipped_models_need_no_agreement() -> None:
    refuse_unaccepted(load_manifest().models, ())


def test_a_voice_is_taken_in_whole_or_not_at_all(tmp_path: Path) -> None:
    source, store = xtts(tmp_path / "x"), tmp_path / "store"
    more: dict[str, Any] = {"licence": XTTS_LICENCE, "languages": (), "shipped": load_manifest()}
    first = take_in(source, store, "one", **more)
    assert {file.path for file in first.files} == {
        *("LICENSE.txt", "config.json", "model.safetensors", "vocab.json", "voice.json"),
    }
    take_in(source, store, "two", **more)
    assert [model.id for model in with_own(load_manifest(), store).models][-2:] == ["one", "two"]
    for name, complaint in (("one", "already"), ("../up", "folder name"), ("whisper-base", "already")):
        with pytest.raises(SpeechError, match=complaint):
            take_in(source, store, name, **more)
    with pytest.raises(SpeechError, match="no voice"):
        take_in(tmp_path, store, "three", **more)
    assert {path.name for path in store.iterdir()} == {"one", "two", OWN}


def test_own_models_cannot_take_a_shipped_name(tmp_path: Path) -> None:
    entry = voice(id="whisper-base", sources=[], bundle=False)
    (tmp_path / OWN).write_text(yaml.safe_dump({"models": [entry]}))
    with pytest.raises(ManifestError, match="whisper-base"):
        with_own(load_manifest(), tmp_path)
    assert with_own(manifest(voice()), tmp_path).models[-1].id == "whisper-base"


ENGLISH = frozenset("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("good morning", 0.0, 0.0),
        ("the café in são paulo", 0.0, 0.2),  # names do not make an error
        ("şu köşe kış köşesi", 0.2, 1.0),
        ("güneş çıktı, ağaçlar yeşil", 0.2, 1.0),
        ("çox sağ olun, görüşənədək", 0.2, 1.0),
        ("こんにちは", 1.0, 1.0),
        ("", 0.0, 0.0),
        ("... !", 0.0, 0.0),
    ],
)
def test_i08_the_share_of_letters_a_voice_lacks(text: str, least: float, most: float) -> None:
    assert least <= unsaid(text, ENGLISH) <= most


def test_i08_letters_of_every_script_count_and_emoji_do_not() -> None:
    assert letters("a1 ş 日本 😀 —") == 5


def test_i08_what_a_voice_cannot_say_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with LocalSpeechService(FakeEngines) as service:
            for text in ("plain", "mute:0.15", "mute:0.25", "mute:1.0"):
                await service.submit("a", SynthesizeTask(text, "xx"), Priority.FINAL).result()
            assert service.statistics()["unsaid"] == 2

    run(main())


def test_the_extra_names_what_the_set_up_installs() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'"torch>=[\d.]+,<[\d.]+"', project) and '["coqui"]' in (ROOT / "scripts/setup-coqui").read_text()
