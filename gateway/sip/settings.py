# SPDX-License-Identifier: GPL-3.0-or-later
"""What the SIP room needs to know to start: plain values, already validated at the rim."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from gateway.sip.access import Trunk
from gateway.sip.errors import BadSettings
from gateway.sip.registration import Registration

CODECS_HZ = {"PCMU": 8000, "PCMA": 8000, "G722": 16_000}
"""Codecs, and the rate of the sound that they carry. (G.722 counts its RTP time at 8000 Hz all the same, RFC 3551.)"""
TRANSPORTS = frozenset({"udp", "tcp", "tls"})
SRTP = ("off", "optional", "mandatory")


@dataclass(frozen=True, slots=True)
class Tls:
    """SIP over TLS: own port and certificate; ``verify`` demands one of the peer that ``ca`` (PEM) signed."""

    certificate: str
    key: str
    port: int = 5061
    ca: str = ""
    verify: bool = False


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
    rtp_networks: tuple[str, ...] = ()
    """Sound is heard from these IPv4 networks too, beside the addresses that a peer's SDP and its signalling give."""
    codecs: tuple[str, ...] = ("PCMU", "PCMA")
    media_rate_hz: int = 8000
    """The bridge's rate: 8000 takes half the CPU of 16000."""
    trunks: tuple[Trunk, ...] = ()
    allow_loopback: bool = True
    calls_per_s: float = 20.0
    """New calls a second that one untrusted source may try in the long run, after a burst of ``calls_burst``."""
    calls_burst: int = 100
    registrations: tuple[Registration, ...] = ()
    tls: Tls | None = None
    srtp: str = "off"
    """Encrypted sound with keys in the SDP (SDES): ``mandatory`` refuses a plain offer with 488."""
    user_agent: str = "voice-gateway"
    from_user: str = "gateway"
    max_legs: int | None = None
    log_level: int = 3
    """PJSIP's own scale, 0 fatal to 5 trace; from 4 on it prints whole messages, which are logged under ``pii.``."""

    def __post_init__(self) -> None:
        self._check_addresses()
        self._check_choices()

    def _check_addresses(self) -> None:
        for name, value in (("bind_address", self.bind_address), ("public_address", self.public_address)):
            if value is not None:
                try:
                    ipaddress.IPv4Address(value)
                except ValueError as error:
                    raise BadSettings(f"sip.{name} {value!r} is not an IPv4 address") from error
        for network in self.rtp_networks:
            try:
                ipaddress.IPv4Network(network)
            except ValueError as error:
                raise BadSettings(f"sip.rtp_networks: {network!r} is not an IPv4 network") from error
        if not 0 <= self.port <= 65_535:
            raise BadSettings(f"sip.port {self.port} is not in 0..65535")
        # pjsip walks the range in steps of two from an even start; a leg takes an RTP and an RTCP port
        if not 1024 <= self.rtp_port_min < self.rtp_port_max <= 65_535 or self.rtp_port_min % 2:
            raise BadSettings(f"sip.rtp_port_min {self.rtp_port_min} must be even, above 1023 and below rtp_port_max")

    def _check_choices(self) -> None:
        if not self.transports or not set(self.transports) <= TRANSPORTS:
            raise BadSettings(f"sip.transports {self.transports} must be some of {sorted(TRANSPORTS)}")
        if ("tls" in self.transports) != (self.tls is not None):
            raise BadSettings("sip.transports tls goes with sip.tls_certificate and sip.tls_key")
        if self.srtp not in SRTP:
            raise BadSettings(f"sip.srtp {self.srtp!r} must be one of {', '.join(SRTP)}")
        if not self.codecs or not set(self.codecs) <= CODECS_HZ.keys():
            raise BadSettings(f"sip.codecs {self.codecs} must be some of {sorted(CODECS_HZ)}")
        if self.media_rate_hz not in (8000, 16_000):
            raise BadSettings(f"sip.media_rate_hz {self.media_rate_hz} must be 8000 or 16000")
        if max(CODECS_HZ[codec] for codec in self.codecs) > self.media_rate_hz:
            raise BadSettings("sip.codecs has G722, which carries 16 kHz: set sip.media_rate_hz to 16000")
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
