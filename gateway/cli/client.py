# SPDX-License-Identifier: GPL-3.0-or-later
"""How commands reach a running gateway: its API's address, a token, and refusals in one line.

On the gateway's own machine, as its own user, nothing needs to be given: it leaves its address and a token of its own
life time beside the token file. Elsewhere ``GATEWAY_API_URL`` and ``GATEWAY_API_TOKEN`` (or ``…_TOKEN_FILE``) say so,
and ``GATEWAY_API_CA`` names the certificate where no public authority vouches for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import httpx2
import typer

from gateway.api.server import ApiError, local_notes, token_file
from gateway.settings import load_settings

TIMEOUT_S = 15.0
SILENCE_S = 60.0  # of a stream, which says something every 10 s

Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")]
Url = Annotated[
    str | None,
    typer.Option("--api", envvar="GATEWAY_API_URL", help="The gateway's API; default: the one that runs here."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Client:
    """``with Client(url, config) as api``. Every refusal is an ApiError that says what the gateway said."""

    def __init__(self, url: str | None, config: Path | None) -> None:
        token, certificate = _given_token(), None
        if url is None or token is None:
            note = _note(url, config)
            url, token, certificate = url or note["url"], token or note["token"], note.get("certificate")
        self._url = url
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
            trust_env=False,
            verify=_tls(certificate) if url.startswith("https") else False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """One request; ApiError unless it was granted."""
        with self._reached():
            answer = self._http.request(method, path, **more)
        if answer.is_error:
            raise ApiError(_refusal(answer))
        return answer

    def events(self, call_id: str) -> Iterator[dict[str, Any]]:
        """What happens in a call, from its beginning to its end."""
        with (
            self._reached(),
            self._http.stream("GET", f"/v1/calls/{call_id}/events", timeout=SILENCE_S) as stream,
        ):
            if stream.is_error:
                stream.read()
                raise ApiError(_refusal(stream))
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ApiError(
                f"no gateway answers at {self._url} ({type(error).__name__}): start one (gateway serve), or give its "
                "address with --api"
            ) from None


def _refusal(answer: httpx2.Response) -> str:
    """A problem document in one line."""
    try:
        problem = answer.json()
        words = [problem["title"], problem.get("detail", "")]
        words += [f"{fault['where']}: {fault['message']}" for fault in problem.get("errors", []) if "where" in fault]
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered {answer.status_code} without saying why: is this its address?"
    return "; ".join(word for word in words if word and word != "see errors")


def _tls(certificate: str | None) -> ssl.SSLContext:
    """Proves the gateway: by the certificate it left, by that of GATEWAY_API_CA, or by the system's authorities."""
    authority = certificate or os.environ.get("GATEWAY_API_CA") or None
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ApiError(f"GATEWAY_API_CA: {authority} cannot be used: {error.strerror or error}") from None
    if authority is not None:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is proof enough
    context.check_hostname = certificate is None  # that one was read from the gateway's own file
    return context


def _given_token() -> str | None:
    """The token of the environment. ApiError when its file cannot be read."""
    if file := os.environ.get("GATEWAY_API_TOKEN_FILE"):
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ApiError(f"GATEWAY_API_TOKEN_FILE: {file} cannot be read: {error.strerror}") from None
    return os.environ.get("GATEWAY_API_TOKEN") or None


def _note(url: str | None, config: Path | None) -> dict[str, Any]:
    """What a gateway of this user left: that at ``url``, or the only one."""
    loaded = load_settings(config, os.environ)
    notes = local_notes(token_file(loaded))
    if url is not None:
        notes = [note for note in notes if note["url"] == url.rstrip("/")]
    if len(notes) > 1:
        notes = [note for note in notes if note["url"].endswith(f":{loaded.settings.api.port}")] or notes
    if len(notes) == 1:
        return notes[0]
    if notes:
        raise ApiError(f"{len(notes)} gateways run here: choose one with --api {notes[0]['url']}")
    if url is not None:
        raise ApiError(f"no token for {url}: give one in GATEWAY_API_TOKEN; `gateway token create` makes it")
    raise ApiError("no gateway of this user runs here: start one (gateway serve), or give --api and GATEWAY_API_TOKEN")
