# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds out that nobody listens where an INVITE went over UDP.

A machine that is up answers a datagram to a closed port with ICMP "port unreachable", but PJSIP's socket serves many
peers, is not connected, and so never hears of it: the call would be repeated for 32 s (RFC 3261, timer B). A socket
connected to the same address does hear of it. It sends what SIP peers swallow, the CRLF CRLF of a keep-alive (RFC 5626
section 4.4.1), and says whether that was refused. Silence says nothing: firewalls drop what they like.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

WAIT_NS = 4_000_000_000
"""Round trips are shorter; a datagram that was lost is not repeated."""
MAX_KNOCKS = 64  # calls being placed at the same time; one more is placed without
_KEEP_ALIVE = b"\r\n\r\n"


@dataclass(slots=True)
class _Knock:
    socket: socket.socket
    until_ns: int
    refused: bool = False


class Knocks:
    """Addresses that were knocked at, each for one leg. Never blocks."""

    def __init__(self, bind_address: str) -> None:
        self._bind_address = bind_address
        self._open: dict[str, _Knock] = {}

    def knock(self, leg: str, address: tuple[str, int], now_ns: int) -> None:
        """Knock at an IPv4 address and port, once for a leg."""
        if leg in self._open or len(self._open) >= MAX_KNOCKS:
            return
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setblocking(False)
        knock = self._open[leg] = _Knock(one, now_ns + WAIT_NS)
        try:
            one.bind((self._bind_address, 0))
            one.connect(address)
            one.send(_KEEP_ALIVE)
        except ConnectionRefusedError:
            knock.refused = True
        except (OSError, OverflowError):  # no way there at all: the library finds that out by itself
            self.forget(leg)

    def refused(self, now_ns: int) -> list[str]:
        """Legs whose address has turned the knock away; each is told once. Old knocks are forgotten."""
        found = []
        for leg, knock in list(self._open.items()):
            if knock.refused or _turned_away(knock.socket):
                found.append(leg)
                self.forget(leg)
            elif now_ns >= knock.until_ns:
                self.forget(leg)
        return found

    def forget(self, leg: str) -> None:
        """The leg was answered, or is gone."""
        knock = self._open.pop(leg, None)
        if knock is not None:
            knock.socket.close()


def _turned_away(one: socket.socket) -> bool:
    try:
        one.recv(16)
    except ConnectionRefusedError:
        return True
    except OSError:  # nothing yet
        return False
    return False
