# SPDX-License-Identifier: GPL-3.0-or-later
"""The API's one listener: every event of this gateway's calls goes to journal, transcript, metrics and webhooks."""

from __future__ import annotations

from typing import Any, Protocol

import structlog

from gateway.api.journal import Journal
from gateway.api.webhooks import Webhooks
from gateway.call.events import CallEvent, Subscription
from gateway.telemetry.metrics import Meters

log = structlog.get_logger(__name__)


class Minutes(Protocol):
    """Where transcripts are kept."""

    def add(self, call_id: str, line: dict[str, Any]) -> None:
        """One utterance."""

    def amend(self, call_id: str, segment_id: str, news: dict[str, Any]) -> None:
        """Something became known of an utterance behind its line."""

    def end(self, call_id: str, record: dict[str, Any]) -> None:
        """The call is over."""


class Watch:
    """Run `follow` for as long as the gateway lives."""

    def __init__(self, journal: Journal, minutes: Minutes, meters: Meters, webhooks: Webhooks) -> None:
        self._journal = journal
        self._minutes = minutes
        self._meters = meters
        self._webhooks = webhooks
        self._began_ns: dict[str, int] = {}

    async def follow(self, subscription: Subscription) -> None:
        """Take events until the subscription is closed."""
        async for event in subscription:
            if event.call:
                try:
                    self.take(event)
                except Exception as error:  # one event that nobody foresaw must not end all listening
                    log.error("event_not_taken", event_kind=event.kind, error=type(error).__name__)

    def take(self, event: CallEvent) -> None:
        """Pass one event on."""
        told = self._journal.add(event)
        self._meters.on_event(event.kind, event.data)
        began_ns = self._began_ns.setdefault(event.call, event.at_ns)
        if event.kind == "utterance":
            self._minutes.add(event.call, transcript_line(event.data, began_ns))
        elif event.kind == "cut":
            self._minutes.amend(event.call, event.data["segment_id"], {"cut_ms": event.data["heard_ms"]})
        elif event.kind == "call-ended":
            del self._began_ns[event.call]
            self._minutes.end(event.call, event.data)
        self._webhooks.offer(told)


def transcript_line(data: dict[str, Any], began_ns: int) -> dict[str, Any]:
    """What a transcript keeps of an utterance; times in ms from the beginning of the call, None for never."""

    def ms(stamp_ns: int) -> int | None:
        return max(0, (stamp_ns - began_ns) // 1_000_000) if stamp_ns else None

    return {
        "segment_id": data["segment_id"],
        "party": data["leg"],
        "source_language": data["source_lang"],
        "target_language": data["target_lang"],
        "source_text": data["source_text"],
        "target_text": data["target_text"],
        "said_ms": ms(data["audio_first_ns"]),
        "said_end_ms": ms(data["audio_end_ns"]),
        "heard_ms": ms(data["played_ns"]),
        "confidence": data["confidence"],
        "lost": data["lost"],
    }
