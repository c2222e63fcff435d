# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls in a row, with sound both ways, and what is left of them: memory, threads, file handles.

Run from the repository root: ``python tests/sip/churn.py --calls 1000``. Memory climbs for the first half minute
(transactions linger for 32 s), so the slope is fitted to what comes behind it.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from g711 import tone
from sip_harness import AgentProcess, until
from sip_peer import Peer

SOUND = tone(1000, 1)
LINGER_S = 35


def call(port: int, hold_s: float, failed: list[str]) -> None:
    try:
        with Peer(port) as peer:
            answer = peer.invite()
            assert answer.code == 200, answer.first_line
            peer.rtp.stream(peer.remote_rtp, SOUND)
            threading.Event().wait(hold_s)
            assert peer.bye().code == 200
    except (AssertionError, OSError) as error:  # a thread's exception ends nothing: it is told at the end
        failed.append(repr(error))


def churn(agent: AgentProcess, calls: int, at_once: int = 3, hold_s: float = 0.1) -> list[dict[str, Any]]:
    """Make the calls, each of which has to come about; a sample of the process every 1/20 of them."""
    samples: list[dict[str, Any]] = []
    failed: list[str] = []
    every = max(1, calls // 20)
    idle = agent.ask("statistics", "rss_kb")["fds"]
    start, done = time.monotonic(), 0
    while done < calls:
        batch = [
            threading.Thread(target=call, args=(agent.port, hold_s, failed)) for _ in range(min(at_once, calls - done))
        ]
        for one in batch:
            one.start()
        for one in batch:
            one.join(20)
        done += len(batch)
        assert agent.alive, "".join(agent.errors[-20:])
        if done // every > len(samples):
            assert until(lambda: agent.statistics()["legs"] == 0)
            until(lambda: agent.ask("statistics", "rss_kb")["fds"] <= idle)  # the last call's two sockets are closed
            line = agent.ask("statistics", "rss_kb")
            samples.append({k: line[k] for k in ("rss_kb", "threads", "fds")} | {"calls": done})
            samples[-1]["at_s"] = time.monotonic() - start
    assert not failed, failed
    assert until(lambda: agent.statistics()["legs"] == 0)
    assert agent.statistics()["counts"]["ended"] == calls, agent.statistics()["counts"]
    return samples


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=1000)
    options.add_argument("--at-once", type=int, default=3)
    options.add_argument("--hold-s", type=float, default=0.1)
    options.add_argument("--json", action="store_true", help="samples, counts and slope as one JSON object")
    given = options.parse_args()
    agent = AgentProcess(31_000, auto_answer=True, tone_hz=440)
    samples = churn(agent, given.calls, given.at_once, given.hold_s)
    late = [sample for sample in samples if sample["at_s"] > LINGER_S]
    if len(late) < 4:
        options.error(f"too few calls, or too short ones: they have to go on well beyond {LINGER_S} s")
    slope = np.polyfit([s["calls"] for s in late], [s["rss_kb"] for s in late], 1)[0]
    counts = agent.statistics()["counts"]
    code = agent.stop()
    if given.json:
        print(json.dumps({"samples": samples, "counts": counts, "slope_kb": slope, "exit": code}))
        return
    for sample in samples:
        print(
            f"{sample['at_s']:7.1f} s  {sample['calls']:6d} calls  {sample['rss_kb'] / 1024:6.1f} MiB  "
            f"{sample['threads']} threads  {sample['fds']} files"
        )
    print(f"slope behind the first {LINGER_S} s: {slope:.2f} KiB a call; {counts}; exit {code}")


if __name__ == "__main__":
    main()
