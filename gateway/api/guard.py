# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands before every request: who asks, how often, from where, how much; and sees that every answer is well formed.

Plain ASGI, so that streams pass through untouched. A body is read here, whole and bounded, before anything else looks
at it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
import traceback
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.api.limits import RateCap
from gateway.api.problems import (
    BAD_REQUEST,
    BROKEN,
    FOREIGN_ORIGIN,
    NO_TOKEN,
    PROBLEM_JSON,
    TOO_LARGE,
    TOO_MANY,
    TOO_SLOW,
    Problem,
)
from gateway.api.tokens import Principal, TokenBook

log = structlog.get_logger(__name__)

BODY_S = 10.0
SEND_S = 30.0  # a client that takes nothing for so long is given up, and its stream's place with it
DISCARD_S = 0.5
DISCARD_BYTES = 4_194_304
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECRETIVE = frozenset({"token", "access_token", "api_key", "apikey", "authorization"})
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
EVERYBODY_HERE = Principal("loopback", "loopback", "admin")
"""Who asks without a token where ``api.open_on_loopback`` is on."""


class Guard:
    """``tokens`` says who asks; ``on_request`` is told method and status of each answer."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: TokenBook,
        cap: RateCap,
        largest_body_bytes: int,
        open_on_loopback: bool,
        on_request: Callable[[str, int], None],
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._cap = cap
        self._largest = largest_body_bytes
        self._open = open_on_loopback
        self._on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._on_request(method, message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            async with asyncio.timeout(SEND_S):
                await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_origin(scope, headers)
            scope.setdefault("state", {})["principal"] = self._admit(scope, headers)
            await self._app(scope, await self._body(headers, receive), answer)
        except Problem as problem:
            await problem_response(problem)(scope, receive, answer)
        except TimeoutError:
            log.info("api_client_too_slow")
        except Exception as error:
            # neither the message nor the values: they may be what somebody said
            place = traceback.extract_tb(error.__traceback__)[-1]
            log.error("api_request_failed", error=type(error).__name__, file=place.filename, line=place.lineno)
            if not started:
                await problem_response(Problem(BROKEN))(scope, receive, answer)

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """No other web page may use the browser of somebody who may (request forgery, DNS rebinding)."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Problem(FOREIGN_ORIGIN)
        if self._open and not _is_loopback_name(host):
            raise Problem(FOREIGN_ORIGIN, "without tokens the gateway is called by a loopback address or localhost")
        for name, _ in parse_qsl(scope["query_string"].decode("latin-1")):
            if name.lower() in _SECRETIVE:
                raise Problem(BAD_REQUEST, "a token belongs into the header Authorization, never into a URL")

    def _admit(self, scope: Scope, headers: Headers) -> Principal | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        principal = self._tokens.check(token.strip()) if scheme.lower() == "bearer" else None
        if principal is None and self._open and "authorization" not in headers:
            principal = EVERYBODY_HERE
        asker = principal.id if principal else f"address {(scope.get('client') or ('unknown',))[0]}"
        wait_s = self._cap.wait_s(asker, time.monotonic_ns())
        if wait_s:
            raise Problem(TOO_MANY, headers={"Retry-After": str(int(wait_s) + 1)})
        return principal

    async def _body(self, headers: Headers, receive: Receive) -> Receive:
        """The request's body, read; what comes behind it (a disconnect) is still asked of the server."""
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._largest:
            await _discard(receive)
            raise self._too_large()
        whole = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        break
                    whole += message.get("body", b"")
                    if len(whole) > self._largest:
                        await _discard(receive)
                        raise self._too_large()
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise Problem(TOO_SLOW, headers={"Connection": "close"}) from None
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(whole), "more_body": False}

        return replay

    def _too_large(self) -> Problem:
        return Problem(TOO_LARGE, f"at most {self._largest} bytes are taken", headers={"Connection": "close"})


def problem_response(problem: Problem) -> JSONResponse:
    """A problem as the answer to a request."""
    headers = dict(problem.headers)
    if problem.kind is NO_TOKEN:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(problem.as_json(), problem.kind.status, headers, media_type=PROBLEM_JSON)


async def _discard(receive: Receive) -> None:
    """Take some more of a body nobody wants: a client that is cut off while it sends does not see the answer."""
    taken = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S):
            while taken < DISCARD_BYTES:
                message = await receive()
                taken += len(message.get("body", b""))
                if not message.get("more_body"):
                    return


def _is_loopback_name(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
