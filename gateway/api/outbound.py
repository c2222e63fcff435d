# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to servers that somebody named: never to an address inside (server-side request forgery).

A name is resolved here, each of its addresses is judged, and the connection goes to the judged address itself: asking
the resolver again could give another answer (DNS rebinding). TLS still proves the name. Nothing is followed, no proxy
of the environment is used, and no answer is read beyond its status.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable

import httpx2

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(Exception):
    """The name leads to an address that may not be asked."""


def is_public(address: IpAddress) -> bool:
    """Whether an address lies outside every private, local or reserved range, also when it wraps an IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name. OSError when there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Outbound:
    """Posts to one kind of servers; close it when done."""

    def __init__(self, *, timeout_s: float, resolver: Resolver = resolve, tls: ssl.SSLContext | None = None) -> None:
        self._resolver = resolver
        self._client = httpx2.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=timeout_s,
            verify=tls or ssl.create_default_context(),
            limits=httpx2.Limits(max_connections=16, max_keepalive_connections=0),
        )

    async def post(self, url: str, body: bytes, headers: dict[str, str], *, allow_private: bool) -> int:
        """The status of the answer. AddressRefused, OSError or httpx2.HTTPError when there is none."""
        target = httpx2.URL(url)
        port = target.port or (443 if target.scheme == "https" else 80)
        addresses = await self._resolver(target.host, port)
        if not addresses:
            raise OSError("the name has no address")
        if not allow_private and not all(is_public(ipaddress.ip_address(address)) for address in addresses):
            raise AddressRefused("the name leads to a private or local address")
        request = self._client.build_request(
            "POST",
            target.copy_with(host=addresses[0], port=port),
            content=body,
            headers={"content-type": "application/json", **headers, "host": target.netloc.decode("ascii")},
            extensions={"sni_hostname": target.host},
        )
        answer = await self._client.send(request, stream=True)
        await answer.aclose()
        return answer.status_code

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()
