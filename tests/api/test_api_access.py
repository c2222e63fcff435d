# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is let in, and how everybody else is turned away: problem documents for everything (SPEC C4; CASES K05)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.api.server import ApiError, bind, local_notes
from gateway.api.shapes import ModelList
from gateway.api.tokens import TokenFile
from gateway.runtime import known_models
from gateway.settings import load_settings
from tests.api.control_room import room, run

pytestmark = pytest.mark.unit

READS = ["/v1/calls", "/v1/languages", "/v1/models", "/v1/dictionaries/global", "/v1/hotwords", "/metrics"]
OPEN = ["/healthz", "/docs", "/v1/openapi.json"]


def check_problem(answer: httpx2.Response, status: int, slug: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["type"] == f"/docs#{slug}"
    assert document["title"]
    return dict(document)


def test_every_refusal_is_a_problem_document(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings={"largest_body_bytes": 2048}) as one, one.client() as admin:
            check_problem(await admin.get("/nowhere"), 404, "not-found")
            check_problem(await admin.get("/v1/calls/000000000000"), 404, "no-such-call")
            check_problem(await admin.get("/v1/dictionaries/000000000000"), 404, "no-such-call")
            check_problem(await admin.get("/v1/dictionaries/trunk:none"), 404, "no-such-call")
            refused = await admin.request("DELETE", "/v1/calls")
            check_problem(refused, 405, "method-not-allowed")
            assert refused.headers["allow"] == "GET, POST"
            json_type = {"Content-Type": "application/json"}
            check_problem(await admin.post("/v1/calls", content="{}"), 415, "wrong-media-type")
            check_problem(await admin.post("/v1/calls", content="{", headers=json_type), 422, "invalid")
            check_problem(await admin.post("/v1/calls", content="[" * 2000, headers=json_type), 400, "bad-request")
            check_problem(await admin.post("/v1/calls", content=b"\xff\xfe", headers=json_type), 422, "invalid")
            check_problem(await admin.put("/v1/hotwords", json={"en": ["x" * 3000]}), 413, "too-large")
            check_problem(await admin.get("/v1/calls/XYZ"), 422, "invalid")
            check_problem(await admin.get("/v1/calls", params={"state": "dead"}), 422, "invalid")
            check_problem(await admin.get("/v1/calls", params={"access_token": "gw_x"}), 400, "bad-request")

            async def piecemeal() -> Any:  # without a Content-Length
                for _ in range(40):
                    yield b" " * 512

            check_problem(await admin.post("/v1/calls", content=piecemeal(), headers=json_type), 413, "too-large")

    run(work())


def test_without_a_token_only_what_is_open_answers(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client(None) as nobody:
            for path in READS:
                refused = await nobody.get(path)
                check_problem(refused, 401, "no-token")
                assert refused.headers["www-authenticate"] == "Bearer"
            for headers in ({"Authorization": "Bearer x"}, {"Authorization": f"Basic {one.tokens['admin']}"}):
                check_problem(await nobody.get("/v1/calls", headers=headers), 401, "no-token")
            for path in OPEN:
                answer = await nobody.get(path)
                assert answer.status_code == 200
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert "default-src 'none'" in answer.headers["content-security-policy"]
            for path in READS:
                assert (await nobody.get(path, headers={"Authorization": f"bearer {one.tokens['admin']}"})).is_success

    run(work())


def test_languages_say_who_can_talk_to_whom_and_models_what_is_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("viewer") as viewer:
            voices = {"xx": ["max", "mia"], "yy": ["yan"]}
            one.api.opened({"voices": voices, "routes": [("xx", "en", "yy"), ("yy", "xx")], "borrowed": {}})
            makeshift = {"via": ["en"], "voice_of": None}
            assert (await viewer.get("/v1/languages")).json() == {
                "languages": [
                    {"language": "xx", "voices": ["max", "mia"], "to": ["yy"], "fallback": {"yy": makeshift}},
                    {"language": "yy", "voices": ["yan"], "to": ["xx"], "fallback": {}},
                ],
                "modes": ["consecutive", "simultaneous"],
            }
            assert (await viewer.get("/v1/models")).json() == {"models": []}

    run(work())
    shown = known_models(load_settings(None, {}))
    models = {model.id: model for model in ModelList.model_validate({"models": shown}).models}
    used = {model.id for model in models.values() if model.in_use}
    assert {"whisper-base", "firefox-en-pt"} <= used < set(models)


def test_readiness_follows_the_switchboard(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client(None) as nobody:
            assert (await nobody.get("/readyz")).json() == {"ready": True, "state_store": "connected"}
            one.exchange.board.drain()
            refused = await nobody.get("/readyz")
            check_problem(refused, 503, "not-ready")
            assert (await nobody.get("/healthz")).is_success, "a gateway that drains still lives"

    run(work())


@pytest.mark.parametrize(("role", "allowed"), [("monitor", ["/metrics"]), ("viewer", READS)])
def test_a_role_reads_what_it_may(tmp_path: Path, role: str, allowed: list[str]) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client(role) as client:
            for path in READS:
                answer = await client.get(path)
                if path in allowed:
                    assert answer.is_success
                else:
                    check_problem(answer, 403, "not-allowed")
            check_problem(await client.put("/v1/hotwords", json={}), 403, "not-allowed")

    run(work())


def test_metrics_may_be_opened(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings={"open_metrics": True}) as one, one.client(None) as nobody:
            assert (await nobody.get("/metrics")).is_success
            check_problem(await nobody.get("/v1/calls"), 401, "no-token")

    run(work())


def test_loopback_may_be_opened_but_not_to_other_web_pages(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings={"open_on_loopback": True}) as one, one.client(None) as nobody:
            assert (await nobody.get("/v1/calls")).is_success
            assert (await nobody.get("/v1/calls", headers={"Origin": one.url})).is_success
            for headers in (
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Host": "evil.example"},
                {"Host": f"evil.example:{one.api.port}", "Origin": f"http://evil.example:{one.api.port}"},
            ):
                check_problem(await nobody.get("/v1/calls", headers=headers), 403, "foreign-origin")
            check_problem(await nobody.get("/v1/calls", headers={"Authorization": "Bearer x"}), 401, "no-token")

    run(work())


def test_a_token_is_revoked_within_five_seconds_and_its_stream_ends(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client("auditor") as auditor:
            call_id = await one.bridge()
            loop = asyncio.get_running_loop()
            async with auditor.stream("GET", f"/v1/calls/{call_id}/events") as stream:
                assert stream.is_success
                TokenFile(tmp_path / "one" / "tokens.json").revoke("auditor")
                revoked_s = loop.time()
                async for _ in stream.aiter_lines():
                    pass
            assert loop.time() - revoked_s < 5
            check_problem(await auditor.get("/v1/calls"), 401, "no-token")
            await one.end(call_id)

    run(work())


def test_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings={"requests_per_s": 0.01}) as one, one.client() as admin:
            answers = [await admin.get("/v1/hotwords") for _ in range(8)]
            refused = [answer for answer in answers if answer.status_code == 429]
            assert len(refused) >= 2
            check_problem(refused[0], 429, "too-many-requests")
            assert int(refused[0].headers["retry-after"]) >= 1
            async with one.client("viewer") as other:
                assert (await other.get("/v1/hotwords")).is_success, "one token does not use up another's share"

    run(work())


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.guard.BODY_S", 0.2)

    async def work() -> None:
        async with room(tmp_path) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.api.port)
            writer.write(b"POST /v1/calls HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            answer = await asyncio.wait_for(reader.read(1000), 5)
            assert answer.startswith(b"HTTP/1.1 408")
            writer.close()

    run(work())


def test_the_user_who_runs_the_gateway_finds_an_address_and_a_token(tmp_path: Path) -> None:
    async def work() -> None:
        tokens = tmp_path / "one" / "tokens.json"
        async with room(tmp_path) as one, one.client(None) as client:
            (note,) = local_notes(tokens)
            assert note["url"] == one.url
            assert (await client.get("/v1/calls", headers={"Authorization": f"Bearer {note['token']}"})).is_success
            assert (tokens.parent / f"local-{one.api.port}.json").stat().st_mode & 0o077 == 0
        assert local_notes(tokens) == [], "it is taken away at the end"

    run(work())


def test_a_port_in_use_is_told_with_the_remedy() -> None:
    taken = bind("127.0.0.1", 0)
    with pytest.raises(ApiError, match=r"api\.port"):
        bind("127.0.0.1", taken.getsockname()[1])
    taken.close()


def test_k05_the_token_is_in_no_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from gateway.telemetry.logs import configure_logging

    async def work() -> str:
        async with room(tmp_path) as one, one.client() as admin:
            await admin.get("/v1/calls")
            await admin.get(f"/v1/calls?token={one.tokens['admin']}")
            await admin.post("/v1/calls", content="{", headers={"Content-Type": "application/json"})
            return one.tokens["admin"]

    configure_logging("debug", "json")
    token = asyncio.run(work())
    written = "".join(capfd.readouterr())
    assert "api_started" in written
    secret = token.split("_", 2)[2]
    assert len(secret) > 20 and secret not in written


def test_the_documentation_page_describes_every_operation(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client(None) as nobody:
            page = (await nobody.get("/docs")).text
            document = (await nobody.get("/v1/openapi.json")).json()
            for path in document["paths"]:
                assert f"<code>{path}</code>" in page
            assert "<script" not in page and "http://" not in page and "https://" not in page
            assert 'id="no-such-call"' in page
            assert "HTTPValidationError" not in json.dumps(document)

    run(work())
