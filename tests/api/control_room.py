# SPDX-License-Identifier: GPL-3.0-or-later
"""The API on a real socket, with a real Redis, over a switchboard whose telephones do what a test says."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml

from gateway.api.server import ControlApi
from gateway.api.tokens import TokenFile
from gateway.call.dialplan import load_dialplan
from gateway.call.events import CallEvent
from gateway.settings import load_settings
from gateway.sip.events import Answered, Ended
from gateway.state import NobodyAnswers, StateStore, open_store
from tests.call.scripted_exchange import Exchange

ROUTES = [
    {"number": "7001", "from": "xx", "to": "yy", "destination": "sip:seven@host"},
    {"prefix": "8", "from": "yy", "to": "xx", "destination": "sip:{rest}@trunk"},
]
REDIS = "TEST_API_REDIS"
CREATED = "2026-01-01T00:00:00+00:00"


class Room:
    """One gateway as far as the API sees it."""

    def __init__(
        self, work: Path, api: ControlApi, exchange: Exchange, state: StateStore, tokens: dict[str, str]
    ) -> None:
        self.work = work
        self.api = api
        self.exchange = exchange
        self.state = state
        self.tokens = tokens
        self.url = f"http://127.0.0.1:{api.port}"

    def client(self, role: str | None = "admin", **more: Any) -> httpx2.AsyncClient:
        """A client with a token of a role, or without one."""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, trust_env=False, verify=False, **more)

    def publish(self, call: str, kind: str, **data: Any) -> None:
        """An event, as the call room tells it."""
        self.exchange.bus.publish(CallEvent(kind, call, 1_000_000_000, data))

    async def written(self) -> None:
        """Redis knows all live calls, and the records of those that are over."""
        async with asyncio.timeout(20):
            while True:
                known = self.state.statistics()
                if not known["calls"]["waiting"] and known["transcripts"]["ended"] == 0:
                    await asyncio.sleep(0.1)  # a write that is under way
                    return
                await asyncio.sleep(0.01)

    async def reaches(self, other: str) -> None:
        """The line to another gateway carries."""
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(NobodyAnswers):
                    await self.state.line.ask(other, {"command": "show", "call": "0" * 12, "arguments": {}})
                    return
                await asyncio.sleep(0.02)

    async def bridge(self) -> str:
        """A live call, both parties up."""
        call_id, call = self.exchange.place()
        a, b = call.legs()
        await asyncio.sleep(0)
        await self.exchange.hear(Answered(a))
        await self.exchange.hear(Answered(b))
        return call_id

    async def end(self, call_id: str) -> None:
        """Both telephones hang up."""
        call = self.exchange.board.live(call_id)
        if call is not None:
            for leg in call.legs():
                await self.exchange.hear(Ended(leg, 200, "OK", by_remote=True))
            while self.exchange.board.live(call_id) is not None:  # noqa: ASYNC110 - the state under test
                await asyncio.sleep(0.01)


def utterance(number: int, said: str, spoken: str, party: str = "a") -> dict[str, Any]:
    """The record of a segment, as a direction publishes it."""
    at_ns = (number + 1) * 2_000_000_000
    return {
        "segment_id": f"s{number}",
        "leg": party,
        "source_lang": "xx" if party == "a" else "yy",
        "target_lang": "yy" if party == "a" else "xx",
        "source_text": said,
        "target_text": spoken,
        "audio_first_ns": at_ns,
        "audio_end_ns": at_ns + 1_000_000_000,
        "played_ns": at_ns + 1_700_000_000,
        "confidence": 0.9,
        "lost": None,
        "outcome": "spoken",
        "stages": {"vad": 0.4, "asr": 0.2},
    }


async def store(work: Path, name: str, **more: Any) -> StateStore:
    """A gateway's state in the tests' Redis, apart from that of other tests."""
    return await open_store(url=os.environ[REDIS], prefix=work.name.replace("[", ".").strip("]"), instance=name, **more)


@asynccontextmanager
async def room(
    work: Path,
    *,
    name: str = "one",
    settings: Mapping[str, Any] | None = None,
    free: int = 4,
    sip: Mapping[str, Any] | None = None,
) -> AsyncIterator[Room]:
    """A gateway's API. Those of one test (``work``) share what they keep in Redis."""
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.yaml"
    plan.write_text(yaml.safe_dump({"routes": ROUTES}))
    api_settings = {"port": 0, "tokens": str(folder / "tokens.json"), "requests_per_s": 10_000, **(settings or {})}
    config = folder / "gateway.yaml"
    config.write_text(yaml.safe_dump({"api": api_settings, "dialplan": {"file": str(plan)}}))
    loaded = load_settings(config, {})
    files = TokenFile(folder / "tokens.json")
    roles = ("monitor", "viewer", "auditor", "operator", "admin")
    tokens = {role: files.create(role, role, created=CREATED)[1] for role in roles}
    async with AsyncExitStack() as stack:
        state = await store(work, name, transcript_ttl_s=loaded.settings.api.transcript_ttl_s)
        stack.push_async_callback(state.close)
        dialplan = load_dialplan(plan)
        exchange = Exchange(free, dialplan=dialplan, register=state, terms=state)
        stack.push_async_callback(exchange.board.stop)
        api = ControlApi(
            loaded,
            switchboard=exchange.board,
            state=state,
            bus=exchange.bus,
            dialplan=dialplan,
            statistics=lambda: {
                "switchboard": exchange.board.statistics(),
                "state": state.statistics(),
                "sip": sip,
            },
            models=lambda: [],
        )
        await api.start()
        stack.push_async_callback(api.stop)
        api.opened({"voices": {"xx": ["max", "mia"], "yy": ["yan"]}})
        yield Room(folder, api, exchange, state, tokens)


def run(work: Coroutine[Any, Any, None]) -> None:
    """One test, bounded."""
    asyncio.run(asyncio.wait_for(work, 60))
