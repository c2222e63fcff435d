# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether peers are there: each address is asked by OPTIONS every so often (RFC 3261 section 11). Pure.

    unknown ──any answer──► up ──no answer for 5 s, or 503──► down ──any other answer──► up

Any answer counts, 401, 404 and 405 too: who refuses is alive. 503 does not: the peer lives, and takes no calls. One
question is enough, since SIP repeats it by itself over UDP, four times in 5 s. Whoever is not up is asked more often,
and nobody at the same moment as by another gateway.

A peer with several addresses is called at the first one that is up, as long as the one that was asked for is down. A
peer of which nothing is up is called all the same: some never answer OPTIONS, and take calls. And a call that one of
its addresses does not take goes on to the next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog

from gateway.sip.registration import peer_of

log = structlog.get_logger(__name__)

ANSWER_NS = 5_000_000_000
SOON_S = 10.0
"""How often an address is asked that is not up, at least."""
UNAVAILABLE = 503


class Health(StrEnum):
    """What is known of an address."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class Pulse:
    """What one address says to OPTIONS."""

    def __init__(self, every_s: float, chance: random.Random) -> None:
        self.health = Health.UNKNOWN
        self.code = 0
        """Its last word; 0 before the first, 408 when it said nothing."""
        self.round_trip_ms = 0.0
        self._every_s = every_s
        self._chance = chance
        self._due_ns: int | None = None
        self._asked_ns: int | None = None

    def asks(self, now_ns: int) -> bool:
        """Whether the address is to be asked now; it counts as asked then."""
        if self._asked_ns is not None:
            if now_ns - self._asked_ns < ANSWER_NS:
                return False
            self._settle(Health.DOWN, 408, now_ns)
        if self._due_ns is None:
            self._due_ns = now_ns + int(self._chance.random() * 1e9)
        if now_ns < self._due_ns:
            return False
        self._asked_ns = now_ns
        return True

    def answered(self, code: int, now_ns: int) -> None:
        """The address answered; too late is good news as well."""
        if self._asked_ns is not None:
            self.round_trip_ms = (now_ns - self._asked_ns) / 1e6
        self._settle(Health.DOWN if code == UNAVAILABLE else Health.UP, code, now_ns)

    def failed(self, now_ns: int) -> None:
        """The question could not even be sent."""
        self._settle(Health.DOWN, UNAVAILABLE, now_ns)

    def _settle(self, health: Health, code: int, now_ns: int) -> None:
        self.health, self.code, self._asked_ns = health, code, None
        pause_s = self._every_s if health is Health.UP else min(SOON_S, self._every_s)
        self._due_ns = now_ns + int(pause_s * (0.9 + self._chance.random() / 10) * 1e9)


_PREFERENCE = {Health.UP: 0, Health.UNKNOWN: 1, Health.DOWN: 2}


def _at(uri: str, address: str) -> str:
    """The same user at another address, with that one's transport."""
    user, at, _ = uri.partition("@")
    return f"{user}@{address.partition(':')[2]}" if at else address


@dataclass(frozen=True, slots=True)
class Peer:
    """A trunk or a PBX: where it is asked and called, best first. ``every_s`` 0 never asks."""

    name: str
    addresses: tuple[str, ...]
    every_s: float


class PeerWatch:
    """All peers that are asked. Owner thread only, but for `statistics`.

    Args:
        ask: sends OPTIONS to an address; False when that cannot be.
    """

    def __init__(self, peers: Sequence[Peer], ask: Callable[[str], bool], chance: random.Random) -> None:
        self._ask = ask
        self._addresses = [peer.addresses for peer in peers if peer.addresses]
        self._pulses = {
            peer.name: {address: Pulse(peer.every_s, chance) for address in peer.addresses}
            for peer in peers
            if peer.every_s and peer.addresses
        }
        self._fallen: list[tuple[str, str]] = []

    def tick(self, now_ns: int) -> None:
        """Ask whose turn it is."""
        for name, pulses in self._pulses.items():
            for address, pulse in pulses.items():
                before = pulse.health
                if pulse.asks(now_ns) and not self._ask(address):
                    pulse.failed(now_ns)
                self._tell(name, address, pulse, before)

    def answered(self, address: str, code: int, now_ns: int) -> None:
        """What an address said; peers may share one."""
        for name, pulses in self._pulses.items():
            pulse = pulses.get(address)
            if pulse is not None:
                before = pulse.health
                pulse.answered(code, now_ns)
                self._tell(name, address, pulse, before)

    def fallen(self) -> list[tuple[str, str]]:
        """Peer and address of those that have gone down since this was last asked."""
        fallen, self._fallen = self._fallen, []
        return fallen

    def instead_of(self, uri: str) -> str:
        """The URI to call: the same, or at the peer's next address when that one is down and another is up."""
        if self._health(uri) is not Health.DOWN:
            return uri
        other = self.after(uri, frozenset())
        return other if other is not None and self._health(other) is Health.UP else uri

    def after(self, uri: str, tried: Set[tuple[str, int]]) -> str | None:
        """The URI at another address of the same peer, whose host and port were not tried; rather not one that is down.

        None when there is none.
        """
        target = peer_of(uri)
        for addresses in self._addresses:
            if target in map(peer_of, addresses):
                others = [each for each in addresses if peer_of(each) != target and peer_of(each) not in tried]
                others.sort(key=lambda each: _PREFERENCE[self._health(each)])
                return _at(uri, others[0]) if others else None
        return None

    def silent(self, uri: str, now_ns: int) -> None:
        """Nobody took note of a call there: the address is down until it answers OPTIONS again."""
        for name, pulses in self._pulses.items():
            for address, pulse in pulses.items():
                if peer_of(address) == peer_of(uri):
                    before = pulse.health
                    pulse.failed(now_ns)
                    self._tell(name, address, pulse, before)

    def _health(self, uri: str) -> Health:
        target = peer_of(uri)
        known = (pulse for pulses in self._pulses.values() for a, pulse in pulses.items() if peer_of(a) == target)
        return next((pulse.health for pulse in known), Health.UNKNOWN)

    def statistics(self) -> dict[str, Any]:
        """By peer and address: health, last code, round trip."""
        return {
            name: {
                address: {
                    "health": pulse.health.value,
                    "code": pulse.code,
                    "round_trip_ms": round(pulse.round_trip_ms, 1),
                }
                for address, pulse in pulses.items()
            }
            for name, pulses in self._pulses.items()
        }

    def _tell(self, name: str, address: str, pulse: Pulse, before: Health) -> None:
        if pulse.health is before:
            return
        if pulse.health is Health.UP:
            log.info("sip_peer_up", peer=name, address=address, code=pulse.code)
        else:
            self._fallen.append((name, address))
            log.warning("sip_peer_down", peer=name, address=address, code=pulse.code)
