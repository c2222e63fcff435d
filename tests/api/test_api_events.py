# SPDX-License-Identifier: GPL-3.0-or-later
"""Event streams, dictionaries, metrics, and that nobody's words or numbers come out where they should not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.telemetry.logs import configure_logging
from gateway.telemetry.metrics import Meters
from tests.api.control_room import room, run, utterance

pytestmark = pytest.mark.unit

CANARIES = ["5551234987", "five five five one two three four", "cinco cinco cinco um dois", "cinco cinco cinco uno dos"]


Told = tuple[int, str, dict[str, Any]]


async def collect(
    client: Any, call_id: str, last: int | None = None, most: int = 100
) -> list[tuple[int, str, dict[str, Any]]]:
    """(id, kind, data) of a stream, to its end or so many."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    found: list[Told] = []
    kind = ""
    async with client.stream("GET", f"/v1/calls/{call_id}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                data = json.loads(value)
                found.append((data.get("id", 0), kind, data))
                if len(found) >= most:
                    break
    return found


def test_a_stream_tells_all_in_order_goes_on_behind_an_event_and_ends_with_the_call(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("auditor") as auditor:
            call_id = await one.bridge()
            first = await collect(auditor, call_id, most=2)
            assert [number for number, _, _ in first] == [1, 2]
            rest = asyncio.create_task(collect(auditor, call_id, last=2))
            for number in range(5):
                one.publish(call_id, "heard", text=f"word {number}", leg="a")
                await asyncio.sleep(0.01)
            await one.end(call_id)
            told = await asyncio.wait_for(rest, 10)
            numbers = [number for number, _, _ in told]
            assert numbers == list(range(3, 3 + len(numbers))), "none twice, none missing"
            assert [data["text"] for _, kind, data in told if kind == "heard"] == [f"word {n}" for n in range(5)]
            assert told[-1][1] == "call-ended"
            over = await auditor.get(f"/v1/calls/{call_id}/events", headers={"Last-Event-ID": str(numbers[-1])})
            assert over.status_code == 204, "which tells a browser not to come back"
            bad = await auditor.get(f"/v1/calls/{call_id}/events", headers={"Last-Event-ID": "x"})
            assert bad.status_code == 422

    run(work())


def test_a_listener_that_comes_too_late_is_told_how_much_it_missed(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("auditor") as auditor:
            call_id = await one.bridge()
            for _ in range(11):
                for _ in range(100):
                    one.publish(call_id, "preview", text="x")
                await asyncio.sleep(0.01)
            told = await collect(auditor, call_id, last=1, most=2)
            assert told[0][1] == "missed" and told[0][2]["missed"] > 50
            assert told[1][0] == 2 + told[0][2]["missed"]
            await one.end(call_id)

    run(work())


def test_streams_are_bounded_and_end_when_the_gateway_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.call_routes.MOST_STREAMS", 1)

    async def work() -> None:
        async with room(tmp_path) as one, one.client("auditor") as auditor:
            call_id = await one.bridge()
            stream = asyncio.create_task(collect(auditor, call_id))
            async with asyncio.timeout(10):
                while not one.api.statistics()["streams"]:  # noqa: ASYNC110 - the state under test
                    await asyncio.sleep(0.01)
            refused = await auditor.get(f"/v1/calls/{call_id}/events")
            assert refused.status_code == 429
            await one.api.stop()
            await asyncio.wait_for(stream, 5)
            await one.end(call_id)

    run(work())


def test_s1_19_a_dictionary_is_loaded_into_a_running_call(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("operator") as operator:
            call_id = await one.bridge()
            call = one.exchange.board.live(call_id)
            assert call is not None
            term = {"from": "xx", "to": "yy", "forms": ["invoice"], "target": "fatura"}
            put = await operator.put("/v1/dictionaries/global", json={"terms": [term], "hotwords": {"xx": ["Acme"]}})
            assert put.status_code == 200
            assert {*call.a_to_b.wanted().lexicon.hotwords} == {"Acme", "invoice"}
            own = await operator.patch(f"/v1/dictionaries/call:{call_id}", json={"hotwords": {"xx": ["Zeta"]}})
            assert own.json()["scope"] == f"call:{call_id}"
            assert call.a_to_b.wanted().lexicon.hotwords[0] == "Zeta", "the call's own comes first"
            loaded = await operator.post(
                "/load_dict", params={"from": "xx", "to": "yy"}, content='{"heart_attack": "infarto"}'
            )
            assert loaded.status_code == 200, loaded.text
            terms = call.a_to_b.wanted().lexicon.terms
            assert [t.target for t in terms.terms] == ["fatura", "infarto"]
            hot = await operator.put("/v1/hotwords", json={"yy": ["Braga"]})
            assert hot.json() == {"scope": "global", "version": hot.json()["version"], "hotwords": {"yy": ["Braga"]}}
            assert len((await operator.get("/v1/dictionaries/global")).json()["dictionary"]["terms"]) == 2
            assert (await operator.delete("/v1/dictionaries/global")).status_code == 204
            assert call.a_to_b.wanted().lexicon.hotwords == ("Zeta",)
            await one.end(call_id)

    run(work())


UNUSABLE = [
    ("/load_dict", "medical_dict.json"),
    ("/load_dict?from=xx&to=xx", '{"heart": "coração"}'),
    ("/load_dict?from=xx", '{"heart": "coração"}'),
    ("/load_dict", '{"heart": "coração"}'),  # the dial plan has two pairs
    ("/load_dict?from=xx&to=yy", '{"heart": 3}'),
    ("/load_dict?from=xx&to=yy", '{"": "x"}'),
    ("/load_dict?from=xx&to=yy", "[" * 3000),
]


def test_a_plain_dictionary_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("operator") as operator:
            for path, content in UNUSABLE:
                refused = await operator.post(path, content=content)
                assert refused.status_code == 422, (path, content, refused.text)
            assert (await operator.get("/v1/dictionaries/global")).json()["dictionary"] == {}

    run(work())


def test_k10_a_burst_of_dictionary_updates_leaks_no_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("operator") as operator:
            answers = await asyncio.gather(
                *(operator.put("/v1/hotwords", json={"xx": [f"word {n}"]}) for n in range(200))
            )
            assert {answer.status_code for answer in answers} == {200}
            assert sorted(answer.json()["version"] for answer in answers) == list(range(1, 201))
            assert one.state.statistics()["failed"] == 0

    run(work())


def test_c6_metrics_count_calls_latency_losses_terms_and_numbers() -> None:
    meters = Meters(
        lambda: {
            "switchboard": {"live": 2, "ready": True, "refused-no-free-leg": 3},
            "speech": {"queued": {"final": 4}, "real_time_factor": {"recognize": 0.25}, "utilisation": 0.5},
        }
    )
    meters.on_event("call-started", {})
    spoken = {**utterance(1, "x", "y"), "terms": {"hits": 2, "misses": 0}, "numbers": {"repaired": 1}}
    meters.on_event("utterance", spoken)
    meters.on_event("utterance", {**utterance(2, "x", "y"), "lost": "dropped", "outcome": "lost"})
    meters.on_event("lost", {"reason": "queue-full"})
    meters.on_event(
        "call-ended", {"result": "completed", "reason": "caller-hung-up", "duration_s": 12.0, "snr_db": [18.5, None]}
    )
    meters.on_request("GET", 200)
    text = meters.text().decode()
    for line in (
        "gateway_calls 2.0",
        'gateway_calls_refused_total{reason="no-free-leg"} 3.0',
        'gateway_queue_depth{priority="final"} 4.0',
        'gateway_real_time_factor{kind="recognize"} 0.25',
        "gateway_calls_started_total 1.0",
        'gateway_calls_ended_total{reason="caller-hung-up",result="completed"} 1.0',
        'gateway_utterances_total{outcome="spoken",source="xx",target="yy"} 1.0',
        'gateway_segments_lost_total{reason="dropped"} 1.0',
        'gateway_leg_snr_db_bucket{le="20.0"} 1.0',
        "gateway_leg_snr_db_count 1.0",
        'gateway_segments_lost_total{reason="queue-full"} 1.0',
        'gateway_terms_total{outcome="hits"} 2.0',
        'gateway_numbers_total{outcome="repaired"} 1.0',
        'gateway_latency_seconds_bucket{le="0.8",source="xx",target="yy"} 1.0',
        'gateway_latency_seconds_bucket{le="0.6",source="xx",target="yy"} 0.0',
        'gateway_stage_seconds_count{stage="asr"} 1.0',
        'gateway_api_requests_total{method="GET",status="200"} 1.0',
    ):
        assert line in text, line


def test_k07_k08_words_and_numbers_are_in_no_log_no_metric_and_no_refusal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A canary number, in digits and in words of three languages, goes every way that the API has."""
    answers: list[str] = []

    async def work() -> None:
        async with room(tmp_path) as one, one.client() as admin:
            call_id = await one.bridge()
            for number, canary in enumerate(CANARIES):
                one.publish(call_id, "utterance", **utterance(number, canary, canary))
                one.publish(call_id, "heard", text=canary, leg="a")
                one.publish(call_id, canary, text=canary)  # a kind nobody knows
                one.publish(call_id, "utterance", text=canary)  # a record nobody foresaw
                order = {"a": {"to": canary, "language": canary}, "b": {"to": f"sip:{canary}@{canary} "}}
                answers.append((await admin.post("/v1/calls", json=order)).text)
                answers.append((await admin.post("/v1/calls", json={**order, canary: 1})).text.replace(canary, "", 1))
                answers.append((await admin.post("/v1/calls", content=f'{{"{canary}')).text)
                answers.append((await admin.get(f"/v1/calls/{canary}")).text)
                answers.append((await admin.patch(f"/v1/calls/{call_id}", json={"mode": canary})).text)
                placed = {"a": {"to": f"sip:{canary.replace(' ', '')}@h", "language": "xx"}, "b": {"to": "7001"}}
                await one.end((await admin.post("/v1/calls", json=placed)).json().get("id", ""))
            await asyncio.sleep(0.1)
            said = (await admin.get(f"/v1/calls/{call_id}/transcript.json")).text
            assert all(canary in said for canary in CANARIES), "where they belong, they are"
            answers.append((await admin.get("/metrics")).text)
            answers.append((await admin.get("/v1/calls")).text)
            answers.append((await admin.get(f"/v1/calls/{call_id}")).text)
            await one.end(call_id)
            answers.append((await admin.get("/v1/calls", params={"state": "ended"})).text)

    configure_logging("info", "json")
    asyncio.run(work())
    written = "".join(capfd.readouterr())
    assert "event_not_taken" in written
    for canary in (*CANARIES, *(canary.replace(" ", "") for canary in CANARIES)):
        assert canary not in written
        assert not [answer for answer in answers if canary in answer]
