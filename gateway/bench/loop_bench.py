# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench loop``: ticks from telephone to telephone, without a word (SPEC S1.15).

Both parties speak one language, so each hears the other directly. Each second a tick leaves; when it arrives is read
from the RTP of the two telephones, as everywhere in the bench. It is what the line itself takes, and no model: packets,
both networks, the jitter buffer, the store of the direct voice, the play-out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from gateway.bench.capture import Capture, first_above
from gateway.bench.conversation import b_ports, converse, route
from gateway.bench.demo import Say
from gateway.bench.dialogue import Script, Turn, VoicedScript, VoicedTurn
from gateway.bench.ear import spread
from gateway.bench.ear_bench import OURS
from gateway.bench.gateway_process import GatewayProcess
from gateway.bench.records import Spoken
from gateway.bench.sdp import RATE_HZ

EVERY_MS = 1000
TICK_MS = 20
TICK_HZ = 1000
TICK_DBFS = -10.0
LATEST_NS = 900_000_000  # less than the time between two ticks: none is taken for the one before
_LEAD_MS = 500
_APART_NS = 500_000_000


async def bench_loop(out: Path, *, ticks: int, config: Path | None, say: Say) -> dict[str, Any]:
    """One call, ``ticks`` ticks from A to B, then as many from B to A; figures in ms, JSON-ready.

    Raises:
        GatewayFailed: the gateway did not start.
        PhoneError: the call did not come about, or broke off.
    """
    voiced = script(ticks, out / "script")
    (port,) = b_ports(1)
    say("starting a gateway")
    async with GatewayProcess(out, routes=[route(voiced.script, port)], config=config, environ=OURS) as gateway:
        say(f"{ticks} ticks each way, {2 * ticks} s")
        held = await converse(gateway, voiced, out, b_port=port)
    return figures(held.outcome.spoken, held.outcome.captures)


def script(ticks: int, directory: Path) -> VoicedScript:
    """Two turns of ticks, as sound files."""
    directory.mkdir(parents=True, exist_ok=True)
    time_s = np.arange(TICK_MS * RATE_HZ // 1000) / RATE_HZ
    second = np.zeros(EVERY_MS * RATE_HZ // 1000, np.int16)
    second[: time_s.size] = np.sin(2 * np.pi * TICK_HZ * time_s) * 32767 * 10 ** (TICK_DBFS / 20)
    pcm = np.concatenate([np.zeros(_LEAD_MS * RATE_HZ // 1000, np.int16), np.tile(second, ticks)])
    turns = [Turn("a01", "a", "en", "tick"), Turn("b02", "b", "en", "tick", pause_ms=EVERY_MS)]
    voiced = []
    for turn in turns:
        path = directory / f"{turn.turn_id}.wav"
        soundfile.write(path, pcm, RATE_HZ, subtype="PCM_16")
        voiced.append(VoicedTurn(turn, path, pcm.size, "made"))
    return VoicedScript(Script("ticks", "timed", {"a": "en", "b": "en"}, tuple(turns)), tuple(voiced))


def figures(spoken: tuple[Spoken, ...], captures: Mapping[str, Capture]) -> dict[str, Any]:
    """By direction: how long the ticks took, and how many left and did not arrive."""
    found: dict[str, Any] = {}
    for turn in spoken:
        listener = next(capture for leg, capture in captures.items() if leg != turn.leg)
        took = ticks_of(turn, captures[turn.leg], listener)
        arrived = [ms for ms in took if ms is not None]
        times = spread(arrived)
        found["a_to_b" if turn.leg == "a" else "b_to_a"] = {
            "sent": len(took),
            "lost": len(took) - len(arrived),
            **(asdict(times) if times else {}),
        }
    return found


def ticks_of(turn: Spoken, talker: Capture, listener: Capture) -> list[float | None]:
    """Of each tick of a turn: ms from the packet that left to the packet that came; None for one that did not."""
    took: list[float | None] = []
    left = first_above(talker.sent, turn.first_ns, turn.last_ns)
    while left is not None:
        came = first_above(listener.received, left.at_ns, left.at_ns + LATEST_NS)
        took.append((came.at_ns - left.at_ns) / 1e6 if came is not None else None)
        left = first_above(talker.sent, left.at_ns + _APART_NS, turn.last_ns)
    return took
