# SPDX-License-Identifier: GPL-3.0-or-later
"""Socket filters and knocks by themselves, on loopback sockets of this process."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from sip_harness import until

from gateway.sip.knock import WAIT_NS, Knocks
from gateway.sip.rtpgate import MAX_NETWORKS, Network, RtpGate, bound_port, host, program, udp_sockets
from gateway.sip.settings import SipSettings

pytestmark = pytest.mark.sip


@pytest.fixture
def ear() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.settimeout(0.3)
        yield one


def heard(ear: socket.socket, source: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((source, 0))
        one.sendto(source.encode(), ear.getsockname())
        try:
            return ear.recv(64) == source.encode()
        except TimeoutError:
            return False


def test_b11_only_the_admitted_are_heard_and_the_refused_are_counted(ear: socket.socket) -> None:
    port = ear.getsockname()[1]
    gate = RtpGate([Network("127.0.2.0/24")])
    assert heard(ear, "127.0.0.9"), "nothing was admitted yet"
    gate.admit("leg", [port], ["127.0.0.1", ""])
    assert [heard(ear, ip) for ip in ("127.0.0.1", "127.0.2.77", "127.0.0.9")] == [True, True, False]
    assert gate.drops("leg") == 1
    gate.admit("leg", [port], ["127.0.0.9"])
    assert [heard(ear, ip) for ip in ("127.0.0.9", "127.0.0.1")] == [True, False]
    gate.forget("leg")
    assert gate.drops("leg") == 0


def test_a_leg_of_which_no_address_is_known_hears_everybody(ear: socket.socket) -> None:
    RtpGate().admit("leg", [ear.getsockname()[1]], ["", "example.org", "0.0.0.0"])
    assert heard(ear, "127.0.0.9")


def test_a_handle_that_serves_another_socket_is_looked_up_again(ear: socket.socket) -> None:
    gate = RtpGate()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
        first.bind(("127.0.0.1", 0))
        port, handle = first.getsockname()[1], first.fileno()
        gate.admit("leg", [port], ["127.0.0.1"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second:
        assert second.fileno() == handle, "the kernel gives the lowest free number"
        gate.admit("leg", [port], ["127.0.0.7"])
        second.bind(("127.0.0.1", 0))
        second.settimeout(0.3)
        assert heard(second, "127.0.0.1"), "a filter was put on a stranger's socket"


def test_sockets_are_found_by_port(ear: socket.socket) -> None:
    port = ear.getsockname()[1]
    assert udp_sockets([port]) == {port: ear.fileno()}
    assert udp_sockets([port], known=frozenset({ear.fileno()})) == {}
    assert bound_port(ear.fileno()) == port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
        assert bound_port(stream.fileno()) == 0


def test_programs_are_bounded_and_end_in_a_refusal() -> None:
    assert program([]) == struct.pack("HBBI", 6, 0, 0, 0)
    many = program(Network((number, 32)) for number in range(1000))
    assert len(many) == 8 * (4 * MAX_NETWORKS + 1)
    assert program([Network("10.0.0.0/8")] * 3) == program([Network("10.0.0.0/8")])


@pytest.mark.parametrize("text", ["", "host.example", "0.0.0.0", "224.0.0.1", "::1", "127.0.0.1:5"])
def test_no_network_is_made_of_what_no_packet_comes_from(text: str) -> None:
    assert host(text) is None


def test_a_network_that_is_none_is_told_with_the_setting() -> None:
    with pytest.raises(ValueError, match=r"sip\.rtp_networks.*10\.0\.0\.1/8"):
        SipSettings(rtp_networks=("10.0.0.1/8",))


def test_a_knock_at_a_closed_port_is_turned_away_and_at_an_open_one_not(ear: socket.socket) -> None:
    knocks = Knocks("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        closed = gone.getsockname()
    knocks.knock("open", ear.getsockname(), 0)
    knocks.knock("closed", closed, 0)
    found: list[str] = []
    assert until(lambda: bool(found) or bool(found.extend(knocks.refused(1)) or found))
    assert found == ["closed"]
    assert knocks.refused(2) == [], "each is told once"
    assert ear.recv(16) == b"\r\n\r\n"
    assert knocks.refused(WAIT_NS) == [], "nobody turned it away: it is forgotten"
