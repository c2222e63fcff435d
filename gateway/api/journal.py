# SPDX-License-Identifier: GPL-3.0-or-later
"""The last events of each call, numbered, so that a listener that was cut off goes on where it was.

Bounded twice: so many events of a call, so many calls that are over. Who comes back too late is told how many it
missed. Held in memory by the gateway that has the call, and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.call.events import CallEvent

MOST_EVENTS = 1000  # of a call: minutes of a lively one, previews included
MOST_ENDED = 16  # calls whose end can still be heard by somebody who comes late
OVER = "call-ended"


@dataclass(frozen=True, slots=True)
class Page:
    """Events behind a number. ``missed``: so many are no longer kept. ``over``: no more will come."""

    events: list[dict[str, Any]]
    missed: int
    over: bool


@dataclass(slots=True)
class _Ring:
    events: deque[dict[str, Any]]
    last: int = 0
    over: bool = False
    grown: asyncio.Event = field(default_factory=asyncio.Event)


class Journal:
    """All calls of this gateway. ``wall`` gives the time of day in seconds since 1970."""

    def __init__(
        self, most_events: int = MOST_EVENTS, most_ended: int = MOST_ENDED, wall: Callable[[], float] = time.time
    ) -> None:
        self._most_events = most_events
        self._most_ended = most_ended
        self._wall = wall
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self._dropped = 0

    def add(self, event: CallEvent) -> dict[str, Any]:
        """Number an event of a call and keep it; returns it in the form in which it is told."""
        ring = self._rings.get(event.call)
        if ring is None:
            ring = self._rings[event.call] = _Ring(deque(maxlen=self._most_events))
        ring.last += 1
        told = {"id": ring.last, "time": round(self._wall(), 3), **event.as_json()}
        self._dropped += len(ring.events) == self._most_events
        ring.events.append(told)
        if event.kind == OVER:
            ring.over = True
            self._forget()
        ring.grown.set()
        ring.grown = asyncio.Event()
        return told

    def holds(self, call_id: str) -> bool:
        """Whether anything is known of a call."""
        return call_id in self._rings

    def since(self, call_id: str, after: int, most: int = MOST_EVENTS) -> Page:
        """Up to ``most`` events with a number above ``after``. KeyError: nothing is known of the call."""
        ring = self._rings[call_id]
        first = ring.last - len(ring.events) + 1
        missed = max(0, first - 1 - after)
        events = [told for told in ring.events if told["id"] > after][:most]
        reached = events[-1]["id"] if events else max(after, ring.last)
        return Page(events, missed, ring.over and reached >= ring.last)

    async def wait(self, call_id: str, after: int, timeout_s: float) -> None:
        """Return when there may be an event behind a number, at the latest after the time-out."""
        ring = self._rings.get(call_id)
        if ring is None or ring.last > after or ring.over:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await ring.grown.wait()

    def statistics(self) -> dict[str, int]:
        """Calls, events, and those that had to give way."""
        return {
            "calls": len(self._rings),
            "events": sum(len(ring.events) for ring in self._rings.values()),
            "dropped": self._dropped,
        }

    def _forget(self) -> None:
        over = [call_id for call_id, ring in self._rings.items() if ring.over]
        for call_id in over[: -self._most_ended]:
            del self._rings[call_id]
