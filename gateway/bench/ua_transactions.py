# SPDX-License-Identifier: GPL-3.0-or-later
"""Transactions over UDP: who repeats what until when (RFC 3261 section 17, timers of table 4).

A client transaction repeats its request until something comes back; a server transaction repeats its last answer when
the request comes again, and an INVITE's final answer also by the clock until the ACK. Everything is dropped 64*T1
after it was last needed, which bounds the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.bench.sip_message import Request, Response, build

Datagram = tuple[bytes, tuple[str, int]]

_T2_NS = 4_000_000_000
_LIMIT = 64  # open transactions: a telephone has a handful, more is a flood


@dataclass(slots=True)
class _Client:
    request: Request
    data: bytes
    hop: tuple[str, int]
    interval_ns: int
    due_ns: int | None
    deadline_ns: int
    done: bool = False
    ack: Datagram | None = None


@dataclass(slots=True)
class _Server:
    hop: tuple[str, int]
    reply_to: tuple[str, int]
    reply: bytes = b""
    final: bool = False
    success: bool = False
    interval_ns: int = 0
    due_ns: int | None = None
    deadline_ns: int | None = None
    request: Request | None = None


class Transactions:
    """The tables of one telephone, and its outgoing datagrams."""

    def __init__(self, *, t1_ns: int) -> None:
        self._t1_ns = t1_ns
        self._clients: dict[tuple[str, str], _Client] = {}
        self._servers: dict[tuple[str, str], _Server] = {}
        self._out: list[Datagram] = []
        self._repeated = 0
        self._refused = 0

    def start(self, request: Request, hop: tuple[str, int], now_ns: int) -> None:
        """Send a request and repeat it until it is answered (timers A and E)."""
        data = build(request)
        self._clients[request.top_via.branch, request.method] = _Client(
            request, data, hop, self._t1_ns, now_ns + self._t1_ns, now_ns + 64 * self._t1_ns
        )
        self._out.append((data, hop))

    def on_response(self, response: Response, now_ns: int) -> Request | None:
        """Match a response; the request it answers when this is news, None for strays and repetitions.

        A non-2xx final answer to an INVITE is acknowledged here (17.1.1.3), every time it comes.
        """
        branch, (_, method) = response.top_via.branch, response.cseq
        client = self._clients.get((branch, method))
        if client is None:
            return None
        if client.done:
            if client.ack is not None and response.code >= 200:
                self._repeated += 1
                self._out.append(client.ack)
            return None
        if response.code < 200:
            # an INVITE is not repeated behind a provisional answer, and may then ring for long; others slow to T2
            client.due_ns = None if method == "INVITE" else now_ns + _T2_NS
            if method == "INVITE":
                client.deadline_ns = now_ns + 180_000_000_000  # timer C of a proxy, 16.6: a phone gives up later
            return client.request
        client.done, client.due_ns, client.deadline_ns = True, None, now_ns + 64 * self._t1_ns
        if method == "INVITE" and response.code >= 300:
            client.ack = (build(_ack_of(client.request, response)), client.hop)
            self._out.append(client.ack)
        return client.request

    def acknowledge(self, response: Response, ack: Request, hop: tuple[str, int]) -> None:
        """Send the ACK of a 2xx, and again whenever that 2xx comes again."""
        datagram = (build(ack), hop)
        client = self._clients.get((response.top_via.branch, "INVITE"))
        if client is not None:
            client.ack = datagram
        self._out.append(datagram)

    def limit(self, request: Request, now_ns: int) -> None:
        """Wait no longer than 64*T1 for the final answer of a cancelled INVITE (9.1)."""
        client = self._clients.get((request.top_via.branch, request.method))
        if client is not None and not client.done:
            client.deadline_ns = min(client.deadline_ns, now_ns + 64 * self._t1_ns)

    def admit(self, request: Request, source: tuple[str, int], now_ns: int) -> bool:
        """True for a new request; a repeated one gets its last answer again. A flood is dropped."""
        key = (request.top_via.branch, request.method)
        server = self._servers.get(key)
        if server is not None:
            if server.reply:
                self._repeated += 1
                self._out.append((server.reply, server.hop))
            return False
        if len(self._servers) >= _LIMIT:
            self._refused += 1
            return False
        via = request.top_via
        # RFC 3581: with rport the answer goes where the request came from, else to the port that Via names
        hop = source if "rport" in via.params else (source[0], via.port or 5060)
        self._servers[key] = _Server(hop, source, deadline_ns=now_ns + 64 * self._t1_ns, request=request)
        return True

    def respond(self, request: Request, response: Response, now_ns: int) -> None:
        """Answer a request; an INVITE's final answer is repeated until its ACK (timer G, and 13.3.1.4 for a 2xx)."""
        server = self._servers.get((request.top_via.branch, request.method))
        if server is None or server.final:
            return
        server.reply = build(_stamp_via(response, server.reply_to))
        self._out.append((server.reply, server.hop))
        if response.code < 200:
            server.deadline_ns = None  # a telephone may ring for as long as it likes
            return
        server.final, server.success = True, response.code < 300
        server.deadline_ns = now_ns + 64 * self._t1_ns
        if request.method == "INVITE":
            server.interval_ns, server.due_ns = self._t1_ns, now_ns + self._t1_ns

    def on_ack(self, ack: Request) -> bool:
        """True when the ACK confirms a 2xx that still waited for it."""
        for (branch, method), server in self._servers.items():
            request = server.request
            if method != "INVITE" or server.due_ns is None or request is None:
                continue
            same = request.call_id == ack.call_id and request.cseq[0] == ack.cseq[0]
            if same and (server.success or branch == ack.top_via.branch):
                server.due_ns = None
                return server.success
        return False

    def wake(self, now_ns: int) -> list[Request]:
        """Repeat what is due. Returns the requests that were never answered (timers B and F), and for a 2xx that was
        never acknowledged its INVITE under the method name ``INVITE-200``."""
        dead: list[Request] = []
        for key, client in list(self._clients.items()):
            if now_ns >= client.deadline_ns:
                del self._clients[key]
                if not client.done:
                    dead.append(client.request)
            elif client.due_ns is not None and now_ns >= client.due_ns:
                client.interval_ns *= 2
                if client.request.method != "INVITE":
                    client.interval_ns = min(client.interval_ns, _T2_NS)
                client.due_ns = now_ns + client.interval_ns
                self._repeat(client.data, client.hop)
        for key, server in list(self._servers.items()):
            if server.deadline_ns is None:
                continue
            if now_ns >= server.deadline_ns:
                del self._servers[key]
                if server.due_ns is not None and server.success and server.request is not None:
                    dead.append(replace(server.request, method="INVITE-200"))
            elif server.due_ns is not None and now_ns >= server.due_ns:
                server.interval_ns = min(server.interval_ns * 2, _T2_NS)
                server.due_ns = now_ns + server.interval_ns
                self._repeat(server.reply, server.hop)
        return dead

    @property
    def next_wake_ns(self) -> int | None:
        """The earliest moment at which `wake` has something to do."""
        moments = [client.deadline_ns for client in self._clients.values()]
        moments += [client.due_ns for client in self._clients.values() if client.due_ns is not None]
        moments += [server.deadline_ns for server in self._servers.values() if server.deadline_ns is not None]
        moments += [server.due_ns for server in self._servers.values() if server.due_ns is not None]
        return min(moments, default=None)

    def take(self) -> list[Datagram]:
        """What is to be sent, each once."""
        out, self._out = self._out, []
        return out

    def statistics(self) -> dict[str, int]:
        """Open transactions, repeated messages, requests refused as a flood."""
        return {
            "clients": len(self._clients),
            "servers": len(self._servers),
            "repeated": self._repeated,
            "refused": self._refused,
        }

    def _repeat(self, data: bytes, hop: tuple[str, int]) -> None:
        self._repeated += 1
        self._out.append((data, hop))


def _ack_of(invite: Request, response: Response) -> Request:
    kept = [pair for pair in invite.headers if pair[0] in ("Via", "Max-Forwards", "Route", "From", "Call-ID")]
    headers = (*kept, ("To", response.first("To")), ("CSeq", f"{invite.cseq[0]} ACK"))
    return Request(headers, "ACK", invite.uri)


def _stamp_via(response: Response, source: tuple[str, int]) -> Response:
    """Fill in ``received`` and ``rport`` of the top Via when the request asked for it (RFC 3581 section 4)."""
    via = response.top_via
    if "rport" not in via.params:
        return response
    stamped = replace(via, params={**via.params, "received": source[0], "rport": str(source[1])})
    headers = list(response.headers)
    first = next(index for index, (name, _) in enumerate(headers) if name == "Via")
    headers[first] = ("Via", str(stamped))
    return replace(response, headers=tuple(headers))
