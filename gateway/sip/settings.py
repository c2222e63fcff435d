# SPDX-License-Identifier: GPL-3.0-or-later
"""What the SIP room needs to know to start: plain values, already validated at the rim."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from gateway.sip.access import Trunk
from gateway.sip.errors import BadSettings
from gateway.sip.registration import Registration

BRIDGE_RATE_HZ = 8000
"""The bridge runs at the rate of G.711: half the CPU of a 16 kHz bridge."""

CODECS_8K = frozenset({"PCMU", "PCMA"})
TRANSPORTS = frozenset({"udp", "tcp"})


@dataclass(frozen=True, slots=True)
class SipSettings:
    """Addresses, codecs and trusted peers of the user agent.

    ``port`` 0 takes an ephemeral port. ``public_address`` is what Contact and SDP say when the gateway sits behind
    NAT. RTP ports are even ones of ``rtp_port_min`` to ``rtp_port_max``, two for each leg. ``max_legs`` None takes
    what the library was compiled for.
    """

    bind_address: str = "127.0.0.1"
    port: int = 5060
    public_address: str | None = None
    transports: tuple[str, ...] = ("udp", "tcp")
    rtp_port_min: int = 10_000
    rtp_port_max: int = 20_000
    codecs: tuple[str, ...] = ("PCMU", "PCMA")
    trunks: tuple[Trunk, ...] = ()
    allow_loopback: bool = True
    registrations: tuple[Registration, ...] = ()
    user_agent: str = "voice-gateway"
    from_user: str = "gateway"
    max_legs: int | None = None
    log_level: int = 3
    """PJSIP's own scale, 0 fatal to 5 trace; from 4 on it prints whole messages, which are logged under ``pii.``."""

    def __post_init__(self) -> None:
        for name, value in (("bind_address", self.bind_address), ("public_address", self.public_address)):
            if value is not None:
                try:
                    ipaddress.IPv4Address(value)
                except ValueError as error:
                    raise BadSettings(f"sip.{name} {value!r} is not an IPv4 address") from error
        if not 0 <= self.port <= 65_535:
            raise BadSettings(f"sip.port {self.port} is not in 0..65535")
        if not self.transports or not set(self.transports) <= TRANSPORTS:
            raise BadSettings(f"sip.transports {self.transports} must be some of {sorted(TRANSPORTS)}")
        if not self.codecs or not set(self.codecs) <= CODECS_8K:
            raise BadSettings(f"sip.codecs {self.codecs} must be some of {sorted(CODECS_8K)}")
        # pjsip walks the range in steps of two from an even start; a leg takes an RTP and an RTCP port
        if not 1024 <= self.rtp_port_min < self.rtp_port_max <= 65_535 or self.rtp_port_min % 2:
            raise BadSettings(f"sip.rtp_port_min {self.rtp_port_min} must be even, above 1023 and below rtp_port_max")
        if self.max_legs is not None and self.max_legs < 1:
            raise BadSettings(f"sip.max_legs {self.max_legs} must be at least 1")

    @property
    def advertised_address(self) -> str:
        """The address that the gateway's own URI carries; the wildcard is replaced by loopback."""
        if self.public_address:
            return self.public_address
        return "127.0.0.1" if self.bind_address == "0.0.0.0" else self.bind_address  # noqa: S104 - a comparison

    @property
    def rtp_legs(self) -> int:
        """Legs that the RTP range can hold."""
        return (self.rtp_port_max - self.rtp_port_min + 1) // 2
