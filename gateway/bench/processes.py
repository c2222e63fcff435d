# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's family of processes, as the kernel tells it: who is who, who lives, what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from pathlib import Path

from redis import Redis

from gateway.bench.gateway_process import GatewayProcess, children

_PATIENCE_S = 30.0  # an hour of measuring is not given up for a server that a busy machine holds up


def command(pid: int) -> list[str]:
    """The command line of a process; empty for one that is gone, or only its name is left."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
    return []


def alive(pid: int) -> bool:
    """False for a process that is gone or that only waits to be reaped."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    return False


def workers(gateway: GatewayProcess) -> list[int]:
    """The processes that hold the models."""
    return [pid for pid in children(gateway.pid) if any("spawn_main" in word for word in command(pid))]


def redis_server(gateway: GatewayProcess) -> int | None:
    """The embedded Redis."""
    return next((pid for pid in children(gateway.pid) if _serves_redis(pid)), None)


def _serves_redis(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name in ("valkey-server", "redis-server")
    return False


def redis_client(pid: int) -> Redis:
    """A client of an embedded server."""
    words = " ".join(command(pid)).replace(":", " ").split()  # the server writes its socket into its name
    socket = next(word for word in words if word.endswith("/socket"))
    return Redis(unix_socket_path=socket, decode_responses=True, socket_timeout=_PATIENCE_S)


def redis_keys(gateway: GatewayProcess) -> int:
    """Keys in the embedded Redis; 0 when the gateway uses another one.

    Transcripts of ended calls are left out: they are meant to stay for a while (`api.transcript_ttl_s`).
    """
    pid = redis_server(gateway)
    if pid is None:
        return 0
    with redis_client(pid) as client:
        return sum(not re.search(r":(said|ended)(:|\Z)", str(key)) for key in client.scan_iter(count=1000))


async def until_gone(pids: list[int], limit_s: float) -> list[int]:
    """Who still lives when the time is over."""
    until_s = time.monotonic() + limit_s
    while True:
        left = [pid for pid in pids if alive(pid)]
        if not left or time.monotonic() > until_s:
            return left
        await asyncio.sleep(0.05)


def threads(pid: int) -> int:
    """Number of threads."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def open_files(pid: int) -> list[str]:
    """What each file descriptor leads to, with sockets and pipes without their numbers."""
    found = []
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(handle.readlink()).partition(":[")[0])
    return sorted(found)


def resident_kb(pid: int) -> int:
    """Memory that is really there."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
