# SPDX-License-Identifier: GPL-3.0-or-later
"""A wire of numbers between user agents: a virtual clock, and loss by pattern."""

from __future__ import annotations

import random
from collections.abc import Callable

from gateway.bench.sip_message import Message, Request, parse
from gateway.bench.ua import Event, PhoneAgent

SECOND = 1_000_000_000
STEP = 1_000_000

Drop = Callable[[str, int], bool]
"""(what, how many of it have passed before) -> lost? ``what`` is ``INVITE``, ``200 INVITE``, ``ACK`` …"""


def keep(what: str, before: int) -> bool:
    """Nothing is lost."""
    return False


class Wire:
    """Two agents on ports 5001 (a) and 5002 (b) of one host."""

    def __init__(self, drop: Drop = keep, codecs: tuple[str, ...] = ("PCMU", "PCMA")) -> None:
        self.a = PhoneAgent(host="127.0.0.1", sip_port=5001, rtp_port=6001, user="a", chance=random.Random(1))
        self.b = PhoneAgent(
            host="127.0.0.1", sip_port=5002, rtp_port=6002, user="b", chance=random.Random(2), codecs=codecs
        )
        self.drop = drop
        self.now_ns = 0
        self.log: list[tuple[str, str]] = []
        """(sender, what) of every datagram, the lost ones too."""
        self.events: dict[str, list[Event]] = {"a": [], "b": []}

    def agents(self) -> dict[str, PhoneAgent]:
        return {"a": self.a, "b": self.b}

    def run(self, seconds: float) -> None:
        """Let virtual time pass; datagrams take no time."""
        until_ns = self.now_ns + round(seconds * SECOND)
        while True:
            self._deliver()
            due = [at for agent in self.agents().values() if (at := agent.next_wake_ns) is not None]
            next_ns = max(min(due, default=until_ns), self.now_ns)
            if next_ns >= until_ns:
                self.now_ns = until_ns
                return
            self.now_ns = next_ns
            for name, agent in self.agents().items():
                self.events[name] += agent.wake(self.now_ns)

    def say(self, data: bytes, to: str = "b", port: int = 5099) -> None:
        """A datagram from somebody else."""
        self.events[to] += self.agents()[to].receive(data, ("127.0.0.1", port), self.now_ns)

    def sent_to(self, port: int) -> list[Message]:
        """What the agents want to send to a stranger's port."""
        return [parse(data) for agent in self.agents().values() for data, hop in agent.outgoing() if hop[1] == port]

    def _deliver(self) -> None:
        for _ in range(100):
            moved = False
            for name, agent in self.agents().items():
                other = "b" if name == "a" else "a"
                for data, hop in agent.outgoing():
                    moved = True
                    assert hop == ("127.0.0.1", 5002 if name == "a" else 5001)
                    what = describe(parse(data))
                    before = sum(one == what for _, one in self.log)
                    self.log.append((name, what))
                    if not self.drop(what, before):
                        port = 5001 if name == "a" else 5002
                        self.events[other] += self.agents()[other].receive(data, ("127.0.0.1", port), self.now_ns)
            if not moved:
                return
        raise AssertionError("the agents do not come to rest")


def describe(message: Message) -> str:
    return message.method if isinstance(message, Request) else f"{message.code} {message.cseq[1]}"
