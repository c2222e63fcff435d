# SPDX-License-Identifier: GPL-3.0-or-later
"""What a route asks of whoever calls it."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Path, Request
from fastapi.security import HTTPBearer

from gateway.api.control import Control
from gateway.api.problems import NO_TOKEN, NOT_ALLOWED, WRONG_MEDIA_TYPE, Problem
from gateway.api.shapes import ProblemView
from gateway.api.tokens import ROLES, Permission, Principal

_bearer = HTTPBearer(auto_error=False, description="A token made by `gateway token create`.")

Responses = dict[int | str, dict[str, Any]]
CallId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", examples=["0123456789ab"])]


def principal_of(request: Request) -> Principal:
    """Who asks. Problem when nobody we know."""
    principal = getattr(request.state, "principal", None)
    if principal is None:
        raise Problem(NO_TOKEN, "send Authorization: Bearer gw_…; `gateway token create` makes one")
    return cast(Principal, principal)


def needs(permission: Permission) -> Any:
    """A dependency: the caller's role must contain the permission. Gives the caller."""
    roles = ", ".join(role for role, allowed in ROLES.items() if permission in allowed)

    async def check(request: Request, _: Annotated[Any, Depends(_bearer)]) -> Principal:
        principal = principal_of(request)
        if not principal.may(permission):
            raise Problem(NOT_ALLOWED, f"this needs one of the roles {roles}")
        return principal

    return Depends(check)


async def json_only(request: Request) -> None:
    """A dependency: a body must say that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Problem(WRONG_MEDIA_TYPE, "send Content-Type: application/json")


def control_of(request: Request) -> Control:
    """The object behind the routes."""
    return cast(Control, request.app.state.control)


JsonOnly = Depends(json_only)


def problems(*statuses: int) -> Responses:
    """For OpenAPI: the refusals a route may answer with, besides those that every route may."""
    always = (400, 401, 403, 408, 413, 429, 500)
    return {
        status: {"description": "Problem", "content": {"application/problem+json": {"schema": _SCHEMA}}}
        for status in sorted({*always, *statuses})
    }


_SCHEMA = {"$ref": f"#/components/schemas/{ProblemView.__name__}"}
