# SPDX-License-Identifier: GPL-3.0-or-later
"""The state store: what a call says about itself, and the terms it works with, shared through Redis.

The side of the call (``put_call``, ``end_call``, ``terms``) returns at once and never sees Redis. Tasks do
the talking, each of which survives any failure (SPEC C7):

- the *writer* copies changed calls, in transactions, and tries again until it succeeds;
- the *maintainer* renews heartbeat and TTLs every second, and by that notices what a flush, a restart or a missed
  notice has made different, so everything agrees again within 5 s of Redis' return (CASES K01, K02);
- the *listener* hears of changed terms at once;
- the *line* carries questions between gateways, and the *transcripts* move behind ended calls into Redis.

All methods belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from gateway.state.calls import CallBook, CallKeys, CallRecord
from gateway.state.connect import FAILURES, first_contact, make_client, place
from gateway.state.embedded import EmbeddedRedis
from gateway.state.errors import StateUnavailable
from gateway.state.line import Line
from gateway.state.notices import Notices
from gateway.state.terms import Listener, TermBook, TermKeys, Terms, call_scope, encode
from gateway.state.transcripts import Transcripts

log = structlog.get_logger(__name__)

_BATCH = 64
_MAINTAIN_S = 1.0  # with two timeouts on top still well below the 5 s of C7
_RETRY_S = (0.1, 1.0)
_SWEEP_S = 15.0
_ORPHAN_GRACE_S = 60.0  # a gateway that was only cut off comes back and writes its calls again


async def open_store(
    *,
    url: str | None,
    instance: str,
    password: str | None = None,
    prefix: str = "gw",
    ttl_s: int = 86_400,
    timeout_s: float = 0.5,
    transcript_ttl_s: int = 0,
    patience_s: float = 3.0,
) -> StateStore:
    """Connect to Redis, or start a private server when ``url`` is None, and begin to maintain the state.

    ``instance`` is this gateway's name among others, the same after a restart. StateUnavailable, with the remedy,
    if there is no server within ``patience_s`` or it may not be used as configured.
    """
    embedded = None
    if url is None:
        embedded = EmbeddedRedis()
        url = await embedded.start()
        password = None
    try:
        store = StateStore(
            url,
            password,
            prefix=prefix,
            ttl_s=ttl_s,
            timeout_s=timeout_s,
            transcript_ttl_s=transcript_ttl_s,
            instance=instance,
        )
        await store.open(patience_s)
    except BaseException:
        if embedded is not None:
            await embedded.stop()
        raise
    store.embedded = embedded
    return store


class StateStore:
    """Registry of calls and versioned terms. Made by ``open_store``."""

    def __init__(
        self,
        url: str,
        password: str | None,
        *,
        prefix: str,
        ttl_s: int,
        timeout_s: float,
        instance: str,
        transcript_ttl_s: int = 0,
    ) -> None:
        self.embedded: EmbeddedRedis | None = None
        self.instance = instance
        self._url = url
        self._timeout_s = timeout_s
        self._client = make_client(url, password, timeout_s)
        self.line = Line(self._client, prefix, instance, timeout_s)
        self.transcripts = Transcripts(self._client, prefix, transcript_ttl_s)
        self._calls = CallKeys(self._client, prefix, ttl_s, instance, secrets.token_hex(4))
        self._terms = TermKeys(self._client, prefix, ttl_s)
        self._call_book = CallBook()
        self._term_book = TermBook()
        self._terms_lock = asyncio.Lock()  # an old answer must not overtake a new one
        self._seen: dict[str, CallRecord] = {}
        self._orphans_since_s: dict[str, float] = {}
        self._swept_at_s = float("-inf")
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._connected = False
        self._counts = dict.fromkeys(("written", "failed", "losses", "notices", "listens", "restored", "swept"), 0)

    # --- the side of the call: nothing here waits

    @property
    def connected(self) -> bool:
        """Whether Redis answered when it was last asked."""
        return self._connected

    def put_call(self, call_id: str, data: Mapping[str, Any]) -> None:
        """Publish a live call's state; written soon, and again whenever Redis has lost it.

        TypeError or ValueError when ``data`` is not JSON or larger than 64 KiB.
        """
        self._call_book.put(call_id, data)
        self._wake.set()

    def end_call(self, call_id: str) -> None:
        """Remove a call and the terms of its own."""
        self._call_book.end(call_id)
        self._term_book.drop(call_scope(call_id))
        self._wake.set()

    def terms(self, scope: str) -> Terms:
        """The present snapshot of a scope, kept up to date from now on; version 0 until the first is fetched."""
        return self._term_book.hold(scope)

    def forget_terms(self, scope: str) -> None:
        """No longer keep a scope up to date; what is stored stays until its TTL."""
        self._term_book.drop(scope)

    def on_terms_changed(self, listener: Listener) -> None:
        """Have ``listener(scope, terms)`` called for every new content of a held scope, whoever changed it."""

        def guarded(scope: str, terms: Terms) -> None:
            try:
                listener(scope, terms)
            except Exception:
                log.exception("terms_listener_failed", version=terms.version)

        self._term_book.listen(guarded)

    def statistics(self) -> dict[str, Any]:
        """Connection, writes, waiting and dropped changes, notices, sweeps."""
        return {
            "connected": self._connected,
            **self._counts,
            "calls": self._call_book.statistics(),
            "terms": self._term_book.statistics(),
            "line": self.line.statistics(),
            "transcripts": self.transcripts.statistics(),
            "embedded": self.embedded.statistics() if self.embedded else None,
        }

    # --- the side of the API: waits for Redis, though never longer than the timeouts

    async def get_call(self, call_id: str) -> CallRecord | None:
        """One call of any gateway; the last known state when Redis is away."""
        if (own := self._own(call_id)) is not None:
            return own
        try:
            return await self._calls.read(call_id)
        except FAILURES as fault:
            self._lost(fault)
            seen = self._seen.get(call_id)
            return None if seen is None or self._ended_here(seen) else seen

    async def list_calls(self) -> list[CallRecord]:
        """All calls of all gateways, orphans marked, sorted by id; our own and the last known when Redis is away."""
        try:
            self._seen = {record.call_id: record for record in await self._calls.read_all()}
        except FAILURES as fault:
            self._lost(fault)
        calls = {call_id: record for call_id, record in self._seen.items() if not self._ended_here(record)}
        for call_id in self._call_book.live():
            if (own := self._own(call_id)) is not None:
                calls[call_id] = own
        return [calls[call_id] for call_id in sorted(calls)]

    async def get_terms(self, scope: str) -> Terms:
        """Fetch a scope and keep it up to date from now on; the present snapshot when Redis is away."""
        self._term_book.hold(scope)
        async with self._terms_lock:
            await self._fetch(scope)
        return self._term_book.hold(scope)

    async def set_terms(self, scope: str, data: Mapping[str, Any]) -> Terms:
        """Replace a scope's terms for everybody; returns the new snapshot.

        When Redis is away the snapshot holds here at once and is written on its return; if several gateways did
        so, the last to return wins. TypeError or ValueError when ``data`` is not JSON or larger than 4 MiB.
        """
        text = encode(data)
        async with self._terms_lock:
            known = self._term_book.hold(scope).version
            try:
                new, unsent = Terms(await self._terms.write(scope, text, known), text), False
            except FAILURES as fault:
                self._lost(fault)
                self._counts["failed"] += 1
                new, unsent = Terms(known + 1, text), True
            self._term_book.swap(scope, new, unsent=unsent)
        return new

    # --- life

    async def open(self, patience_s: float) -> None:
        """First contact, removal of what an earlier run left, start of the tasks."""
        try:
            await first_contact(self._client, self._url, patience_s)
            if stale := await self._calls.sweep_own():
                log.info("stale_calls_removed", count=len(stale))
                self._counts["swept"] += len(stale)
            await self._calls.beat(())
        except FAILURES as fault:
            await self._client.aclose()
            raise StateUnavailable(f"Redis at {place(self._url)} cannot be used: {fault}") from None
        except StateUnavailable:
            await self._client.aclose()
            raise
        self._connected = True
        for work in (self._write, self._maintain, self._listen, self._answer, self.transcripts.run):
            self._tasks.append(asyncio.create_task(_for_ever(work), name=f"state-{work.__name__.strip('_')}"))

    async def close(self) -> None:
        """Write what still waits, if Redis answers, say farewell, and end the embedded server."""
        await _cancel(self._tasks)
        with contextlib.suppress(*FAILURES):
            async with asyncio.timeout(self._timeout_s * 4):
                while batch := self._call_book.take(_BATCH):
                    await self._calls.write(batch)
                await self.transcripts.write()
                await self._calls.farewell()
        with contextlib.suppress(*FAILURES):
            await self._client.aclose()
        if self.embedded is not None:
            await self.embedded.stop()

    # --- the tasks

    async def _write(self) -> None:
        pause_s = _RETRY_S[0]
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._call_book.take(_BATCH):
                try:
                    await self._calls.write(batch)
                    self._counts["written"] += len(batch)
                    pause_s = _RETRY_S[0]
                except asyncio.CancelledError:
                    self._call_book.mark(batch)  # close() writes it
                    raise
                except FAILURES as fault:
                    self._counts["failed"] += len(batch)
                    self._call_book.mark(batch)
                    self._lost(fault)
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _RETRY_S[1])

    async def _maintain(self) -> None:
        while True:
            try:
                missing = await self._calls.beat(self._call_book.live())
                self._back()
                live = self._call_book.live()
                if gone := [call_id for call_id in missing if call_id in live]:
                    self._counts["restored"] += len(gone)
                    self._call_book.mark(gone)
                    self._wake.set()
                await self._reconcile_terms()
                await self._sweep()
            except FAILURES as fault:
                self._lost(fault)
            await asyncio.sleep(_MAINTAIN_S)

    async def _listen(self) -> None:
        while True:
            try:
                async with Notices(self._client, self._terms.channel, self._timeout_s) as notices:
                    self._counts["listens"] += 1
                    await self._reconcile_terms()  # what changed while nobody listened
                    while True:
                        scope = await notices.next()
                        if scope in self._term_book.held():
                            self._counts["notices"] += 1
                            async with self._terms_lock:
                                await self._fetch(scope)
            except FAILURES as fault:
                self._lost(fault)
            await asyncio.sleep(_RETRY_S[1])

    async def _answer(self) -> None:
        try:
            await self.line.listen()
        except FAILURES as fault:
            self._lost(fault)

    async def _reconcile_terms(self) -> None:
        async with self._terms_lock:
            for scope, terms in self._term_book.held().items():
                if self._term_book.is_unsent(scope):
                    version = await self._terms.write(scope, terms.text, terms.version - 1)
                    self._term_book.swap(scope, Terms(version, terms.text))
            marks = await self._terms.marks(self._term_book.held())
            for scope, terms in self._term_book.held().items():
                mark = marks.get(scope, terms.mark)
                if mark == terms.mark:
                    continue
                if mark[0] == 0 and await self._terms.restore(scope, terms):
                    self._counts["restored"] += 1
                else:
                    await self._fetch(scope)

    async def _fetch(self, scope: str) -> None:
        """Take over what is stored; keeps the present snapshot if there is nothing, or nothing can be read."""
        if self._term_book.is_unsent(scope):
            return
        try:
            stored = await self._terms.read(scope)
        except FAILURES as fault:
            self._lost(fault)
            return
        if stored is not None and scope in self._term_book.held():
            self._term_book.swap(scope, stored)

    async def _sweep(self) -> None:
        """Remove the calls of gateways that have been dead for a while (K04)."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._swept_at_s < _SWEEP_S:
            return
        self._swept_at_s = now_s
        orphans = [record.call_id for record in await self._calls.read_all() if record.orphan]
        self._orphans_since_s = {call_id: self._orphans_since_s.get(call_id, now_s) for call_id in orphans}
        dead = [call_id for call_id, since_s in self._orphans_since_s.items() if now_s - since_s >= _ORPHAN_GRACE_S]
        if dead:
            await self._calls.remove(dead)
            self._counts["swept"] += len(dead)
            log.info("orphaned_calls_removed", count=len(dead))

    def _own(self, call_id: str) -> CallRecord | None:
        data = self._call_book.get(call_id)
        return None if data is None else CallRecord(call_id, self.instance, False, data)

    def _ended_here(self, seen: CallRecord) -> bool:
        """Whether a record is of a call of ours that is over, though Redis has not heard of it yet."""
        return seen.instance == self.instance and not seen.orphan and self._call_book.get(seen.call_id) is None

    def _lost(self, fault: BaseException) -> None:
        if self._connected:
            self._connected = False
            self._counts["losses"] += 1
            log.warning("state_store_lost", redis=place(self._url), reason=type(fault).__name__)

    def _back(self) -> None:
        if not self._connected:
            self._connected = True
            log.info("state_store_back", redis=place(self._url))


async def _for_ever(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Begin the work again after a fault nobody foresaw, such as foreign data under our keys."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("state_task_failed", task=work.__name__)
        await asyncio.sleep(_RETRY_S[1])


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    """End the tasks. Asked again until they do: ``asyncio.wait_for`` of Python 3.11, which the client library uses,
    loses a cancellation that comes in the moment of its result (CPython gh-86296)."""
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.05)
    tasks.clear()
