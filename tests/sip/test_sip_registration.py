# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway as an extension of a PBX: a real Kamailio with the shipped recipe is the PBX (A4, A14, A19)."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kamailio_process import PASSWORD, Kamailio
from sip_callee import Callee
from sip_harness import Exchange, free_port, open_exchange, until
from sip_peer import Peer

from gateway.sip.registration import LONGEST_ROUND_S, Registration, Rotation, peer_of

pytestmark = pytest.mark.sip


def extension(*pbxs: Kamailio, password: str = PASSWORD, expires_s: int = 60) -> dict[str, Any]:
    registrars = [pbx.uri for pbx in pbxs]
    return {"name": "pbx", "registrars": registrars, "user": "700", "password": password, "expires_s": expires_s}


def state(exchange: Exchange) -> dict[str, Any]:
    return exchange.agent.statistics()["registrations"].get("pbx", {})  # type: ignore[no-any-return]


def register(pbx: Kamailio, user: str, contact_port: int) -> None:
    """A telephone that registers by itself, for calls to ``contact_port``."""
    with Peer(pbx.port, user=user) as phone:
        phone.to = f"<sip:{user}@127.0.0.1>"
        phone.port = contact_port
        answer = phone.with_digest("REGISTER", "sip:127.0.0.1", PASSWORD, extra="Expires: 60\r\n")
        assert answer.code == 200, answer.first_line


def call_through(alice: Peer, pbx: Kamailio) -> str:
    """A call with password through the PBX, up to the ACK; the route set for what follows."""
    answer = alice.with_digest("INVITE", f"sip:{alice.number}@127.0.0.1:{pbx.port}", PASSWORD, alice.sdp())
    assert answer.code == 200, answer.first_line
    routes = re.findall(r"(?im)^record-route: (.*?)\r", answer.text)
    route_set = "".join(f"Route: {route}\r\n" for route in routes)
    alice.answer, alice.to = answer, answer.headers["to"]
    alice.request("ACK", cseq=alice.cseq, extra=route_set)
    return route_set


def test_a4_a14_a_call_to_the_extension_goes_on_through_the_pbx(tmp_path: Path, worker_rtp: Iterator[int]) -> None:
    with Kamailio(tmp_path) as pbx:
        route = {
            "name": "ext",
            "source": "en",
            "target": "pt",
            "number": "700",
            "destination": f"sip:201@127.0.0.1:{pbx.port}",
        }
        with (
            open_exchange(next(worker_rtp), more_routes=(route,), settings={"registrations": [extension(pbx)]}) as site,
            Callee() as bob,
            Peer(pbx.port, user="200", number="700") as alice,
        ):
            assert until(lambda: state(site).get("registered", False), 5), (state(site), pbx.log())
            register(pbx, "201", bob.port)
            route_set = call_through(alice, pbx)
            started = site.agent.event("call-started")
            invite = bob.accept()
            assert "sip:700@" in invite.headers["from"], "the gateway calls as its extension"
            site.agent.event("call-phase", phase="bridged")
            assert until(lambda: len(bob.rtp.received) > 20)
            alice.request("BYE", extra=route_set)
            assert alice.final("BYE").code == 200
            bob.next("BYE")
            assert site.agent.event("call-ended")["call"] == started["call"]
        with Peer(pbx.port, user="200", number="700") as late:  # the gateway has stopped, and taken its address back
            assert late.with_digest("INVITE", f"sip:700@127.0.0.1:{pbx.port}", PASSWORD, late.sdp()).code == 404


@pytest.mark.parametrize("dead_first", [True, False])
def test_a14_kamailio_finds_the_gateway_that_answers(exchange: Exchange, tmp_path: Path, dead_first: bool) -> None:
    dead, alive = free_port(), exchange.agent.port
    gateways = (dead, alive) if dead_first else (alive, dead)
    with Kamailio(tmp_path, *gateways) as pbx, Peer(pbx.port, user="200", number="7001") as alice:
        start = exchange.position()
        route_set = call_through(alice, pbx)
        exchange.callee.accept()
        exchange.agent.event("call-phase", start=start, phase="bridged")
        alice.request("BYE", extra=route_set)
        assert alice.final("BYE").code == 200
        exchange.callee.next("BYE")
        exchange.agent.event("call-ended", start=start)


def test_a19_the_second_registrar_takes_over_when_the_first_is_gone(tmp_path: Path, worker_rtp: Iterator[int]) -> None:
    with (
        Kamailio(tmp_path) as first,
        Kamailio(tmp_path) as second,
        open_exchange(
            next(worker_rtp), settings={"registrations": [extension(first, second, expires_s=5) | {"ping_s": 0}]}
        ) as site,
    ):
        assert until(lambda: state(site).get("registered", False), 5)
        assert state(site)["registrar"] == first.uri
        first.stop()
        assert until(lambda: state(site).get("registered", False) and state(site)["registrar"] == second.uri, 25)


def test_a19_a_wrong_password_is_tried_with_pauses_and_told_without_it(
    tmp_path: Path, worker_rtp: Iterator[int]
) -> None:
    with (
        Kamailio(tmp_path) as pbx,
        open_exchange(next(worker_rtp), settings={"registrations": [extension(pbx, password="wr0ng-pass")]}) as site,
    ):
        assert until(lambda: state(site).get("failures", 0) >= 1, 5)
        assert (state(site)["registered"], state(site)["code"]) == (False, 401)
        assert until(lambda: any("sip_registration_failed" in line for line in site.agent.errors))
        assert not [line for line in site.agent.errors if "wr0ng" in line]


@pytest.mark.parametrize("registrars", [1, 2, 3])
def test_a19_pauses_grow_by_rounds_and_differ_between_gateways(registrars: int) -> None:
    one, other = (Rotation(registrars, random.Random(seed)) for seed in (1, 2))
    pauses: list[float] = []
    for _ in range(20 * registrars):
        one.failed(0)
        other.failed(0)
        assert one.due_ns is not None and one.due_ns != other.due_ns
        pauses.append(one.due_ns / 1e9)
    assert one.current == 0
    rounds = pauses[registrars - 1 :: registrars]
    assert all(later >= sooner for sooner, later in itertools.pairwise(rounds[:6])), "a pause shrank by chance"
    assert all(pause <= LONGEST_ROUND_S for pause in pauses)
    assert rounds[-1] >= LONGEST_ROUND_S / 2
    assert all(pause <= 1 for n, pause in enumerate(pauses, 1) if n % registrars)
    one.succeeded(0, 100)
    assert one.failures == 0 and one.due_ns is not None and 70e9 <= one.due_ns <= 80e9


@pytest.mark.parametrize(
    "registrar", ["sip:", "192.0.2.1", "sips:pbx", "sip:user@pbx", "sip:pbx;maddr=x", "sip:pbx:port"]
)
def test_a_registrar_that_is_none_is_refused(registrar: str) -> None:
    with pytest.raises(ValueError, match="must be like"):
        Registration("pbx", (registrar,), "700", "x")


def test_the_password_is_not_in_the_text_of_a_registration() -> None:
    assert "s3cret" not in repr(Registration("pbx", ("sip:pbx",), "700", "s3cret"))


def test_peers_of_uris() -> None:
    assert peer_of("sip:200@PBX.example;transport=tcp") == ("pbx.example", 5060)
    assert peer_of("sip:pbx.example:5070") == ("pbx.example", 5070)
    assert peer_of("tel:+123") == ("", 0)
