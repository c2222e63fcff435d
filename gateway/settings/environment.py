# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings from environment variables: ``GATEWAY__SIP__PORT=5070``, secrets by ``…_FILE``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from pydantic import SecretStr

from gateway.settings.document import read_scalar
from gateway.settings.faults import Fault, dotted, parts, type_at

PREFIX = "GATEWAY__"
_SECRET_LIMIT_BYTES = 65_536  # a mistaken path to a disk or a log must not fill the memory


@dataclass(frozen=True, slots=True)
class Override:
    """One value from outside the file."""

    path: tuple[str, ...]
    value: Any
    source: str


def overrides(environ: Mapping[str, str]) -> Iterator[Override | Fault]:
    """Every ``GATEWAY__…`` variable as an override, or as a fault if it cannot be read.

    Sections given as a whole come before their parts, so that a part wins whatever the order of the variables.
    """
    names = sorted((name for name in environ if name.startswith(PREFIX)), key=lambda name: (name.count("__"), name))
    for name in names:
        path = tuple(name[len(PREFIX) :].lower().split("__"))
        if type_at(path) is None and path[-1].endswith("_file") and _takes_text(stem := _without_file(path)):
            if name[: -len("_FILE")] in environ:
                yield Fault(dotted(stem), f"is given twice: by {name} and by {name[:-5]}; unset one", source=name)
                continue
            yield _from_file(stem, name, environ[name])
            continue
        try:
            yield Override(path, _value(path, environ[name]), f"environment {name}")
        except ValueError as fault:
            yield Fault(dotted(path), str(fault), source=f"environment {name}")


def _without_file(path: tuple[str, ...]) -> tuple[str, ...]:
    return (*path[:-1], path[-1].removesuffix("_file"))


def _takes_text(path: tuple[str, ...]) -> bool:
    """Whether the setting holds text: such a value is taken as it stands, even when it looks like a number."""
    options = set(parts(type_at(path)))
    return bool(options & {str, SecretStr, Path}) and not any(get_origin(option) for option in options)


def _value(path: tuple[str, ...], text: str) -> Any:
    if not _takes_text(path):
        return read_scalar(text)
    optional = type(None) in set(parts(type_at(path)))
    return None if optional and text.strip() in ("", "~", "null") else text


def _from_file(path: tuple[str, ...], name: str, where: str) -> Override | Fault:
    source = f"{where}, named by {name}"
    try:
        with Path(where).open("rb") as file:
            content = file.read(_SECRET_LIMIT_BYTES + 1)
        if len(content) > _SECRET_LIMIT_BYTES:
            return Fault(dotted(path), f"the file is larger than {_SECRET_LIMIT_BYTES} bytes", source=source)
        text = content.decode().strip()
    except OSError as fault:
        return Fault(dotted(path), f"cannot read the file: {fault.strerror}", source=source)
    except UnicodeDecodeError:
        return Fault(dotted(path), "the file is not UTF-8 text", source=source)
    if not text:
        return Fault(dotted(path), "the file is empty", source=source)
    return Override(path, text, source)
