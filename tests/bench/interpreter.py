# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the gateway: two telephones back to back that answer each utterance with a tone.

It bridges by the same two legs as the real one and keeps the same records, but knows no speech: what the test proves
is that the bench measures what really happened between two processes.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from gateway.bench.phone import Phone, PhoneOptions
from gateway.bench.records import SegmentRecord

QUIET_MS = 300
LANGUAGES = {"a": "en", "b": "pt"}


class ToneInterpreter:
    """Dial ``uri``; it calls ``callee`` and plays ``clips[leg]`` to the other leg ``think_ms`` after a sound ended."""

    def __init__(self, callee: str, clips: dict[str, Path], think_ms: int) -> None:
        self._callee, self._clips, self._think_ms = callee, clips, think_ms
        self._legs = {
            "a": Phone(PhoneOptions(user="gateway", quiet_ms=QUIET_MS), lambda event: self._on("a", event)),
            "b": Phone(PhoneOptions(user="gateway", quiet_ms=QUIET_MS), lambda event: self._on("b", event)),
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self.records: list[SegmentRecord] = []
        self.faults: list[dict[str, Any]] = []

    @property
    def uri(self) -> str:
        return f"sip:interpreter@127.0.0.1:{self._legs['a'].sip_port}"

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for leg in self._legs.values():
            leg.close()

    def _on(self, leg: str, event: dict[str, Any]) -> None:
        other = self._legs["b" if leg == "a" else "a"]
        if event["event"] == "incoming":
            other.command({"cmd": "call", "uri": self._callee})
        elif event["event"] == "established" and leg == "b":
            other.command({"cmd": "answer"})
        elif event["event"] == "ended":
            other.command({"cmd": "hangup"})
        elif event["event"] == "error":
            self.faults.append(event)
        elif event["event"] == "sound_ended":
            task = asyncio.get_running_loop().create_task(self._interpret(leg, other, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _interpret(self, leg: str, other: Phone, heard: dict[str, Any]) -> None:
        await asyncio.sleep(self._think_ms / 1000)
        played_ns = time.monotonic_ns()
        other.command({"cmd": "play", "file": str(self._clips[leg])})
        target = LANGUAGES["b" if leg == "a" else "a"]
        self.records.append(
            SegmentRecord(
                f"{leg}-{len(self.records)}",
                leg,
                LANGUAGES[leg],
                target,
                "said",
                "told",
                heard["first_ns"],
                heard["last_ns"],
                played_ns,
                stages_ns={"endpoint": QUIET_MS * 1_000_000, "think": self._think_ms * 1_000_000},
            )
        )
