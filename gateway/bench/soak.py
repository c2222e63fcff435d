# SPDX-License-Identifier: GPL-3.0-or-later
"""Hours of a gateway in minutes to read: one conversation that never ends, short calls beside it, and what grows.

The conversation lasts from the first minute to the last, and somebody speaks in it every half minute, so that
recogniser, translator, voices, recorder and transcript are at work. The short calls are spread evenly over the time;
each builds and ends everything that a call has. Two legs each: the packaged SIP library holds both.

A leak is a slope. It is fitted to the last two thirds, as in `churn`: memory is filled at first.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.bench.churn import CALLS_PER_PHONE, SETTLE_S, Footprint, footprint, short_call, slope
from gateway.bench.dialogue import VoicedTurn
from gateway.bench.gateway_process import GatewayProcess
from gateway.bench.phone_process import PhoneError, PhoneProcess

SAMPLES = 120
TALK_EVERY_S = 30.0
ESTABLISH_S = 40.0
"""Until both parties are in the conversation: two disclosures are spoken before."""
OVERTIME = 2.0
"""The short calls may take so many times the minutes that were asked for; what is not made then is told."""
PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Soaked:
    """The outcome. ``unanswered`` counts calls that heard nothing in time, which a machine without processor time does
    too; ``said`` what was spoken into the conversation; ``broken`` tells that it ended by itself."""

    footprints: tuple[Footprint, ...]
    refused: int
    unanswered: int
    said: int
    broken: bool

    def per_hour(self, what: str) -> float:
        """Growth of one of a footprint's numbers in an hour."""
        return slope([(one.at_s, getattr(one, what)) for one in self.footprints]) * PER_HOUR

    @property
    def kb_per_call(self) -> float:
        """Growth of the media process' resident memory for each short call."""
        return slope([(one.calls, one.rss_kb) for one in self.footprints])

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        first, last = self.footprints[0], self.footprints[-1]
        return {
            "minutes": round(last.at_s / 60, 1),
            "calls": last.calls,
            "refused": self.refused,
            "unanswered": self.unanswered,
            "said": self.said,
            "conversation_broken": self.broken,
            "rss_kb_per_call": round(self.kb_per_call, 3),
            "rss_kb_per_hour": round(self.per_hour("rss_kb"), 1),
            "workers_kb_per_hour": round(self.per_hour("workers_kb"), 1),
            "threads_per_hour": round(self.per_hour("threads"), 2),
            "handles_per_hour": round(self.per_hour("handles"), 2),
            "redis_keys_per_hour": round(self.per_hour("redis_keys"), 2),
            "before": asdict(first),
            "after": asdict(last),
            "footprints": [asdict(one) for one in self.footprints],
        }


async def soak(
    gateway: GatewayProcess,
    *,
    talk_number: str,
    talk_port: int,
    turns: Sequence[VoicedTurn],
    short_number: str,
    calls: int,
    minutes: float,
    shown: Callable[[Footprint], None] | None = None,
) -> Soaked:
    """Run for ``minutes``, and on until ``calls`` short calls were made.

    Raises:
        PhoneError: the conversation did not come about, or could not be ended.
    """
    async with PhoneProcess(user="b", sip_port=talk_port, answer_after_ms=100) as b, PhoneProcess(user="a") as a:
        a.send("call", uri=gateway.uri(talk_number))
        await asyncio.gather(*(phone.wait("established", timeout_s=ESTABLISH_S) for phone in (a, b)))
        talking = asyncio.create_task(_talk({"a": a, "b": b}, turns))
        try:
            short = _ShortCalls(gateway, short_number, calls, minutes * 60, shown)
            await short.make()
        finally:
            talking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await talking
        broken = bool(a.find("ended") or b.find("ended"))
        said = sum(len(phone.find("played")) for phone in (a, b))
        if not broken:
            a.send("hangup")
            await a.wait("ended", timeout_s=20)
    return Soaked(tuple(short.found), short.refused, short.unanswered, said, broken)


async def _talk(phones: dict[str, PhoneProcess], turns: Sequence[VoicedTurn]) -> None:
    for number, voiced in enumerate(itertools.cycle(turns)):
        phone = phones[voiced.turn.speaker]
        if phone.find("ended"):
            return
        phone.send("play", file=str(voiced.path), id=f"{voiced.turn.turn_id}-{number}", at_ns=0)
        await asyncio.sleep(TALK_EVERY_S)


class _ShortCalls:
    """Calls at an even pace, and looks at the gateway in between."""

    def __init__(
        self,
        gateway: GatewayProcess,
        number: str,
        calls: int,
        seconds: float,
        shown: Callable[[Footprint], None] | None,
    ) -> None:
        self._gateway, self._number, self._calls, self._seconds, self._shown = gateway, number, calls, seconds, shown
        self._began_s = time.monotonic()
        self._done = 0
        self.refused = 0
        self.unanswered = 0
        self.found: list[Footprint] = []

    async def make(self) -> None:
        """All of them, and on to the end of the time."""
        self._look()
        while self._done < self._calls and self._passed_s() < self._seconds * OVERTIME:
            async with PhoneProcess(user="soak") as phone:
                await self._some(phone)
        while (left_s := self._seconds - self._passed_s()) > 0:
            await asyncio.sleep(min(left_s, self._seconds / SAMPLES))
            self._look_if_due()
        await asyncio.sleep(SETTLE_S)
        self._look()

    async def _some(self, phone: PhoneProcess) -> None:
        """As many as one telephone makes; fewer when one of them hangs."""
        for _ in range(min(CALLS_PER_PHONE, self._calls - self._done)):
            await asyncio.sleep(max(0.0, self._seconds * self._done / self._calls - self._passed_s()))
            self._done += 1
            try:
                self.refused += not await short_call(phone, self._gateway.uri(self._number))
            except PhoneError:
                self.unanswered += 1
                return
            self._look_if_due()
            if self._passed_s() >= self._seconds * OVERTIME:
                return

    def _passed_s(self) -> float:
        return time.monotonic() - self._began_s

    def _look_if_due(self) -> None:
        if self._passed_s() >= len(self.found) * self._seconds / SAMPLES:
            self._look()
            if self._shown is not None:
                self._shown(self.found[-1])

    def _look(self) -> None:
        self.found.append(footprint(self._gateway, self._done, self._began_s))
