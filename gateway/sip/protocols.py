# SPDX-License-Identifier: GPL-3.0-or-later
"""The front of the SIP room: what the call room may ask of a user agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gateway.audio.frames import Frame


class FrameSink(Protocol):
    """Takes a leg's received sound. Called on PJSIP's clock thread: must not block or raise."""

    def put(self, frame: Frame) -> None:
        """Take one frame."""


class FrameSource(Protocol):
    """Gives a leg's sound to send. Called on PJSIP's clock thread every 20 ms: must not block or raise."""

    def next_frame(self) -> bytes:
        """Exactly one frame of s16le PCM, 20 ms at the leg's rate, always."""


class UserAgent(Protocol):
    """Commands are posted to pjsua2's owner thread and return at once; what came of them arrives as events."""

    def dial(self, leg: str, uri: str, *, headers: Mapping[str, str] | None = None) -> None:
        """Place an outgoing call under the given leg id; failure arrives as Ended."""

    def ring(self, leg: str) -> None:
        """Send 180 to an incoming leg."""

    def answer(self, leg: str) -> None:
        """Send 200 to an incoming leg."""

    def attach(self, leg: str, sink: FrameSink, source: FrameSource) -> None:
        """Bind the leg's sound; may be called before media is active."""

    def permit_transfer(self, leg: str, allowed: Callable[[str], bool]) -> None:
        """Let the far end of a leg refer us to the addresses that ``allowed`` names; called on the owner thread."""

    def refer(self, leg: str, uri: str) -> None:
        """Ask the far end of an answered leg to call an address itself; what comes of it arrives as ReferProgress."""

    def hangup(self, leg: str, code: int = 0, *, headers: Mapping[str, str] | None = None) -> None:
        """End the leg: BYE, CANCEL, or the given final code for an unanswered incoming leg."""

    def send_digits(self, leg: str, digits: str) -> None:
        """Press keys towards the far end, as RFC 4733 events."""

    def statistics(self) -> dict[str, Any]:
        """Legs, limits, library version, RTP counters of each leg, worst callback gap."""
