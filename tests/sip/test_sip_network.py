# SPDX-License-Identifier: GPL-3.0-or-later
"""Sound through a bad network: a relay that loses, delays and reorders by pattern, the same in every run."""

from __future__ import annotations

import itertools
import select
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import pytest
from g711 import peak_hz, tone
from sip_harness import AgentProcess, side_by_side, until
from sip_peer import Peer

pytestmark = pytest.mark.sip

Fate = Callable[[int], float | None]
"""Number of the packet → seconds that it is late, or None when it is lost."""


class Relay:
    """Stands between a peer's RTP and the gateway's."""

    def __init__(self, inside: int, fate: Fate) -> None:
        self.near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # towards the peer
        self.far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # towards the gateway
        for each in (self.near, self.far):
            each.bind(("127.0.0.1", 0))
        self.gateway: tuple[str, int] = ("127.0.0.1", 9)
        self._inside = inside
        self._fate = fate
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(2)
        self.near.close()
        self.far.close()

    def _run(self) -> None:
        late: list[tuple[float, socket.socket, bytes]] = []
        counts = {self.near: 0, self.far: 0}
        while not self._over.is_set():
            wait = min([0.02, *(due - time.monotonic() for due, _, _ in late)])
            for ready in select.select([self.near, self.far], [], [], max(0.0, wait))[0]:
                data = ready.recv(2048)
                fate = self._fate(counts[ready])
                counts[ready] += 1
                if fate is not None:
                    late.append((time.monotonic() + fate, ready, data))
            now = time.monotonic()
            for item in sorted(late, key=lambda one: one[0]):
                if item[0] <= now:
                    late.remove(item)
                    if item[1] is self.near:
                        self.far.sendto(item[2], self.gateway)
                    else:
                        self.near.sendto(item[2], ("127.0.0.1", self._inside))


def test_a12_the_sound_survives_a_bad_network(agent: AgentProcess) -> None:
    def survives(name: str, fate: Fate, purity: float) -> None:
        with Peer(agent.port, user=name) as peer, Relay(peer.rtp.port, fate) as relay:
            offer = peer.sdp().replace(f"m=audio {peer.rtp.port}", f"m=audio {relay.far.getsockname()[1]}")
            assert peer.invite(offer).code == 200
            leg = agent.talking(peer)
            relay.gateway = peer.remote_rtp
            peer.rtp.stream(relay.near.getsockname(), tone(1000, 1))
            threading.Event().wait(2.5)
            heard = agent.hear(leg)
            assert heard["gaps"] == 0, "the count of samples jumped"
            assert heard["peak_hz"] == pytest.approx(1000, abs=3)
            assert heard["tone_share"] > purity
            assert until(lambda: len(peer.rtp.received) > 60)
            hz, _ = peak_hz(peer.rtp.sound(1.0))
            assert hz == pytest.approx(440, abs=3)
            peer.bye()

    side_by_side(
        # a constant way; what is less than whole is a sender that the machine stalled, four of them at once
        delay=lambda: survives("delay", lambda n: 0.04, 0.95),
        loss=lambda: survives("loss", lambda n: None if n % 20 == 7 else 0.0, 0.85),  # 5 % lost
        jitter=lambda: survives("jitter", lambda n: (n * 7 % 4) * 0.01, 0.9),  # of 30 ms
        # every tenth comes behind the one after the next
        reorder=lambda: survives("reorder", lambda n: 0.045 if n % 10 == 3 else 0.01, 0.9),
    )


def test_b09_a_dead_way_does_not_stop_ours(agent: AgentProcess) -> None:
    """Nothing comes any more; our packets go on, and what comes again is heard at once."""
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        threading.Event().wait(0.5)
        peer.rtp.silence()
        sent = len(peer.rtp.received)
        threading.Event().wait(1.5)
        packets = peer.rtp.received[sent:]
        assert len(packets) > 60
        assert all(b.timestamp - a.timestamp == 160 for a, b in itertools.pairwise(packets))
        peer.rtp.timestamp += 40 * 8000  # the sender's clock went on, and a good deal further
        peer.rtp.seq = (peer.rtp.seq + 30_000) & 0xFFFF
        peer.rtp.stream(peer.remote_rtp, tone(1500, 1))
        threading.Event().wait(1.25)
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1500, abs=3)
        assert heard["tone_share"] > 0.95, "it was not heard within 250 ms"
        peer.bye()
