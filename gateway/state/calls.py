# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry of calls: our own live calls in memory, and what Redis should say about them.

The memory is the truth for our own calls, Redis is a copy of it for the others. So nothing queues up while
Redis is away: a call that changed a hundred times is one id in a set of changed ids, and the writer writes what
holds at that moment. After a flush or a restart the ids of all live calls are put into that set again.

Keys (all with a TTL, values JSON):
  ``{prefix}:call:{id}``                    {"instance", "boot", "call"}
  ``{prefix}:calls``                        set of the ids, so that nobody has to scan
  ``{prefix}:instance:{instance}:{boot}``   heartbeat; without it the calls of that run are orphans
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from gateway.state.terms import call_scope

HEARTBEAT_TTL_S = 15
"""Three lost beats of a stalled machine are not yet a death."""

_LARGEST_RECORD_BYTES = 65_536
_MOST_CHANGED = 4096  # ids; far above the calls of one gateway


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as the registry knows it. ``orphan``: the gateway that held it no longer lives."""

    call_id: str
    instance: str
    orphan: bool
    data: dict[str, Any]


class CallBook:
    """Our live calls and which of them Redis has yet to hear about. No I/O."""

    def __init__(self, most_changed: int = _MOST_CHANGED) -> None:
        self._live: dict[str, str] = {}
        self._changed: dict[str, None] = {}
        self._most_changed = most_changed
        self._dropped = 0
        self._merged = 0

    def put(self, call_id: str, data: Mapping[str, Any]) -> None:
        """Remember the call's state; TypeError or ValueError when it is not JSON or larger than 64 KiB."""
        text = json.dumps(dict(data), allow_nan=False, separators=(",", ":"))
        if len(text) > _LARGEST_RECORD_BYTES:
            raise ValueError(f"the state of a call must not exceed {_LARGEST_RECORD_BYTES} bytes")
        self._live[call_id] = text
        self.mark([call_id])

    def end(self, call_id: str) -> None:
        """The call is over: its key is to go."""
        self._live.pop(call_id, None)
        self.mark([call_id])

    def live(self) -> dict[str, str]:
        """JSON text of each live call."""
        return dict(self._live)

    def get(self, call_id: str) -> dict[str, Any] | None:
        """A fresh copy of one live call's state."""
        text = self._live.get(call_id)
        return None if text is None else json.loads(text)

    def mark(self, call_ids: Iterable[str]) -> None:
        """These have to be written (again)."""
        for call_id in call_ids:
            if call_id in self._changed:
                self._merged += 1
                continue
            if len(self._changed) >= self._most_changed:
                del self._changed[next(iter(self._changed))]  # reconciliation finds a live one again
                self._dropped += 1
            self._changed[call_id] = None

    def take(self, most: int) -> dict[str, str | None]:
        """Up to ``most`` changed calls with their state of this moment, None for one that ended."""
        ids = list(self._changed)[:most]
        for call_id in ids:
            del self._changed[call_id]
        return {call_id: self._live.get(call_id) for call_id in ids}

    def statistics(self) -> dict[str, int]:
        """Live calls, waiting writes, and changes that were merged into a waiting one or dropped."""
        return {
            "live": len(self._live),
            "waiting": len(self._changed),
            "merged": self._merged,
            "dropped": self._dropped,
        }


class CallKeys:
    """The same in Redis, for one run (``boot``) of one gateway (``instance``)."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int, instance: str, boot: str) -> None:
        self._client = client
        self._prefix = prefix
        self._ttl_s = ttl_s
        self._instance = instance
        self._boot = boot
        self._index = f"{prefix}:calls"

    async def write(self, batch: Mapping[str, str | None]) -> None:
        """Write and delete in one transaction, so that index and records never contradict each other (K04)."""
        pipe = self._client.pipeline(transaction=True)
        for call_id, text in batch.items():
            if text is None:
                pipe.delete(self._key(call_id), f"{self._prefix}:terms:{call_scope(call_id)}")
                pipe.srem(self._index, call_id)
            else:
                who = f'{{"instance":{json.dumps(self._instance)},"boot":"{self._boot}","call":{text}}}'
                pipe.set(self._key(call_id), who, ex=self._ttl_s)
                pipe.sadd(self._index, call_id)
        pipe.expire(self._index, self._ttl_s)
        await pipe.execute()

    async def beat(self, live: Iterable[str]) -> list[str]:
        """Renew the heartbeat and the TTL of the live calls; returns those that Redis no longer has."""
        ids = list(live)
        pipe = self._client.pipeline(transaction=False)
        pipe.set(self._heartbeat(self._instance, self._boot), "{}", ex=HEARTBEAT_TTL_S)
        pipe.expire(self._index, self._ttl_s)
        for call_id in ids:
            pipe.expire(self._key(call_id), self._ttl_s)
        _, index_there, *there = await pipe.execute()
        return [call_id for call_id, found in zip(ids, there, strict=True) if not (found and index_there)]

    async def read(self, call_id: str) -> CallRecord | None:
        """One call of any gateway."""
        found = await self._records([call_id])
        return found[0] if found else None

    async def read_all(self) -> list[CallRecord]:
        """All calls of all gateways."""
        pipe = self._client.pipeline(transaction=False)
        pipe.smembers(self._index)
        (ids,) = await pipe.execute()
        return await self._records(sorted(ids))

    async def sweep_own(self) -> list[str]:
        """Remove what earlier runs of this instance left behind; returns the ids (K04)."""
        pipe = self._client.pipeline(transaction=False)
        pipe.smembers(self._index)
        (ids,) = await pipe.execute()
        stale = []
        for call_id, raw in zip(ids, await self._raw(list(ids)), strict=True):
            record = _parse(raw)
            if record is None or (record["instance"] == self._instance and record["boot"] != self._boot):
                stale.append(call_id)
        await self.remove(stale)
        return stale

    async def remove(self, call_ids: Iterable[str]) -> None:
        """Delete records, whoever's they are."""
        if batch := dict.fromkeys(call_ids):
            await self.write(batch)

    async def farewell(self) -> None:
        """Take the heartbeat away."""
        pipe = self._client.pipeline(transaction=False)
        pipe.delete(self._heartbeat(self._instance, self._boot))
        await pipe.execute()

    async def _records(self, ids: list[str]) -> list[CallRecord]:
        parsed = [(call_id, _parse(raw)) for call_id, raw in zip(ids, await self._raw(ids), strict=True)]
        known = [(call_id, record) for call_id, record in parsed if record is not None]
        beats = await self._exist([self._heartbeat(record["instance"], record["boot"]) for _, record in known])
        return [
            CallRecord(call_id, record["instance"], not alive, record["call"])
            for (call_id, record), alive in zip(known, beats, strict=True)
        ]

    async def _raw(self, ids: list[str]) -> list[str | None]:
        if not ids:
            return []
        pipe = self._client.pipeline(transaction=False)
        pipe.mget([self._key(call_id) for call_id in ids])
        (values,) = await pipe.execute()
        return list(values)

    async def _exist(self, keys: list[str]) -> list[bool]:
        if not keys:
            return []
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.exists(key)
        return [bool(found) for found in await pipe.execute()]

    def _key(self, call_id: str) -> str:
        return f"{self._prefix}:call:{call_id}"

    def _heartbeat(self, instance: str, boot: str) -> str:
        return f"{self._prefix}:instance:{instance}:{boot}"


def _parse(raw: str | None) -> dict[str, Any] | None:
    """A record, or None for nothing and for what another program wrote under our keys."""
    try:
        record = json.loads(raw) if raw else None
    except ValueError:
        return None
    if isinstance(record, dict) and isinstance(record.get("call"), dict) and {"instance", "boot"} <= record.keys():
        return record
    return None
