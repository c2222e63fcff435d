# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a leg hears: a filter in the kernel on its RTP and RTCP sockets.

PJSIP sends sound to where sound comes from (symmetric RTP), which lets calls through NAT work, and lets anybody who
finds the port take a silent peer's place: ten packets are enough (AST-2017-005 is the same in another product). So
packets from other addresses than the peer's are dropped before the library sees them, by a socket filter (classic
BPF, ``SO_ATTACH_FILTER``): it costs nothing for each packet here and works with every build of the library.

Heard are the address that the peer's SDP names, the address that its signalling really came from (a peer behind NAT
names a private one), and networks that the settings add. The port may be another one than announced, and may change:
that is NAT again. An address can be forged; against that only SRTP helps.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Iterable, Sequence

import structlog

log = structlog.get_logger(__name__)

Network = ipaddress.IPv4Network

# linux/filter.h, linux/bpf_common.h, asm-generic/socket.h
_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_SOURCE_ADDRESS = 0x1_0000_0000 - 0x10_0000 + 12  # SKF_NET_OFF, and the offset in an IPv4 header (RFC 791)
_WHOLE_PACKET = 0xFFFF_FFFF
_SO_ATTACH_FILTER = 26
_SO_MEMINFO = 55
_MEMINFO_DROPS = 8  # index in the array of SO_MEMINFO (linux/sock_diag.h)
MAX_NETWORKS = 32


def host(address: str) -> Network | None:
    """An address as a network of one; None when it is not an IPv4 address that a packet can come from."""
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError:
        return None
    return None if parsed.is_unspecified or parsed.is_multicast else Network((parsed, 32))


def program(networks: Iterable[Network]) -> bytes:
    """The filter's instructions (``struct sock_filter``): let pass what comes from one of the networks."""
    code = b""
    for network in list(dict.fromkeys(networks))[:MAX_NETWORKS]:
        code += _instruction(_LOAD_WORD, _SOURCE_ADDRESS)
        code += _instruction(_AND, int(network.netmask))
        code += _instruction(_JUMP_IF_EQUAL, int(network.network_address), when_false=1)
        code += _instruction(_RETURN, _WHOLE_PACKET)
    return code + _instruction(_RETURN, 0)


def _instruction(code: int, operand: int, *, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, 0, when_false, operand)


def attach(handle: int, code: bytes) -> None:
    """Put a program on a socket, in the place of one that is there. OSError where the kernel has no filters."""
    instructions = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HL", len(code) // 8, ctypes.addressof(instructions))  # struct sock_fprog
    with _borrowed(handle) as borrowed:
        borrowed.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def drops(handle: int) -> int:
    """Packets that the kernel dropped at a socket: refused by the filter, or with no room in its buffer."""
    with _borrowed(handle) as borrowed:
        words = borrowed.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 64)
    return int(struct.unpack_from("I", words, 4 * _MEMINFO_DROPS)[0])


class _borrowed:
    """A socket object on a handle that stays the library's."""

    def __init__(self, handle: int) -> None:
        self._socket = socket.socket(fileno=handle)

    def __enter__(self) -> socket.socket:
        return self._socket

    def __exit__(self, *_: object) -> None:
        self._socket.detach()


def bound_port(handle: int) -> int:
    """The port of an IPv4 UDP socket; 0 for any other handle, or none."""
    try:
        if not stat.S_ISSOCK(os.fstat(handle).st_mode):
            return 0
        with _borrowed(handle) as one:
            if one.family != socket.AF_INET or one.type != socket.SOCK_DGRAM:
                return 0
            return int(one.getsockname()[1])
    except OSError:
        return 0


def udp_sockets(ports: Iterable[int], *, known: frozenset[int] = frozenset()) -> dict[int, int]:
    """This process's handles of the UDP sockets bound to the given ports; ``known`` handles are passed over."""
    wanted = set(ports)
    found: dict[int, int] = {}
    handles = {int(name) for name in os.listdir("/proc/self/fd")} - known  # noqa: PTH208 - names alone
    for handle in sorted(handles, reverse=True):  # new ones are mostly the highest
        port = bound_port(handle)
        if port in wanted:
            found[port] = handle
            if found.keys() == wanted:
                break
    return found


class RtpGate:
    """The filters of all legs. On the owner thread, which is the one that opens and closes RTP sockets."""

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        """``networks``: heard on every leg."""
        self._networks = tuple(networks)
        self._handles: dict[str, dict[int, int]] = {}
        self._works = True

    def admit(self, leg: str, ports: Sequence[int], peers: Iterable[str]) -> None:
        """From now on the leg's ports hear these addresses. Without any that is known, they hear everybody."""
        hosts = [network for network in map(host, peers) if network is not None]
        if not hosts or not self._works:
            return
        code = program([*hosts, *self._networks])
        for port, handle in self._sockets(leg, ports).items():
            try:
                attach(handle, code)
            except OSError as error:
                self._works = False
                log.warning("rtp_gate_unavailable", error=error.strerror, port=port, consequence="any source is heard")
                return

    def _sockets(self, leg: str, ports: Sequence[int]) -> dict[int, int]:
        """The handles of the leg's ports. A handle whose number serves another socket by now is looked up again."""
        held = {port: handle for port, handle in self._handles.get(leg, {}).items() if bound_port(handle) == port}
        if wanted := set(ports) - held.keys():
            known = frozenset(handle for handles in self._handles.values() for handle in handles.values())
            held |= udp_sockets(wanted, known=known - frozenset(self._handles.get(leg, {}).values()))
        held = self._handles[leg] = {port: held[port] for port in ports if port in held}
        if len(held) < len(ports):
            log.warning("rtp_socket_not_found", leg=leg, consequence="any source is heard")
        return held

    def drops(self, leg: str) -> int:
        """Packets that the leg's sockets refused, or had no room for."""
        total = 0
        for handle in self._handles.get(leg, {}).values():
            try:
                total += drops(handle)
            except OSError:  # the leg is ending, its sockets are closed
                continue
        return total

    def forget(self, leg: str) -> None:
        """The leg is gone, and its sockets with it."""
        self._handles.pop(leg, None)
