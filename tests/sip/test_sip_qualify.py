# SPDX-License-Identifier: GPL-3.0-or-later
"""Peers are asked by OPTIONS whether they are there, and what follows from it (A4, A18, A19)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import pytest
from sip_callee import Callee
from sip_harness import AgentProcess, open_exchange, side_by_side, until
from sip_peer import Message, Peer

from gateway.sip.qualify import ANSWER_NS, Health, PeerWatch, Pulse
from gateway.sip.qualify import Peer as Asked

pytestmark = pytest.mark.sip

S = 1_000_000_000


class Registrar:
    """A PBX of our own: registers whoever asks, answers OPTIONS, until it is told to say nothing any more."""

    def __init__(self) -> None:
        self.silent = False
        self.unanswered = 0
        self.options_code = 200
        self.invite_code = 486
        """What calls are answered; 0 not at all."""
        self.calls: list[Message] = []
        self._phone = Callee()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"sip:127.0.0.1:{self._phone.port}"

    def distinct_calls(self) -> int:
        """INVITEs, each counted once however often it was sent."""
        return len({call.headers["call-id"] for call in self.calls})

    def _serve(self) -> None:
        while not self._over.is_set():
            message = self._phone.receive(0.1)
            if message is None or message.code:
                continue
            if self.silent:
                self.unanswered += 1
            elif message.first_line.startswith("REGISTER"):
                self._phone.respond(message, 200, "OK", extra=f"Contact: {message.headers['contact']};expires=3600")
            elif message.first_line.startswith("OPTIONS"):
                self._phone.respond(message, self.options_code, "Here")
            elif message.first_line.startswith("INVITE"):
                self.calls.append(message)
                if self.invite_code:
                    self._phone.respond(message, self.invite_code, "Not Now")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(2)
        self._phone.rtp.close()
        self._phone.sip.close()


def healths(agent: AgentProcess, peer: str) -> list[str]:
    return [each["health"] for each in agent.statistics()["peers"].get(peer, {}).values()]


def a_silent_registrar_is_left_long_before_the_renewal(first: Registrar, second: Registrar, first_rtp: int) -> None:
    pbx: dict[str, Any] = {"name": "pbx", "registrars": [first.uri, second.uri], "user": "700", "password": "x"}

    def registrar(agent: AgentProcess) -> str:
        held = agent.statistics()["registrations"].get("pbx", {})
        return str(held["registrar"]) if held.get("registered") else ""

    settings = {"registrations": [pbx | {"expires_s": 3600, "ping_s": 1}]}
    with open_exchange(first_rtp, settings=settings) as site:
        assert until(lambda: registrar(site.agent) == first.uri and healths(site.agent, "pbx") == ["up", "up"])
        first.silent = True
        assert until(lambda: registrar(site.agent) == second.uri, 12)
        assert healths(site.agent, "pbx") == ["down", "up"]
        assert any("sip_peer_down" in line for line in site.agent.errors)
        first.silent = False
        assert until(lambda: healths(site.agent, "pbx") == ["up", "up"])
        first.silent, asked = True, first.unanswered
        assert until(lambda: first.unanswered > asked)  # the gateway stops while it waits for an answer


def calls_go_to_the_address_of_a_trunk_that_is_up(first: Registrar, second: Registrar, first_rtp: int) -> None:
    first.options_code, second.options_code = 503, 404  # takes no calls; is alive
    trunk = {"name": "carrier", "networks": ["192.0.2.1"], "addresses": [first.uri, second.uri], "ping_s": 1}
    route = {"name": "out", "source": "en", "target": "pt", "number": "8", "destination": f"sip:8@{first.uri[4:]}"}
    with open_exchange(first_rtp, more_routes=(route,), settings={"trunks": [trunk]}) as site:

        def call() -> None:
            start = site.position()
            with Peer(site.agent.port, number="8") as a:
                a.invite()
                assert site.agent.event("call-ended", start=start)["reason"] == "callee-busy"

        assert until(lambda: healths(site.agent, "carrier") == ["down", "up"])
        call()
        assert (len(first.calls), len(second.calls)) == (0, 1)
        assert second.calls[0].first_line.startswith(f"INVITE sip:8@{second.uri[4:]}")
        first.options_code = 200
        assert until(lambda: healths(site.agent, "carrier") == ["up", "up"])
        call()
        assert (len(first.calls), len(second.calls)) == (1, 1)


def a_call_goes_on_to_the_next_address(first: Registrar, second: Registrar, first_rtp: int) -> None:
    trunk = {"name": "carrier", "networks": ["192.0.2.1"], "addresses": [first.uri, second.uri], "ping_s": 0}
    with AgentProcess(first_rtp, settings={"trunks": [trunk]}) as agent:
        start = time.monotonic()
        first.invite_code = 503
        agent.tell("dial", leg="refused", uri=f"sip:8@{first.uri[4:]}", headers={"X-Call": "7"})
        assert agent.event("Ended", leg="refused")["code"] == 486, "the second one's word counts"
        assert time.monotonic() - start < 4
        assert second.calls[-1].headers["x-call"] == "7"
        first.invite_code = 0
        agent.tell("dial", leg="silent", uri=f"sip:8@{first.uri[4:]}")
        assert agent.event("Ended", 12, leg="silent")["code"] == 486
        second.invite_code = 0
        agent.tell("dial", leg="given-up", uri=f"sip:8@{first.uri[4:]}")
        assert until(lambda: "given-up" in agent.statistics()["rtp"], 3)
        agent.tell("hangup", leg="given-up")
        assert not agent.event("Ended", leg="given-up")["by_remote"]
        first.invite_code = second.invite_code = 503
        calls = first.distinct_calls()
        agent.tell("dial", leg="nobody", uri=f"sip:8@{second.uri[4:]}")
        assert agent.event("Ended", leg="nobody")["code"] == 503, "each address is tried once"
        assert first.distinct_calls() == calls + 1
        assert agent.statistics()["legs"] == 0
        assert sorted(each["leg"] for each in agent.events("Ended")) == ["given-up", "nobody", "refused", "silent"]


def test_a4_a19_who_is_down_is_not_asked_for_more(worker_rtp: Iterator[int]) -> None:
    rtp = [next(worker_rtp) for _ in range(3)]
    with ExitStack() as stack:
        one = [stack.enter_context(Registrar()) for _ in range(6)]
        side_by_side(
            registrar=lambda: a_silent_registrar_is_left_long_before_the_renewal(one[0], one[1], rtp[0]),
            trunk=lambda: calls_go_to_the_address_of_a_trunk_that_is_up(one[2], one[3], rtp[1]),
            call=lambda: a_call_goes_on_to_the_next_address(one[4], one[5], rtp[2]),
        )


def pulse_of(every_s: float = 60) -> Pulse:
    return Pulse(every_s, random.Random(1))


def test_a18_any_answer_is_a_sign_of_life_but_503() -> None:
    for code, health in ((200, Health.UP), (401, Health.UP), (404, Health.UP), (405, Health.UP), (503, Health.DOWN)):
        pulse = pulse_of()
        assert pulse.asks(S) or pulse.asks(2 * S)
        pulse.answered(code, 2 * S + 1)
        assert (pulse.health, pulse.code) == (health, code)


def test_a19_silence_is_told_in_time_and_then_asked_again_soon() -> None:
    pulse = pulse_of(every_s=60)
    assert not pulse.asks(0), "all gateways would ask at once"
    assert pulse.asks(S)
    assert pulse.health is Health.UNKNOWN
    assert not pulse.asks(S + ANSWER_NS - 1), "asked once, until it is answered"
    assert not pulse.asks(S + ANSWER_NS) and pulse.health is Health.DOWN and pulse.code == 408
    assert pulse.asks(S + ANSWER_NS + 10 * S)
    pulse.answered(200, S + ANSWER_NS + 10 * S + 2_000_000)
    assert pulse.health is Health.UP and pulse.round_trip_ms == 2
    assert not pulse.asks(50 * S) and pulse.asks(80 * S)


def test_a_peer_of_which_nothing_is_up_is_called_all_the_same() -> None:
    peers = [
        Asked("one", ("sip:a:1", "sip:b;transport=tcp"), 1),
        Asked("never", ("sip:c", "sip:d"), 0),
    ]
    asked: list[str] = []
    watch = PeerWatch(peers, lambda to: to != "sip:a:1" and not asked.append(to), random.Random(1))
    assert watch.instead_of("sip:7@a:1") == "sip:7@a:1", "nothing is known"
    for second in range(3):
        watch.tick(second * S)
    assert asked == ["sip:b;transport=tcp"], "who is not to be asked was"
    assert watch.fallen() == [("one", "sip:a:1")]  # it could not even be sent
    assert watch.fallen() == []
    assert watch.instead_of("sip:7@a:1") == "sip:7@a:1", "the other one is not up either"
    watch.answered("sip:b;transport=tcp", 200, 3 * S)
    assert watch.instead_of("sip:7@A:1;user=phone") == "sip:7@b;transport=tcp"
    assert watch.instead_of("sip:a:1") == "sip:b;transport=tcp"
    assert watch.instead_of("sip:7@a:2") == "sip:7@a:2"
    assert watch.instead_of("sip:7@c") == "sip:7@c"
    assert watch.after("sip:7@c", set()) == "sip:7@d", "who is never asked is called all the same"
    assert watch.after("sip:7@c", {("d", 5060)}) is None
    assert watch.after("sip:7@elsewhere", set()) is None
    watch.silent("sip:7@b;transport=tcp", 3 * S)
    assert watch.statistics()["one"]["sip:b;transport=tcp"]["health"] == "down"
    watch.answered("sip:elsewhere", 200, 3 * S)
    assert list(watch.statistics()) == ["one"]
