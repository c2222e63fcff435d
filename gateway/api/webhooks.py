# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells other servers of events: signed, in order, tried again, and never at a call's expense.

Each hook has a bounded queue and a task of its own, so a server that is down delays nobody else. When its queue is
full the oldest event gives way. An event is tried `ATTEMPTS` times, with waits that double and are drawn by chance,
so that servers which come back are not overrun.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import structlog

from gateway.api.outbound import AddressRefused, Outbound
from gateway.api.signing import signed_headers

log = structlog.get_logger(__name__)

MOST_WAITING = 256
ATTEMPTS = 8
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
TIMEOUT_S = 10.0
_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Hook:
    """One server: what it is told, and the key that signs it."""

    url: str
    key: bytes
    events: frozenset[str]
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class _Message:
    id: str
    body: bytes


class _Line:
    """One hook's queue and its carrier."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.waiting: deque[_Message] = deque()
        self.wake = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()


class Webhooks:
    """All hooks. ``offer`` returns at once. ``wall`` gives seconds since 1970, ``chance`` a number in [0, 1).

    ``outbound`` may be None where there are no hooks: it costs 100 ms of certificates.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        outbound: Outbound | None,
        *,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._lines = [_Line(hook) for hook in hooks]
        self._outbound = outbound
        self._wall = wall
        self._chance = chance
        self._first_wait_s = first_wait_s
        self._tasks: list[asyncio.Task[None]] = []
        self._counts: Counter[str] = Counter()

    def start(self) -> None:
        """Begin to carry."""
        self._tasks = [asyncio.create_task(self._carry(line), name="webhook") for line in self._lines]

    def offer(self, told: Mapping[str, Any]) -> None:
        """An event as the journal tells it: it waits for every hook that wants its kind."""
        wanted = [line for line in self._lines if told["kind"] in line.hook.events]
        if not wanted:
            return
        # the same id at every attempt: a receiver takes it once
        message = _Message(f"{told['call']}-{told['id']}", json.dumps(told, ensure_ascii=False).encode())
        for line in wanted:
            if len(line.waiting) >= MOST_WAITING:
                line.waiting.popleft()
                self._counts["dropped"] += 1
            line.waiting.append(message)
            line.idle.clear()
            line.wake.set()

    async def close(self, grace_s: float = 2.0) -> None:
        """Carry what waits for at most ``grace_s``, then give up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*(line.idle.wait() for line in self._lines))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._counts["given_up"] += sum(len(line.waiting) for line in self._lines)
        if self._outbound is not None:
            await self._outbound.close()

    def statistics(self) -> dict[str, int]:
        """Events delivered, tried again, rejected by their server, refused by us, given up, dropped; and waiting."""
        outcomes = ("delivered", "retried", "rejected", "refused", "given_up", "dropped")
        return {
            **{outcome: self._counts[outcome] for outcome in outcomes},
            "waiting": sum(len(line.waiting) for line in self._lines),
        }

    async def _carry(self, line: _Line) -> None:
        while True:
            while line.waiting:
                message = line.waiting[0]
                outcome = await self._deliver(line.hook, message)
                self._counts[outcome] += 1
                if outcome != "delivered":
                    log.warning("webhook_not_delivered", host=urlsplit(line.hook.url).hostname, outcome=outcome)
                if line.waiting and line.waiting[0] is message:
                    line.waiting.popleft()
            line.idle.set()
            line.wake.clear()
            await line.wake.wait()

    async def _deliver(self, hook: Hook, message: _Message) -> str:
        assert self._outbound is not None
        for attempt in range(ATTEMPTS):
            if attempt:
                self._counts["retried"] += 1
                wait_s = min(self._first_wait_s * 2 ** (attempt - 1), LONGEST_WAIT_S)
                await asyncio.sleep(wait_s * (0.5 + self._chance() / 2))
            headers = signed_headers(hook.key, message.id, int(self._wall()), message.body)
            try:
                status = await self._outbound.post(hook.url, message.body, headers, allow_private=hook.allow_private)
            except AddressRefused:
                return "refused"
            except (OSError, httpx2.HTTPError):
                continue
            if 200 <= status < 300:
                return "delivered"
            if status < 500 and status not in _AGAIN:
                return "rejected"
        return "given_up"
