# SPDX-License-Identifier: GPL-3.0-or-later
"""Versioned term lists and hotwords, by scope: the whole gateway, a trunk, or one call.

A call works on a snapshot and swaps it between utterances, so a snapshot never changes. The version counts up in
Redis, in the same script that stores the data and announces the change. After a flush the count may start anew:
*different* means changed, not *greater*. Whoever still holds a snapshot of a lost scope puts it back.

Key ``{prefix}:terms:{scope}``: hash of version, JSON data and its digest, with a TTL.
Channel ``{prefix}:terms``: the scope.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

_LARGEST_BYTES = 4 * 1_048_576  # ten thousand terms with their flags are about 2 MiB
_SET = """
local known = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local version = math.max(known, tonumber(ARGV[2])) + 1
redis.call('HSET', KEYS[1], 'version', version, 'data', ARGV[1], 'digest', ARGV[6])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return version
"""
_RESTORE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'data', ARGV[1], 'digest', ARGV[6])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """A snapshot: ``version`` 0 is the empty one that was never set. ``text`` is the JSON of ``data``."""

    version: int = 0
    text: str = "{}"

    @property
    def data(self) -> Any:
        """The content, decoded afresh: changing it changes no snapshot."""
        return json.loads(self.text)

    @property
    def mark(self) -> Mark:
        """What tells this snapshot from another without reading it."""
        return (self.version, _digest(self.text) if self.version else "")


Mark = tuple[int, str]
"""Version and digest: after a flush the same version may come again with other data."""

Listener = Callable[[str, Terms], None]
"""Called with the scope and its new snapshot, on the event loop; must be quick."""


def call_scope(call_id: str) -> str:
    """The scope that belongs to one call and goes with it."""
    return f"call:{call_id}"


def trunk_scope(name: str) -> str:
    """The scope of all calls that come in by a trunk."""
    return f"trunk:{name}"


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(data: Mapping[str, Any]) -> str:
    """JSON text of a term list; TypeError or ValueError when it is not JSON or larger than 4 MiB."""
    text = json.dumps(dict(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if len(text.encode()) > _LARGEST_BYTES:
        raise ValueError(f"a term list must not exceed {_LARGEST_BYTES} bytes")
    return text


class TermBook:
    """The snapshots in use and who wants to hear of new ones. No I/O."""

    def __init__(self) -> None:
        self._held: dict[str, Terms] = {}
        self._unsent: set[str] = set()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of every change of a held scope."""
        self._listeners.append(listener)

    def hold(self, scope: str) -> Terms:
        """The snapshot of a scope, which is kept up to date from now on."""
        return self._held.setdefault(scope, Terms())

    def swap(self, scope: str, terms: Terms, *, unsent: bool = False) -> bool:
        """Replace the snapshot and tell the listeners; False when it is the same as before."""
        (self._unsent.add if unsent else self._unsent.discard)(scope)
        before, self._held[scope] = self._held.get(scope), terms
        if before == terms:
            return False
        if before is None or before.text != terms.text:
            for listener in self._listeners:
                listener(scope, terms)
        return True

    def drop(self, scope: str) -> None:
        """Stop keeping a scope."""
        self._held.pop(scope, None)
        self._unsent.discard(scope)

    def held(self) -> dict[str, Terms]:
        """All snapshots."""
        return dict(self._held)

    def is_unsent(self, scope: str) -> bool:
        """Whether the snapshot was made while Redis was away and has to be written first."""
        return scope in self._unsent

    def statistics(self) -> dict[str, int]:
        """Scopes held, and those Redis has not heard about."""
        return {"held": len(self._held), "unsent": len(self._unsent)}


class TermKeys:
    """The same in Redis."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._client = client
        self._prefix = prefix
        self._ttl_s = ttl_s
        self.channel = f"{prefix}:terms"

    async def write(self, scope: str, text: str, known: int) -> int:
        """Store new data and announce it; returns its version, which is above ``known`` and the stored one."""
        return int(await self._run(_SET, scope, text, known))

    async def restore(self, scope: str, terms: Terms) -> bool:
        """Put a lost snapshot back; False if somebody was faster."""
        return bool(await self._run(_RESTORE, scope, terms.text, terms.version))

    async def read(self, scope: str) -> Terms | None:
        """The stored snapshot, None if there is none or another program wrote something that is none."""
        pipe = self._client.pipeline(transaction=False)
        pipe.hmget(self._key(scope), ["version", "data"])
        ((version, text),) = await pipe.execute()
        try:
            return Terms(int(version), text) if isinstance(json.loads(text), dict) else None
        except (TypeError, ValueError):
            return None

    async def marks(self, scopes: Iterable[str]) -> dict[str, Mark]:
        """Stored version and digest of each scope, version 0 if there is none; renews their TTL."""
        names = list(scopes)
        pipe = self._client.pipeline(transaction=False)
        for scope in names:
            pipe.hmget(self._key(scope), ["version", "digest"])
            pipe.expire(self._key(scope), self._ttl_s)
        answers = await pipe.execute() if names else []
        return {scope: (_number(mark[0]), mark[1] or "") for scope, mark in zip(names, answers[::2], strict=True)}

    async def scopes(self) -> list[str]:
        """All scopes that have a list."""
        start = self._key("")
        return [str(key).removeprefix(start) async for key in self._client.scan_iter(match=f"{start}*", count=500)]

    async def delete(self, scopes: Iterable[str]) -> None:
        """Remove scopes."""
        pipe = self._client.pipeline(transaction=False)
        for scope in scopes:
            pipe.delete(self._key(scope))
        await pipe.execute()

    async def _run(self, script: str, scope: str, text: str, version: int) -> Any:
        pipe = self._client.pipeline(transaction=False)
        pipe.eval(script, 1, self._key(scope), text, str(version), str(self._ttl_s), self.channel, scope, _digest(text))
        (answer,) = await pipe.execute()
        return answer

    def _key(self, scope: str) -> str:
        return f"{self._prefix}:terms:{scope}"
