# SPDX-License-Identifier: GPL-3.0-or-later
"""Timers: what has to be waited for runs beside the other tests (`long_calls`) and is looked at here."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest
from long_calls import SCENARIOS
from sip_harness import AgentProcess
from sip_peer import Peer

pytestmark = [pytest.mark.sip, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a08_a09_a13_b08_d12_what_has_to_be_waited_for(long_calls: Mapping[str, Future[None]], name: str) -> None:
    long_calls[name].result(260)


def test_a10_session_expires_too_small_is_422(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        answer = peer.invite(extra="Supported: timer\r\nSession-Expires: 60\r\n")
        assert answer.code == 422
        assert int(answer.headers["min-se"]) >= 90
