# SPDX-License-Identifier: GPL-3.0-or-later
"""Two gateways for all end-to-end tests: the real `gateway serve` with real models, on loopback.

`site` is as it is shipped. `plain` tells no party that a machine interprets, which takes seconds of each call; it may
be killed, and stands again for the next test. A test that asks for neither may still begin one of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.bench.gateway_process import GatewayProcess, free_port
from gateway.bench.phone_process import PhoneProcess
from gateway.bench.processes import alive
from gateway.runtime import engine_spec, make_engines, model_store, prompt_book
from gateway.settings import load_settings
from gateway.speech.errors import SpeechError
from gateway.speech.jobs import Recognition, RecognizeTask
from gateway.speech.local import Engines

TRUSTED = '[{name: here, networks: ["127.0.0.0/8"], trusted: true}]'
REDIS_TIMEOUT_S = 3.0
"""Of the plain gateway: no machine is so busy that a wait for Redis could be taken for its business."""


FIFTY_PPS = pytest.approx(50.0, abs=0.5)
"""A8 over a whole call. Where two gateways load models, the kernel may keep a clock thread waiting for a few ticks."""


def require_models() -> None:
    """Skip, naming the command, where the bundle is not there."""
    loaded = load_settings(None, os.environ)
    store = model_store(loaded)
    for model in engine_spec(loaded.settings).models():
        try:
            store.path(model)
        except SpeechError as error:
            pytest.skip(f"needs the model bundle: {error}")


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway that runs, and the ports at which it looks for the called telephones."""

    gateway: GatewayProcess
    b_port: int
    run: Callable[[Awaitable[Any]], Any]
    c_port: int = 0

    def position(self) -> int:
        """The number of events so far."""
        self.gateway.read_events()
        return len(self.gateway.events)

    @asynccontextmanager
    async def two_phones(self, **b_options: Any) -> AsyncIterator[tuple[PhoneProcess, PhoneProcess]]:
        """Telephone A, and telephone B where the dial plan leads to."""
        options = {"answer_after_ms": 100, **b_options}
        async with PhoneProcess(user="b", sip_port=self.b_port, **options) as b, PhoneProcess(user="a") as a:
            yield a, b

    async def ended(self, since: int) -> dict[str, Any]:
        """The next call-ended event behind position ``since`` of the event list."""
        async with asyncio.timeout(60):
            while True:
                self.gateway.read_events()
                for event in self.gateway.events[since:]:
                    if event["kind"] == "call-ended":
                        return event
                await asyncio.sleep(0.05)

    async def phase(self, since: int, phase: str) -> dict[str, Any]:
        """The next change of a call's phase to ``phase`` behind a position."""
        async with asyncio.timeout(60):
            while True:
                self.gateway.read_events()
                for event in self.gateway.events[since:]:
                    if event["kind"] == "call-phase" and event["phase"] == phase:
                        return event
                await asyncio.sleep(0.05)

    async def spoken(self, since: int, count: int) -> list[dict[str, Any]]:
        """The utterance records behind a position, as soon as there are ``count`` of them."""
        async with asyncio.timeout(60):
            while True:
                found = self.utterances(since)
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.05)

    def ends(self, since: int) -> list[dict[str, Any]]:
        """The ends of segments behind a position: utterance records, and segments lost without a record."""
        self.gateway.read_events()
        return [event for event in self.gateway.events[since:] if event["kind"] in ("utterance", "lost")]

    async def done(self, since: int, count: int, limit_s: float) -> None:
        """Wait until ``count`` segments have ended, spoken or lost."""
        async with asyncio.timeout(limit_s):
            while True:
                if len(self.ends(since)) >= count:
                    return
                await asyncio.sleep(0.05)

    def utterances(self, since: int) -> list[dict[str, Any]]:
        """The utterance records behind a position."""
        self.gateway.read_events()
        return [event for event in self.gateway.events[since:] if event["kind"] == "utterance"]


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all end-to-end tests, because the gateway's pipes belong to it."""
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="session")
def site(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shared gateway: 7000 asks and calls 48…, 7001 en→pt, 7002 pt→en, 7003 leads nowhere, 7005 is not served,
    7006 finds out what the caller speaks, to en."""
    require_models()
    b_port = free_port()
    there = f"sip:b@127.0.0.1:{b_port}"
    menu = {"languages": ["en", "pt"], "dial": [{"prefix": "48", "destination": there}], "entry_pause_s": 2}
    routes: list[dict[str, Any]] = [
        {"number": "7000", "menu": menu},
        {"number": "7001", "from": "en", "to": "pt", "destination": there},
        {"number": "7002", "from": "pt", "to": "en", "destination": there},
        {"number": "7003", "from": "en", "to": "pt", "destination": "sip:nobody@127.0.0.1:9;transport=tcp"},
        {"number": "7005", "from": "en", "to": "xx", "destination": there},
        {"number": "7006", "from": "auto", "to": "en", "languages": ["pt", "en"], "destination": there},
    ]
    gateway = GatewayProcess(
        tmp_path_factory.mktemp("gateway"),
        routes=routes,
        environ={"GATEWAY__SIP__TRUNKS": TRUSTED, "GATEWAY__DIALPLAN__RING_TIMEOUT_S": "3"},
    )
    runner.run(gateway.__aenter__())
    runner.run(_prompts_made())
    yield Site(gateway, b_port, lambda work: runner.run(_await(work)))
    runner.run(gateway.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def standing(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Site]]:
    """The plain gateway; one that a test has ended is replaced."""
    require_models()
    b_port, c_port = free_port(), free_port()
    routes = [
        {"number": number, "from": "en", "to": "pt", "destination": f"sip:{user}@127.0.0.1:{port}"}
        for number, user, port in (("7001", "b", b_port), ("7002", "c", c_port))
    ]
    routes.append({"number": "7003", "from": "en", "to": "en", "destination": f"sip:b@127.0.0.1:{b_port}"})
    environ = {"GATEWAY__SIP__TRUNKS": TRUSTED, "GATEWAY__CALL__DISCLOSURE": "false"}
    environ["GATEWAY__REDIS__TIMEOUT_S"] = str(REDIS_TIMEOUT_S)
    begun: list[GatewayProcess] = []

    def stand() -> Site:
        if not begun or not alive(begun[-1].pid):
            begun.append(GatewayProcess(tmp_path_factory.mktemp("plain"), routes=routes, environ=environ))
            runner.run(begun[-1].__aenter__())
        return Site(begun[-1], b_port, lambda work: runner.run(_await(work)), c_port)

    yield stand
    for gateway in begun:
        runner.run(gateway.__aexit__(None, None, None))


@pytest.fixture
def plain(standing: Callable[[], Site]) -> Site:
    """A gateway that says nothing of its own: 7001 leads to telephone B, 7002 to telephone C, both en→pt; 7003 to B,
    who speaks English too."""
    return standing()


async def _prompts_made() -> None:
    """On a fresh machine a gateway that has nothing to do makes its prompts, for a minute: no time to measure it."""
    book = prompt_book(load_settings(None, os.environ))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(200):
            while await book.missing():  # noqa: ASYNC110 - files that another process makes
                await asyncio.sleep(1)


async def _await(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, 220)


@pytest.fixture(scope="session")
def engines() -> Engines:
    """The bundle's engines in this process, to read back what was heard."""
    require_models()
    loaded = load_settings(None, os.environ)
    spec, store = engine_spec(loaded.settings), model_store(loaded)
    return make_engines(spec, {model: store.path(model) for model in spec.models()})


def listen(engines: Engines, pcm: bytes, language: str | None) -> Recognition:
    """What a recogniser hears in s16le 16 kHz."""
    heard = engines.run(RecognizeTask(pcm, language))
    assert isinstance(heard, Recognition)
    return heard


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder of the test's own."""
    return tmp_path
