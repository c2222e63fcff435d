# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place where a Redis client is made: few connections, a timeout on everything, no hidden retries.

A pool that raises when it is empty, a socket without a timeout and a client that retries on its own are how
gateways hang together with their Redis (CASES K02, K10). Retrying is the store's affair: it knows what is
still worth writing.
"""

from __future__ import annotations

import asyncio
import ipaddress
from urllib.parse import parse_qs, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from gateway.state.errors import StateUnavailable

CONNECTIONS = 8
"""Maintenance, writer, listener, and some readers of the API; bursts wait for each other (K10)."""

FAILURES = (RedisError, OSError, TimeoutError)
"""All that an unreachable, stalled or unwilling server makes a call raise."""


def place(url: str) -> str:
    """The server's name for messages: host and port or socket path, never user or password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"


def is_local(url: str) -> bool:
    """Whether the server is on this machine: a socket file or a loopback address."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return True
    host = parts.hostname or "localhost"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_client(url: str, password: str | None, timeout_s: float) -> Redis:
    """A client that has not connected yet. StateUnavailable if the URL or the missing password forbid it."""
    try:
        parts = urlsplit(url)
        has_password = bool(password or parts.password or "password" in parse_qs(parts.query))
        if not has_password and not is_local(url):
            raise StateUnavailable(
                f"Redis at {place(url)} is on another machine and no password is set: calls would lie open to the "
                "network. Set redis.password, best by GATEWAY__REDIS__PASSWORD_FILE"
            )
        pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=timeout_s * 2,  # waiting for a connection, which another call may hold for one timeout
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            protocol=2,  # all that is needed, and every server speaks it
            **({"password": password} if password else {}),
            **({"socket_keepalive": True} if parts.scheme != "unix" else {}),
        )
    except ValueError as fault:
        raise StateUnavailable(f"redis.url cannot be used: {fault}") from None
    return Redis(connection_pool=pool)


async def first_contact(client: Redis, url: str, patience_s: float) -> None:
    """Wait until the server answers; StateUnavailable with the remedy when it does not within ``patience_s``."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    while True:
        try:
            await client.ping()
            return
        except FAILURES as fault:
            if _refused(fault):
                raise StateUnavailable(f"Redis at {place(url)} refuses redis.password: {fault}") from None
            if loop.time() >= deadline_s:
                raise StateUnavailable(
                    f"Redis at {place(url)} does not answer ({type(fault).__name__}): start it, correct redis.url, "
                    "or leave redis.url empty to use the embedded server"
                ) from None
        await asyncio.sleep(0.2)


def _refused(fault: BaseException | None) -> bool:
    """Whether the password is at fault; the client library wraps that in a plain ConnectionError."""
    while fault is not None:
        if isinstance(fault, AuthenticationError | NoPermissionError):
            return True
        fault = fault.__cause__ or fault.__context__
    return False
