# SPDX-License-Identifier: GPL-3.0-or-later
"""The front of the SIP room: a user agent whose methods may be called from any thread and never block.

Events come on the owner thread; hand in a function that only passes them on, such as a wrapper around
``loop.call_soon_threadsafe``. There is one user agent in a process: the library is a singleton, and once stopped it
is not started again.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

import structlog

from gateway.sip.endpoint import MAX_COMMANDS, Command, SipEndpoint
from gateway.sip.events import Ended, SipEvent
from gateway.sip.limits import call_limit, library_facts
from gateway.sip.native import answer_options
from gateway.sip.protocols import FrameSink, FrameSource
from gateway.sip.settings import SipSettings
from gateway.sip.switch import UNAVAILABLE, LegSwitch

log = structlog.get_logger(__name__)

SWITCH_INTERVAL_S = 0.0005
"""How long a Python thread may keep the interpreter while the clock thread waits for it. Each port needs it twice
every 20 ms: with the default of 5 ms, four legs beside one busy thread wait up to 40 ms, twice the frame."""


LEGS_PER_CALL = 2


class SipUserAgent:
    """Answers and places calls through pjsua2 (see ``protocols.UserAgent``)."""

    def __init__(self, settings: SipSettings, on_event: Callable[[SipEvent], None]) -> None:
        """ValueError names a trunk whose network is none."""
        self._settings = settings
        self._on_event = on_event
        self._switch = LegSwitch(settings, on_event)
        self._endpoint = SipEndpoint(settings, on_tick=self._tick)
        self._lock = threading.Lock()
        self._dials_on_their_way = 0
        self._limit = 0
        self._accepting = True
        self._facts = library_facts()

    # --- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bind and be ready for calls; blocks until then. Raises PortTaken or StartFailed."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._endpoint.start(self._opened, self._switch.drain, self._switch.close)
        atexit.register(self.stop)
        for warning in self._facts.warnings:
            log.warning("sip_library", warning=warning)
        if self._settings.srtp != "off" and set(self._settings.transports) != {"tls"}:
            log.warning("sip_srtp_keys_readable", remedy="SRTP keys travel in the SDP: let peers use tls alone")
        log.info(
            "sip_started",
            address=self._settings.bind_address,
            port=self.bound_port,
            transports=list(self._settings.transports),
            version=self._facts.version,
            max_legs=self.max_legs,
        )

    def stop(self) -> None:
        """End all legs and the library; blocks until its thread is gone. Harmless when repeated."""
        atexit.unregister(self.stop)
        self._endpoint.stop()
        # An exception shown at the prompt or in main pins the frames it went through, and what they hold.
        sys.last_type = sys.last_value = sys.last_traceback = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def accept_calls(self, accepting: bool) -> None:
        """Whether peers that ask by OPTIONS hear that calls are taken (200) or not (503), where the build can say so.

        It is 503 too while there is no room for a call. Offers themselves are the listener's to refuse.
        """
        self._accepting = accepting
        self._post(self._tell_availability)

    def _tick(self) -> None:
        self._switch.tick()
        self._tell_availability()

    def _tell_availability(self) -> None:
        room = self._accepting and not self._switch.closing and self.free_legs() >= LEGS_PER_CALL
        answer_options(0 if room else UNAVAILABLE)

    def _opened(self) -> None:
        self._limit = call_limit()
        self._switch.open(self._endpoint.bound_port)

    @property
    def bound_port(self) -> int:
        """The SIP port in use."""
        return self._endpoint.bound_port

    @property
    def bound_tls_port(self) -> int:
        """The port for SIP over TLS, 0 without it."""
        return self._endpoint.bound_tls_port

    @property
    def max_legs(self) -> int:
        """Legs that can be up at once: the library's limit, the settings' or the RTP range's, whichever is smallest."""
        return min(self._limit, self._settings.max_legs or self._limit, self._settings.rtp_legs)

    def free_legs(self) -> int:
        """Legs that can still be taken, counting dials that are on their way to the owner thread."""
        with self._lock:
            return max(0, self.max_legs - self._switch.size - self._dials_on_their_way)

    # --- commands ------------------------------------------------------------------------------------------------

    def dial(self, leg: str, uri: str, *, headers: Mapping[str, str] | None = None) -> None:
        """Place an outgoing call under the given leg id; failure arrives as Ended (503 without a free leg)."""
        extra = dict(headers or {})
        with self._lock:
            self._dials_on_their_way += 1

        def place() -> None:
            try:
                self._switch.dial(leg, uri, extra)
            finally:
                with self._lock:
                    self._dials_on_their_way -= 1

        if not self._post(place):
            with self._lock:
                self._dials_on_their_way -= 1
            self._on_event(Ended(leg, UNAVAILABLE, "User agent is not running or overloaded", by_remote=False))

    def ring(self, leg: str) -> None:
        """Send 180 to an incoming leg."""
        self._post(lambda: self._switch.ring(leg))

    def answer(self, leg: str) -> None:
        """Send 200 to an incoming leg."""
        self._post(lambda: self._switch.answer(leg))

    def attach(self, leg: str, sink: FrameSink, source: FrameSource) -> None:
        """Bind the leg's sound; before the answer, so that the first word is heard."""
        self._post(lambda: self._switch.attach(leg, sink, source))

    def permit_transfer(self, leg: str, allowed: Callable[[str], bool]) -> None:
        """Let the far end of a leg refer us to the addresses that ``allowed`` names; without it REFER gets 603."""
        self._post(lambda: self._switch.permit_transfer(leg, allowed))

    def refer(self, leg: str, uri: str) -> None:
        """Ask the far end of an answered leg to call an address itself (RFC 3515); ReferProgress tells what it does.

        Whether it may be sent there is the caller's affair to know. The leg stays up until it is hung up.
        """
        self._post(lambda: self._switch.refer(leg, uri))

    def hangup(self, leg: str, code: int = 0, *, headers: Mapping[str, str] | None = None) -> None:
        """End the leg: BYE, CANCEL, or the given final code for an unanswered incoming leg."""
        extra = dict(headers or {})
        self._post(lambda: self._switch.hangup(leg, code, extra))

    def send_digits(self, leg: str, digits: str) -> None:
        """Press keys towards the far end, as RFC 4733 events; nothing happens where the far end takes none."""
        self._post(lambda: self._switch.send_digits(leg, digits))

    def _post(self, command: Command) -> bool:
        return self._endpoint.post(command)

    def statistics(self) -> dict[str, Any]:
        """Legs, limits, library facts, command queue, RTP counters of each leg (at most a second old)."""
        rtp = self._switch.rtp
        worst_ms = max([self._switch.worst_gap_ms, *(leg.get("worst_gap_ms", 0.0) for leg in rtp.values())])
        ended = self._switch.counts
        late, strange = (
            ended[key] + sum(leg.get(key, 0) for leg in rtp.values()) for key in ("late_frames", "rx_refused")
        )
        return {
            "library": asdict(self._facts),
            "legs": self._switch.size,
            "max_legs": self.max_legs,
            "free_legs": self.free_legs(),
            "commands": {
                "depth": self._endpoint.depth,
                "bound": MAX_COMMANDS,
                "posted": self._endpoint.posted,
                "dropped": self._endpoint.dropped,
                "failed": self._endpoint.failed,
            },
            "counts": dict(self._switch.counts),
            "late_frames": late,
            "rx_refused": strange,
            "worst_gap_ms": worst_ms,
            "rtp": rtp,
            "registrations": self._switch.registrations,
            "peers": self._switch.peers,
        }
