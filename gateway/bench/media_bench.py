# SPDX-License-Identifier: GPL-3.0-or-later
"""How many legs the media process carries, how evenly it sends, and what a leg costs.

Three processes: the one that is measured (`media_host`), its peers (`swarm`), and this one, which reads from /proc
what the first uses meanwhile. SIP and RTP are real, over loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gateway.sip.limits import REMEDY

ANSWER_S = 90.0
STOP_S = 20.0
FIRST_RTP_PORT = 20_000
BUSY_PEERS_PCT = 70.0  # of a core, for all peers together: beyond, their own lateness is what is measured
_TICKS = os.sysconf("SC_CLK_TCK")


class MediaBenchFailed(RuntimeError):
    """The calls did not come about; the message says why."""


@dataclass(frozen=True, slots=True)
class MediaFigures:
    """The outcome. Packets a second and gaps are what the peers received; ``late_frames`` is the gateway's count of
    frames of theirs that came through its bridge more than 40 ms behind the one before."""

    legs: int
    seconds: float
    library: str
    pps_mean: float
    pps_min: float
    pps_max: float
    gap_p50_ms: float
    gap_p99_ms: float
    gap_p999_ms: float
    gap_max_ms: float
    core_pct: float
    core_pct_per_leg: float
    rss_mb: float
    late_frames: int
    worst_callback_gap_ms: float
    callback_errors: int
    peers_core_pct: float

    @property
    def void(self) -> bool:
        """The peers were too busy to tell anything about the gateway (CASES L04)."""
        return self.peers_core_pct > BUSY_PEERS_PCT

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        found = {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(self).items()}
        return {**found, "void": self.void}


class _Child:
    """A process that speaks lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def line(self, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            text = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        except TimeoutError:
            raise MediaBenchFailed(f"no answer within {timeout_s:.0f} s") from None
        if not text:
            raise MediaBenchFailed("a process of the bench ended; its last words stand above")
        told: dict[str, Any] = json.loads(text)
        return told

    async def ask(self, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return await self.line(timeout_s)


@asynccontextmanager
async def _child(module: str, *arguments: str) -> AsyncIterator[_Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield _Child(process)
    finally:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def free_rtp_range(legs: int, first: int = FIRST_RTP_PORT) -> int:
    """The first port of a range for so many legs in which nobody sits now. MediaBenchFailed when there is none."""
    ports = 2 * legs + 10
    begin = first
    for port in range(first, 60_000):
        if port - begin >= ports:
            return begin
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                begin = port + 1 + (port + 1) % 2
    raise MediaBenchFailed(f"there are no {ports} free UDP ports in a row")


async def bench_media(legs: int, seconds: float, say: Callable[[str], None] = lambda text: None) -> MediaFigures:
    """Hold ``legs`` calls and measure for ``seconds``.

    Raises:
        MediaBenchFailed: the SIP library holds fewer, or not all calls stood.
    """
    host_arguments = ["--rtp-port", str(free_rtp_range(legs)), "--legs", str(legs)]
    async with _child("gateway.bench.media_host", *host_arguments) as host:
        ready = await host.line()
        if ready["max_legs"] < legs:
            raise MediaBenchFailed(f"this SIP library holds {ready['max_legs']} legs, not {legs}; {REMEDY}")
        say(f"calling {legs} times")
        arguments = ["--target", str(ready["ready"]), "--legs", str(legs), "--seconds", str(seconds)]
        async with _child("gateway.bench.swarm", *arguments) as swarm:
            up = await swarm.line()
            if up["established"] < legs:
                raise MediaBenchFailed(f"only {up['established']} of {legs} calls stood: {', '.join(up['refused'])}")
            before = await host.ask()
            say(f"measuring for {seconds:g} s")
            cpu_s, peers_s, began_s = _cpu_s(host.pid), _cpu_s(swarm.pid), time.monotonic()
            heard = await swarm.ask(seconds + ANSWER_S)
            pct_per_s = 100 / (time.monotonic() - began_s)
            core_pct = pct_per_s * (_cpu_s(host.pid) - cpu_s)
            peers_core_pct = pct_per_s * (_cpu_s(swarm.pid) - peers_s)
            after = await host.ask()
    return MediaFigures(
        legs=legs,
        seconds=seconds,
        library=str(after["library"]),
        **{key: heard[key] for key in ("pps_mean", "pps_min", "pps_max")},
        **{f"gap_{name}_ms": heard[f"gap_{name}_ms"] for name in ("p50", "p99", "p999", "max")},
        core_pct=core_pct,
        core_pct_per_leg=core_pct / legs,
        rss_mb=after["rss_kb"] / 1024,
        late_frames=int(after["late_frames"] - before["late_frames"]),
        worst_callback_gap_ms=float(after["worst_gap_ms"]),
        callback_errors=int(after["callback_errors"]),
        peers_core_pct=peers_core_pct,
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
