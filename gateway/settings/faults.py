# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be wrong with settings, in one line each: the key, the value, where it came from, the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic_core import ErrorDetails

from gateway.settings.model import Settings

MASK = "********"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong; ``key`` is dotted, ``value`` already fit for printing, ``source`` a place."""

    key: str
    message: str
    value: str | None = None
    source: str | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value}"
        source = "" if self.source is None else f" (from {self.source})"
        return f"{self.key}{value}{source}: {self.message}"


class SettingsError(Exception):
    """The settings cannot be used; ``faults`` holds everything that was found, one line each when printed."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def dotted(path: tuple[str | int, ...]) -> str:
    """``("sip", "trunks", 0)`` → ``sip.trunks.0``."""
    return ".".join(map(str, path))


def parts(annotation: Any) -> Iterator[Any]:
    """The plain types in an annotation: through Annotated and unions, values of a Literal by their type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from parts(get_args(annotation)[0])
    elif origin is Literal:
        yield from {type(value) for value in get_args(annotation)}
    elif origin is Union or type(annotation).__name__ == "UnionType":
        for member in get_args(annotation):
            yield from parts(member)
    else:
        yield annotation


def type_at(path: tuple[str | int, ...]) -> Any:
    """The annotation of a setting, a section's class, or None where no setting can be."""
    here: Any = Settings
    for step in path:
        found = None
        for option in parts(here):
            if isinstance(option, type) and issubclass(option, BaseModel) and isinstance(step, str):
                info = option.model_fields.get(step)
                found = info.annotation if info else None
            elif get_origin(option) is tuple and isinstance(step, int):
                found = get_args(option)[0]
            elif get_origin(option) is dict:
                found = get_args(option)[1]
            if found is not None:
                break
        if found is None:
            return None
        here = found
    return here


def section_at(path: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The section's class at a path, if there is one."""
    for option in parts(type_at(path)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def is_secret(path: tuple[str | int, ...]) -> bool:
    """Whether the value must never be printed."""
    return SecretStr in set(parts(type_at(path)))


def all_keys(section: type[BaseModel] = Settings, above: str = "") -> Iterator[str]:
    """Dotted names of every setting."""
    for name, info in section.model_fields.items():
        option = info.annotation
        if isinstance(option, type) and issubclass(option, BaseModel):
            yield from all_keys(option, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def show(value: Any) -> str:
    """A value on one line, without credentials: secrets and the password inside a URL are masked."""
    match value:
        case SecretStr():
            text = MASK
        case None:
            text = "null"
        case bool():
            text = str(value).lower()
        case float() if value.is_integer():
            text = str(int(value))
        case BaseModel():
            text = show(value.model_dump())
        case dict():
            text = "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            text = "[" + ", ".join(map(show, value)) + "]"
        case _:
            text = re.sub(r"(://[^/@\s]*:)[^/@\s]*@", rf"\1{MASK}@", " ".join(str(value).split()))
    return text


def unknown_key(path: tuple[str | int, ...]) -> str:
    """Message for a key that does not exist, with the nearest one that does."""
    above = path[:-1]
    section = section_at(above)
    elsewhere = [key for key in all_keys() if key.rsplit(".", 1)[-1] == str(path[-1])]
    near = difflib.get_close_matches(str(path[-1]), list(section.model_fields) if section else [], n=1, cutoff=0.5)
    if near and not elsewhere:
        return f"unknown key; did you mean {dotted((*above, near[0]))}?"
    elsewhere = elsewhere or difflib.get_close_matches(dotted(path), list(all_keys()), n=1, cutoff=0.6)
    if elsewhere:
        return f"unknown key; did you mean {elsewhere[0]}?"
    known = ", ".join(section.model_fields) if section else "none"
    return f"unknown key; the keys here are: {known}"


_PLAIN = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text: put it in quotes",
    "path_type": "must be a path",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must be a map of key: value",
    "model_type": "must be a section with keys of its own",
    "missing": "is missing",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
_SHAPES = {
    r"^[a-z0-9_]+:[^:\s]+$": "must have the form engine:model",
    r"^[a-z0-9_]+:[^:\s]+(:[^:\s]+)?$": "must have the form engine:model or engine:model:voice",
    r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$": "must be an ISO 639 language code such as de or pt-BR",
}


def message_of(error: ErrorDetails) -> str:
    """pydantic's verdict in the words of someone who edits a file."""
    context = error.get("ctx", {})
    match error["type"]:
        case "less_than_equal":
            message = f"must be ≤ {show(context['le'])}"
        case "greater_than_equal":
            message = f"must be ≥ {show(context['ge'])}"
        case "literal_error":
            message = f"must be {context['expected']}"
        case "value_error":
            message = str(context["error"])
        case "string_pattern_mismatch":
            message = _SHAPES.get(context["pattern"], f"must match {context['pattern']}")
        case kind:
            message = _PLAIN.get(kind, error["msg"])
    return message
