# SPDX-License-Identifier: GPL-3.0-or-later
"""What the SIP room tells the call room. Delivered on the asyncio loop, in order per leg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Incoming:
    """An INVITE passed the access list and waits for an answer; 100 Trying is out."""

    leg: str
    source_ip: str
    trunk: str
    dialled: str
    """User part of the request URI: the number that was dialled."""
    caller: str
    """User part of From."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The X- headers of the INVITE, names in lower case."""


@dataclass(frozen=True, slots=True)
class Ringing:
    """The far end of an outgoing leg rings (180/183)."""

    leg: str
    code: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The leg is confirmed (ACK seen or sent)."""

    leg: str


@dataclass(frozen=True, slots=True)
class MediaActive:
    """Sound flows: frames of ``rate_hz`` go to the leg's sink, and its source is asked every 20 ms."""

    leg: str
    codec: str
    rate_hz: int


@dataclass(frozen=True, slots=True)
class MediaHeld:
    """The far end put the leg on hold: nothing is heard from it, its source is not asked. MediaActive ends it."""

    leg: str


@dataclass(frozen=True, slots=True)
class Referred:
    """The far end of ``leg`` asked to be replaced (REFER), was permitted to, and ``successor`` is being dialled."""

    leg: str
    successor: str


@dataclass(frozen=True, slots=True)
class ReferProgress:
    """What the far end of ``leg`` says about the address that we referred it to (RFC 3515)."""

    leg: str
    code: int
    """SIP's word: 1xx as long as it is tried, 2xx reached, anything else not, be it that the far end never tried."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The leg is gone. ``code``/``phrase`` are SIP's last word (200 for a BYE of an answered call)."""

    leg: str
    code: int
    phrase: str
    by_remote: bool


@dataclass(frozen=True, slots=True)
class Digit:
    """A DTMF digit was pressed (personal data: never logged by default)."""

    leg: str
    digit: str


SipEvent = Incoming | Ringing | Answered | MediaActive | MediaHeld | Referred | ReferProgress | Ended | Digit
