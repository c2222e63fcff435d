# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenAPI document as one page to read: plain HTML, no script, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from gateway.api.problems import KINDS

_CSS = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #d5dbe3 } h3 { margin: 1.8rem 0 .3rem; font-size: 1rem }
code { font: .92em ui-monospace, monospace } .verb { display: inline-block; min-width: 4.5rem; font-weight: 700 }
.get { color: #0b6bcb } .post, .put, .patch { color: #7a4b00 } .delete { color: #b3261e }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
td, th { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-top: 1px solid #e5e9ef }
@media (prefers-color-scheme: dark) { body { background: #11161d; color: #dbe2ea } h2, td, th { border-color: #2b3440 }
.get { color: #6cb2ff } .post, .put, .patch { color: #f0b75a } .delete { color: #ff8a80 } }
"""
_VERBS = ("get", "post", "put", "patch", "delete")


def docs_page(document: dict[str, Any]) -> str:
    """The whole page."""
    return "\n".join(_page(document))


def _page(document: dict[str, Any]) -> Iterator[str]:
    title = escape(document["info"]["title"])
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_CSS}</style><h1>{title}</h1>'
    yield f"<p>{escape(document['info'].get('description', ''))}</p>"
    yield '<p>For machines: <a href="/v1/openapi.json">/v1/openapi.json</a></p>'
    for tag in sorted({tag for _, _, operation in _operations(document) for tag in operation.get("tags", ["other"])}):
        yield f"<h2>{escape(tag.capitalize())}</h2>"
        for path, verb, operation in _operations(document):
            if tag in operation.get("tags", ["other"]):
                yield from _operation(path, verb, operation)
    yield "<h2>Shapes</h2>"
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        yield from _shape(name, schema)
    yield "<h2>Problems</h2><p>Refusals are <code>application/problem+json</code> (RFC 9457).</p><table>"
    for kind in sorted(KINDS.values(), key=lambda kind: (kind.status, kind.slug)):
        yield f'<tr id="{kind.slug}"><td>{kind.status}<td><code>{kind.slug}</code><td>{escape(kind.title)}'
    yield "</table></html>"


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for verb in _VERBS:
            if verb in item:
                yield path, verb, item[verb]


def _operation(path: str, verb: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f'<h3><span class="verb {verb}">{verb.upper()}</span> <code>{escape(path)}</code></h3>'
    for paragraph in operation.get("description", operation.get("summary", "")).split("\n\n"):
        yield f"<p>{escape(paragraph)}</p>"
    rows = [
        (parameter["name"], parameter["in"], _kind(parameter["schema"]), parameter.get("description", ""))
        for parameter in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {})
    rows += [("body", kind, _kind(content.get("schema", {})), "") for kind, content in body.items()]
    for status, answer in sorted(operation.get("responses", {}).items()):
        if status.startswith("2"):
            content = answer.get("content", {})
            rows += [(status, kind, _kind(made.get("schema", {})), "") for kind, made in content.items()]
            rows += [] if content else [(status, "", "", answer.get("description", ""))]
    yield "<table>" + "".join("<tr>" + "".join(f"<td>{_cell(cell)}" for cell in row) for row in rows) + "</table>"


def _shape(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}"><code>{escape(name)}</code></h3>'
    yield f"<p>{escape(schema.get('description', ''))}</p><table>"
    for field, kind in schema.get("properties", {}).items():
        needed = "needed" if field in schema.get("required", []) else ""
        cells = (field, _kind(kind), needed, kind.get("description", ""))
        yield "<tr>" + "".join(f"<td>{_cell(cell)}" for cell in cells)
    yield "</table>"


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words; a reference is written as ``#Name``."""
    if "$ref" in schema:
        return "#" + str(schema["$ref"]).rpartition("/")[2]
    for joined in ("anyOf", "oneOf"):
        if joined in schema:
            return " or ".join(dict.fromkeys(_kind(option) for option in schema[joined]))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_kind(schema['additionalProperties'])}"
    return str(schema.get("const") or schema.get("type", "any"))


def _cell(text: str) -> str:
    words = [
        f'<a href="{escape(word)}">{escape(word[1:])}</a>' if word.startswith("#") and len(word) > 1 else escape(word)
        for word in text.split(" ")
    ]
    return " ".join(words)
