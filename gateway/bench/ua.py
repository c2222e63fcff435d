# SPDX-License-Identifier: GPL-3.0-or-later
"""The user agent of a simulated telephone: one call at a time, over UDP, without input or output.

Datagrams and the clock go in, events and datagrams come out (the shape of h11): the socket belongs to `phone`. What
is kept of RFC 3261: transactions by branch and method with retransmission (timers A/E, B/F, G/H, 17.1 and 17.2),
200 repeated by the user agent core until the ACK (13.3.1.4), dialogs with tags, route set and CSeq order (12), CANCEL
only behind a provisional answer (9.1), a 200 that crosses a CANCEL acknowledged and ended (15), OPTIONS, delayed
offers, re-INVITE and UPDATE. Strict routing, forking beyond the first answer, TCP and authentication are left out: the
peer is a gateway or another such telephone. Transactions are in `ua_transactions`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.bench import sdp
from gateway.bench.sip_message import (
    Address,
    BadMessage,
    Request,
    Response,
    SipUri,
    parse,
    parse_address,
    parse_uri,
    parse_via,
)
from gateway.bench.ua_transactions import Datagram, Transactions

ALLOW = "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE"
_PHRASES = {
    180: "Ringing",
    200: "OK",
    400: "Bad Request",
    405: "Method Not Allowed",
    420: "Bad Extension",
    480: "Temporarily Unavailable",
    481: "Call/Transaction Does Not Exist",
    482: "Loop Detected",
    486: "Busy Here",
    487: "Request Terminated",
    488: "Not Acceptable Here",
    491: "Request Pending",
    500: "Server Internal Error",
    603: "Decline",
}


@dataclass(frozen=True, slots=True)
class Ringing:
    """The far end rings or plays early media (a provisional answer above 100)."""

    code: int


@dataclass(frozen=True, slots=True)
class Incoming:
    """Somebody calls; 180 is on its way."""

    caller: str
    dialled: str
    headers: Mapping[str, str]
    """X- headers, names in lower case."""


@dataclass(frozen=True, slots=True)
class MediaChanged:
    """Offer and answer are complete: where to send, with which codec, in which directions."""

    media: sdp.Media


@dataclass(frozen=True, slots=True)
class Established:
    """The caller has sent, or the callee has seen, the ACK."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call is over: SIP's last word, 200 for a BYE."""

    code: int
    phrase: str
    by_remote: bool


Event = Ringing | Incoming | MediaChanged | Established | CallEnded


@dataclass(slots=True)
class _Call:
    """The dialog, from the first INVITE on. ``stage``: calling, ringing, answered, confirmed, ending."""

    caller: bool
    call_id: str
    local: Address
    remote: Address
    target: SipUri
    stage: str
    local_cseq: int
    remote_cseq: int = 0
    routes: tuple[str, ...] = ()
    invite: Request | None = None
    """The INVITE whose answer is open: ours when calling, theirs when ringing or re-inviting."""
    offered: sdp.Description | None = None
    provisional: bool = False
    hanging_up: bool = False
    direction: str = "sendrecv"
    early_answer: bytes = b""


class PhoneAgent:
    """One telephone's signalling. Not thread-safe; every method takes the monotonic clock in ns."""

    def __init__(
        self,
        *,
        host: str,
        sip_port: int,
        rtp_port: int,
        user: str = "phone",
        codecs: tuple[str, ...] = ("PCMU", "PCMA"),
        chance: random.Random | None = None,
        t1_ms: int = 500,
    ) -> None:
        self._contact = SipUri(user, host, sip_port)
        self._host, self._rtp_port, self._codecs = host, rtp_port, codecs
        # names of dialogs must not repeat between runs, and nobody attacks a test telephone
        self._chance = chance or random.Random()  # noqa: S311
        self._transactions = Transactions(t1_ns=t1_ms * 1_000_000)
        self._call: _Call | None = None
        self._sdp_version = self._chance.getrandbits(31)
        self._malformed = 0

    # --- commands ---------------------------------------------------------------------------------------------

    def invite(self, uri: str, now_ns: int, *, headers: Mapping[str, str] | None = None) -> None:
        """Call ``uri``. RuntimeError when a call exists, BadMessage when it is no SIP URI."""
        if self._call is not None:
            raise RuntimeError("the telephone is busy")
        target = parse_uri(uri)
        local = Address(str(SipUri(self._contact.user, self._host)), {"tag": self._token()})
        call = _Call(True, f"{self._token()}@{self._host}", local, Address(str(target)), target, "calling", 1)
        self._call = call
        call.invite = self._request(call, "INVITE", self._offer(), headers)
        self._transactions.start(call.invite, target.address, now_ns)

    def answer(self, now_ns: int) -> list[Event]:
        """Answer the ringing call; RuntimeError when none rings."""
        call = self._call
        if call is None or call.stage != "ringing" or call.invite is None:
            raise RuntimeError("nothing rings")
        call.stage = "answered"
        return self._accept(call, call.invite, now_ns)

    def reject(self, code: int, now_ns: int) -> list[Event]:
        """Refuse the ringing call with a final code (400-699); RuntimeError when none rings."""
        call = self._call
        if call is None or call.stage != "ringing" or call.invite is None:
            raise RuntimeError("nothing rings")
        if not 400 <= code <= 699:
            raise ValueError("a refusal is 400-699")
        self._reply(call.invite, code, now_ns)
        return self._end(code, _PHRASES.get(code, "Refused"), by_remote=False)

    def hold(self, direction: str, now_ns: int) -> None:
        """Offer another direction (``sendrecv``, ``sendonly``, ``inactive``) by re-INVITE; RuntimeError when unfit."""
        call = self._call
        if call is None or call.stage != "confirmed" or call.invite is not None:
            raise RuntimeError("no settled call")
        if direction not in sdp.DIRECTIONS:
            raise ValueError("a direction of RFC 3264")
        call.direction = direction
        call.local_cseq += 1
        call.invite = self._request(call, "INVITE", self._offer(direction))
        self._transactions.start(call.invite, self._next_hop(call), now_ns)

    def info(self, content_type: str, body: bytes, now_ns: int) -> None:
        """Send an INFO (RFC 6086) within the call; RuntimeError without a settled one."""
        call = self._call
        if call is None or call.stage != "confirmed":
            raise RuntimeError("no settled call")
        call.local_cseq += 1
        request = self._request(call, "INFO", body, content_type=content_type)
        self._transactions.start(request, self._next_hop(call), now_ns)

    def hangup(self, now_ns: int) -> list[Event]:
        """End the call by BYE, CANCEL or 603; the end itself comes as `CallEnded`. Nothing happens without a call."""
        call = self._call
        if call is None or call.hanging_up:
            return []
        if call.stage == "ringing":
            return self.reject(603, now_ns)
        call.hanging_up = True
        if call.stage == "calling":
            if call.provisional:
                self._cancel(call, now_ns)
        elif call.stage == "confirmed":
            self._bye(call, now_ns)
        # answered: a callee may not send BYE before the ACK (RFC 3261 section 15), `_on_ack` does it
        return []

    # --- clock and wire ---------------------------------------------------------------------------------------

    def receive(self, datagram: bytes, source: tuple[str, int], now_ns: int) -> list[Event]:
        """Take one datagram. What is malformed is counted and otherwise ignored (keep-alives are not counted)."""
        if not datagram.strip(b"\r\n\0"):
            return []
        try:
            message = parse(datagram)
            if isinstance(message, Response):
                return self._on_response(message, now_ns)
            return self._on_request(message, source, now_ns)
        except BadMessage:
            self._malformed += 1
            return []

    def wake(self, now_ns: int) -> list[Event]:
        """Do what is due: repeat messages, give up on silent peers."""
        events: list[Event] = []
        for request in self._transactions.wake(now_ns):
            call = self._call
            if call is None or request.call_id != call.call_id:
                continue
            if request.method == "INVITE-200":  # our 200 was never acknowledged (13.3.1.4)
                call.stage, call.hanging_up = "confirmed", True
                self._bye(call, now_ns)
            elif request.method in ("INVITE", "BYE"):
                events += self._end(408, "Request Timeout", by_remote=True)
        return events

    @property
    def next_wake_ns(self) -> int | None:
        """When `wake` wants to be called next; None when nothing waits."""
        return self._transactions.next_wake_ns

    def outgoing(self) -> list[Datagram]:
        """The datagrams to send now, each once."""
        return self._transactions.take()

    @property
    def stage(self) -> str:
        """``idle``, ``calling``, ``ringing``, ``answered``, ``confirmed``."""
        return self._call.stage if self._call else "idle"

    def statistics(self) -> dict[str, int]:
        """Counts of repeated and malformed messages, and open transactions."""
        return {"malformed": self._malformed, **self._transactions.statistics()}

    # --- responses --------------------------------------------------------------------------------------------

    def _on_response(self, response: Response, now_ns: int) -> list[Event]:
        request = self._transactions.on_response(response, now_ns)
        call = self._call
        if request is None or call is None or response.call_id != call.call_id:
            return []
        if request.method == "INVITE":
            return self._on_invite_response(call, response, now_ns)
        if request.method == "BYE" and response.code >= 200:
            # 481 to a BYE: the peer has no such call any more, which is what was wanted
            return self._end(200, "OK", by_remote=False)
        return []

    def _on_invite_response(self, call: _Call, response: Response, now_ns: int) -> list[Event]:
        if response.code < 200:
            return self._on_provisional(call, response, now_ns)
        if response.code < 300:
            return self._on_answer(call, response, now_ns)
        call.invite = None
        if call.stage == "confirmed":  # a refused re-INVITE leaves the call as it was (14.1)
            return []
        return self._end(response.code, response.phrase, by_remote=not call.hanging_up)

    def _on_provisional(self, call: _Call, response: Response, now_ns: int) -> list[Event]:
        first, call.provisional = not call.provisional, True
        if call.hanging_up:
            if first:
                self._cancel(call, now_ns)
            return []
        if response.body and response.code > 100:
            call.early_answer = response.body
        return [Ringing(response.code)] if response.code > 100 else []

    def _on_answer(self, call: _Call, response: Response, now_ns: int) -> list[Event]:
        established = call.stage == "calling"
        if established:
            call.remote = parse_address(response.first("To"))
            call.routes = tuple(reversed(response.all("Record-Route")))
        if response.first("Contact"):
            call.target = parse_uri(parse_address(response.all("Contact")[0]).uri)
        call.stage, call.invite = "confirmed", None
        ack = self._request(call, "ACK", b"", cseq=response.cseq[0])
        self._transactions.acknowledge(response, ack, self._next_hop(call))
        if call.hanging_up:  # the 200 crossed our CANCEL
            self._bye(call, now_ns)
            return []
        try:
            media = sdp.settle(sdp.parse_sdp(response.body or call.early_answer), self._codecs)
        except sdp.BadSdp:
            call.hanging_up = True
            self._bye(call, now_ns)
            return []
        return [MediaChanged(media), *([Established()] if established else [])]

    # --- requests ---------------------------------------------------------------------------------------------

    def _on_request(self, request: Request, source: tuple[str, int], now_ns: int) -> list[Event]:
        if request.method == "ACK":
            return self._on_ack(request, now_ns)
        if not self._transactions.admit(request, source, now_ns):
            return []  # a repeated request: its answer was repeated
        if request.method == "CANCEL":
            return self._on_cancel(request, now_ns)
        if parse_address(request.first("To")).tag:
            return self._on_dialog_request(request, now_ns)
        if request.method == "INVITE":
            return self._on_invite(request, now_ns)
        if request.method == "OPTIONS":
            self._reply(request, 200, now_ns, extra=(("Allow", ALLOW), ("Accept", "application/sdp")))
        else:
            code = 481 if request.method in ("BYE", "UPDATE", "INFO") else 405
            self._reply(request, code, now_ns, extra=(("Allow", ALLOW),))
        return []

    def _on_invite(self, request: Request, now_ns: int) -> list[Event]:
        call = self._call
        unsupported = request.first("Require")
        if call is not None:
            same = call.call_id == request.call_id
            self._reply(request, 482 if same else 486, now_ns)  # 8.2.2.2: the same call over another path
            return []
        if unsupported:
            self._reply(request, 420, now_ns, extra=(("Unsupported", unsupported),))
            return []
        remote, contact = parse_address(request.first("From")), request.all("Contact")
        if not remote.tag or not contact:
            self._reply(request, 400, now_ns)
            return []
        try:
            target = parse_uri(parse_address(contact[0]).uri)
            offered = sdp.parse_sdp(request.body) if request.body else None
        except (BadMessage, sdp.BadSdp) as error:
            self._reply(request, 488 if isinstance(error, sdp.NoCommonCodec) else 400, now_ns)
            return []
        to = parse_address(request.first("To"))
        self._call = _Call(
            caller=False,
            call_id=request.call_id,
            local=Address(to.uri, {"tag": self._token()}, to.display),
            remote=remote,
            target=target,
            stage="ringing",
            local_cseq=0,
            remote_cseq=request.cseq[0],
            routes=request.all("Record-Route"),
            invite=request,
            offered=offered,
        )
        self._reply(request, 180, now_ns)
        own = {name.lower(): value for name, value in request.headers if name.lower().startswith("x-")}
        return [Incoming(_user(remote.uri), _user(request.uri), own)]

    def _on_ack(self, request: Request, now_ns: int) -> list[Event]:
        acknowledged = self._transactions.on_ack(request)
        call = self._call
        if not acknowledged or call is None or call.call_id != request.call_id or call.stage == "calling":
            return []
        events: list[Event] = []
        call.invite = None
        if request.body and call.offered is None:  # the answer to our offer (delayed offer)
            try:
                events.append(MediaChanged(sdp.settle(sdp.parse_sdp(request.body), self._codecs)))
            except sdp.BadSdp:
                call.hanging_up = True
        if call.stage == "answered":
            call.stage = "confirmed"
            events.append(Established())
            if call.hanging_up:
                self._bye(call, now_ns)
        return events

    def _on_cancel(self, request: Request, now_ns: int) -> list[Event]:
        call = self._call
        invite = call.invite if call and not call.caller else None
        if invite is None or invite.top_via.branch != request.top_via.branch:
            self._reply(request, 481, now_ns)
            return []
        self._reply(request, 200, now_ns)
        if call is None or call.stage != "ringing":
            return []  # too late, a final answer is out (9.2)
        self._reply(invite, 487, now_ns)
        return self._end(487, _PHRASES[487], by_remote=True)

    def _on_dialog_request(self, request: Request, now_ns: int) -> list[Event]:
        call = self._call
        to, remote = parse_address(request.first("To")), parse_address(request.first("From"))
        if call is None or (call.call_id, call.local.tag) != (request.call_id, to.tag) or remote.tag != call.remote.tag:
            self._reply(request, 481, now_ns)
            return []
        if request.cseq[0] <= call.remote_cseq:
            self._reply(request, 500, now_ns)  # out of order (12.2.2)
            return []
        call.remote_cseq = request.cseq[0]
        if request.method == "BYE":
            self._reply(request, 200, now_ns)
            if call.stage == "ringing" and call.invite is not None:
                self._reply(call.invite, 487, now_ns)
            return self._end(200, "OK", by_remote=True)
        if request.method in ("INVITE", "UPDATE"):
            return self._on_new_offer(call, request, now_ns)
        self._reply(request, 200 if request.method in ("OPTIONS", "INFO") else 405, now_ns, extra=(("Allow", ALLOW),))
        return []

    def _on_new_offer(self, call: _Call, request: Request, now_ns: int) -> list[Event]:
        if call.invite is not None:
            self._reply(request, 491, now_ns)
            return []
        if request.all("Contact"):
            call.target = parse_uri(parse_address(request.all("Contact")[0]).uri)
        if request.method == "UPDATE" and not request.body:
            self._reply(request, 200, now_ns, extra=(("Contact", f"<{self._contact}>"),))
            return []
        try:
            call.offered = sdp.parse_sdp(request.body) if request.body else None
        except sdp.BadSdp:
            self._reply(request, 488, now_ns)
            return []
        return self._accept(call, request, now_ns)

    # --- parts ------------------------------------------------------------------------------------------------

    def _accept(self, call: _Call, request: Request, now_ns: int) -> list[Event]:
        """200 with the answer to their offer, or with our offer when they made none."""
        events: list[Event] = []
        if call.offered is None:
            body = self._offer()
        else:
            try:
                self._sdp_version += 1
                body, media = sdp.answer(
                    call.offered, self._host, self._rtp_port, self._codecs, version=self._sdp_version
                )
            except sdp.NoCommonCodec:
                self._reply(request, 488, now_ns)
                return self._end(488, _PHRASES[488], by_remote=False) if call.stage == "answered" else []
            events.append(MediaChanged(media))
        if request.method == "INVITE":
            call.invite = request
        extra = (("Contact", f"<{self._contact}>"), ("Allow", ALLOW), ("Content-Type", "application/sdp"))
        self._reply(request, 200, now_ns, extra=extra, body=body)
        return events

    def _offer(self, direction: str = "sendrecv") -> bytes:
        self._sdp_version += 1
        return sdp.offer(self._host, self._rtp_port, self._codecs, version=self._sdp_version, direction=direction)

    def _request(
        self,
        call: _Call,
        method: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        cseq: int | None = None,
        content_type: str = "application/sdp",
    ) -> Request:
        lines = [
            ("Via", f"SIP/2.0/UDP {self._host}:{self._contact.port};branch=z9hG4bK{self._token()};rport"),
            ("Max-Forwards", "70"),
            *(("Route", route) for route in call.routes),
            ("From", str(call.local)),
            ("To", str(call.remote)),
            ("Call-ID", call.call_id),
            ("CSeq", f"{call.local_cseq if cseq is None else cseq} {method}"),
            ("Contact", f"<{self._contact}>"),
            ("Allow", ALLOW),
            ("User-Agent", "voice-gateway-phone"),
            *(headers or {}).items(),
        ]
        if body:
            lines.append(("Content-Type", content_type))
        return Request(tuple(lines), method, str(call.target), body)

    def _reply(
        self,
        request: Request,
        code: int,
        now_ns: int,
        *,
        extra: tuple[tuple[str, str], ...] = (),
        body: bytes = b"",
    ) -> None:
        to = parse_address(request.first("To"))
        if not to.tag and code > 100:
            tag = self._call.local.tag if self._call and self._call.call_id == request.call_id else self._token()
            to = Address(to.uri, {**to.params, "tag": tag}, to.display)
        lines = [
            *(("Via", str(parse_via(value))) for value in request.all("Via")),
            *(("Record-Route", value) for value in request.all("Record-Route")),
            ("From", request.first("From")),
            ("To", str(to)),
            ("Call-ID", request.call_id),
            ("CSeq", request.first("CSeq")),
            *((("Contact", f"<{self._contact}>"),) if code == 180 else ()),
            *extra,
        ]
        self._transactions.respond(request, Response(tuple(lines), code, _PHRASES.get(code, "Refused"), body), now_ns)

    def _cancel(self, call: _Call, now_ns: int) -> None:
        invite = call.invite
        if invite is None:
            return
        copied = ("Via", "Max-Forwards", "Route", "From", "To", "Call-ID")  # 9.1
        kept = [pair for pair in invite.headers if pair[0] in copied]
        cancel = Request((*kept, ("CSeq", f"{invite.cseq[0]} CANCEL")), "CANCEL", invite.uri)
        self._transactions.start(cancel, self._next_hop(call), now_ns)
        self._transactions.limit(invite, now_ns)

    def _bye(self, call: _Call, now_ns: int) -> None:
        call.local_cseq += 1
        self._transactions.start(self._request(call, "BYE", b""), self._next_hop(call), now_ns)

    def _next_hop(self, call: _Call) -> tuple[str, int]:
        return parse_uri(parse_address(call.routes[0]).uri).address if call.routes else call.target.address

    def _end(self, code: int, phrase: str, *, by_remote: bool) -> list[Event]:
        self._call = None
        return [CallEnded(code, phrase, by_remote)]

    def _token(self) -> str:
        return f"{self._chance.getrandbits(64):016x}"


def _user(uri: str) -> str:
    try:
        return parse_uri(uri).user
    except BadMessage:
        return ""
