# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway of its own for a demo or a bench: the same `gateway serve` that an operator starts, in its own process.

It tells what happens in it through the event file, and what it costs is read from /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Any, Self

import yaml

READY_S = 180.0  # a cold machine reads and warms 350 MB of models
STOP_S = 20.0
POLL_S = 0.05
_FIRST_PORT = 21_000  # above the RTP ports of the settings' defaults
_PORT_TRIES = 100
_TICKS = os.sysconf("SC_CLK_TCK")


class GatewayFailed(RuntimeError):
    """The gateway did not come up; the message carries its last words."""


def free_port(kind: socket.SocketKind = socket.SOCK_DGRAM) -> int:
    """A loopback port that nobody has now, and that nobody is given who asks the kernel for any port.

    So it is still free when it is used, be that a minute later. OSError where none is found.
    """
    given_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    for port in SystemRandom().sample(range(_FIRST_PORT, max(given_from, _FIRST_PORT + _PORT_TRIES)), _PORT_TRIES):
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no free port from {_FIRST_PORT} on")


class GatewayProcess:
    """``async with GatewayProcess(work, routes=[…], environ={…}) as gateway``: it is up and takes calls inside."""

    def __init__(
        self,
        work: Path,
        *,
        routes: list[dict[str, Any]],
        environ: Mapping[str, str] | None = None,
        config: Path | None = None,
    ) -> None:
        self.port = free_port()
        self.events_file = work / "events.jsonl"
        self.log_file = work / "gateway.log"
        self.tokens_file = work / "tokens.json"
        self.events: list[dict[str, Any]] = []
        self._work = work
        self._routes = routes
        self._config = config
        self._environ = dict(environ or {})
        self._read_to = 0
        self._process: asyncio.subprocess.Process | None = None

    def uri(self, number: str) -> str:
        """The SIP URI that dials a number on this gateway."""
        return f"sip:{number}@127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the media process."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        self._work.mkdir(parents=True, exist_ok=True)
        self.events_file.unlink(missing_ok=True)  # an earlier run's "ready" is not ours
        plan = self._work / "dialplan.yaml"
        plan.write_text(yaml.safe_dump({"routes": self._routes}, allow_unicode=True), encoding="utf-8")
        environ = {
            **os.environ,
            "GATEWAY__SIP__PORT": str(self.port),
            "GATEWAY__API__PORT": "0",
            "GATEWAY__API__TOKENS": str(self.tokens_file.resolve()),
            "GATEWAY__DIALPLAN__FILE": str(plan.resolve()),
            "GATEWAY__LOG__FORMAT": "json",
            # the first sound that a telephone hears is to be the translation
            "GATEWAY__ORIGINAL__ENABLED": "false",
            "GATEWAY__CALL__WAITING_CUE_S": "0",
            "GATEWAY__TURNS__BARGE_IN_MS": "0",  # scripts of fixed times talk over translations
            **self._environ,
        }
        command = [sys.executable, "-m", "gateway", "serve", "--events", str(self.events_file)]
        if self._config is not None:
            command += ["--config", str(self._config)]
        with self.log_file.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, env=environ, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            await self.wait_for("ready", timeout_s=READY_S)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def wait_for(self, kind: str, *, timeout_s: float, call: str | None = None) -> dict[str, Any]:
        """The first event of a kind, past or future. GatewayFailed when the process ends; TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while True:
                self.read_events()
                for event in self.events:
                    if event["kind"] == kind and call in (None, event["call"]):
                        return event
                if self._process is not None and self._process.returncode is not None:
                    raise GatewayFailed(
                        f"the gateway ended with status {self._process.returncode}: {self.last_words()}"
                    )
                await asyncio.sleep(POLL_S)

    def read_events(self) -> list[dict[str, Any]]:
        """What was written since the last look; also kept in `events`."""
        if not self.events_file.exists():
            return []
        with self.events_file.open("rb") as file:
            file.seek(self._read_to)
            text = file.read()
        whole, _, _ = text.rpartition(b"\n")
        self._read_to += len(whole) + 1 if whole else 0
        new = [json.loads(line) for line in whole.splitlines()]
        self.events += new
        return new

    async def wait_end(self, timeout_s: float) -> int:
        """Its exit status, when it has ended by itself or was told to. TimeoutError."""
        assert self._process is not None
        async with asyncio.timeout(timeout_s):
            return await self._process.wait()

    def last_words(self, lines: int = 5) -> str:
        """The end of the gateway's log."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""
        return " | ".join(text.splitlines()[-lines:])

    def cpu_s(self) -> float:
        """CPU seconds used so far by the gateway, its workers and its Redis."""
        total = 0.0
        for pid in (self.pid, *children(self.pid)):
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / _TICKS
        return total

    async def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.2)
                process.send_signal(signal.SIGTERM)  # no waiting for calls: the bench has hung up its own
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        self.read_events()


def children(pid: int) -> list[int]:
    """Process ids of all descendants."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text(encoding="ascii").split():
                found += [int(child), *children(int(child))]
    return found
