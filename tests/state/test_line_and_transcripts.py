# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions between gateways, and what remains of calls, over the real embedded server (SPEC C7, C8)."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from gateway.state import NobodyAnswers, StateStore
from tests.state.test_state_store import gateway, run, server, until

pytestmark = pytest.mark.unit


async def carries(asker: StateStore, other: str) -> None:
    """Wait until the other gateway has subscribed; what it answers does not matter."""

    async def heard() -> bool:
        try:
            await asker.line.ask(other, {}, timeout_s=0.05)
        except NobodyAnswers as error:
            return "not listening" not in str(error)
        return True

    await until(heard)


async def echo(question: dict[str, Any]) -> dict[str, Any]:
    return {"heard": question}


def test_c8_a_question_reaches_the_other_gateway_and_its_answer_comes_back() -> None:
    async def test() -> None:
        async with server() as (redis, _), gateway(redis.url, "one") as one, gateway(redis.url, "two") as two:
            two.line.serve(echo)
            await carries(one, "two")
            await carries(two, "one")
            answers = await asyncio.gather(*(one.line.ask("two", {"n": n}) for n in range(20)))
            assert [answer["heard"]["n"] for answer in answers] == list(range(20))
            assert one.line.statistics()["open"] == 0

    run(test)


def test_a_gateway_that_does_not_listen_is_known_at_once_and_a_silent_one_after_the_time_out() -> None:
    async def never(question: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def test() -> None:
        async with server() as (redis, _), gateway(redis.url, "one") as one, gateway(redis.url, "two") as two:
            two.line.serve(never)
            await carries(one, "two")
            before = one.line.statistics()["unanswered"]
            with pytest.raises(NobodyAnswers, match="three is not listening"):
                await one.line.ask("three", {}, timeout_s=30)
            with pytest.raises(NobodyAnswers, match="did not answer"):
                await one.line.ask("two", {}, timeout_s=0.1)
            assert one.line.statistics()["unanswered"] == before + 1

    run(test)


def test_foreign_messages_on_the_line_do_no_harm() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url, "one") as one, gateway(redis.url, "two") as two:
            two.line.serve(echo)
            await carries(one, "two")
            for text in ("", "{}", "[]", "7", '{"id": {}, "question": 3}', '{"id": "x", "answer": {}}', "\x00"):
                await client.publish("gw:line:two", text)
            assert (await one.line.ask("two", {"n": 1}))["heard"] == {"n": 1}

    run(test)


def test_k01_the_line_is_heard_again_after_redis_was_gone() -> None:
    async def test() -> None:
        async with server() as (redis, _), gateway(redis.url, "one") as one, gateway(redis.url, "two") as two:
            two.line.serve(echo)
            assert redis.pid is not None
            os.kill(redis.pid, signal.SIGKILL)

            async def answered() -> bool:
                try:
                    return (await one.line.ask("two", {"n": 2}, timeout_s=0.5))["heard"] == {"n": 2}
                except NobodyAnswers:
                    return False

            await until(answered, 10)

    run(test)


def test_a_finished_call_can_be_read_by_any_gateway_until_its_ttl() -> None:
    async def test() -> None:
        async with (
            server() as (redis, client),
            gateway(redis.url, "one", transcript_ttl_s=100) as one,
            gateway(redis.url, "two", transcript_ttl_s=100) as two,
        ):
            for n in range(450):
                one.transcripts.add("c1", {"n": n})
            assert len(await one.transcripts.lines("c1")) == 450, "a live call is read from memory"
            one.transcripts.end("c1", {"result": "completed"})
            assert await one.transcripts.ended("c1") == {"result": "completed"}

            async def arrived() -> bool:
                return await two.transcripts.ended("c1") is not None

            await until(arrived)
            assert [line["n"] for line in await two.transcripts.lines("c1")] == list(range(450))
            assert await two.transcripts.recent() == {"c1": {"result": "completed"}}
            assert one.transcripts.statistics()["calls"] == 0, "nothing stays in memory"
            for key in await client.keys("gw:*"):
                if "said" in key or "ended" in key:
                    assert 0 < await client.ttl(key) <= 100

    run(test)


def test_a_list_that_redis_lost_is_written_anew() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url, "one", transcript_ttl_s=100) as one:
            one.transcripts.add("c1", {"n": 0})

            async def stored(count: int) -> bool:
                return await client.llen("gw:said:c1") == count

            await until(lambda: stored(1))
            await client.flushall()
            one.transcripts.add("c1", {"n": 1})
            await until(lambda: stored(2))
            assert one.transcripts.statistics()["rewritten"] == 1

    run(test)


def test_b6_a_line_that_is_amended_is_amended_in_redis_too() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url, "one", transcript_ttl_s=100) as one:
            for n in range(3):
                one.transcripts.add("c1", {"segment_id": f"s{n}", "lost": None})

            async def stored(text: str) -> bool:
                lines = await client.lrange("gw:said:c1", 0, -1)
                return len(lines) == 3 and any(text in str(line) for line in lines)

            writing = asyncio.create_task(one.transcripts.write())
            await asyncio.sleep(0)  # lines that are on their way may be amended too
            one.transcripts.amend("c1", "s0", {"cut_ms": 700})
            await writing
            await until(lambda: stored("700"))
            one.transcripts.amend("c1", "s1", {"cut_ms": 900})
            one.transcripts.amend("c1", "unknown", {"cut_ms": 1})
            one.transcripts.amend("no-such-call", "s1", {"cut_ms": 1})
            await until(lambda: stored("900"))
            assert [line.get("cut_ms") for line in await one.transcripts.lines("c1")] == [700, 900, None]

    run(test)


def test_nothing_is_kept_behind_a_call_where_the_ttl_is_zero() -> None:
    async def test() -> None:
        async with server() as (redis, client), gateway(redis.url, "one") as one:
            one.transcripts.add("c1", {"text": "secret"})
            one.transcripts.end("c1", {"result": "completed"})

            async def forgotten() -> bool:
                return await one.transcripts.lines("c1") == []

            await until(forgotten)
            assert not [key for key in await client.keys("*") if "said" in key or "ended" in key]

    run(test)
