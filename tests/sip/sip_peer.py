# SPDX-License-Identifier: GPL-3.0-or-later
"""A small calling peer of our own: every message and every packet is in the test's hands, with its time of arrival."""

from __future__ import annotations

import hashlib
import re
import select
import socket
import struct
import threading
import time
import uuid
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
from g711 import decode
from numpy.typing import NDArray


@dataclass(frozen=True)
class Packet:
    """A received RTP packet."""

    at_ns: int
    marker: bool
    payload_type: int
    seq: int
    timestamp: int
    ssrc: int
    payload: bytes


@dataclass(frozen=True)
class Message:
    """A received SIP message."""

    first_line: str
    headers: dict[str, str]
    body: str
    text: str

    @property
    def code(self) -> int:
        return int(self.first_line.split(" ")[1]) if self.first_line.startswith("SIP/2.0") else 0

    @property
    def method(self) -> str:
        return self.headers.get("cseq", "0 ?").split()[1]


def parse(text: str) -> Message:
    head, _, body = text.partition("\r\n\r\n")
    lines = head.split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return Message(lines[0], headers, body, text)


class RtpSocket:
    """Receives all the time; sends a µ-law loop at 50 packets a second while it is told to."""

    def __init__(self, ip: str = "127.0.0.1") -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ip, 0))
        self.port: int = self.socket.getsockname()[1]
        self.received: list[Packet] = []
        self.sent_ns: list[int] = []
        self.seq, self.timestamp, self.ssrc = 1000, 5000, 0x1234
        self._over = threading.Event()
        self._quiet = threading.Event()
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def _listen(self) -> None:
        while not self._over.is_set():
            if not select.select([self.socket], [], [], 0.2)[0]:
                continue
            data = self.socket.recv(2048)
            now = time.monotonic_ns()
            if len(data) >= 12:
                flags, kind, seq, stamp, ssrc = struct.unpack("!BBHII", data[:12])
                if flags >> 6 == 2:
                    self.received.append(Packet(now, bool(kind & 0x80), kind & 0x7F, seq, stamp, ssrc, data[12:]))

    def send(
        self, to: tuple[str, int], payload: bytes, kind: int = 0, *, marker: bool = False, step: int = 160
    ) -> None:
        head = struct.pack("!BBHII", 0x80, kind | (0x80 if marker else 0), self.seq, self.timestamp, self.ssrc)
        self.sent_ns.append(time.monotonic_ns())
        self.socket.sendto(head + payload, to)
        self.seq = (self.seq + 1) & 0xFFFF
        self.timestamp = (self.timestamp + step) & 0xFFFFFFFF

    def stream(self, to: tuple[str, int], sound: bytes) -> None:
        """Loop the sound until `silence`, or until another sound takes its place."""
        self.silence()
        quiet = self._quiet = threading.Event()

        def run() -> None:
            start, count = time.monotonic(), 0
            while not (quiet.is_set() or self._over.is_set()):
                at = count * 160 % (len(sound) // 160 * 160)
                self.send(to, sound[at : at + 160])
                count += 1
                quiet.wait(max(0.0, start + count * 0.02 - time.monotonic()))

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def silence(self) -> None:
        self._quiet.set()

    def sound(self, last_s: float = 1.0) -> NDArray[np.int16]:
        """The last seconds of received µ-law, decoded."""
        payload = b"".join(p.payload for p in self.received[-int(50 * last_s) :] if p.payload_type == 0)
        return decode(payload)

    def close(self) -> None:
        self._over.set()
        self._quiet.set()
        self.socket.sendto(b"", self.socket.getsockname())  # the listener need not sleep its time out
        for thread in self._threads:
            thread.join(2)
        self.socket.close()


@dataclass
class Peer:
    """A caller over UDP or TCP, one dialog at a time."""

    target: int
    ip: str = "127.0.0.1"
    transport: str = "UDP"
    user: str = "alice"
    number: str = "4711"
    rtp: RtpSocket = field(init=False)
    remote_rtp: tuple[str, int] = ("127.0.0.1", 0)
    answer: Message | None = None

    def __post_init__(self) -> None:
        self.rtp = RtpSocket(self.ip)
        kind = socket.SOCK_DGRAM if self.transport == "UDP" else socket.SOCK_STREAM
        self.sip = socket.socket(socket.AF_INET, kind)
        self.sip.bind((self.ip, 0))
        self.sip.connect(("127.0.0.1", self.target))
        self.port: int = self.sip.getsockname()[1]
        self.call_id, self.tag, self.cseq = uuid.uuid4().hex, uuid.uuid4().hex[:8], 0
        self.to = f"<sip:{self.number}@127.0.0.1:{self.target}>"
        self.branch = ""
        self._pending = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rtp.close()
        self.sip.close()

    def sdp(self, direction: str = "sendrecv", formats: str = "0 8 101", version: int = 1) -> str:
        names = {"0": "PCMU/8000", "8": "PCMA/8000", "9": "G722/8000", "18": "G729/8000", "101": "telephone-event/8000"}
        maps = "".join(f"a=rtpmap:{f} {names.get(f, 'X-UNKNOWN/8000')}\r\n" for f in formats.split())
        return (
            f"v=0\r\no=peer 1 {version} IN IP4 {self.ip}\r\ns=-\r\nc=IN IP4 {self.ip}\r\nt=0 0\r\n"
            f"m=audio {self.rtp.port} RTP/AVP {formats}\r\n{maps}a=ptime:20\r\na={direction}\r\n"
        )

    def request(self, method: str, body: str = "", extra: str = "", *, cseq: int | None = None, uri: str = "") -> None:
        if cseq is None:
            self.cseq += 1
        if method not in ("CANCEL",):
            self.branch = "z9hG4bK" + uuid.uuid4().hex[:12]
        contact = f"<sip:{self.user}@{self.ip}:{self.port};transport={self.transport.lower()}>"
        text = (
            f"{method} {uri or self.remote_target()} SIP/2.0\r\n"
            f"Via: SIP/2.0/{self.transport} {self.ip}:{self.port};branch={self.branch};rport\r\n"
            f"Max-Forwards: 70\r\nFrom: <sip:{self.user}@{self.ip}>;tag={self.tag}\r\nTo: {self.to}\r\n"
            f"Call-ID: {self.call_id}\r\nCSeq: {cseq or self.cseq} {method}\r\nContact: {contact}\r\n{extra}"
            + ("Content-Type: application/sdp\r\n" if body and "Content-Type" not in extra else "")
            + f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        self.last_sent = text
        self.sip.sendall(text.encode())

    def remote_target(self) -> str:
        found = re.search(r"<([^>]+)>", self.answer.headers.get("contact", "")) if self.answer else None
        return found[1] if found else f"sip:{self.number}@127.0.0.1:{self.target}"

    def receive(self, timeout_s: float = 5.0) -> Message | None:
        """The next message; None when none comes in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._take()
            if message is not None:
                return message
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.sip], [], [], left)[0]:
                return None
            try:
                data = self.sip.recv(65_536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._pending += data

    def _take(self) -> Message | None:
        head, found, rest = self._pending.partition(b"\r\n\r\n")
        if not found:
            return None
        message = parse((head + found).decode())
        length = int(message.headers.get("content-length", "0"))
        if len(rest) < length:
            return None
        self._pending = rest[length:]
        return parse((head + found + rest[:length]).decode())

    def final(self, method: str, timeout_s: float = 5.0) -> Message:
        """The final response to a method; provisional ones and requests on the way are passed over."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if message is None:
                break
            if message.code >= 200 and message.method == method:
                return message
            if message.code == 0 and message.first_line.startswith("BYE"):
                self.respond(message, 200, "OK")
        raise AssertionError(f"no final response to {method} within {timeout_s} s")

    def respond(self, request: Message, code: int, phrase: str, body: str = "", extra: str = "") -> None:
        names = {"via": "Via", "from": "From", "to": "To", "call-id": "Call-ID", "cseq": "CSeq"}
        lines = "".join(f"{names[n]}: {request.headers[n]}\r\n" for n in names)
        if body:
            extra += "Content-Type: application/sdp\r\n"
        contact = f"Contact: <sip:{self.user}@{self.ip}:{self.port}>\r\n"
        head = f"SIP/2.0 {code} {phrase}\r\n{lines}{contact}{extra}Content-Length: {len(body)}\r\n\r\n"
        self.sip.sendall((head + body).encode())

    def invite(self, body: str | None = None, extra: str = "", timeout_s: float = 5.0) -> Message:
        """INVITE (or re-INVITE) up to the ACK; returns the final response. ``body`` "" makes no offer."""
        self.request("INVITE", self.sdp() if body is None else body, extra)
        message = self.final("INVITE", timeout_s)
        invite_cseq = self.cseq
        if message.code < 300:
            self.take(message, self.sdp() if body == "" else "", cseq=invite_cseq)
        else:
            to, self.to = self.to, message.headers["to"]
            branch = self.branch
            text = self.last_sent
            self.sip.sendall(ack_for_refusal(text, self.to, branch).encode())
            self.to = to
        return message

    def with_digest(self, method: str, uri: str, password: str, body: str = "", extra: str = "") -> Message:
        """A request that is challenged once (RFC 2617, MD5 with qop); the final response to the second one."""
        self.request(method, body, extra, uri=uri)
        challenge = self.final(method)
        assert challenge.code in (401, 407), challenge.first_line
        if method == "INVITE":
            self.sip.sendall(ack_for_refusal(self.last_sent, challenge.headers["to"], self.branch).encode())
        proxy = challenge.code == 407
        asked = challenge.headers["proxy-authenticate" if proxy else "www-authenticate"]
        self.request(
            method, body, f"{extra}{credentials(asked, method, uri, self.user, password, proxy=proxy)}", uri=uri
        )
        return self.final(method)

    def _learn(self, message: Message) -> None:
        port = re.search(r"^m=audio (\d+)", message.body, re.MULTILINE)
        address = re.search(r"^c=IN IP4 (\S+)", message.body, re.MULTILINE)
        if port and address:
            self.remote_rtp = (address[1].strip(), int(port[1]))

    def take(self, answer: Message, body: str = "", *, cseq: int | None = None) -> None:
        """Acknowledge a 200, with an answer to its offer if we made none."""
        self.answer, self.to = answer, answer.headers["to"]
        self._learn(answer)
        self.request("ACK", body, cseq=cseq or self.cseq)

    def bye(self) -> Message:
        self.request("BYE")
        return self.final("BYE")

    def wait_bye(self, timeout_s: float = 5.0) -> Message | None:
        """Wait for the far end's BYE and confirm it."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self.receive(left)
            if message is not None and message.first_line.startswith("BYE"):
                self.respond(message, 200, "OK")
                return message
        return None


def credentials(asked: str, method: str, uri: str, user: str, password: str, *, proxy: bool = False) -> str:
    """The Authorization line that answers a challenge."""

    def md5(*parts: str) -> str:
        return hashlib.md5(":".join(parts).encode()).hexdigest()

    fields = dict(re.findall(r'(\w+)="?([^",]*)"?', asked))
    first, second = md5(user, fields["realm"], password), md5(method, uri)
    response = (
        md5(first, fields["nonce"], "00000001", "abc", "auth", second)
        if "qop" in fields
        else md5(first, fields["nonce"], second)
    )
    quality = ', qop=auth, nc=00000001, cnonce="abc"' if "qop" in fields else ""
    return (
        f'{"Proxy-" if proxy else ""}Authorization: Digest username="{user}", realm="{fields["realm"]}", '
        f'nonce="{fields["nonce"]}", uri="{uri}", response="{response}", algorithm=MD5{quality}\r\n'
    )


def ack_for_refusal(invite: str, to: str, branch: str) -> str:
    """The ACK of a refused INVITE belongs to its transaction: same branch (RFC 3261 section 17.1.1.3)."""
    head = invite.partition("\r\n\r\n")[0]
    lines = [line for line in head.split("\r\n") if not line.startswith(("Content-", "Contact"))]
    lines[0] = lines[0].replace("INVITE ", "ACK ", 1)
    lines = [f"To: {to}" if line.startswith("To:") else line for line in lines]
    lines = [line.replace(" INVITE", " ACK") if line.startswith("CSeq:") else line for line in lines]
    assert any(branch in line for line in lines)
    return "\r\n".join(lines) + "\r\nContent-Length: 0\r\n\r\n"
