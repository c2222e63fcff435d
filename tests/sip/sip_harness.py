# SPDX-License-Identifier: GPL-3.0-or-later
"""A user agent in a process of its own, as a test sees it. A module of its own name: every room has a conftest."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from sip_callee import Callee
from sip_peer import Peer

from gateway.sip.limits import library_facts

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios"


class AgentProcess:
    """A running tests/sip/agent.py, or another such program: events by kind, answers, exit status."""

    def __init__(self, first_rtp: int, program: str = "agent", **options: Any) -> None:
        settings = {"port": 0, "rtp_port_min": first_rtp, "rtp_port_max": first_rtp + 98} | options.pop("settings", {})
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-m",
                f"tests.sip.{program}",
                json.dumps(options | {"settings": settings}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=HERE.parents[1],
        )
        self.lines: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._news = threading.Condition()
        self._telling = threading.Lock()
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        first = self.wait(lambda line: "ready" in line or "failed" in line, 30)
        self.failure: str = first.get("text", "")
        self.port: int = first.get("ready", 0)
        self.tls_port: int = first.get("tls", 0)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._news:
                self.lines.append(json.loads(text))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def wait(self, wanted: Callable[[dict[str, Any]], bool], timeout_s: float = 10, start: int = 0) -> dict[str, Any]:
        """The first line that is wanted, from index ``start`` on."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while True:
                for line in self.lines[start:]:
                    if wanted(line):
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._readers[0].is_alive()):
                    tail = "".join(self.errors[-20:])
                    raise AssertionError(f"nothing wanted in {self.lines} (exit {self.process.poll()}): {tail}")
                self._news.wait(min(left, 0.5))

    def event(self, kind: str, timeout_s: float = 10, start: int = 0, **values: Any) -> dict[str, Any]:
        """The first event of a kind with the given values."""
        return self.wait(
            lambda line: line.get("event") == kind and all(line.get(k) == v for k, v in values.items()),
            timeout_s,
            start,
        )

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("event") == kind]

    def tell(self, do: str, **values: Any) -> None:
        assert self.process.stdin is not None
        with self._telling:
            self.process.stdin.write(json.dumps({"do": do} | values) + "\n")
            self.process.stdin.flush()

    def ask(self, do: str, key: str, timeout_s: float = 10, **values: Any) -> dict[str, Any]:
        """Tell, and wait for the answer that has the key."""
        start = len(self.lines)
        self.tell(do, **values)
        return self.wait(lambda line: key in line, timeout_s, start)

    def statistics(self) -> dict[str, Any]:
        return self.ask("statistics", "statistics")["statistics"]  # type: ignore[no-any-return]

    def hear(self, leg: str, also_hz: float = 0.0) -> dict[str, Any]:
        """What the leg's sink got in the last second; ``also_share`` is the share of power at another frequency."""
        start = len(self.lines)
        self.tell("hear", leg=leg, also_hz=also_hz)
        return self.wait(lambda line: line.get("heard") == leg, 10, start)

    def talking(self, peer: Peer) -> str:
        """The leg of a peer's call, once its sound flows; each of several peers has a user of its own."""
        leg = str(self.event("Incoming", caller=peer.user)["leg"])
        self.event("MediaActive", leg=leg)
        return leg

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, timeout_s: float = 20) -> int:
        """Stop in order; the exit status."""
        if self.alive:
            self.tell("stop")
        return self.process.wait(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            assert error is not None or self.stop() == 0, "".join(self.errors[-40:])
        finally:
            self.kill()

    def kill(self) -> None:
        if self.alive:
            self.process.kill()
            self.process.wait(5)


class SharedAgent:
    """One user agent for many tests: each finds it free of calls, and with nothing told of those before."""

    def __init__(self, rtp: Iterator[int]) -> None:
        self._rtp = rtp
        self._agent: AgentProcess | None = None

    def free(self) -> AgentProcess:
        """The agent; a new one where the last test ended it or left a call in it."""
        agent = self._agent
        if agent is None or not (agent.alive and until(lambda: agent.statistics()["legs"] == 0, 3)):
            self.stop()
            agent = self._agent = AgentProcess(next(self._rtp), auto_answer=True, tone_hz=440)
        agent.statistics()  # behind what was still to be told of the last call
        agent.lines.clear()
        agent.errors.clear()
        return agent

    def stop(self) -> None:
        """It has to end well."""
        agent, self._agent = self._agent, None
        if agent is not None:
            try:
                assert agent.stop() == 0, "".join(agent.errors[-40:])
            finally:
                agent.kill()


@dataclass(frozen=True)
class Exchange:
    """A gateway with scripted engines, the called party behind its number, and a third one to be transferred to."""

    agent: AgentProcess
    callee: Callee
    third: Callee

    def position(self) -> int:
        """The number of events so far."""
        return len(self.agent.lines)


@contextmanager
def open_exchange(
    first_rtp: int, *, more_routes: tuple[dict[str, str], ...] = (), **options: Any
) -> Iterator[Exchange]:
    """7001 leads from English to Portuguese, to the called party; 72… to the third one; 7000 asks, and dials 48…."""
    with Callee() as callee, Callee() as third:
        b, c = f"127.0.0.1:{callee.port}", f"127.0.0.1:{third.port}"
        dial = [{"prefix": "48", "destination": f"sip:b@{b}"}]
        routes: list[dict[str, Any]] = [
            {"name": "asks", "source": "en", "target": "pt", "destination": "", "number": "7000"}
            | {"menu": {"languages": ["en", "pt"], "dial": dial}},
            {"name": "b", "source": "en", "target": "pt", "number": "7001", "destination": f"sip:b@{b}"},
            {"name": "to-en", "source": "pt", "target": "en", "prefix": "72", "destination": f"sip:{{rest}}@{c}"},
            *more_routes,
            {"name": "to-pt", "source": "en", "target": "pt", "prefix": "73", "destination": f"sip:{{rest}}@{b}"},
        ]
        agent = AgentProcess(first_rtp, program="exchange", routes=routes, **options)
        try:
            yield Exchange(agent, callee, third)
            assert agent.stop() == 0, "".join(agent.errors[-40:])
        finally:
            agent.kill()


def free_port() -> int:
    """A UDP port that was free a moment ago, for programs that cannot tell which one they took."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def side_by_side(**cases: Callable[[], None]) -> None:
    """Run cases that mostly wait at the same time; all that fail are told, by name."""
    with ThreadPoolExecutor(len(cases)) as threads:
        running = {name: threads.submit(case) for name, case in cases.items()}
    failed = []
    for name, one in running.items():
        error = one.exception()
        if error is not None:
            error.add_note(f"case: {name}")
            failed.append(error)
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)


def until(condition: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    """Whether a condition came true in time."""
    never = threading.Event()
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        never.wait(0.02)
    return condition()


own_build = pytest.mark.skipif(
    not library_facts().own_build, reason="needs the gateway's own build of PJSIP: make pjsua2"
)
