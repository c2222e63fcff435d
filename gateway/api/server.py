# SPDX-License-Identifier: GPL-3.0-or-later
"""The API as a part of the gateway: built from the settings, served on the same loop as the calls, and stopped.

The server is told to leave signals, logs and the loop alone; its socket is bound here, so that a port in use is an
error with a remedy and not a line in a log.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import ipaddress
import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from gateway.api.app import build_app
from gateway.api.connections import BoundedProtocol
from gateway.api.control import Control
from gateway.api.destinations import Destinations
from gateway.api.guard import Guard
from gateway.api.journal import Journal
from gateway.api.limits import RateCap
from gateway.api.outbound import Outbound
from gateway.api.signing import signing_key
from gateway.api.tokens import TokenBook, default_file, write_private
from gateway.api.watch import Watch
from gateway.api.webhooks import TIMEOUT_S, Hook, Webhooks
from gateway.call.dialplan import DialPlan
from gateway.call.events import KINDS, EventBus
from gateway.call.fallback import Fallbacks
from gateway.call.switchboard import Switchboard
from gateway.settings import Loaded
from gateway.state import StateStore
from gateway.telemetry.metrics import Meters

log = structlog.get_logger(__name__)

STOP_S = 3
LOCAL = "local"


class ApiError(Exception):
    """The API cannot be served; the text names the remedy."""


class ControlApi:
    """``start`` serves, ``opened`` tells what the engines can do, ``stop`` ends all streams and hooks."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        switchboard: Switchboard,
        state: StateStore,
        bus: EventBus,
        dialplan: DialPlan,
        statistics: Callable[[], Mapping[str, Any]],
        models: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self._loaded = loaded
        self._settings = settings = loaded.settings.api
        sip = loaded.settings.sip
        self._bus = bus
        self._tokens_path = token_file(loaded)
        self._tokens = TokenBook(self._tokens_path, clock=time.monotonic_ns, utc=utc_now)
        self._journal = Journal()
        self._cap = RateCap(settings.requests_per_s)
        told = hooks(loaded)
        self._webhooks = Webhooks(told, Outbound(timeout_s=TIMEOUT_S) if told else None)
        self._meters = Meters(lambda: {**statistics(), "webhooks": self._webhooks.statistics()})
        self._watch = Watch(self._journal, state.transcripts, self._meters, self._webhooks)
        self._control = Control(
            switchboard=switchboard,
            state=state,
            journal=self._journal,
            destinations=Destinations(dialplan, settings.destinations),
            default_mode=loaded.settings.call.mode,
            trunks=frozenset(one.name for one in sip.trunks) | frozenset(one.name for one in sip.registrations),
        )
        self.app = build_app(
            self._control,
            tokens=self._tokens,
            meters=self._meters,
            readiness=lambda: (switchboard.ready, state.connected),
            models=models,
            sip=lambda: statistics().get("sip") or {},
            dialplan_pairs=sorted({(route.source, route.target) for route in dialplan.routes}),
            open_metrics=settings.open_metrics,
        )
        self.port = 0
        self._local: Path | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._subscription = bus.subscribe()
        self._server: _Server | None = None

    async def start(self) -> None:
        """Bind and serve. ApiError with the remedy when that cannot be."""
        settings = self._settings
        certificate = self._loaded.find(settings.tls_certificate) if settings.tls_certificate else None
        listening = bind(settings.bind, settings.port)
        self.port = int(listening.getsockname()[1])
        guard = Guard(
            self.app,
            tokens=self._tokens,
            cap=self._cap,
            largest_body_bytes=settings.largest_body_bytes,
            open_on_loopback=settings.open_on_loopback,
            on_request=self._meters.on_request,
        )
        try:
            config = uvicorn.Config(
                guard,
                loop="none",
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # what is malformed is answered, not logged: anybody can send it
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=STOP_S,
                h11_max_incomplete_event_size=16_384,
                ssl_certfile=certificate,
                ssl_keyfile=self._loaded.find(settings.tls_key) if settings.tls_key else None,
            )
            config.load()
        except (OSError, ssl.SSLError) as error:
            listening.close()
            raise ApiError(f"api.tls_certificate or api.tls_key cannot be used: {error}") from None
        self._server = _Server(config)
        self._webhooks.start()
        self._tasks = [
            asyncio.create_task(self._watch.follow(self._subscription), name="api-watch"),
            asyncio.create_task(self._server.serve([listening]), name="api-server"),
        ]
        self._local = local_file(self._tokens_path, self.port)
        url = local_url(settings.bind, self.port, encrypted=settings.tls_certificate is not None)
        note = {"url": url, "token": self._tokens.issue_local(), "pid": os.getpid()}
        if certificate is not None:
            note["certificate"] = str(certificate.resolve())
        await asyncio.to_thread(_leave_note, self._local, json.dumps(note))
        log.info("api_started", url=url)

    def opened(self, capabilities: Mapping[str, Any]) -> None:
        """The models are loaded: these are their voices, and what is makeshift."""
        self._control.fallbacks = Fallbacks(capabilities)
        self._control.voices = {language: tuple(names) for language, names in capabilities["voices"].items()}

    async def stop(self) -> None:
        """Let streams and requests end, carry what webhooks still wait for, and close."""
        self.app.state.streams.closing.set()
        if self._server is not None:
            self._server.should_exit = True
        self._bus.unsubscribe(self._subscription)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._webhooks.close()
        if self._local is not None:
            self._local.unlink(missing_ok=True)

    def statistics(self) -> dict[str, Any]:
        """Journal, webhooks, refused requests, open streams."""
        return {
            "journal": self._journal.statistics(),
            "webhooks": self._webhooks.statistics(),
            "over_rate": self._cap.refused,
            "streams": self.app.state.streams.open,
        }


class _Server(uvicorn.Server):
    """uvicorn's server without its hand on the process's signals: they are the gateway's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(address: str, port: int) -> socket.socket:
    """A listening socket. ApiError when the port is taken or the address is not ours."""
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ApiError(
            f"the API cannot listen on {address}:{port} ({error.strerror}): stop what listens there, set api.port "
            "(0 takes any free one), or set api.enabled to false"
        ) from None
    return listening


def local_url(address: str, port: int, *, encrypted: bool) -> str:
    """How a program on this machine reaches the API that listens on an address."""
    ip = ipaddress.ip_address(address)
    if ip.is_unspecified:
        ip = ipaddress.ip_address("127.0.0.1" if ip.version == 4 else "::1")
    return f"{'https' if encrypted else 'http'}://{f'[{ip}]' if ip.version == 6 else ip}:{port}"


def token_file(loaded: Loaded) -> Path:
    """The file of the tokens."""
    configured = loaded.settings.api.tokens
    return loaded.find(configured) if configured else default_file()


def local_file(tokens: Path, port: int) -> Path:
    """Where a running gateway leaves its address and a token for the user who runs it."""
    return tokens.parent / f"{LOCAL}-{port}.json"


def local_notes(tokens: Path) -> list[dict[str, Any]]:
    """``{"url", "token", "pid"}`` of the gateways of this user that run with these tokens."""
    notes = []
    for path in sorted(tokens.parent.glob(f"{LOCAL}-*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            note = json.loads(path.read_text(encoding="utf-8"))
            if Path(f"/proc/{int(note['pid'])}").exists():
                notes.append(note)
    return notes


def _leave_note(path: Path, text: str) -> None:
    """Write ours, and remove those of gateways that were killed."""
    write_private(path, text)
    for other in path.parent.glob(f"{LOCAL}-*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            if not Path(f"/proc/{int(json.loads(other.read_text(encoding='utf-8'))['pid'])}").exists():
                other.unlink()


def hooks(loaded: Loaded) -> list[Hook]:
    """The webhooks of the settings. ApiError when a secret cannot be read, or nothing is known of an event."""
    found = []
    for webhook in loaded.settings.api.webhooks:
        try:
            if webhook.secret_file is not None:
                secret = loaded.find(webhook.secret_file).read_text(encoding="utf-8").strip()
            else:
                assert webhook.secret is not None
                secret = webhook.secret.get_secret_value()
            key = signing_key(secret)
        except OSError as error:
            raise ApiError(f"api.webhooks: {webhook.secret_file} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ApiError(f"api.webhooks: {error}") from None
        if len(key) < 18:
            raise ApiError("api.webhooks: a secret must have 24 characters or more")
        for kind in webhook.events:
            if kind not in KINDS:
                near = difflib.get_close_matches(kind, KINDS, n=1)
                meant = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(sorted(KINDS))}"
                raise ApiError(f"api.webhooks: there is no event {kind!r}{meant}")
        found.append(Hook(webhook.url, key, frozenset(webhook.events), webhook.allow_private))
    return found


def utc_now() -> str:
    """The time of day in UTC, ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
