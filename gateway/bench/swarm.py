# SPDX-License-Identifier: GPL-3.0-or-later
"""Many light telephones in one process: each calls, sends 50 packets a second, and notes when packets come.

An instrument for the media process, not a party: nothing is decoded. Arrivals are the kernel's own time stamps, so
that a late look at a socket does not count as a late packet. The telephones send one after the other over the 20 ms,
as independent peers would.

Lines of JSON: ``{"established": n}`` when all calls stand; after a line on standard input one measurement.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gateway.bench import g711
from gateway.bench.ua import CallEnded, Established, MediaChanged, PhoneAgent

FRAME_NS = 20_000_000
FRAME_SAMPLES = 160
SETUP_S = 60.0
SETTLE_S = 2.0
"""Behind the last answer: jitter buffers fill, timers of the set-up pass."""
_TIMESTAMPNS = 35  # SO_TIMESTAMPNS and SCM_TIMESTAMPNS (asm-generic/socket.h)
_CONTROL = socket.CMSG_SPACE(16)
CALLS_AT_ONCE = 8


@dataclass(slots=True)
class Telephone:
    """One call: signalling, its two sockets, the next packet's numbers, arrivals in ns."""

    agent: PhoneAgent
    sip: socket.socket
    rtp: socket.socket
    packet: bytearray
    target: tuple[str, int] | None = None
    established: bool = False
    ended: str = ""
    sequence: int = 0
    timestamp: int = 0
    arrivals: list[int] = field(default_factory=list)

    def send(self) -> None:
        """One packet of 20 ms."""
        if self.target is None:
            return
        struct.pack_into("!HI", self.packet, 2, self.sequence, self.timestamp)
        self.sequence = (self.sequence + 1) & 0xFFFF
        self.timestamp = (self.timestamp + FRAME_SAMPLES) & 0xFFFFFFFF
        try:
            self.rtp.sendto(self.packet, self.target)
        except (BlockingIOError, ConnectionRefusedError):  # its buffer is full, or the far end is ending
            return

    def take(self) -> None:
        """All packets that wait."""
        while True:
            try:
                data, control, _, _ = self.rtp.recvmsg(2048, _CONTROL)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                continue
            if len(data) > 12 and control:
                seconds, nanoseconds = struct.unpack("qq", control[0][2])
                self.arrivals.append(seconds * 1_000_000_000 + nanoseconds)


class Swarm:
    """All telephones and one loop."""

    def __init__(self, target: int, legs: int) -> None:
        self._uri = f"sip:media@127.0.0.1:{target}"
        self._poll = select.epoll()
        self._by_handle: dict[int, tuple[Telephone, bool]] = {}
        sound = (6000 * np.sin(2 * np.pi * 1000 * np.arange(FRAME_SAMPLES) / 8000)).astype(np.int16)
        payload = g711.encode("PCMU", sound)
        self.telephones = [self._telephone(number, payload) for number in range(legs)]

    def _telephone(self, number: int, payload: bytes) -> Telephone:
        sip, rtp = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        for one in (sip, rtp):
            one.bind(("127.0.0.1", 0))
            one.setblocking(False)
        rtp.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        agent = PhoneAgent(
            host="127.0.0.1", sip_port=sip.getsockname()[1], rtp_port=rtp.getsockname()[1], codecs=("PCMU",)
        )
        packet = bytearray(struct.pack("!BBHII", 0x80, 0, 0, 0, number + 1) + payload)
        telephone = Telephone(agent, sip, rtp, packet)
        for one, is_rtp in ((sip, False), (rtp, True)):
            self._by_handle[one.fileno()] = (telephone, is_rtp)
            self._poll.register(one, select.EPOLLIN)
        return telephone

    def call_all(self) -> int:
        """Make the calls, some at a time. How many stand."""
        waiting, until_s = list(self.telephones), time.monotonic() + SETUP_S
        while time.monotonic() < until_s:
            under_way = sum(one.agent.stage == "calling" for one in self.telephones)
            while waiting and under_way < CALLS_AT_ONCE:
                one = waiting.pop()
                one.agent.invite(self._uri, time.monotonic_ns())
                self._flush(one)
                under_way += 1
            self.run(0.02)
            if not waiting and not under_way:
                break
        self.run(SETTLE_S)
        return sum(one.established for one in self.telephones)

    def hang_up(self) -> None:
        """End the calls."""
        for one in self.telephones:
            self._take_events(one, one.agent.hangup(time.monotonic_ns()))
            self.run(0.002)
        self.run(0.5)

    def run(self, seconds: float) -> None:
        """Send and take packets and messages for a while."""
        count = len(self.telephones)
        begin_ns = time.monotonic_ns()
        end_ns, sent = begin_ns + round(seconds * 1e9), 0
        while (now_ns := time.monotonic_ns()) < end_ns:
            due = (now_ns - begin_ns) * count // FRAME_NS + 1  # packets of all telephones together
            while sent < due:
                self.telephones[sent % count].send()
                sent += 1
            next_ns = begin_ns + sent * FRAME_NS // count
            wait_s = max(0.0, min(next_ns, end_ns) - time.monotonic_ns()) / 1e9
            for handle, _ in self._poll.poll(max(0.0005, wait_s)):
                telephone, is_rtp = self._by_handle[handle]
                if is_rtp:
                    telephone.take()
                else:
                    self._message(telephone)
        self._wake()

    def _message(self, telephone: Telephone) -> None:
        try:
            data, source = telephone.sip.recvfrom(65_536)
        except (BlockingIOError, ConnectionRefusedError):
            return
        self._take_events(telephone, telephone.agent.receive(data, source, time.monotonic_ns()))

    def _wake(self) -> None:
        now_ns = time.monotonic_ns()
        for one in self.telephones:
            due_ns = one.agent.next_wake_ns
            if due_ns is not None and due_ns <= now_ns:
                self._take_events(one, one.agent.wake(now_ns))

    def _take_events(self, telephone: Telephone, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, MediaChanged):
                telephone.target = event.media.remote
            elif isinstance(event, Established):
                telephone.established = True
            elif isinstance(event, CallEnded):
                telephone.ended, telephone.target = f"{event.code} {event.phrase}", None
        self._flush(telephone)

    @staticmethod
    def _flush(telephone: Telephone) -> None:
        for data, to in telephone.agent.outgoing():
            telephone.sip.sendto(data, to)

    def measure(self, seconds: float) -> dict[str, Any]:
        """Packets a second of each call and the gaps between arrivals, over the next seconds."""
        for one in self.telephones:
            one.arrivals.clear()
        self.run(seconds)
        return figures([one.arrivals for one in self.telephones])


def figures(arrivals: list[list[int]]) -> dict[str, Any]:
    """Figures of packets' arrivals by call, in ns. A call with fewer than two packets counts with rate 0."""
    rates, gaps = [], [np.zeros(0)]
    for stamps in arrivals:
        if len(stamps) < 2:
            rates.append(0.0)
            continue
        steps = np.diff(np.asarray(stamps, dtype=np.float64))
        rates.append(1e9 / float(steps.mean()))
        gaps.append(steps / 1e6)
    all_gaps = np.concatenate(gaps)
    spread = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
    told = {
        f"gap_{name}_ms": float(np.percentile(all_gaps, at)) if all_gaps.size else 0.0 for name, at in spread.items()
    }
    rate = {"pps_mean": float(np.mean(rates)), "pps_min": min(rates), "pps_max": max(rates)} if rates else {}
    return {"packets": sum(map(len, arrivals)), **rate, **told}


def _percentile(values: np.ndarray[Any, np.dtype[np.float64]], at: float) -> float:
    return float(np.percentile(values, at)) if values.size else 0.0


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=int, required=True)
    parser.add_argument("--legs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    swarm = Swarm(given.target, given.legs)
    _tell({"established": swarm.call_all(), "refused": [one.ended for one in swarm.telephones if one.ended][:3]})
    while not select.select([sys.stdin], [], [], 0)[0]:
        swarm.run(0.1)
    if sys.stdin.readline():
        _tell(swarm.measure(given.seconds))
    swarm.hang_up()


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
