# SPDX-License-Identifier: GPL-3.0-or-later
"""SIP messages as values: parse a datagram, build a datagram (RFC 3261, sections 7, 18.3, 19.1 and 25).

Only what a telephone over UDP needs. Everything hostile ends as `BadMessage`, never as another exception: the bound
of a message is one UDP datagram, the bound of its headers is `MAX_HEADERS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_MESSAGE_BYTES = 65_535  # one UDP datagram
MAX_HEADERS = 256

# RFC 3261 section 7.3.3, plus the compact forms of RFC 3265, 3515, 3841 and 4028 that telephones send.
_COMPACT = {
    "v": "via",
    "f": "from",
    "t": "to",
    "i": "call-id",
    "m": "contact",
    "l": "content-length",
    "c": "content-type",
    "e": "content-encoding",
    "s": "subject",
    "k": "supported",
    "o": "event",
    "u": "allow-events",
    "r": "refer-to",
    "b": "referred-by",
    "x": "session-expires",
}
_TOKEN = re.compile(r"[A-Za-z0-9\-.!%*_+`'~]+\Z")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_URI = re.compile(
    r"(?P<scheme>sips?):(?:(?P<user>[^@\s<>\"]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^:;?@\s<>\"]+)(?::(?P<port>\d{1,5}))?"
    r"(?P<rest>[;?][^\s<>\"]*)?\Z",
    re.IGNORECASE,
)


class BadMessage(ValueError):
    """The datagram is not a SIP message; the text names the part that is wrong."""


@dataclass(frozen=True, slots=True)
class SipUri:
    """``sip:user@host:port;name=value``. ``port`` None means the default of the transport, 5060."""

    user: str
    host: str
    port: int | None = None
    params: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port is not None else ""
        return f"sip:{user}{self.host}{port}{_join_params(self.params)}"

    @property
    def address(self) -> tuple[str, int]:
        """Where a datagram for this URI goes; names other than addresses are for the socket to resolve."""
        return self.host.strip("[]"), self.port or 5060


@dataclass(frozen=True, slots=True)
class Address:
    """The value of From, To, Contact, Route: a URI with an optional display name and header parameters."""

    uri: str
    params: Mapping[str, str] = field(default_factory=dict)
    display: str = ""

    def __str__(self) -> str:
        display = f'"{self.display}" ' if self.display else ""
        return f"{display}<{self.uri}>{_join_params(self.params)}"

    @property
    def tag(self) -> str:
        """The dialog tag, empty when there is none."""
        return self.params.get("tag", "")


@dataclass(frozen=True, slots=True)
class Via:
    """One hop of a request's path."""

    transport: str
    host: str
    port: int | None
    params: Mapping[str, str]

    def __str__(self) -> str:
        port = f":{self.port}" if self.port is not None else ""
        return f"SIP/2.0/{self.transport} {self.host}{port}{_join_params(self.params)}"

    @property
    def branch(self) -> str:
        """The transaction's name (RFC 3261 section 17.1.3)."""
        return self.params.get("branch", "")


@dataclass(frozen=True, slots=True)
class _Headers:
    headers: tuple[tuple[str, str], ...]

    def first(self, name: str) -> str:
        """The first value of a header, empty when it is absent."""
        wanted = _canonical(name)
        return next((value for key, value in self.headers if _canonical(key) == wanted), "")

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a header in order; a comma-separated line counts as several (not inside quotes or <>)."""
        wanted = _canonical(name)
        return tuple(part for key, value in self.headers if _canonical(key) == wanted for part in _split(value, ","))

    @property
    def call_id(self) -> str:
        """Call-ID."""
        return self.first("Call-ID")

    @property
    def cseq(self) -> tuple[int, str]:
        """CSeq as (number, method)."""
        number, _, method = self.first("CSeq").partition(" ")
        return int(number), method.strip()

    @property
    def top_via(self) -> Via:
        """The hop the message came over last."""
        return parse_via(self.all("Via")[0])


@dataclass(frozen=True, slots=True)
class Request(_Headers):
    """A request; Content-Length is added when it is built, so it need not be among the headers."""

    method: str
    uri: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response(_Headers):
    """A response, with the same rule for Content-Length."""

    code: int
    phrase: str
    body: bytes = b""


Message = Request | Response


def parse(datagram: bytes) -> Message:
    """Read one datagram.

    Checked here, so that the user agent need not: a known start line, the five headers without which no transaction
    can be matched (RFC 3261 section 8.1.1), a CSeq whose method is the request's, a parseable top Via, From and To,
    and a Content-Length that the datagram really holds (section 18.3).

    Raises:
        BadMessage: for anything else.
    """
    if len(datagram) > MAX_MESSAGE_BYTES:
        raise BadMessage("longer than a datagram")
    head, separator, rest = datagram.partition(b"\r\n\r\n")
    if not separator:
        raise BadMessage("no empty line behind the headers")
    if b"\0" in head:
        raise BadMessage("NUL in the headers")
    try:
        lines = _unfold(head.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadMessage("headers are not UTF-8") from error
    if any("\r" in line or "\n" in line for line in lines):
        raise BadMessage("a line break that is not CRLF")  # a header of ours must not carry it on
    headers = tuple(_header(line) for line in lines[1:])
    if len(headers) > MAX_HEADERS:
        raise BadMessage("too many headers")
    body = _body(headers, rest)
    start = lines[0]
    message: Message
    if start.startswith("SIP/2.0 "):
        code, _, phrase = start[8:].partition(" ")
        if not re.fullmatch(r"[1-6]\d\d", code):
            raise BadMessage("status code")
        message = Response(headers, int(code), phrase, body)
    else:
        parts = start.split(" ")
        if len(parts) != 3 or parts[2] != "SIP/2.0" or not _TOKEN.match(parts[0]):
            raise BadMessage("start line")
        message = Request(headers, parts[0], parts[1], body)
    _check(message)
    return message


def build(message: Message) -> bytes:
    """The datagram of a message. A line break in a value is refused with BadMessage: it would forge a header."""
    if isinstance(message, Request):
        lines = [f"{message.method} {message.uri} SIP/2.0"]
    else:
        lines = [f"SIP/2.0 {message.code} {message.phrase}"]
    lines += [f"{name}: {value}" for name, value in message.headers if _canonical(name) != "content-length"]
    lines.append(f"Content-Length: {len(message.body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise BadMessage("line break in a header")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + message.body


def parse_uri(text: str) -> SipUri:
    """A sip: or sips: URI; BadMessage for others. URI headers (behind ``?``) are dropped."""
    match = _URI.match(text.strip())
    if not match:
        raise BadMessage("not a SIP URI")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65_536:
        raise BadMessage("port out of range")
    rest = (match["rest"] or "").partition("?")[0]
    return SipUri(match["user"] or "", match["host"], port, _params(rest))


def parse_address(text: str) -> Address:
    """``"Name" <uri>;param`` or ``uri;param``; in the second form parameters belong to the header (section 20.10)."""
    text = text.strip()
    quoted = _QUOTED.match(text)  # a quoted name may hold brackets
    bracket = text.find("<", quoted.end() if quoted else 0)
    if bracket >= 0:
        display, rest = text[:bracket], text[bracket + 1 :]
        uri, closing, params = rest.partition(">")
        if not closing:
            raise BadMessage("address without closing bracket")
        return Address(uri.strip(), _params(params), display.strip().strip('"'))
    uri, _, params = text.partition(";")
    return Address(uri.strip(), _params(";" + params if params else ""))


def parse_via(text: str) -> Via:
    """One Via value."""
    match = re.match(
        r"SIP\s*/\s*2\.0\s*/\s*(\w+)\s+(\[[0-9A-Fa-f:.]+\]|[^:;\s]+)(?:\s*:\s*(\d{1,5}))?\s*(;.*)?\Z", text.strip()
    )
    if not match:
        raise BadMessage("Via")
    return Via(match[1].upper(), match[2], int(match[3]) if match[3] else None, _params(match[4] or ""))


def _check(message: Message) -> None:
    for name in ("Via", "From", "To", "Call-ID", "CSeq"):
        if not message.first(name):
            raise BadMessage(f"no {name}")
    match = re.fullmatch(r"(\d{1,10})\s+(\S+)", message.first("CSeq"))
    if not match or int(match[1]) >= 2**31:
        raise BadMessage("CSeq")
    if isinstance(message, Request) and match[2] != message.method:
        raise BadMessage("CSeq names another method")
    parse_via(message.all("Via")[0])
    parse_address(message.first("From"))
    parse_address(message.first("To"))


def _unfold(head: str) -> list[str]:
    lines: list[str] = []
    for line in head.split("\r\n"):
        if line[:1] in (" ", "\t") and len(lines) > 1:
            lines[-1] += " " + line.strip()  # RFC 3261 section 7.3.1: a folded line is one space
        else:
            lines.append(line)
    return lines


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    name = name.strip()
    if not colon or not _TOKEN.match(name):
        raise BadMessage("header line")
    return name, value.strip()


def _body(headers: tuple[tuple[str, str], ...], rest: bytes) -> bytes:
    lengths = {value for name, value in headers if _canonical(name) == "content-length"}
    if not lengths:
        return rest  # section 18.3: over UDP the body then ends with the datagram
    if len(lengths) > 1:
        raise BadMessage("contradicting Content-Length")
    length = lengths.pop()
    if not re.fullmatch(r"\d{1,6}", length) or int(length) > len(rest):
        raise BadMessage("Content-Length")
    return rest[: int(length)]


def _canonical(name: str) -> str:
    lower = name.lower()
    return _COMPACT.get(lower, lower)


def _split(value: str, separator: str) -> list[str]:
    parts, depth, quoted, begin = [], 0, False, 0
    for index, char in enumerate(value):
        if char == '"' and value[index - 1 : index] != "\\":
            quoted = not quoted
        elif not quoted and char in "<>":
            depth += 1 if char == "<" else -1
        elif char == separator and not quoted and depth <= 0:
            parts.append(value[begin:index].strip())
            begin = index + 1
    parts.append(value[begin:].strip())
    return [part for part in parts if part]


def _params(text: str) -> dict[str, str]:
    params = {}
    for part in _split(text, ";"):
        name, _, value = part.partition("=")
        params[name.strip().lower()] = value.strip()
    return params


def _join_params(params: Mapping[str, str]) -> str:
    return "".join(f";{name}={value}" if value else f";{name}" for name, value in params.items())
