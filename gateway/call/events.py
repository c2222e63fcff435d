# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens in calls, told to whoever listens: the demo's transcript, the event file, the control API.

A listener that does not keep up loses its oldest events, which is counted; it never slows a call down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

KINDS = frozenset(
    {
        *("call-started", "call-phase", "call-changed", "call-held", "call-resumed", "call-ended"),
        *("call-transfer", "call-handover", "control", "safety-mode", "language", "passed-through", "fallback"),
        *("preview", "heard", "clause", "utterance", "unclear", "lost", "cut", "interrupted", "echo", "loop-broken"),
    }
)
"""All events of calls; docs/api.md says what each one tells."""
QUEUE_EVENTS = 1000  # a busy call makes about 5 events a second: minutes of a stalled listener


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One event. ``data`` is JSON-ready and may hold personal data: it must not be logged."""

    kind: str
    call: str
    at_ns: int
    data: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The event as one flat object."""
        return {"kind": self.kind, "call": self.call, "at_ns": self.at_ns, **self.data}


class Subscription:
    """One listener's bounded queue."""

    def __init__(self, limit: int = QUEUE_EVENTS) -> None:
        self._events: deque[CallEvent] = deque()
        self._limit = limit
        self._wake = asyncio.Event()
        self._closed = False
        self.dropped = 0

    def push(self, event: CallEvent) -> None:
        """Queue an event; the oldest is dropped when the listener is too slow."""
        if len(self._events) >= self._limit:
            self._events.popleft()
            self.dropped += 1
        self._events.append(event)
        self._wake.set()

    def close(self) -> None:
        """No more events; the iterator ends when it has given what is queued."""
        self._closed = True
        self._wake.set()

    async def __aiter__(self) -> AsyncIterator[CallEvent]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()


class EventBus:
    """Spreads events to the subscriptions that are open."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def subscribe(self) -> Subscription:
        """A new listener; it sees what is published from now on."""
        subscription = Subscription()
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Close a listener."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        subscription.close()

    def publish(self, event: CallEvent) -> None:
        """Give the event to every listener."""
        for subscription in self._subscriptions:
            subscription.push(event)

    def close(self) -> None:
        """End all subscriptions."""
        for subscription in list(self._subscriptions):
            self.unsubscribe(subscription)

    def statistics(self) -> dict[str, int]:
        """Listeners and what slow ones lost."""
        return {
            "subscriptions": len(self._subscriptions),
            "dropped": sum(subscription.dropped for subscription in self._subscriptions),
        }
