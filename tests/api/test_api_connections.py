# SPDX-License-Identifier: GPL-3.0-or-later
"""What clients cannot do to a process that carries telephone calls: hold its handles, its memory or its log."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.api.connections import BoundedProtocol
from gateway.api.server import local_notes, local_url
from gateway.cli.app import app
from gateway.telemetry.logs import configure_logging
from tests.api.control_room import room, run

pytestmark = pytest.mark.unit


NONSENSE = (
    b"INVITE sip:5551234987@x SIP/2.0\r\n\r\n",
    b"\x16\x03\x01\x00",
    b"GET / HTTP/1.1\r\n5551234987\r\n\r\n",
)


async def ended(reader: asyncio.StreamReader, limit_s: float = 5.0) -> bool:
    """Whether the server ends the connection, with or without a last word."""
    try:
        await asyncio.wait_for(reader.read(), limit_s)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def test_connections_are_bounded_and_those_that_ask_nothing_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.api.connections.MOST_CONNECTIONS", 3)
    monkeypatch.setattr("gateway.api.connections.LOOK_S", 0.6)

    async def work() -> None:
        async with room(tmp_path) as one:
            where = ("127.0.0.1", one.api.port)
            silent = [await asyncio.open_connection(*where) for _ in range(3)]
            slow = silent[0][1]
            slow.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            await slow.drain()
            reader, writer = await asyncio.open_connection(*where)
            assert await ended(reader), "one too many"
            writer.close()
            for reader, writer in silent:
                assert await ended(reader), "nothing was asked within two looks"
                writer.close()
            async with one.client() as admin:
                call_id = await one.bridge()
                async with admin.stream("GET", f"/v1/calls/{call_id}/events") as stream:
                    lines = stream.aiter_lines()
                    await anext(lines)
                    await asyncio.sleep(1.9)  # several looks: a stream is a request in progress
                    await one.end(call_id)
                    assert "event: call-ended" in [line async for line in lines]

    run(work())


def test_a_listener_that_takes_nothing_loses_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.guard.SEND_S", 0.3)

    async def work() -> None:
        async with room(tmp_path) as one:
            call_id = await one.bridge()
            stalled = socket.socket()
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            stalled.connect(("127.0.0.1", one.api.port))
            head = f"GET /v1/calls/{call_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {one.tokens['admin']}"
            stalled.sendall(f"{head}\r\n\r\n".encode())
            async with asyncio.timeout(10):
                while not one.api.statistics()["streams"]:  # noqa: ASYNC110 - the state under test
                    await asyncio.sleep(0.01)
            for _ in range(400):  # 20 MB: more than the kernel's buffers take
                one.publish(call_id, "preview", text="x" * 50_000)
                await asyncio.sleep(0)
            async with asyncio.timeout(10):
                while one.api.statistics()["streams"]:  # noqa: ASYNC110 - the state under test
                    await asyncio.sleep(0.05)
            stalled.close()
            await one.end(call_id)

    run(work())


def test_what_is_no_http_is_answered_and_not_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        async with room(tmp_path) as one:
            for nonsense in NONSENSE:
                reader, writer = await asyncio.open_connection("127.0.0.1", one.api.port)
                writer.write(nonsense)
                writer.write_eof()
                await ended(reader)
                writer.close()

    configure_logging("info", "json")
    run(work())
    assert "5551234987" not in "".join(capfd.readouterr())


def test_a_repeated_order_with_the_same_key_places_one_call(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path) as one, one.client() as admin:
            order = {"a": {"to": "sip:ana@192.0.2.1", "language": "xx"}, "b": {"to": "7001"}}
            headers = {"Idempotency-Key": "order 66"}
            first, again = [await admin.post("/v1/calls", json=order, headers=headers) for _ in range(2)]
            assert first.status_code == again.status_code == 201
            assert first.json()["id"] == again.json()["id"]
            assert len(one.exchange.board.calls()) == 1
            await one.end(first.json()["id"])

    run(work())


def test_https_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-subj", "/CN=gateway.example", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*openssl, *files], check=True, capture_output=True)
    configure_logging("error", "json")

    async def work() -> None:
        settings = {"tls_certificate": str(certificate), "tls_key": str(key)}
        async with room(tmp_path, settings=settings) as one:
            (note,) = local_notes(tmp_path / "one" / "tokens.json")
            assert note["url"] == f"https://127.0.0.1:{one.api.port}"
            config = str(tmp_path / "one" / "gateway.yaml")
            listed = await asyncio.to_thread(CliRunner().invoke, app, ["calls", "--json", "--config", config])
            assert listed.output == '{"calls": []}\n', "the command proves the gateway by the certificate it left"
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection("127.0.0.1", one.api.port, ssl=ssl.create_default_context())

    run(work())


@pytest.mark.parametrize(
    ("address", "url"),
    [("127.0.0.1", "http://127.0.0.1:8"), ("0.0.0.0", "http://127.0.0.1:8"), ("::", "http://[::1]:8")],
)
def test_the_address_that_is_left_can_be_called(address: str, url: str) -> None:
    assert local_url(address, 8, encrypted=False) == url


def test_the_server_still_has_what_the_bounds_rely_on() -> None:
    """`cycle` and `connections` are the server's own: another version may name them otherwise."""
    base = BoundedProtocol.__mro__[1]
    assert {"cycle", "connections"} <= set(base.__init__.__code__.co_names)
