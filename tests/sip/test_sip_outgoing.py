# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that the gateway places, and SIPp at the other end."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from g711 import tone
from sip_callee import Callee
from sip_harness import SCENARIOS, AgentProcess, free_port, until

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]
Sipp = Callable[..., "subprocess.Popen[str]"]


def answering(sipp: Sipp, scenario: str, *arguments: str) -> tuple[int, subprocess.Popen[str]]:
    """A SIPp that waits for a call, and its port; returns when it listens."""
    port = free_port()
    process = sipp(scenario, "-p", str(port), *arguments)

    def listening() -> bool:
        return f":{port:04X} " in Path("/proc/net/udp").read_text()

    assert until(listening), "SIPp did not open its port"
    return port, process


def test_sipp_call_with_sound(agent: AgentProcess, sipp: Sipp, tmp_path: Path) -> None:
    (tmp_path / "tone.ulaw").write_bytes(tone(1000, 2))
    caller = sipp("uac_rtp.xml", f"127.0.0.1:{agent.port}", cwd=tmp_path)
    leg = agent.event("MediaActive")["leg"]
    assert until(lambda: agent.hear(leg)["samples"] > 16_000)
    heard = agent.hear(leg)
    assert heard["peak_hz"] == pytest.approx(1000, abs=3)
    assert heard["tone_share"] > 0.95
    assert caller.wait(20) == 0
    agent.event("Ended", leg=leg, code=200, by_remote=True)


def test_a05_sipp_cancel(agents: Agents, sipp: Sipp) -> None:
    agent = agents()
    caller = sipp("uac_cancel.xml", f"127.0.0.1:{agent.port}")
    leg = agent.event("Incoming")["leg"]
    agent.tell("ring", leg=leg)
    assert caller.wait(20) == 0
    agent.event("Ended", leg=leg, code=487, by_remote=True)


def test_outgoing_call_rings_is_answered_and_ended_here(agents: Agents, sipp: Sipp) -> None:
    agent = agents(tone_hz=440)
    port, callee = answering(sipp, "sn:uas")
    agent.tell("dial", leg="b", uri=f"sip:100@127.0.0.1:{port}", headers={"X-Call": "7"})
    assert agent.event("Ringing", leg="b")["code"] == 180
    agent.event("MediaActive", leg="b", codec="PCMU")
    agent.event("Answered", leg="b")
    agent.tell("hangup", leg="b")
    agent.event("Ended", leg="b", code=200, by_remote=False)
    assert callee.wait(20) == 0


@pytest.mark.parametrize(("code", "phrase"), [(486, "Busy"), (603, "Decline"), (404, "Unknown"), (500, "Broken")])
def test_a22_refusals_keep_their_code(agents: Agents, sipp: Sipp, tmp_path: Path, code: int, phrase: str) -> None:
    agent = agents()
    scenario = tmp_path / "refuse.xml"
    scenario.write_text((SCENARIOS / "uas_refuse.xml").read_text().replace("@STATUS@", f"{code} {phrase}"))
    port, callee = answering(sipp, str(scenario))
    agent.tell("dial", leg="b", uri=f"sip:100@127.0.0.1:{port}")
    ended = agent.event("Ended", leg="b")
    assert (ended["code"], ended["phrase"], ended["by_remote"]) == (code, phrase, True)
    assert callee.wait(20) == 0
    assert agent.statistics()["legs"] == 0


def test_no_answer_and_our_cancel(agents: Agents, sipp: Sipp) -> None:
    agent = agents()
    port, callee = answering(sipp, "uas_ring_forever.xml")
    agent.tell("dial", leg="b", uri=f"sip:100@127.0.0.1:{port}")
    agent.event("Ringing", leg="b")
    agent.tell("hangup", leg="b")
    agent.event("Ended", leg="b", code=487, by_remote=False)
    assert callee.wait(20) == 0


@pytest.mark.parametrize("invite_first", [True, False])
def test_a06_answer_crosses_our_cancel(agents: Agents, invite_first: bool) -> None:
    """The callee's 200 leaves just as our CANCEL comes in: without ACK and BYE it would be a ghost call."""
    agent = agents()
    with Callee() as callee:
        agent.tell("dial", leg="b", uri=f"sip:100@127.0.0.1:{callee.port}")
        invite = callee.expect("INVITE")
        callee.respond(invite, 180, "Ringing")
        agent.event("Ringing", leg="b")
        agent.tell("hangup", leg="b")
        cancel = callee.expect("CANCEL")
        answers = [(invite, callee.sdp()), (cancel, "")]
        for request, body in answers if invite_first else reversed(answers):
            callee.respond(request, 200, "OK", body)
        callee.expect("ACK")
        callee.respond(callee.expect("BYE", timeout_s=1), 200, "OK")
    agent.event("Ended", leg="b", by_remote=False)
    assert agent.statistics()["legs"] == 0


def test_tcp_port_without_listener_fails_at_once(agents: Agents) -> None:
    agent = agents()
    start = time.monotonic()
    agent.tell("dial", leg="b", uri=f"sip:100@127.0.0.1:{free_port()};transport=tcp")
    ended = agent.event("Ended", leg="b")
    assert ended["code"] in (502, 503)
    assert not ended["by_remote"], "nobody was there to refuse"
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_closed_udp_port_ends_the_dial_at_once(agents: Agents, host: str) -> None:
    agent, start = agents(), time.monotonic()
    agent.tell("dial", leg="b", uri=f"sip:100@{host}:{free_port()}")
    agent.event("Ended", leg="b", code=503, phrase="Connection refused", by_remote=False)
    assert time.monotonic() - start < 5, "timer B is 32 s"


def test_hangup_of_a_call_nobody_answered_frees_the_leg_soon(agents: Agents) -> None:
    """A UDP port that swallows everything: no provisional response ever, so there is nothing to cancel."""
    agent = agents()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind(("127.0.0.1", 0))
        agent.tell("dial", leg="b", uri=f"sip:100@127.0.0.1:{hole.getsockname()[1]}")
        assert until(lambda: agent.statistics()["legs"] == 1)
        agent.tell("hangup", leg="b")
        agent.event("Ended", leg="b", by_remote=False, timeout_s=5)


def test_bad_uri_and_too_many_legs_are_ends_not_errors(agents: Agents) -> None:
    agent = agents()
    agent.tell("dial", leg="bad", uri="sip:1@x\r\nX-Evil: 1")
    assert agent.event("Ended", leg="bad")["code"] == 400
    limit = agent.statistics()["max_legs"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind(("127.0.0.1", 0))
        for number in range(limit + 1):
            agent.tell("dial", leg=f"b{number}", uri=f"sip:100@127.0.0.1:{hole.getsockname()[1]}")
        assert agent.event("Ended", leg=f"b{limit}")["code"] == 503
        statistics = agent.statistics()
        assert (statistics["legs"], statistics["free_legs"]) == (limit, 0)


def test_two_agents_call_each_other(agents: Agents) -> None:
    """A call is two legs with two sounds; what one plays is what the other hears, and not itself (D15)."""
    left, right = agents(auto_answer=True, tone_hz=440), agents(tone_hz=1200)
    right.tell("dial", leg="out", uri=f"sip:5@127.0.0.1:{left.port}", headers={"X-Pair": "en-pt"})
    incoming = left.event("Incoming")
    assert (incoming["dialled"], incoming["headers"]) == ("5", {"x-pair": "en-pt"})
    right.event("Answered", leg="out")
    assert until(lambda: right.hear("out")["samples"] > 12_000)
    assert right.hear("out")["peak_hz"] == pytest.approx(440, abs=3)
    assert left.hear(incoming["leg"])["peak_hz"] == pytest.approx(1200, abs=3)
    left.tell("hangup", leg=incoming["leg"])
    right.event("Ended", leg="out", code=200, by_remote=True)
