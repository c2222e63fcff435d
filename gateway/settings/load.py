# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins the sources of the settings, and remembers for each value where it came from.

Order, later wins: defaults, the file, the environment. Sections are merged key by key; lists and maps are
replaced as a whole, except that the environment may add one entry to a map. All faults are collected and
raised together, so that one look mends all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.resources import resource
from gateway.settings.document import read_document
from gateway.settings.environment import overrides
from gateway.settings.faults import (
    Fault,
    SettingsError,
    dotted,
    is_secret,
    message_of,
    parts,
    section_at,
    show,
    type_at,
    unknown_key,
)
from gateway.settings.model import Settings

DEFAULT = "default"
_Key = tuple[str | int, ...]
_Source = Callable[[_Key], str]


@dataclass(frozen=True)
class Loaded:
    """Settings in force. ``provenance`` maps each dotted key to its source; ``file`` is the YAML that was read."""

    settings: Settings
    provenance: dict[str, str]
    file: Path

    def find(self, path: Path) -> Path:
        """Where a path from the settings points to.

        Absolute paths stay. Relative ones are looked for beside the directory of the settings file, then in
        the working directory, then among the shipped files; when nothing is there, the first place is returned,
        for the error message of whoever opens it.
        """
        path = path.expanduser()
        if path.is_absolute():
            return path
        places = [self.file.resolve().parent.parent / path, Path.cwd() / path]
        for place in places:
            if place.exists():
                return place
        try:
            return resource(path.as_posix())
        except FileNotFoundError:
            return places[0]


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Loaded:
    """Settings from the given file, else from ``$GATEWAY_CONFIG``, ``./config/gateway.yaml`` or the shipped one.

    Raises SettingsError with every fault of every source.
    """
    file = _choose(path, environ)
    join = _Join()
    join.read_file(file)
    for found in overrides(environ):
        if isinstance(found, Fault):
            join.faults.append(found)
        else:
            join.put(found.path, found.value, partial(_same, found.source))
    settings = join.validate()
    if settings is None or join.faults:
        raise SettingsError(join.faults)
    sources = {key: join.source_of(path) or DEFAULT for path, key in _leaves(settings)}
    return Loaded(settings, sources, file)


def effective(settings: Settings) -> dict[str, str]:
    """Every setting by its dotted name, as printable text with secrets masked (SPEC S4.5: echoed per call)."""
    return {key: show(_at(settings, path)) for path, key in _leaves(settings)}


class _Join:
    """Raw values so far, the source of each, and the faults found on the way."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.sources: dict[_Key, str] = {}
        self.faults: list[Fault] = []

    def read_file(self, file: Path) -> None:
        name = _display(file)
        try:
            document = read_document(file.read_text(encoding="utf-8"))
        except OSError as fault:
            self.faults.append(Fault(name, f"cannot read the settings file: {fault.strerror}"))
            return
        except UnicodeDecodeError:
            self.faults.append(Fault(name, "the settings file is not UTF-8 text"))
            return
        self.faults += [Fault(f"{name}:{line}", message) for line, message in document.faults]
        if isinstance(document.values, dict):
            self.put((), document.values, lambda at: f"{name}:{document.lines[at]}")
        elif document.values is not None:
            self.faults.append(Fault(name, "the settings file must consist of sections such as sip: and redis:"))

    def put(self, path: _Key, value: Any, source: _Source) -> None:
        """Set a value; ``source(path)`` names where it came from."""
        section = section_at(path)
        if section is not None and value is None:
            return  # a section whose keys are all commented out
        if section is not None and isinstance(value, dict):
            for key, item in value.items():
                self.put((*path, key), item, source)
            return
        self._forget(path)
        here = self._parent_of(path)
        if here is None:
            return
        here[path[-1]] = value
        self._remember(path, value, source)

    def validate(self) -> Settings | None:
        try:
            return Settings.model_validate(self.values)
        except ValidationError as error:
            details = error.errors(include_url=False)
            # pydantic counts only the valid items of a list, and calls one with a bad item empty
            details = [detail for detail in details if detail["type"] != "too_short" or not detail["input"]]
            self.faults += map(self._fault, details)
            return None

    def source_of(self, path: _Key) -> str | None:
        """Source of the value at a path, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if (source := self.sources.get(path[:length])) is not None:
                return source
        return next((s for at, s in self.sources.items() if at[: len(path)] == path), None)

    def _parent_of(self, path: _Key) -> dict[Any, Any] | None:
        here = self.values
        for length in range(1, len(path)):
            step = path[length - 1]
            if step not in here:
                here[str(step)] = self._map_default(path[:length])
            elif not isinstance(here[str(step)], dict):
                return None  # a wrong value stands where a section should be: that fault is reported
            here = here[str(step)]
        return here

    def _map_default(self, path: _Key) -> dict[Any, Any]:
        """What a map holds before one entry of it is overridden: its default; a section holds nothing yet."""
        if any(get_origin(option) is dict for option in parts(type_at(path))):
            return dict(_at(Settings(), path))
        return {}

    def _remember(self, path: _Key, value: Any, source: _Source) -> None:
        self.sources[path] = source(path)
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in inside:
            self._remember((*path, key), item, source)

    def _forget(self, path: _Key) -> None:
        for at in [at for at in self.sources if at[: len(path)] == path]:
            del self.sources[at]

    def _fault(self, detail: ErrorDetails) -> Fault:
        path: _Key = tuple(step for step in detail["loc"] if step != "[key]")
        if detail["type"] == "rule":
            path = (*path, detail["ctx"]["key"])
            value = self._raw(path)
            return Fault(dotted(path), detail["ctx"]["message"], show(value), self.source_of(path) or DEFAULT)
        if detail["type"] == "extra_forbidden":
            return Fault(dotted(path), unknown_key(path), source=self.source_of(path))
        hidden = is_secret(path) or detail["type"] == "missing" or isinstance(detail["input"], dict)
        shown = None if hidden else show(detail["input"])
        return Fault(dotted(path), message_of(detail), shown, self.source_of(path))

    def _raw(self, path: _Key) -> Any:
        here: Any = self.values
        for step in path:
            present = range(len(here)) if isinstance(here, list) else here if isinstance(here, dict) else ()
            if step not in present:
                # an entry of a list has no default of its own
                return None if any(isinstance(each, int) for each in path) else _at(Settings(), path)
            here = here[step]
        return here


def _same(source: str, _path: _Key) -> str:
    """The source of everything inside one environment variable."""
    return source


def _choose(path: Path | None, environ: Mapping[str, str]) -> Path:
    if path is not None:
        return path
    if environ.get("GATEWAY_CONFIG"):
        return Path(environ["GATEWAY_CONFIG"])
    local = Path("config/gateway.yaml")
    return local if local.exists() else resource("config/gateway.yaml")


def _display(file: Path) -> str:
    """The file's name as short as it is still clear."""
    try:
        return file.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file.as_posix()


def _leaves(section: BaseModel, above: _Key = ()) -> Iterator[tuple[_Key, str]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        path = (*above, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, path)
        elif isinstance(value, dict):
            yield from (((*path, key), dotted((*path, key))) for key in value)
        else:
            yield path, dotted(path)


def _at(section: BaseModel, path: _Key) -> Any:
    here: Any = section
    for step in path:
        here = here[step] if isinstance(here, dict) else getattr(here, str(step))
    return here
