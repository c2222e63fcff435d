# SPDX-License-Identifier: GPL-3.0-or-later
"""``/v1/dictionaries`` and ``/v1/hotwords``: what calls insist on, changed while they run (SPEC S1.19)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Path, Query, Request, Response

from gateway.api.access import JsonOnly, control_of, needs, problems
from gateway.api.dictionaries import plain_terms
from gateway.api.problems import INVALID, PAIR_NOT_SERVED, Problem
from gateway.api.shapes import DictionaryView, Hotwords, HotwordsView, Language
from gateway.api.tokens import Permission, Principal
from gateway.call.glossary_document import Document

log = structlog.get_logger(__name__)

GLOBAL = "global"
_SCOPE = r"^(global|trunk:[A-Za-z0-9_.-]{1,64}|(call:)?[0-9a-f]{12})$"
_MEANT = "`global`, `trunk:NAME` for all calls of a trunk, or the id of a live call, with or without `call:`."
Scope = Annotated[str, Path(pattern=_SCOPE, description=_MEANT, examples=[GLOBAL])]
ScopeQuery = Annotated[str, Query(pattern=_SCOPE, description=_MEANT)]
LanguageQuery = Annotated[Language | None, Query(description="Needed where the dial plan has several pairs.")]

router = APIRouter(tags=["dictionaries"])
_READ, _WRITE = problems(404, 422, 503, 504), problems(404, 415, 422, 503, 504)
_PLAIN = {"schema": {"type": "object", "additionalProperties": {"type": "string"}}}
_WORDS = {
    "requestBody": {
        "required": True,
        "content": {"application/json": _PLAIN, "application/x-www-form-urlencoded": _PLAIN},
    }
}
# Not a parameter: the framework would check it in one go, and hold the interpreter lock for longer than a frame.
_DOCUMENT = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{Document.__name__}"}}},
    }
}


@router.get("/v1/dictionaries/{scope}", responses=_READ)
async def show_dictionary(
    request: Request, scope: Scope, _: Annotated[Principal, needs(Permission.CALLS)]
) -> DictionaryView:
    """The dictionary in force."""
    return DictionaryView.model_validate(await _do(request, scope, "read", None))


@router.put("/v1/dictionaries/{scope}", responses=_WRITE, dependencies=[JsonOnly], openapi_extra=_DOCUMENT)
async def replace_dictionary(
    request: Request, scope: Scope, who: Annotated[Principal, needs(Permission.CONTROL)]
) -> DictionaryView:
    """Put another dictionary in its place; running calls take it up with their next utterance."""
    return DictionaryView.model_validate(await _change(request, scope, "replace", await _object(request), who))


@router.patch("/v1/dictionaries/{scope}", responses=_WRITE, dependencies=[JsonOnly], openapi_extra=_DOCUMENT)
async def extend_dictionary(
    request: Request, scope: Scope, who: Annotated[Principal, needs(Permission.CONTROL)]
) -> DictionaryView:
    """Add to it. An entry about the same word in the same languages is replaced, everything else stays."""
    return DictionaryView.model_validate(await _change(request, scope, "merge", await _object(request), who))


@router.delete("/v1/dictionaries/{scope}", status_code=204, responses=_READ)
async def clear_dictionary(
    request: Request, scope: Scope, who: Annotated[Principal, needs(Permission.CONTROL)]
) -> Response:
    """Empty it."""
    await _change(request, scope, "replace", {}, who)
    return Response(status_code=204)


@router.get("/v1/hotwords", responses=_READ)
async def show_hotwords(
    request: Request, _: Annotated[Principal, needs(Permission.CALLS)], scope: ScopeQuery = GLOBAL
) -> HotwordsView:
    """The words that the recogniser listens for, by language."""
    return _hotwords(await _do(request, scope, "read", None))


@router.put("/v1/hotwords", responses=_WRITE, dependencies=[JsonOnly])
async def replace_hotwords(
    request: Request, body: Hotwords, who: Annotated[Principal, needs(Permission.CONTROL)], scope: ScopeQuery = GLOBAL
) -> HotwordsView:
    """Replace them, and leave the dictionary's terms as they are."""
    return _hotwords(await _change(request, scope, "hotwords", dict(body), who))


@router.post(
    "/load_dict",
    responses=_READ,
    openapi_extra=_WORDS,
)
async def load_dict(
    request: Request,
    who: Annotated[Principal, needs(Permission.CONTROL)],
    source: Annotated[Language | None, Query(alias="from")] = None,
    target: Annotated[Language | None, Query(alias="to")] = None,
    scope: ScopeQuery = GLOBAL,
) -> DictionaryView:
    """Add words from a plain object of word and meaning, as `curl -d @medical.json` sends it.

    The languages may be left out where all routes of the dial plan have one pair.
    """
    words = await _object(request)
    if not all(isinstance(meaning, str) and word for word, meaning in words.items()):
        raise Problem(INVALID, 'the body must be an object of word and meaning, such as {"invoice": "fatura"}')
    pairs = request.app.state.dialplan_pairs
    if source is None and target is None and len(pairs) == 1:
        source, target = pairs[0]
    if source is None or target is None:
        raise Problem(INVALID, "say which languages: /load_dict?from=en&to=pt")
    if source == target:
        raise Problem(PAIR_NOT_SERVED, "from and to are the same language")
    return DictionaryView.model_validate(
        await _change(request, scope, "merge", plain_terms(words, source, target), who)
    )


async def _object(request: Request) -> dict[str, Any]:
    """The body, which must be one JSON object."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Problem(INVALID, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Problem(INVALID, "the body must be one JSON object")
    return found


async def _do(request: Request, scope: str, verb: str, document: dict[str, Any] | None) -> dict[str, Any]:
    told = await control_of(request).dictionary(scope.removeprefix("call:"), verb, document)
    return {"scope": scope, **told}


async def _change(request: Request, scope: str, verb: str, document: dict[str, Any], who: Principal) -> dict[str, Any]:
    told = await _do(request, scope, verb, document)
    log.info("api_dictionary_changed", scope=scope, verb=verb, version=told["version"], token=who.id)
    return told


def _hotwords(told: dict[str, Any]) -> HotwordsView:
    hotwords = told["dictionary"].get("hotwords") or {}
    return HotwordsView(scope=told["scope"], version=told["version"], hotwords=hotwords)
