# SPDX-License-Identifier: GPL-3.0-or-later
"""Webhooks over real sockets: signed, tried again, in order, bounded, and never to an address inside (SPEC C4)."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.api import webhooks as module
from gateway.api.outbound import AddressRefused, Outbound
from gateway.api.webhooks import ATTEMPTS, Hook, Webhooks
from tests.api.control_room import room, run, utterance

pytestmark = pytest.mark.unit

KEY = b"a secret of many characters"


@dataclass
class Receiver:
    """A server that answers with the statuses it is given, then 200, and keeps what came."""

    statuses: list[int] = field(default_factory=list)
    location: str = ""
    heads: list[bytes] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://hooks.example:{self.port}/in?x=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(next(line for line in head.lower().splitlines() if line.startswith(b"content-length")).split()[1])
        body = await reader.readexactly(length)
        status = self.statuses.pop(0) if self.statuses else 200
        self.heads.append(head)
        if status == 200:
            self.bodies.append(json.loads(body))
            check_signature(head, body)
        extra = f"Location: {self.location}\r\n" if self.location else ""
        if status:
            writer.write(f"HTTP/1.1 {status} X\r\n{extra}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()


def header(head: bytes, name: str) -> str:
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line]
    return next(value for key, value in lines if key.lower() == name)


def check_signature(head: bytes, body: bytes) -> None:
    signed = f"{header(head, 'webhook-id')}.{header(head, 'webhook-timestamp')}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
    assert header(head, "webhook-signature") == expected


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    made = Receiver(list(statuses))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


async def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def carrier(url: str, *, allow_private: bool = True, resolver: Any = here) -> AsyncIterator[Webhooks]:
    hook = Hook(url, KEY, frozenset({"call-ended"}), allow_private)
    made = Webhooks([hook], Outbound(timeout_s=20, resolver=resolver), chance=lambda: 0.5, first_wait_s=0.001)
    made.start()
    try:
        yield made
    finally:
        await made.close(grace_s=0.1)


def event(number: int, kind: str = "call-ended") -> dict[str, Any]:
    return {"id": number, "call": "c1", "kind": kind, "time": 1.0}


async def until(hooks: Webhooks, outcome: str, count: int) -> None:
    async with asyncio.timeout(30):
        while hooks.statistics()[outcome] < count:  # noqa: ASYNC110 - the state under test
            await asyncio.sleep(0.005)


def test_an_event_is_signed_and_delivered_to_the_named_host_at_the_judged_address() -> None:
    async def work() -> None:
        async with receiver() as server, carrier(server.url) as hooks:
            hooks.offer(event(1))
            hooks.offer(event(2, "utterance"))
            await until(hooks, "delivered", 1)
            assert server.bodies == [event(1)], "only what was asked for"
            assert header(server.heads[0], "host") == f"hooks.example:{server.port}"
            assert server.heads[0].startswith(b"POST /in?x=1 HTTP/1.1")
            assert header(server.heads[0], "webhook-id") == "c1-1"

    run(work())


def test_a_server_that_stumbles_gets_the_same_event_again_and_the_next_only_then() -> None:
    async def work() -> None:
        async with receiver(500, 0, 429) as server, carrier(server.url) as hooks:
            hooks.offer(event(1))
            hooks.offer(event(2))
            await until(hooks, "delivered", 2)
            assert [body["id"] for body in server.bodies] == [1, 2]
            assert [header(head, "webhook-id") for head in server.heads] == ["c1-1"] * 4 + ["c1-2"]
            assert hooks.statistics()["retried"] == 3

    run(work())


def test_a_server_that_is_down_is_given_up_and_one_that_says_no_is_not_asked_again() -> None:
    async def work() -> None:
        async with receiver(*[503] * ATTEMPTS, 404) as server, carrier(server.url) as hooks:
            hooks.offer(event(1))
            hooks.offer(event(2))
            await until(hooks, "rejected", 1)
            assert len(server.heads) == ATTEMPTS + 1
            assert hooks.statistics()["given_up"] == 1

    run(work())


def test_ssrf_a_redirect_is_not_followed() -> None:
    async def work() -> None:
        async with receiver() as inner, receiver(302) as server, carrier(server.url) as hooks:
            server.location = f"http://127.0.0.1:{inner.port}/"
            hooks.offer(event(1))
            await until(hooks, "rejected", 1)
            assert inner.heads == []

    run(work())


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["::ffff:127.0.0.1"]])
def test_ssrf_a_name_with_an_inner_address_is_refused(addresses: list[str]) -> None:
    async def resolver(_host: str, _port: int) -> list[str]:
        return addresses

    async def work() -> None:
        async with receiver() as server, carrier(server.url, allow_private=False, resolver=resolver) as hooks:
            hooks.offer(event(1))
            await until(hooks, "refused", 1)
            assert server.heads == []

    run(work())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "[::1]"])
def test_ssrf_spellings_of_loopback_are_refused_by_the_real_resolver(host: str) -> None:
    async def work() -> None:
        outbound = Outbound(timeout_s=1)
        with pytest.raises((AddressRefused, OSError)):
            await outbound.post(f"http://{host}:9/", b"{}", {}, allow_private=False)
        await outbound.close()

    run(work())


def test_ssrf_the_answer_of_the_second_look_up_does_not_count() -> None:
    answers = [["1.1.1.1"], ["127.0.0.1"]]

    async def rebinding(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    async def work() -> None:
        async with receiver() as server:
            outbound = Outbound(timeout_s=0.3, resolver=rebinding)
            with pytest.raises(Exception) as caught:
                await outbound.post(server.url, b"{}", {}, allow_private=False)
            assert not isinstance(caught.value, AddressRefused)
            assert len(answers) == 1, "asked once"
            assert server.heads == []
            await outbound.close()

    run(work())


def test_a_queue_that_is_full_gives_up_its_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)

    async def work() -> None:
        hook = Hook("http://hooks.example/", KEY, frozenset({"call-ended"}), True)
        hooks = Webhooks([hook], Outbound(timeout_s=1, resolver=here))
        for number in range(10):
            hooks.offer(event(number))
        assert hooks.statistics()["waiting"] == 3
        assert hooks.statistics()["dropped"] == 7
        await hooks.close(grace_s=0)
        assert hooks.statistics()["given_up"] == 3

    run(work())


def test_a_gateway_tells_of_its_calls_and_of_words_only_when_asked_to(tmp_path: Path) -> None:
    async def work() -> None:
        async with receiver() as server:
            hook = {"url": f"http://127.0.0.1:{server.port}/", "secret": KEY.decode(), "allow_private": True}
            async with room(tmp_path, settings={"webhooks": [hook]}) as one:
                call_id = await one.bridge()
                one.publish(call_id, "utterance", **utterance(1, "secret words", "palavras"))
                await one.end(call_id)
            kinds = [body["kind"] for body in server.bodies]
            assert kinds[0] == "call-started" and kinds[-1] == "call-ended", "carried also while the gateway stops"
            assert set(kinds) == {"call-started", "call-phase", "call-ended"}
            assert "secret words" not in json.dumps(server.bodies)
            assert len({header(head, "webhook-id") for head in server.heads}) == len(server.heads)

    run(work())
