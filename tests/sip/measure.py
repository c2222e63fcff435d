# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what the SIP room costs and how long it takes: idle CPU, commands, call set-up, sound in and out.

Run from the repository root: ``python tests/sip/measure.py``.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from g711 import decode, tone
from sip_harness import AgentProcess, until
from sip_peer import Peer

from gateway.sip.agent import SWITCH_INTERVAL_S

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def load(agent: AgentProcess, seconds: float) -> float:
    before, start = cpu_s(agent.process.pid), time.monotonic()
    pause(seconds)
    return 100 * (cpu_s(agent.process.pid) - before) / (time.monotonic() - start)


def median_p99(values: list[float]) -> str:
    return f"median {statistics.median(values):.2f}, p99 {np.percentile(values, 99):.2f}"


def delays(agent: AgentProcess) -> None:
    """A click through an echoing leg, ten times: sample in from RTP to sink, source to RTP out."""
    into, back = [], []
    silence, click = tone(1, 0.02, 0), tone(1000, 0.02)
    for number in range(10):
        with Peer(agent.port) as peer:
            lines = len(agent.lines)
            peer.invite()
            leg = agent.event("MediaActive", start=lines)["leg"]
            sent_ns = 0
            start = time.monotonic() + 0.0017 * number
            for count in range(100):
                if count == 50:
                    sent_ns = time.monotonic_ns()
                peer.rtp.send(peer.remote_rtp, click if count == 50 else silence)
                pause(max(0.0, start + (count + 1) * 0.02 - time.monotonic()))
            heard = agent.ask("first_loud", "loud_ns", leg=leg)
            into.append((heard["loud_ns"] - sent_ns) / 1e6)
            loud = [p.at_ns for p in peer.rtp.received if np.abs(decode(p.payload)).max() > 2000]
            back.append((loud[0] - heard["loud_ns"]) / 1e6)
            peer.bye()
    print(f"RTP in -> sink ms: {median_p99(into)}, least {min(into):.1f}")
    print(f"sink -> echo source -> RTP out ms: {median_p99(back)}, least {min(back):.1f}")


def main() -> None:
    agent = AgentProcess(31_000, auto_answer=True, echo=True)
    pause(2)
    print(f"idle: {load(agent, 5):.2f} % of a core, {agent.ask('statistics', 'rss_kb')['rss_kb'] / 1024:.1f} MiB")
    print(f"command latency us: {median_p99(agent.ask('latency', 'latency_us')['latency_us'])}")
    setups = []
    for _ in range(50):
        with Peer(agent.port) as peer:
            start = time.perf_counter_ns()
            peer.invite()
            setups.append((time.perf_counter_ns() - start) / 1e6)
            peer.bye()
    print(f"INVITE -> 200 ms: {median_p99(setups)}")
    delays(agent)
    peers = [Peer(agent.port) for _ in range(4)]
    for peer in peers:
        peer.invite()
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
    pause(1)
    print(f"4 legs: {load(agent, 5):.2f} % of a core")
    print(f"command latency with 4 legs us: {median_p99(agent.ask('latency', 'latency_us')['latency_us'])}")
    python_default_s = sys.getswitchinterval()  # ours is set in the agent's process alone
    for interval_s in (SWITCH_INTERVAL_S, 0.001, python_default_s):
        agent.ask("switch_interval", "switch_interval", seconds=interval_s)
        marks = [len(peer.rtp.received) for peer in peers]
        agent.tell("busy", seconds=5)
        used = load(agent, 5)
        rows = [np.array([p.at_ns for p in peer.rtp.received[mark:]]) for peer, mark in zip(peers, marks, strict=True)]
        steps = np.concatenate([np.diff(row) / 1e6 for row in rows])
        print(
            f"RTP out beside a busy thread, switch interval {interval_s * 1000} ms: "
            f"step ms {median_p99(list(steps))}, worst {steps.max():.1f}, {used:.0f} % of a core"
        )
    print({k: v for k, v in agent.statistics().items() if k in ("late_frames", "worst_gap_ms", "counts")})
    for peer in peers:
        peer.bye()
        peer.__exit__(None, None, None)
    assert until(lambda: agent.statistics()["legs"] == 0)
    start = time.monotonic()
    print(f"exit {agent.stop()}, stop took {time.monotonic() - start:.2f} s")


if __name__ == "__main__":
    main()
