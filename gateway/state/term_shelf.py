# SPDX-License-Identifier: GPL-3.0-or-later
"""Term lists from outside of a gateway: what a command reads and changes while gateways run.

It is no gateway: it holds no scope, keeps nothing alive and hears no notices. Gateways hear of its changes as of each
other's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from gateway.state.connect import FAILURES, first_contact, make_client, place
from gateway.state.embedded import running_urls
from gateway.state.errors import StateUnavailable
from gateway.state.terms import TermKeys, Terms, encode

PATIENCE_S = 2.0


class TermShelf:
    """Reads and replaces the lists of scopes. Made by `open_shelf`; StateUnavailable when Redis fails."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._keys = TermKeys(client, prefix, ttl_s)

    async def scopes(self) -> dict[str, Terms]:
        """All scopes that have a list, by name."""
        found = {scope: await self._keys.read(scope) for scope in sorted(await self._keys.scopes())}
        return {scope: terms for scope, terms in found.items() if terms is not None}

    async def read(self, scope: str) -> Terms:
        """A scope's list; version 0 when it has none."""
        return await self._keys.read(scope) or Terms()

    async def write(self, scope: str, data: Mapping[str, Any]) -> Terms:
        """Replace a scope's list for everybody; ValueError when it is too large.

        A list is emptied rather than removed: gateways that use it put back what Redis has lost.
        """
        text = encode(data)
        known = await self.read(scope)
        return Terms(await self._keys.write(scope, text, known.version), text)


@asynccontextmanager
async def open_shelf(
    *, url: str | None, password: str | None, prefix: str, ttl_s: int, timeout_s: float
) -> AsyncIterator[TermShelf]:
    """The lists in a Redis; without a URL, in that of the one gateway that runs here with its own."""
    if url is None:
        url, password = _only(running_urls()), None
    client = make_client(url, password, timeout_s)
    try:
        await first_contact(client, url, PATIENCE_S)
        yield TermShelf(client, prefix, ttl_s)
    except FAILURES as fault:
        raise StateUnavailable(f"Redis at {place(url)} failed: {fault}") from None
    finally:
        await client.aclose()


def _only(urls: list[str]) -> str:
    if len(urls) == 1:
        return urls[0]
    if not urls:
        raise StateUnavailable("no gateway runs here with a Redis of its own: start `gateway serve`, or set redis.url")
    listed = ", ".join(urls)
    raise StateUnavailable(f"several gateways run here; choose one with GATEWAY__REDIS__URL: {listed}")
