# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls through the API: placed, seen, changed, ended, by this gateway and by another one (SPEC A3, C4, C8, S1.18)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from redis.asyncio import Redis

from gateway.api.watch import transcript_line
from gateway.call import termination
from gateway.state import store as store_module
from tests.api.control_room import REDIS, Room, room, run, store, utterance

pytestmark = pytest.mark.unit

ORDER = {"a": {"to": "sip:ana@192.0.2.1", "language": "xx"}, "b": {"to": "7001"}, "mode": "simultaneous"}


def slug(document: dict[str, Any]) -> str:
    return str(document["type"]).rpartition("#")[2]


def test_a3_click_to_call_dials_both_parties_each_with_language_and_voice(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client() as admin:
            order = {**ORDER, "a": {**ORDER["a"], "voice": "mia"}, "hotwords": {"xx": ["Acme"]}}
            placed = await admin.post("/v1/calls", json=order)
            assert placed.status_code == 201, placed.text
            shown = placed.json()
            assert placed.headers["location"] == f"/v1/calls/{shown['id']}"
            assert (shown["a"]["language"], shown["b"]["language"]) == ("xx", "yy"), "a number brings its language"
            assert (shown["state"], shown["mode"], shown["gateway"]) == ("live", "simultaneous", "one")
            call = one.exchange.board.live(shown["id"])
            assert call is not None
            assert call.match.first == "sip:ana@192.0.2.1"
            assert call.match.destination == "sip:seven@host"
            assert call.b_to_a.wanted().voice == "mia"
            assert "Acme" in call.a_to_b.wanted().lexicon.hotwords
            assert ("dial", f"{shown['id']}-a") in one.exchange.phones.done
            await one.end(shown["id"])

    run(work())


WHERE = [
    ("operator", "sip:ana@192.0.2.1", 403),
    ("operator", "sip:5551@pbx.example", 201),
    ("operator", "sip:5551@pbx.example;transport=tcp", 201),
    ("operator", "sip:x@evil.example;foo=@pbx.example", 403),
    ("operator", "sip:x@evil.example?to=@pbx.example", 403),
    ("operator", "sip:5551@pbx.example.evil.example", 403),
    ("operator", "8123456789012", 201),
    ("operator", "9", 422),
    ("operator", "tel:+123", 422),
    ("admin", "sip:ana@192.0.2.1", 201),
    ("admin", "sip:a b@192.0.2.1", 422),
    ("auditor", "7001", 403),
    ("viewer", "7001", 403),
]


def test_where_a_call_may_go_depends_on_plan_settings_and_role(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings={"destinations": ["sip:*@pbx.example"]}, free=40) as one:
            for role, to, status in WHERE:
                dialled = len(one.exchange.phones.done)
                async with one.client(role) as client:
                    order = {"a": {"to": to, "language": "xx"}, "b": {"to": "7001"}}
                    answer = await client.post("/v1/calls", json=order)
                assert answer.status_code == status, (role, to, answer.text)
                assert to not in answer.text, "neither a call nor a refusal shows the number"
                if status == 201:
                    await one.end(answer.json()["id"])
                else:
                    assert len(one.exchange.phones.done) == dialled

    run(work())


def test_a11_without_two_free_legs_nobody_is_rung(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, free=1) as one, one.client() as admin:
            refused = await admin.post("/v1/calls", json=ORDER)
            assert refused.status_code == 503
            assert slug(refused.json()) == "busy"
            assert refused.json()["reason"] == termination.NO_FREE_LEG.reason
            assert int(refused.headers["retry-after"]) > 0
            assert one.exchange.phones.done == []

    run(work())


def test_languages_that_are_not_served_and_voices_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client() as admin:
            for order, kind in (
                ({**ORDER, "a": {"to": "sip:ana@192.0.2.1", "language": "zz"}}, "pair-not-served"),
                ({**ORDER, "a": {"to": "sip:ana@192.0.2.1"}}, "invalid"),
                ({**ORDER, "a": {"to": "sip:ana@192.0.2.1", "language": "xx", "voice": "yan"}}, "invalid"),
            ):
                refused = await admin.post("/v1/calls", json=order)
                assert (refused.status_code, slug(refused.json())) == (422, kind)
            call_id = await one.bridge()
            refused = await admin.patch(f"/v1/calls/{call_id}", json={"mode": "simultaneous", "b": {"language": "zz"}})
            assert (refused.status_code, slug(refused.json())) == (422, "pair-not-served")
            shown = (await admin.get(f"/v1/calls/{call_id}")).json()
            assert shown["mode"] == "consecutive", "all of a change or nothing"
            await one.end(call_id)

    run(work())


async def change_everything(client: Any, owner: Room, call_id: str) -> None:
    """PATCH a live call, wherever the client's gateway is."""
    change = {
        "mode": "simultaneous",
        "a": {"voice": "mia", "tempo": 1.2},
        "b": {"mode": "consecutive", "original": True},
        "paused": True,
        "hotwords": {"xx": ["Acme"]},
        "safety_words": "off",
    }
    changed = await client.patch(f"/v1/calls/{call_id}", json=change)
    assert changed.status_code == 200, changed.text
    assert (changed.json()["mode"], changed.json()["paused"]) == ("simultaneous", True)
    call = owner.exchange.board.live(call_id)
    assert call is not None
    there, back = call.a_to_b.wanted(), call.b_to_a.wanted()
    assert (there.mode, back.mode) == ("simultaneous", "consecutive")
    assert (there.voice, back.voice) == (None, "mia")
    assert "Acme" in there.lexicon.hotwords
    assert call.b_to_a.paused
    assert {"controls", "safety_mode"} <= changed.json()["statistics"].keys()
    assert call.safety.wish == "off" and not changed.json()["a"]["safety_words"]
    assert call.a.playout.statistics()["tempo"] == 1.2
    assert call.b.playout.statistics()["original"]["on"]
    wordless = await client.patch(f"/v1/calls/{call_id}", json={"safety_words": "on"})
    assert wordless.status_code == 422 and "no safety words between xx and yy" in wordless.text
    assert call.safety.wish == "off", "nothing of a refused change is done"
    resumed = await client.patch(
        f"/v1/calls/{call_id}", json={"paused": False, "a": {"language": "yy"}, "b": {"language": "xx"}}
    )
    assert resumed.json()["a"]["language"] == "yy"
    assert not call.a_to_b.paused
    found_out = await client.patch(f"/v1/calls/{call_id}", json={"a": {"language": "auto"}})
    assert found_out.json()["a"]["language"] == "yy", "assumed until the next words"
    assert found_out.json()["statistics"]["directions"]["a_to_b"]["language"]["auto"]
    pinned = await client.patch(f"/v1/calls/{call_id}", json={"a": {"language": "yy"}})
    assert not pinned.json()["statistics"]["directions"]["a_to_b"]["language"]["auto"]
    assert (call.a_to_b.wanted().source, call.a_to_b.wanted().target) == ("yy", "xx")


def test_s1_18_a_live_call_is_changed(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("operator") as operator:
            call_id = await one.bridge()
            await change_everything(operator, one, call_id)
            assert (await operator.delete(f"/v1/calls/{call_id}")).status_code == 204
            await one.end(call_id)
            shown = (await operator.get(f"/v1/calls/{call_id}")).json()
            assert (shown["state"], shown["result"], shown["reason"]) == ("ended", "completed", "operator-hung-up")
            ended = (await operator.get("/v1/calls", params={"state": "ended"})).json()["calls"]
            assert [call["id"] for call in ended] == [call_id]
            assert (await operator.patch(f"/v1/calls/{call_id}", json={"mode": "consecutive"})).status_code == 404

    run(work())


def test_c8_any_gateway_reaches_a_call_of_another_through_redis(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            room(tmp_path, name="one") as one,
            room(tmp_path, name="two") as two,
            two.client("operator") as client,
        ):
            call_id = await one.bridge()
            await one.written()
            await two.reaches("one")
            listed = (await client.get("/v1/calls")).json()["calls"]
            assert [(call["id"], call["gateway"]) for call in listed] == [(call_id, "one")]
            await change_everything(client, one, call_id)
            one.publish(call_id, "utterance", **utterance(1, "good day", "bom dia"))
            await asyncio.sleep(0.05)
            one.publish(call_id, "cut", segment_id="s1", leg="a", heard_ms=640)
            await asyncio.sleep(0.05)
            said = (await client.get(f"/v1/calls/{call_id}/transcript.json")).json()
            lines = [(line["source_text"], line["target_text"], line["cut_ms"]) for line in said["lines"]]
            assert lines == [("good day", "bom dia", 640)]
            dictionary = await client.patch(f"/v1/dictionaries/{call_id}", json={"hotwords": {"yy": ["Braga"]}})
            assert dictionary.json()["dictionary"]["hotwords"] == {"xx": ["Acme"], "yy": ["Braga"]}
            refused = await client.patch(f"/v1/calls/{call_id}", json={"a": {"language": "zz"}})
            assert (refused.status_code, slug(refused.json())) == (422, "pair-not-served"), "the owner's refusal"
            async with client.stream("GET", f"/v1/calls/{call_id}/events") as stream:
                assert (await client.delete(f"/v1/calls/{call_id}")).status_code == 204
                await one.end(call_id)
                kinds = [line.removeprefix("event: ") async for line in stream.aiter_lines() if line[:6] == "event:"]
            assert kinds[0] == "call-started" and kinds[-1] == "call-ended" and "utterance" in kinds
            await one.written()
            assert (await client.get(f"/v1/calls/{call_id}")).json()["state"] == "ended"

    run(work())


def test_a_call_whose_gateway_does_not_answer_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.control.ANSWER_S", 0.2)

    async def work() -> None:
        async with room(tmp_path, name="two") as two, two.client() as client:
            silent = await store(tmp_path, "silent")  # a gateway without an API: it never answers
            record = {**_record(), "phase": "bridged"}
            silent.put_call("0123456789ab", record)
            async with asyncio.timeout(20):
                while silent.statistics()["written"] == 0:  # noqa: ASYNC110 - the state under test
                    await asyncio.sleep(0.01)
            answer = await client.patch("/v1/calls/0123456789ab", json={"mode": "consecutive"})
            assert (answer.status_code, slug(answer.json())) == (504, "other-gateway-silent")
            await silent.close()

    run(work())


def _record() -> dict[str, Any]:
    return {
        "route": "r",
        "languages": ["xx", "yy"],
        "mode": "consecutive",
        "paused": False,
        "started_at": 1.0,
        "bridged_s": 0.0,
        "duration_s": 1.0,
        "result": None,
        "reason": None,
        "codecs": ["", ""],
        "snr_db": [None, None],
        "safety_words": [False, False],
        "utterances": {},
        "directions": {},
        "parties": {},
    }


def test_transcripts_come_as_json_webvtt_and_subrip_live_and_for_a_while_behind_the_call(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("auditor") as auditor:
            call_id = await one.bridge()
            one.publish(call_id, "utterance", **utterance(1, "good <b>day</b>", "bom dia"))
            one.publish(call_id, "utterance", **utterance(2, "até logo", "see you", party="b"))
            await asyncio.sleep(0.05)
            base = f"/v1/calls/{call_id}/transcript"
            for over in (False, True):
                if over:
                    await one.end(call_id)
                    await one.written()
                said = (await auditor.get(f"{base}.json")).json()
                assert said["over"] is over
                assert [line["party"] for line in said["lines"]] == ["a", "b"]
                assert [line["source_language"] for line in said["lines"]] == ["xx", "yy"]
                vtt = await auditor.get(f"{base}.vtt")
                assert vtt.headers["content-type"].startswith("text/vtt")
                assert vtt.text.startswith("WEBVTT\nLanguage: xx\n")
                assert "good &lt;b&gt;day&lt;/b&gt;" in vtt.text and "see you" in vtt.text and "bom dia" not in vtt.text
                srt = await auditor.get(f"{base}.srt", params={"language": "yy"})
                assert "a: bom dia" in srt.text and "b: até logo" in srt.text
            async with one.client("viewer") as viewer:
                assert (await viewer.get(f"{base}.json")).status_code == 403, "a viewer reads no words"

    run(work())


def test_k04_what_was_said_outlives_the_gateway_that_died_with_the_call(tmp_path: Path) -> None:
    said, silent, unknown = "0a0b0c0d0e01", "0a0b0c0d0e02", "0a0b0c0d0e03"

    async def work() -> None:
        async with (
            room(tmp_path) as one,
            one.client("auditor") as auditor,
            Redis.from_url(os.environ[REDIS]) as redis,
        ):
            dead = await store(tmp_path, "dead", transcript_ttl_s=60)
            for call_id in (said, silent):
                dead.put_call(call_id, _record())
            for number in range(2):
                dead.transcripts.add(said, transcript_line(utterance(number, f"good {number}", "bom"), 0))
            async with asyncio.timeout(20):
                known = dead.statistics
                while known()["calls"]["waiting"] or known()["transcripts"]["written"] < 2:  # noqa: ASYNC110 - the state under test
                    await asyncio.sleep(0.01)
            await store_module._cancel(dead._tasks)  # as SIGKILL leaves it: no farewell, and no heartbeat after its TTL
            await redis.delete(*[key async for key in redis.scan_iter("*:instance:dead:*")])

            async def told(call_id: str, kind: str = "json") -> httpx2.Response:
                return await auditor.get(f"/v1/calls/{call_id}/transcript.{kind}")

            nothing = (await told(silent)).json()
            assert nothing["over"] and nothing["lines"] == []
            for swept in (False, True):  # while the registry remembers the call, and behind that
                if swept:
                    assert await redis.delete(*[key async for key in redis.scan_iter(f"*:call:{said}")]) == 1
                answer = (await told(said)).json()
                assert answer["over"] and [line["source_text"] for line in answer["lines"]] == ["good 0", "good 1"]
                assert "good 1" in (await told(said, "vtt")).text
            assert (await told(unknown)).status_code == 404
            await dead.close()

    run(work())
