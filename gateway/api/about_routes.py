# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway is and how it does: languages, models, health, metrics, documentation."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from gateway import __version__
from gateway.api.access import control_of, needs, principal_of, problems
from gateway.api.docs_page import docs_page
from gateway.api.problems import NOT_ALLOWED, NOT_READY, Problem
from gateway.api.shapes import (
    FallbackView,
    Health,
    LanguageList,
    LanguageView,
    ModelList,
    PeerAddressView,
    PeerList,
    PeerView,
    Readiness,
)
from gateway.api.tokens import Permission, Principal
from gateway.call.dialplan import MODES
from gateway.telemetry.metrics import CONTENT_TYPE

router = APIRouter(tags=["gateway"])
_METRICS = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text format."}
_STYLE = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@router.get("/v1/languages", responses=problems())
async def languages(request: Request, _: Annotated[Principal, needs(Permission.CALLS)]) -> LanguageList:
    """Languages with a voice, and between which of them two people can talk. Empty while the models load."""
    control = control_of(request)
    voices = control.voices
    served = {one: [other for other in voices if other != one and control.serves(one, other)] for one in voices}
    return LanguageList(
        languages=[
            LanguageView(
                language=one,
                voices=list(voices[one]),
                to=others,
                fallback={
                    other: FallbackView(**found.as_json())
                    for other in others
                    if (found := control.fallbacks.of(one, other)) is not None
                },
            )
            for one, others in served.items()
        ],
        modes=list(MODES),
    )


@router.get("/v1/models", responses=problems())
async def models(request: Request, _: Annotated[Principal, needs(Permission.CALLS)]) -> ModelList:
    """The models of the manifest, and which are there and in use."""
    return ModelList.model_validate({"models": await asyncio.to_thread(request.app.state.models)})


@router.get("/v1/peers", responses=problems())
async def peers(request: Request, _: Annotated[Principal, needs(Permission.CALLS)]) -> PeerList:
    """Trunks and PBXs of this gateway: which of them are there, and where it is registered."""
    sip = request.app.state.sip()
    registrations, asked = sip.get("registrations", {}), sip.get("peers", {})
    return PeerList(
        peers=[
            PeerView(
                name=name,
                registered=registrations.get(name, {}).get("registered"),
                registrar=registrations.get(name, {}).get("registrar"),
                addresses=[PeerAddressView(address=each, **known) for each, known in asked.get(name, {}).items()],
            )
            for name in sorted({*registrations, *asked})
        ]
    )


@router.get("/healthz", responses={429: problems()[429]})
async def healthz() -> Health:
    """The process lives and its loop turns."""
    return Health(version=__version__)


@router.get("/readyz", responses={503: problems(503)[503]})
async def readyz(request: Request) -> Readiness:
    """200 when calls are taken; 503 while models load and while the gateway drains. No token is needed."""
    ready, connected = request.app.state.readiness()
    if not ready:
        raise Problem(NOT_READY, "models are loading, or the gateway is draining", headers={"Retry-After": "5"})
    return Readiness(ready=True, state_store="connected" if connected else "away")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={**problems(), 200: _METRICS},
)
async def metrics(request: Request) -> Response:
    """For Prometheus. Needs a token, of the role monitor at least, unless `api.open_metrics` is on."""
    if not request.app.state.open_metrics and not principal_of(request).may(Permission.METRICS):
        raise Problem(NOT_ALLOWED)
    return Response(request.app.state.meters.text(), headers={"content-type": CONTENT_TYPE})


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The API's description, without a line of script or a byte from elsewhere."""
    return HTMLResponse(docs_page(request.app.openapi()), headers={"content-security-policy": _STYLE})
