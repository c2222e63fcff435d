# SPDX-License-Identifier: GPL-3.0-or-later
"""RTP ports: others may hold some of them, and there may be fewer than calls that come."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sip_harness import AgentProcess
from sip_peer import Peer

pytestmark = pytest.mark.sip

PAIRS = 6


def test_b21_ports_that_another_program_holds_are_passed_by(
    agents: Callable[..., AgentProcess], worker_rtp: Iterator[int]
) -> None:
    first = next(worker_rtp)
    with ExitStack() as squatters:
        for port in range(first, first + PAIRS):  # half of the pairs
            squatter = squatters.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            squatter.bind(("127.0.0.1", port))
        agent = agents(auto_answer=True, settings={"rtp_port_min": first, "rtp_port_max": first + 2 * PAIRS - 1})
        used = []
        for _ in range(2 * PAIRS):
            with Peer(agent.port) as peer:
                assert peer.invite().code == 200
                used.append(peer.remote_rtp[1])
                peer.bye()
    assert all(port >= first + PAIRS and port % 2 == 0 for port in used), used


def test_b20_a_call_that_no_port_is_left_for_is_refused_before_it_is_answered(
    agents: Callable[..., AgentProcess], worker_rtp: Iterator[int]
) -> None:
    first = next(worker_rtp)
    agent = agents(auto_answer=True, settings={"rtp_port_min": first, "rtp_port_max": first + 5})
    with ExitStack() as calls:
        for _ in range(3):
            assert calls.enter_context(Peer(agent.port)).invite().code == 200
        assert calls.enter_context(Peer(agent.port)).invite().code in (486, 503)
