# SPDX-License-Identifier: GPL-3.0-or-later
"""What was said in calls, for as long as the settings allow: in memory while a call lives, in Redis also behind it.

As with the registry, the memory is the truth and Redis a copy: lines are appended in the background, and a list that
is shorter than it should be (a flush, a restart) is written anew. Nothing of a call waits for that.

Keys, all with the TTL of transcripts, which is their owner's choice because they hold what people said:
  ``{prefix}:said:{id}``    list, one JSON line per utterance
  ``{prefix}:ended:{id}``   JSON record of a call that is over
  ``{prefix}:ended``        sorted set of their ids by the time of their end
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from gateway.state.connect import FAILURES
from gateway.state.errors import StateUnavailable

MOST_LINES = 10_000  # of one call; a talk of four hours has about 4,000 utterances
LATEST_LINES = 50  # an utterance is amended while it is heard
MOST_UNWRITTEN = 64  # ended calls kept for Redis' return
MOST_LISTED = 200
_APPEND = """
if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
for i = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
_BATCH_LINES = 200
_RETRY_S = 1.0


@dataclass(slots=True)
class _Talk:
    """One call's lines, and how many of them Redis has."""

    lines: list[str] = field(default_factory=list)
    written: int = 0
    stale_from: int = MOST_LINES
    """The first line that was amended since it was taken to be written."""
    ended: str | None = None
    ended_at_s: float = 0.0

    @property
    def is_behind(self) -> bool:
        return min(self.written, self.stale_from) < len(self.lines) or self.ended is not None


class Transcripts:
    """Add lines, end calls, read both; ``run`` does the writing. ``ttl_s`` 0: nothing is kept behind a call."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self._client = client
        self._prefix = prefix
        self._ttl_s = ttl_s
        self._talks: dict[str, _Talk] = {}
        self._wake = asyncio.Event()
        self._counts = dict.fromkeys(("written", "rewritten", "failed", "dropped"), 0)

    # --- the side of the call: nothing here waits

    def add(self, call_id: str, line: Mapping[str, Any]) -> None:
        """One utterance of a live call."""
        talk = self._talks.setdefault(call_id, _Talk())
        if len(talk.lines) >= MOST_LINES:
            self._counts["dropped"] += 1
            return
        talk.lines.append(json.dumps(dict(line), ensure_ascii=False, separators=(",", ":")))
        self._wake.set()

    def amend(self, call_id: str, segment_id: str, news: Mapping[str, Any]) -> None:
        """Change what is known of one of the last utterances of a live call; Redis' copy is then written anew."""
        talk = self._talks.get(call_id)
        if talk is None:
            return
        for at in range(len(talk.lines) - 1, max(-1, len(talk.lines) - 1 - LATEST_LINES), -1):
            line = json.loads(talk.lines[at])
            if line.get("segment_id") == segment_id:
                talk.lines[at] = json.dumps({**line, **news}, ensure_ascii=False, separators=(",", ":"))
                talk.stale_from = min(talk.stale_from, at)  # shorter than Redis' list, which is therefore written anew
                self._wake.set()
                return

    def end(self, call_id: str, record: Mapping[str, Any]) -> None:
        """The call is over: its record and lines move to Redis, or are forgotten where nothing is to be kept."""
        if not self._ttl_s:
            self._talks.pop(call_id, None)
            return
        talk = self._talks.setdefault(call_id, _Talk())
        talk.ended = json.dumps(dict(record), ensure_ascii=False, separators=(",", ":"))
        talk.ended_at_s = time.time()
        unwritten = [other for other, known in self._talks.items() if known.ended is not None]
        for old in unwritten[:-MOST_UNWRITTEN]:
            del self._talks[old]
            self._counts["dropped"] += 1
        self._wake.set()

    def statistics(self) -> dict[str, int]:
        """Calls in memory, those of them that are over and not yet written, and what became of their lines."""
        ended = sum(talk.ended is not None for talk in self._talks.values())
        return {"calls": len(self._talks), "ended": ended, **self._counts}

    # --- the side of the API

    async def lines(self, call_id: str) -> list[dict[str, Any]]:
        """What was said in a call, in order; empty when nothing is known of it. StateUnavailable without Redis."""
        talk = self._talks.get(call_id)
        if talk is not None:
            texts = list(talk.lines)
        else:
            with _asking():
                pipe = self._client.pipeline(transaction=False)
                pipe.lrange(self._said(call_id), 0, MOST_LINES)
                (texts,) = await pipe.execute()
        return [json.loads(text) for text in texts]

    async def ended(self, call_id: str) -> dict[str, Any] | None:
        """The record of a call that is over; None when nothing is known. StateUnavailable without Redis."""
        talk = self._talks.get(call_id)
        text = talk.ended if talk is not None else None
        if text is None:
            with _asking():
                pipe = self._client.pipeline(transaction=False)
                pipe.get(self._ended(call_id))
                (text,) = await pipe.execute()
        return None if text is None else json.loads(text)

    async def recent(self, most: int = MOST_LISTED) -> dict[str, dict[str, Any]]:
        """Records of the last calls that are over, the latest first. StateUnavailable without Redis."""
        texts: list[str | None] = []
        with _asking():
            pipe = self._client.pipeline(transaction=False)
            pipe.zremrangebyscore(f"{self._prefix}:ended", "-inf", time.time() - self._ttl_s)
            pipe.zrevrange(f"{self._prefix}:ended", 0, most - 1)
            _, ids = await pipe.execute()
            if ids:
                pipe.mget([self._ended(call_id) for call_id in ids])
                (texts,) = await pipe.execute()
        stored = {call_id: json.loads(text) for call_id, text in zip(ids, texts, strict=True) if text is not None}
        waiting = [(talk.ended_at_s, call_id, talk.ended) for call_id, talk in self._talks.items() if talk.ended]
        mine = {call_id: json.loads(text) for _, call_id, text in sorted(waiting, reverse=True)}
        return dict(list((mine | stored).items())[:most])

    # --- the writer

    async def run(self) -> None:
        """Write for ever; raises as any Redis call does, and is then run again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.write()
            except FAILURES:
                self._counts["failed"] += 1
                self._wake.set()
                await asyncio.sleep(_RETRY_S)

    async def write(self) -> None:
        """Bring Redis up to what is known here."""
        if not self._ttl_s:
            return
        for call_id in [call_id for call_id, talk in self._talks.items() if talk.is_behind]:
            with contextlib.suppress(KeyError):  # ended and dropped meanwhile
                await self._write_one(call_id, self._talks[call_id])

    async def _write_one(self, call_id: str, talk: _Talk) -> None:
        ended = talk.ended
        while min(talk.written, talk.stale_from) < len(talk.lines):
            talk.written, talk.stale_from = min(talk.written, talk.stale_from), MOST_LINES
            batch = talk.lines[talk.written : talk.written + _BATCH_LINES]
            pipe = self._client.pipeline(transaction=False)
            pipe.eval(_APPEND, 1, self._said(call_id), str(talk.written), str(self._ttl_s), *batch)
            (appended,) = await pipe.execute()
            if not appended:
                pipe.delete(self._said(call_id))
                await pipe.execute()
                self._counts["rewritten"] += 1
                talk.written = 0
                continue
            talk.written += len(batch)
            self._counts["written"] += len(batch)
        if ended is None:
            return
        pipe = self._client.pipeline(transaction=True)
        pipe.set(self._ended(call_id), ended, ex=self._ttl_s)
        pipe.zadd(f"{self._prefix}:ended", {call_id: talk.ended_at_s})
        pipe.expire(f"{self._prefix}:ended", self._ttl_s)
        pipe.expire(self._said(call_id), self._ttl_s)
        await pipe.execute()
        self._talks.pop(call_id, None)

    def _said(self, call_id: str) -> str:
        return f"{self._prefix}:said:{call_id}"

    def _ended(self, call_id: str) -> str:
        return f"{self._prefix}:ended:{call_id}"


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except FAILURES as fault:
        raise StateUnavailable(f"Redis does not answer ({type(fault).__name__}): try again") from None
