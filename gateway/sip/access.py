# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may call: loopback and the configured trunks, by the address a packet really came from. Pure.

A source is judged by its network address alone. What the message says about itself (From, Contact, Via) can be
written by anyone and decides nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.sip.digest import Login
from gateway.sip.errors import BadSettings

LOOPBACK = "loopback"


@dataclass(frozen=True, slots=True)
class Trunk:
    """A peer that may call, by its networks in CIDR notation. Only a ``trusted`` one may pass X- headers."""

    name: str
    networks: tuple[str, ...]
    trusted: bool = False
    max_calls: int | None = None
    """Most calls of this peer at once."""
    login: Login | None = None
    """The password that each call has to prove; None asks for none."""
    addresses: tuple[str, ...] = ()
    """Where it takes calls, best first."""
    ping_s: float = 60.0
    """How often each address is asked by OPTIONS whether it is there; 0 never."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A source that is allowed, and under which name."""

    trunk: str
    trusted: bool
    max_calls: int | None = None
    login: Login | None = None


def source_ip(address: str) -> str:
    """The IP of pjsip's ``host:port`` or ``[host]:port``; ValueError when there is none."""
    host = address[1:].partition("]")[0] if address.startswith("[") else address.rpartition(":")[0] or address
    return str(ipaddress.ip_address(host))


class AccessList:
    """Answers whether a source address may call. The most specific network that matches names the trunk."""

    def __init__(self, trunks: Iterable[Trunk], *, allow_loopback: bool) -> None:
        """ValueError names the trunk with a network that is not one."""
        rules: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, Admission]] = []
        for trunk in trunks:
            for network in trunk.networks:
                try:
                    parsed = ipaddress.ip_network(network, strict=False)
                except ValueError as error:
                    raise BadSettings(f"trunk {trunk.name!r}: {network!r} is not a network") from error
                rules.append((parsed, Admission(trunk.name, trunk.trusted, trunk.max_calls, trunk.login)))
        if allow_loopback:
            local = Admission(LOOPBACK, trusted=True)
            rules += [(ipaddress.ip_network("127.0.0.0/8"), local), (ipaddress.ip_network("::1/128"), local)]
        self._rules = tuple(sorted(rules, key=lambda rule: -rule[0].prefixlen))

    def admit(self, ip: str) -> Admission | None:
        """The admission of a source, None when it is not on the list or not an address."""
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            return None
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        for network, admission in self._rules:
            if address.version == network.version and address in network:
                return admission
        return None
