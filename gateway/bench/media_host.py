# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that `media_bench` measures: the gateway's media process without calls or models.

It answers every call; each leg has what a party of a call has: a ring that wakes the event loop, and a play-out that
speaks half of the time. Lines of JSON: ``{"ready": port, "max_legs": n}`` at the start, statistics for each line on
standard input, the end when that closes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
from typing import Any

import numpy as np

from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.audio.ring import FrameRing
from gateway.bench.processes import resident_kb
from gateway.call.party import FRAME_MS, LEG_RATE_HZ, RING_FRAMES
from gateway.sip.agent import SipUserAgent
from gateway.sip.events import Ended, Incoming, SipEvent
from gateway.sip.settings import SipSettings
from gateway.telemetry.logs import configure_logging

SPOKEN_S, EVERY_S = 2.0, 4.0
FRAME_SAMPLES = LEG_RATE_HZ * FRAME_MS // 1000


class Host:
    """Legs by id, on the event loop."""

    def __init__(self, settings: SipSettings) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._legs: dict[str, tuple[FrameRing, PlayOut]] = {}
        self.heard_frames = 0
        self.agent = SipUserAgent(settings, self._deliver)
        times = np.arange(round(SPOKEN_S * LEG_RATE_HZ)) / LEG_RATE_HZ
        self._speech = (6000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)

    def _deliver(self, event: SipEvent) -> None:
        self._loop.call_soon_threadsafe(self._on_sip, event)

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    def _on_sip(self, event: SipEvent) -> None:
        if isinstance(event, Incoming):
            ring = FrameRing(RING_FRAMES, self._wake)
            leg = self._legs[event.leg] = (ring, PlayOut(LEG_RATE_HZ, FRAME_SAMPLES))
            self.agent.attach(event.leg, *leg)
            self.agent.answer(event.leg)
        elif isinstance(event, Ended):
            self._legs.pop(event.leg, None)

    async def listen(self) -> None:
        """Take what the rings hold, as the directions of calls do."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            for ring, _ in self._legs.values():
                self.heard_frames += len(ring.drain())

    async def speak(self) -> None:
        """Give each leg something to say, one after the other over the period."""
        number = 0
        while True:
            for _, playout in list(self._legs.values()):
                playout.enqueue(Clip(f"clip-{number}", ClipKind.TRANSLATION, self._speech))
                playout.events()
                number += 1
                await asyncio.sleep(EVERY_S / max(1, len(self._legs)))
            await asyncio.sleep(0 if self._legs else 0.1)

    def statistics(self) -> dict[str, Any]:
        """What the bench wants to know."""
        told = self.agent.statistics()
        return {
            "legs": told["legs"],
            "late_frames": told["late_frames"],
            "worst_gap_ms": told["worst_gap_ms"],
            "callback_errors": sum(leg["callback_errors"] for leg in told["rtp"].values()),
            "heard_frames": self.heard_frames,
            "rss_kb": resident_kb(os.getpid()),
            "library": told["library"]["version"],
        }


async def serve(settings: SipSettings) -> None:
    """Until standard input closes."""
    host = Host(settings)
    await asyncio.to_thread(host.agent.start)
    gc.collect()
    gc.freeze()  # as the gateway does: a search through what the imports left holds the interpreter for 40 ms
    tasks = [asyncio.create_task(host.listen()), asyncio.create_task(host.speak())]
    try:
        _tell({"ready": host.agent.bound_port, "max_legs": host.agent.max_legs})
        while await asyncio.to_thread(sys.stdin.readline):
            _tell(host.statistics())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.to_thread(host.agent.stop)


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtp-port", type=int, required=True)
    parser.add_argument("--legs", type=int, required=True)
    given = parser.parse_args()
    configure_logging("warning", "json", pii=False)
    settings = SipSettings(port=0, rtp_port_min=given.rtp_port, rtp_port_max=given.rtp_port + 2 * given.legs + 8)
    asyncio.run(serve(settings))


if __name__ == "__main__":
    main()
