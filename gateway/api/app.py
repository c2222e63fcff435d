# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins routes, guard and refusals into one application."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gateway import __version__
from gateway.api import about_routes, call_routes, term_routes
from gateway.api.control import Control
from gateway.api.guard import problem_response
from gateway.api.problems import (
    BAD_REQUEST,
    BROKEN,
    INVALID,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    Problem,
)
from gateway.api.shapes import ProblemView
from gateway.api.tokens import TokenBook
from gateway.call.glossary_document import Document
from gateway.telemetry.metrics import Meters

TITLE = "Voice gateway control API"
DESCRIPTION = (
    "Calls, dictionaries, events and figures of a telephone interpreter. Changes take effect with the next utterance. "
    "Every refusal is a problem document."
)
_BY_STATUS = {404: NOT_FOUND, 400: BAD_REQUEST}


def build_app(
    control: Control,
    *,
    tokens: TokenBook,
    meters: Meters,
    readiness: Callable[[], tuple[bool, bool]],
    models: Callable[[], list[dict[str, Any]]],
    sip: Callable[[], Mapping[str, Any]],
    dialplan_pairs: Sequence[tuple[str, str]],
    open_metrics: bool,
) -> FastAPI:
    """The application without its guard.

    ``readiness``: are calls taken, is Redis connected. ``sip``: the user agent's statistics, empty while there is none.
    """
    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version=__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.control = control
    app.state.tokens = tokens
    app.state.meters = meters
    app.state.readiness = readiness
    app.state.models = models
    app.state.sip = sip
    app.state.dialplan_pairs = list(dialplan_pairs)
    app.state.open_metrics = open_metrics
    app.state.streams = call_routes.Streams()
    app.state.placed = dict[tuple[str, str], str]()
    for router in (call_routes.router, term_routes.router, about_routes.router):
        app.include_router(router)
    app.add_exception_handler(Problem, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _broken)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # FastAPI's own way to extend the document
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document, with problem documents in place of its own errors."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, servers=[{"url": "/"}]
        )
        schemas = document["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas[ProblemView.__name__] = ProblemView.model_json_schema()
        terms = Document.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        schemas |= {**terms.pop("$defs"), Document.__name__: terms}
        refused = {"application/problem+json": {"schema": {"$ref": f"#/components/schemas/{ProblemView.__name__}"}}}
        for item in document["paths"].values():
            for operation in item.values():
                for status, answer in operation["responses"].items():
                    if status == "422":
                        answer.update(description="Problem", content=refused)
        app.openapi_schema = document
    return app.openapi_schema


async def _refused(_request: Request, problem: Exception) -> JSONResponse:
    assert isinstance(problem, Problem)
    return problem_response(problem)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == METHOD_NOT_ALLOWED.status:
        return problem_response(Problem(METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(_methods_at(request))}))
    return problem_response(Problem(_BY_STATUS.get(error.status_code, BAD_REQUEST)))


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """Where and what, but never the value: it may be somebody's number."""
    assert isinstance(error, RequestValidationError)
    errors = [
        {"where": ".".join(str(step)[:64] for step in fault["loc"]), "message": _message(fault)}
        for fault in error.errors()[:20]
    ]
    return problem_response(Problem(INVALID, "see errors", {"errors": errors}))


def _message(fault: dict[str, Any]) -> str:
    # a validator of ours or of the JSON reader may quote what it read
    return "is not valid JSON" if fault["type"] == "json_invalid" else str(fault["msg"])[:200]


async def _broken(_request: Request, _error: Exception) -> JSONResponse:
    return problem_response(Problem(BROKEN))


def _methods_at(request: Request) -> list[str]:
    """All methods of a path; the framework names only those of the first route that fits it."""
    path = request.url.path
    for template, item in request.app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(template)), path):
            return sorted(verb.upper() for verb in item)
    return ["GET"]  # the description itself, and its page
