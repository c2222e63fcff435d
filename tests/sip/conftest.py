# SPDX-License-Identifier: GPL-3.0-or-later
"""User agents in processes of their own, and the programs that call them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from long_calls import SCENARIOS as LONG_CALLS
from long_calls import run
from sip_harness import SCENARIOS, AgentProcess, Exchange, SharedAgent, open_exchange


@pytest.fixture
def agents(worker_rtp: Iterator[int]) -> Iterator[Callable[..., AgentProcess]]:
    """Makes user agents; each is stopped at the end and must have ended well."""
    made: list[AgentProcess] = []

    def make(**options: Any) -> AgentProcess:
        made.append(AgentProcess(next(worker_rtp), **options))
        return made[-1]

    yield make
    ends = []
    for agent in made:
        try:
            ends.append(agent.stop() if not agent.failure else 0)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            ends.append(-1)
        finally:
            agent.kill()
    assert ends == [0] * len(ends), "".join(made[-1].errors[-40:])


@pytest.fixture(scope="module")
def exchange(worker_rtp: Iterator[int]) -> Iterator[Exchange]:
    """A gateway without models for the tests of a module."""
    with open_exchange(next(worker_rtp)) as one:
        yield one


@pytest.fixture(scope="session", autouse=True)
def long_calls(request: pytest.FixtureRequest, worker_rtp: Iterator[int]) -> Iterator[Mapping[str, Future[None]]]:
    """The calls that take minutes, begun with the first test of this room if they are asked for at all."""
    if not any(item.path.name == "test_sip_timers.py" for item in request.session.items):
        yield {}
        return
    agent = AgentProcess(next(worker_rtp), auto_answer=True, tone_hz=440)
    with ThreadPoolExecutor(len(LONG_CALLS)) as threads:
        yield {name: threads.submit(run, agent, name) for name in LONG_CALLS}
    assert agent.stop() == 0


@pytest.fixture(scope="session")
def worker_rtp() -> Iterator[int]:
    """First RTP ports, another one for each agent."""
    return iter(range(32_000, 60_000, 100))


@pytest.fixture(scope="module")
def shared_agent(worker_rtp: Iterator[int]) -> Iterator[SharedAgent]:
    one = SharedAgent(worker_rtp)
    yield one
    one.stop()


@pytest.fixture
def agent(shared_agent: SharedAgent) -> AgentProcess:
    """A user agent that answers and plays 440 Hz, free of calls. It counts over all tests of a module."""
    return shared_agent.free()


def _need(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is missing: apt-get install {package}")
    return path


@pytest.fixture
def sipp(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts SIPp on loopback with a scenario of ours (a file name) or its own (``sn:uac``)."""
    program = _need("sipp", "sip-tester")
    running: list[subprocess.Popen[str]] = []

    def run(scenario: str, *arguments: str, cwd: Path = tmp_path) -> subprocess.Popen[str]:
        what = ["-sn", scenario[3:]] if scenario.startswith("sn:") else ["-sf", str(SCENARIOS / scenario)]
        command = [program, *what, "-i", "127.0.0.1", "-m", "1", "-nostdin", "-timeout", "30s", *arguments]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=cwd))
        return running[-1]

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait(5)


@pytest.fixture
def baresip() -> str:
    return _need("baresip", "baresip")
