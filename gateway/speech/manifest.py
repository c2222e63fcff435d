# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of known models: what each file must be, byte for byte, and which sources carry it.

The manifest is trusted input that ships with the gateway; sources are not. Everything a source could bend
(names, sizes, digests, joining order) is therefore pinned here and checked when the manifest is read.
Checkpoints in Python's pickle format run code when they are loaded, so a manifest may not name one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from gateway.resources import resource
from gateway.speech.errors import SpeechError

PICKLED_SUFFIXES = frozenset({".pth", ".pt", ".pkl", ".pickle", ".ckpt", ".joblib"})
PICKLED_NAMES = frozenset({"pytorch_model.bin", "training_args.bin"})

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.+!_-]*)")
_HUB = re.compile(r"[\w.-]+/[\w.-]+@[\w][\w./-]*", re.ASCII)
_SHA256 = r"^[0-9a-f]{64}$"


class ManifestError(SpeechError):
    """The manifest cannot be read; the message names the file and the entry at fault."""


class UnknownModel(SpeechError, LookupError):
    """No model of that id; the message offers the nearest known one."""


class Kind(StrEnum):
    """What a model is for."""

    RECOGNIZER = "recognizer"
    TRANSLATOR = "translator"
    SYNTHESIZER = "synthesizer"


def is_pickled(path: str) -> bool:
    """True for a file that its usual loader unpickles, and so could run code."""
    name = PurePosixPath(path.lower())
    return name.suffix in PICKLED_SUFFIXES or name.name in PICKLED_NAMES


def safe_relative(path: str) -> str:
    """The path itself if it stays below the folder it is joined to; ValueError otherwise."""
    parts = path.split("/")
    if not path or "\\" in path or "\0" in path or ":" in path or any(part in {"", ".", ".."} for part in parts):
        raise ValueError(f"{path!r} does not stay inside the model's folder")
    return path


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Licence(_Strict):
    """SPDX identifier and one line in plain words; ``accept``: the settings must name it before the model is used."""

    spdx: str = Field(min_length=1)
    note: str = ""
    accept: bool = False


class ModelFile(_Strict):
    """A file of a model: path below the model's folder, sha256 of its bytes in hex, size in bytes."""

    path: str
    sha256: Annotated[str, Field(pattern=_SHA256)]
    size: Annotated[int, Field(ge=0)]

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        if is_pickled(path):
            raise ValueError(f"{path!r} is a pickled checkpoint, which can run code: use safetensors, ONNX or CT2")
        if path.startswith("."):
            raise ValueError(f"{path!r}: hidden names are kept for the store's own stamps")
        return safe_relative(path)


class Wheel(_Strict):
    """A carrier wheel's size in bytes and, if it is built for one machine only, that platform tag."""

    size_bytes: Annotated[int, Field(gt=0)]
    platform: str | None = None


class Part(_Strict):
    """One piece of a file: which member of which wheel (named by its distribution)."""

    wheel: str
    member: str

    @field_validator("member")
    @classmethod
    def _check_member(cls, member: str) -> str:
        return safe_relative(member)


class HubSource(_Strict):
    """A hub repository ``owner/name@revision``; files lie under ``folder`` by their own paths."""

    hub: str
    folder: str = ""

    @field_validator("hub")
    @classmethod
    def _check_hub(cls, hub: str) -> str:
        if not _HUB.fullmatch(hub):
            raise ValueError(f"{hub!r} is not of the form owner/name@revision")
        return hub

    @field_validator("folder")
    @classmethod
    def _check_folder(cls, folder: str) -> str:
        return safe_relative(folder) if folder else folder

    @property
    def label(self) -> str:
        """Name of the source in messages."""
        return f"hub {self.hub}"

    @property
    def repository(self) -> tuple[str, str]:
        """(owner/name, revision)."""
        name, _, revision = self.hub.partition("@")
        return name, revision


class PackageSource(_Strict):
    """Wheels of the package index, by pinned requirement, and the parts each file is joined from."""

    package: Annotated[tuple[str, ...], Field(min_length=1)]
    parts: Annotated[dict[str, Annotated[tuple[Part, ...], Field(min_length=1)]], Field(alias="from")]

    @field_validator("package")
    @classmethod
    def _check_pins(cls, package: tuple[str, ...]) -> tuple[str, ...]:
        for requirement in package:
            if not _REQUIREMENT.fullmatch(requirement):
                raise ValueError(f"{requirement!r} is not a pinned requirement such as carrier==1.0.0")
        return package

    @model_validator(mode="after")
    def _check_wheels(self) -> Self:
        known = {distribution(requirement) for requirement in self.package}
        for path, parts in self.parts.items():
            for part in parts:
                if part.wheel not in known:
                    raise ValueError(f"{path}: wheel {part.wheel!r} is not in package {sorted(known)}")
        return self

    @property
    def label(self) -> str:
        """Name of the source in messages."""
        return f"package {', '.join(self.package)}"

    def requirement(self, wheel: str) -> str:
        """The pinned requirement of a wheel named in a part."""
        return next(requirement for requirement in self.package if distribution(requirement) == wheel)


def _source_tag(value: object) -> str:
    """Which kind of source an entry means, so that faults speak of that kind only."""
    return "hub" if isinstance(value, HubSource) or (isinstance(value, dict) and "hub" in value) else "package"


Source = Annotated[
    Annotated[HubSource, Tag("hub")] | Annotated[PackageSource, Tag("package")],
    Discriminator(_source_tag),
]


class Model(_Strict):
    """A model: its files, its languages (empty: any), its directed pairs, its sources in order of trial."""

    id: str
    kind: Kind
    engine: str = Field(min_length=1)
    bundle: bool = False
    languages: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    licence: Licence
    size_bytes: Annotated[int, Field(gt=0)]
    files: Annotated[tuple[ModelFile, ...], Field(min_length=1)]
    sources: tuple[Source, ...] = ()
    """Where it is fetched from; none for a model that was taken in from a folder."""

    @field_validator("id")
    @classmethod
    def _check_id(cls, model_id: str) -> str:
        if not _ID.fullmatch(model_id):
            raise ValueError(f"{model_id!r} is not usable as a folder name")
        return model_id

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        paths = [file.path for file in self.files]
        if len(set(paths)) != len(paths):
            raise ValueError("a file is listed twice")
        total = sum(file.size for file in self.files)
        if total != self.size_bytes:
            raise ValueError(f"size_bytes is {self.size_bytes}, its files add up to {total}")
        if self.bundle and not self.sources:
            raise ValueError("a model of the bundle needs a source")
        for source in self.sources:
            if isinstance(source, PackageSource) and set(source.parts) != set(paths):
                raise ValueError(f"{source.label}: `from` must describe exactly {sorted(paths)}")
        return self

    def file(self, path: str) -> ModelFile:
        """The entry of a file; KeyError if the model has none of that path."""
        for file in self.files:
            if file.path == path:
                return file
        raise KeyError(path)


class Manifest(_Strict):
    """All known models, and the carrier wheels by pinned requirement."""

    wheels: dict[str, Wheel] = {}
    models: tuple[Model, ...]

    @model_validator(mode="after")
    def _check_all(self) -> Self:
        ids = [model.id for model in self.models]
        if len(set(ids)) != len(ids):
            raise ValueError("a model id is used twice")
        for model in self.models:
            for source in model.sources:
                if isinstance(source, PackageSource):
                    missing = [requirement for requirement in source.package if requirement not in self.wheels]
                    if missing:
                        raise ValueError(f"{model.id}: no entry under `wheels` for {', '.join(missing)}")
        return self

    def get(self, model_id: str) -> Model:
        """The model of that id; raises UnknownModel with the nearest known id."""
        for model in self.models:
            if model.id == model_id:
                return model
        ids = [model.id for model in self.models]
        near = difflib.get_close_matches(model_id, ids, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(ids)}"
        raise UnknownModel(f"unknown model {model_id!r}: {hint}")

    def select(self, ids: Iterable[str] | None) -> tuple[Model, ...]:
        """The named models, each once, in the order named; None or no names means the default bundle."""
        wanted = tuple(dict.fromkeys(ids or ()))
        if not wanted:
            return tuple(model for model in self.models if model.bundle)
        return tuple(self.get(model_id) for model_id in wanted)


def distribution(requirement: str) -> str:
    """Distribution name of a pinned requirement: ``carrier==1.0`` gives ``carrier``."""
    return requirement.partition("==")[0]


def parse_manifest(text: str, name: str = "manifest") -> Manifest:
    """Read a manifest from YAML text; raises ManifestError that names the entry at fault."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ManifestError(f"{name}: not valid YAML: {error}") from error
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(f"{_where(data, fault['loc'])}: {fault['msg']}" for fault in error.errors()[:5])
        raise ManifestError(f"{name}: {faults}") from error


def load_manifest(path: Path | None = None) -> Manifest:
    """Read the shipped manifest, or the one at ``path``."""
    path = path or resource("models/manifest.yaml")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from error
    return parse_manifest(text, str(path))


def _where(data: object, loc: tuple[int | str, ...]) -> str:
    """Location of a fault, with a model's id in place of its index: ``models.whisper-base.files.0.sha256``."""
    words = [str(part) for part in loc]
    if len(loc) > 1 and loc[0] == "models" and isinstance(loc[1], int) and isinstance(data, dict):
        entry = data["models"][loc[1]]
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            words[1] = entry["id"]
    return ".".join(words) or "top level"
