# SPDX-License-Identifier: GPL-3.0-or-later
"""A called peer of our own: waits for a call on UDP, and the test answers each request by itself."""

from __future__ import annotations

import re
import select
import socket
import time
import uuid
from types import TracebackType
from typing import Self

from sip_peer import Message, RtpSocket, parse


class Callee:
    """One called party, one dialog at a time."""

    def __init__(self, ip: str = "127.0.0.1", port: int = 0) -> None:
        self.ip = ip
        self.sip = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sip.bind((ip, port))
        self.port: int = self.sip.getsockname()[1]
        self.rtp = RtpSocket(ip)
        self.remote_rtp: tuple[str, int] = (ip, 0)
        self.tag = "callee"
        self.event_payload: int | None = None
        """Payload type on which key presses are taken (RFC 4733); None: on none."""
        self.invite: Message | None = None
        self._caller: tuple[str, int] = (ip, 0)
        self._cseq = 100
        self._waiting: list[Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rtp.close()
        self.sip.close()

    def receive(self, timeout_s: float) -> Message | None:
        """The next message. Keep-alives are none, nor is media for whoever had this port before (RFC 7983: 128 up)."""
        deadline = time.monotonic() + timeout_s
        while select.select([self.sip], [], [], max(0.0, deadline - time.monotonic()))[0]:
            data, source = self.sip.recvfrom(65_536)
            if data.strip() and data[0] < 128:
                self._caller = source
                return parse(data.decode())
        return None

    def expect(self, method: str, timeout_s: float = 5.0) -> Message:
        """The next request of a method; others are passed over, and so are responses."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if message is not None and message.first_line.startswith(method + " "):
                return message
        raise AssertionError(f"no {method} within {timeout_s} s")

    def sdp(self, direction: str = "sendrecv", version: int = 1) -> str:
        kind = self.event_payload
        keys = f"a=rtpmap:{kind} telephone-event/8000\r\n" if kind else ""
        return (
            f"v=0\r\no=callee 1 {version} IN IP4 {self.ip}\r\ns=-\r\nc=IN IP4 {self.ip}\r\nt=0 0\r\n"
            f"m=audio {self.rtp.port} RTP/AVP 0{f' {kind}' if kind else ''}\r\na=rtpmap:0 PCMU/8000\r\n{keys}"
            f"a={direction}\r\n"
        )

    def respond(self, request: Message, code: int, phrase: str, body: str = "", extra: str = "") -> None:
        to = request.headers["to"]
        lines = [
            f"SIP/2.0 {code} {phrase}",
            *re.findall(r"(?im)^(?:via|v|record-route):[^\r\n]*", request.text),
            f"From: {request.headers['from']}",
            f"To: {to if 'tag=' in to else f'{to};tag={self.tag}'}",
            f"Call-ID: {request.headers['call-id']}",
            f"CSeq: {request.headers['cseq']}",
            f"Contact: <sip:100@{self.ip}:{self.port}>",
            *extra.splitlines(),
        ]
        if body:
            lines.append("Content-Type: application/sdp")
        self.sip.sendto("\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode(), self._caller)

    def accept(self, timeout_s: float = 5.0) -> Message:
        """Ring, answer and wait for the ACK; the INVITE."""
        invite = self.expect("INVITE", timeout_s)
        self.invite = invite
        self.respond(invite, 180, "Ringing")
        self.respond(invite, 200, "OK", self.sdp())
        self.learn(invite.body)
        self.expect("ACK")
        return invite

    def learn(self, body: str) -> None:
        """Take the address to send sound to from an SDP."""
        port = re.search(r"^m=audio (\d+)", body, re.MULTILINE)
        address = re.search(r"^c=IN IP4 (\S+)", body, re.MULTILINE)
        assert port and address
        self.remote_rtp = (address[1].strip(), int(port[1]))

    def request(self, method: str, body: str = "", extra: str = "") -> Message:
        """A request of our own inside the dialog; its final response. What else comes meanwhile is kept for `next`."""
        assert self.invite is not None
        self._cseq += 1
        headers = self.invite.headers
        target = re.search(r"<([^>]+)>", headers["contact"])
        assert target
        text = (
            f"{method} {target[1]} SIP/2.0\r\n"
            f"Via: SIP/2.0/UDP {self.ip}:{self.port};branch=z9hG4bK{uuid.uuid4().hex[:12]};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: {headers['to']};tag={self.tag}\r\nTo: {headers['from']}\r\n"
            f"Call-ID: {headers['call-id']}\r\nCSeq: {self._cseq} {method}\r\n"
            f"Contact: <sip:100@{self.ip}:{self.port}>\r\n{extra}"
            + ("Content-Type: application/sdp\r\n" if body and "Content-Type" not in extra else "")
            + f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        self.sip.sendto(text.encode(), self._caller)
        deadline = time.monotonic() + 5
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if message is None:
                break
            if message.code == 0:
                self._waiting.append(message)
            elif message.code >= 200 and message.method == method:
                if method == "INVITE":
                    ack = text.partition("\r\n\r\n")[0].replace("INVITE", "ACK")
                    ack = re.sub(r"Content-[^\r]*\r?\n?", "", ack).rstrip()
                    self.sip.sendto(f"{ack}\r\nContent-Length: 0\r\n\r\n".encode(), self._caller)
                return message
        raise AssertionError(f"no final response to {method}")

    def next(self, method: str, timeout_s: float = 5.0) -> Message:
        """The next request of a method, of those that came while `request` waited too; answered with 200."""
        found = next((each for each in self._waiting if each.first_line.startswith(method)), None)
        if found is not None:
            self._waiting.remove(found)
        else:
            found = self.expect(method, timeout_s)
        self.respond(found, 200, "OK")
        return found
