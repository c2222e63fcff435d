# SPDX-License-Identifier: GPL-3.0-or-later
"""Short calls in a row, and what is left of them: memory, threads, file handles, keys in Redis.

Each call is answered and hung up on during the announcement: the cheapest call that builds and ends everything a call
has. What grows with the number of calls is a leak; what is only high at first is not. So the slope is fitted to the
last two thirds: memory climbs while the first half minute's SIP transactions linger (RFC 3261, 32 s).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gateway.bench.gateway_process import GatewayProcess
from gateway.bench.phone_process import PhoneProcess
from gateway.bench.processes import open_files, redis_keys, resident_kb, threads, workers

CALLS_PER_PHONE = 500  # a telephone keeps its events, ten a call
SAMPLES = 30
HOLD_S = 0.1
"""From the answer to the BYE: within the announcement."""
SETTLE_S = 1.5


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the gateway holds after so many calls: the media process, and the resident memory of its workers."""

    calls: int
    at_s: float
    rss_kb: int
    workers_kb: int
    threads: int
    handles: int
    redis_keys: int


@dataclass(frozen=True, slots=True)
class Churned:
    """The outcome: a footprint before, while nothing of a call is left behind each batch, and at the end."""

    footprints: tuple[Footprint, ...]
    refused: int

    @property
    def slope_kb(self) -> float:
        """Resident memory of the media process per call, over the last two thirds."""
        return slope([(one.calls, one.rss_kb) for one in self.footprints])

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        first, last = self.footprints[0], self.footprints[-1]
        return {
            "calls": last.calls,
            "refused": self.refused,
            "seconds": round(last.at_s, 1),
            "rss_kb_per_call": round(self.slope_kb, 3),
            "before": asdict(first),
            "after": asdict(last),
            "footprints": [asdict(one) for one in self.footprints],
        }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of the last two thirds of (x, y) points; 0.0 when they are fewer than two."""
    late = points[len(points) // 3 :]
    if len(late) < 2:
        return 0.0
    x, y = np.asarray(late, dtype=np.float64).T
    x = x - x.mean()
    spread = float(x @ x)
    return float(x @ (y - y.mean())) / spread if spread else 0.0


async def churn(
    gateway: GatewayProcess, number: str, calls: int, *, shown: Callable[[Footprint], None] | None = None
) -> Churned:
    """Dial ``number`` ``calls`` times, one after the other, and hang up during the announcement.

    Raises:
        PhoneError: a call was neither answered nor refused.
    """
    began_s = time.monotonic()
    found = [footprint(gateway, 0, began_s)]
    refused = done = 0
    every = max(1, calls // SAMPLES)
    while done < calls:
        async with PhoneProcess(user="churn") as phone:
            for _ in range(min(CALLS_PER_PHONE, calls - done)):
                refused += not await short_call(phone, gateway.uri(number))
                done += 1
                if done % every == 0 and done < calls:
                    found.append(footprint(gateway, done, began_s))
                    if shown is not None:
                        shown(found[-1])
    await asyncio.sleep(SETTLE_S)  # the last BYE's call ends, its key goes
    found.append(footprint(gateway, done, began_s))
    gateway.read_events()
    return Churned(tuple(found), refused)


async def short_call(phone: PhoneProcess, uri: str) -> bool:
    """True when the call was answered."""
    since = phone.position
    phone.send("call", uri=uri)
    first = await phone.wait("established", "ended", timeout_s=20, since=since)
    if first["event"] == "ended":
        return False
    await asyncio.sleep(HOLD_S)
    phone.send("hangup")
    await phone.wait("ended", timeout_s=20, since=since)
    return True


def footprint(gateway: GatewayProcess, calls: int, began_s: float) -> Footprint:
    """Look at the gateway's processes now; ``began_s`` is monotonic time."""
    return Footprint(
        calls=calls,
        at_s=time.monotonic() - began_s,
        rss_kb=resident_kb(gateway.pid),
        workers_kb=sum(map(resident_kb, workers(gateway))),
        threads=threads(gateway.pid),
        handles=len(open_files(gateway.pid)),
        redis_keys=redis_keys(gateway),
    )
