# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads YAML so that every value knows its line.

Scalars follow the core schema of YAML 1.2, as people expect today: ``no`` is the language Norwegian and not
false, ``5:30`` is text and not 330. Duplicate keys, which YAML forbids and PyYAML lets pass, are faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]


@dataclass
class Document:
    """Plain values, the line (from 1) of each path, and what was wrong as (line, message)."""

    values: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[tuple[int, str]] = field(default_factory=list)


class _CoreLoader(yaml.SafeLoader):
    """SafeLoader with the implicit types of YAML 1.2 (section 10.3) instead of those of 1.1."""


_CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def read_document(text: str) -> Document:
    """Parse one YAML document; never raises, faults are in the result."""
    document = Document()
    try:
        loader = _CoreLoader(text)
        node = loader.get_single_node()
        if node is not None:
            document.values = _build(loader, node, (), document, set())
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        document.faults.append(((mark.line + 1) if mark else 1, f"not valid YAML: {fault.problem or fault.context}"))
    except (yaml.YAMLError, RecursionError) as fault:
        document.faults.append((1, f"not valid YAML: {' '.join(str(fault).split())}"))
    return document


def read_scalar(text: str) -> Any:
    """The value of an environment variable: a YAML scalar, list or map. ValueError when it is not YAML."""
    document = read_document(text)
    if document.faults:
        raise ValueError(document.faults[0][1])
    return document.values


def _build(loader: _CoreLoader, node: yaml.Node, path: Path, document: Document, above: set[int]) -> Any:
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    if id(node) in above:  # an alias to something that contains it
        document.faults.append((line, "an alias refers to itself"))
        return None
    if isinstance(node, yaml.MappingNode):
        return dict(_entries(loader, node, path, document, above | {id(node)}))
    if isinstance(node, yaml.SequenceNode):
        inside = above | {id(node)}
        return [_build(loader, item, (*path, n), document, inside) for n, item in enumerate(node.value)]
    try:
        return loader.construct_object(node)
    except (ValueError, LookupError, AttributeError):  # an explicit tag that the text does not fit
        document.faults.append((line, f"{node.value!r} does not fit its tag {node.tag}"))
        return None


def _entries(
    loader: _CoreLoader, node: yaml.MappingNode, path: Path, document: Document, above: set[int]
) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.faults.append((line, "a key must be a word"))
            continue
        key = str(key_node.value)
        if key in seen:
            document.faults.append((line, f"{'.'.join(map(str, (*path, key)))} is given twice"))
            continue
        seen.add(key)
        document.lines[(*path, key)] = line
        yield key, _build(loader, value_node, (*path, key), document, above)
