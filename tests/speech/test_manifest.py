# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_shelf import VOCABULARY, entry, manifest, manifest_text, voice, words

from gateway.resources import resource
from gateway.speech.manifest import (
    HubSource,
    ManifestError,
    UnknownModel,
    is_pickled,
    load_manifest,
    parse_manifest,
    safe_relative,
)

pytestmark = pytest.mark.unit


def test_the_shipped_manifest_is_sound_and_the_bundle_covers_a_whole_call() -> None:
    shipped = load_manifest()
    bundle = shipped.select(None)
    assert {model.kind for model in bundle} == {"recognizer", "translator", "synthesizer"}
    spoken = {language for model in bundle if model.kind == "synthesizer" for language in model.languages}
    targets = {target for model in bundle for _source, target in model.pairs}
    assert targets and targets <= spoken, "what is translated into must be speakable"
    assert all(model.licence.spdx and model.sources for model in shipped.models)


def test_the_shipped_manifest_names_no_host() -> None:
    text = resource("models/manifest.yaml").read_text(encoding="utf-8")
    assert not re.search(r"https?:|\b[\w-]+\.(com|org|io|co|net)\b", text)


def test_a_hub_source_splits_into_repository_and_revision() -> None:
    source = manifest(words(sources=[{"hub": "owner/repo@v1.0", "folder": "a/b"}])).models[0].sources[0]
    assert isinstance(source, HubSource)
    assert source.repository == ("owner/repo", "v1.0")


@pytest.mark.parametrize("model_id", ["wrods", "word", "Words"])
def test_an_unknown_id_gets_the_nearest_known_one(model_id: str) -> None:
    with pytest.raises(UnknownModel, match="did you mean words"):
        manifest(voice(), words()).get(model_id)


def test_an_id_like_no_other_gets_the_list() -> None:
    with pytest.raises(UnknownModel, match="known: voice, words"):
        manifest(voice(), words()).get("zzz")


def test_select_keeps_the_order_and_names_each_once() -> None:
    book = manifest(voice(), words())
    assert [model.id for model in book.select(["words", "voice", "words"])] == ["words", "voice"]
    assert [model.id for model in book.select(None)] == ["voice"]


def _one_file(path: str) -> dict[str, Any]:
    member = {"wheel": "carrier-two", "member": "two/vocab.json"}
    return words(files=[entry(path, VOCABULARY)], sources=[{"package": ["carrier-two==1.0"], "from": {path: [member]}}])


@pytest.mark.parametrize("path", ["m.pth", "M.PT", "a/b.ckpt", "x.pkl", "deep/pytorch_model.bin"])
def test_i10_a_pickled_checkpoint_is_refused(path: str) -> None:
    assert is_pickled(path)
    with pytest.raises(ManifestError, match="pickled checkpoint"):
        manifest(_one_file(path))


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a\\b", "", "a//b", "C:x", "./x"])
def test_a_path_that_leaves_the_model_folder_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        safe_relative(path)
    with pytest.raises(ManifestError):
        manifest(_one_file(path))


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b.bin", "..."]), min_size=1, max_size=5).map("/".join))
def test_an_accepted_path_stays_below_its_folder(path: str) -> None:
    try:
        accepted = safe_relative(path)
    except ValueError:
        return
    depth = 0
    for part in accepted.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        assert depth > 0


def _parts(wheel: str, member: str) -> dict[str, Any]:
    return {"from": {"words.json": [{"wheel": wheel, "member": member}]}}


def _source(**changes: Any) -> dict[str, Any]:
    member = {"wheel": "carrier-two", "member": "two/vocab.json"}
    return {"package": ["carrier-two==1.0"], "from": {"words.json": [member]}} | changes


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (words(sources=[_source(package=["carrier-two"])]), "not a pinned requirement"),
        (words(sources=[_source(package=["carrier-two>=1.0"])]), "not a pinned requirement"),
        (words(sources=[_source(package=["--index-url=x==1"])]), "not a pinned requirement"),
        (words(sources=[_source(**{"from": {}})]), "must describe exactly"),
        (
            words(sources=[_source(**{"from": {"words.json": [{"wheel": "other", "member": "m"}]}})]),
            "is not in package",
        ),
        (words(sources=[_source(**_parts("carrier-two", "../m"))]), "stay inside"),
        (words(sources=[{"hub": "owner/repo"}]), "owner/name@revision"),
        (words(sources=[{"hub": "owner/repo@main", "folder": "../up"}]), "stay inside"),
        (words(size_bytes=1), "add up to"),
        (words(id="../words"), "folder name"),
        (words(kind="oracle"), "Input should be"),
        (words(colour="red"), "Extra inputs"),
        (words(files=[entry("words.json", VOCABULARY) | {"sha256": "abc"}]), "sha256"),
        (words(sources=[], bundle=True), "needs a source"),
    ],
)
def test_a_faulty_entry_is_refused_by_name(model: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        manifest(model)


def test_a_fault_is_located_by_the_models_id() -> None:
    with pytest.raises(ManifestError, match=r"models\.words.*colour"):
        manifest(voice(), words(colour="red"))


def test_a_wheel_of_unknown_size_and_a_double_id_are_refused() -> None:
    text = manifest_text(words()).replace("carrier-two==1.0:", "other==1.0:")
    with pytest.raises(ManifestError, match="no entry under `wheels`"):
        parse_manifest(text)
    with pytest.raises(ManifestError, match="used twice"):
        manifest(words(), words())


@pytest.mark.parametrize("text", ["", "- 1", "models: [", "models: 3", "models: [3]"])
def test_odd_yaml_gives_a_manifest_error(text: str) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(text)
