# SPDX-License-Identifier: GPL-3.0-or-later
"""The little of SIP's text that the gateway reads and writes by itself (RFC 3261 section 7). Pure.

pjsip parses and answers messages; what is read here are only names that pjsua2 does not hand over: the request URI
and the X- headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

MAX_EXTRA_HEADERS = 32
MAX_HEADER_CHARS = 1024

_TOKEN = re.compile(r"[A-Za-z0-9\-.!%*_+`'~]+\Z")  # RFC 3261 section 25.1
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_SIP_USER = re.compile(r"sips?:(?P<user>[^@\s>]*)@", re.IGNORECASE)
_TEL_USER = re.compile(r"tel:(?P<user>[^;\s>]*)", re.IGNORECASE)
_COMPACT = {  # RFC 3261 section 7.3.3
    "f": "from",
    "t": "to",
    "m": "contact",
    "i": "call-id",
    "v": "via",
    "l": "content-length",
    "c": "content-type",
}


def sent_over_udp(message: str) -> bool:
    """Whether a message's topmost Via names UDP (RFC 3261 section 20.42)."""
    return header_value(message, "via").upper().startswith("SIP/2.0/UDP")


def request_uri(message: str) -> str:
    """The URI of a request's first line, empty when the line is not a request."""
    parts = message.split("\r\n", 1)[0].split(" ")
    return parts[1] if len(parts) == 3 and parts[2].startswith("SIP/") else ""


def headers(message: str) -> list[tuple[str, str]]:
    """Header names in lower case (compact forms spelled out) and values, in order, folded lines joined."""
    lines: list[str] = []
    for line in message.split("\r\n\r\n", 1)[0].split("\r\n")[1:]:
        if line[:1] in (" ", "\t") and lines:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    found = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            key = name.strip().lower()
            found.append((_COMPACT.get(key, key), value.strip()))
    return found


def extension_headers(message: str) -> dict[str, str]:
    """The X- headers, names in lower case; of a repeated name the first counts. Bounded in number and length."""
    found: dict[str, str] = {}
    for name, value in headers(message):
        if name.startswith("x-") and name not in found and len(found) < MAX_EXTRA_HEADERS:
            found[name] = value[:MAX_HEADER_CHARS]
    return found


def uri_user(text: str) -> str:
    """User part of the first SIP or tel URI in a header value, without password and parameters; empty if none."""
    bare = _QUOTED.sub("", text)  # a display name may hold anything, also a URI
    match = _SIP_USER.search(bare.partition("<")[2] or bare) or _TEL_USER.search(bare)
    return unquote(re.split("[:;]", match["user"], maxsplit=1)[0]) if match else ""


def header_value(message: str, name: str) -> str:
    """First value of a header, empty when it is missing."""
    return next((value for key, value in headers(message) if key == name), "")


def info_digit(message: str) -> str:
    """The digit of an INFO with an ``application/dtmf`` body (a bare character), empty for anything else.

    The more common ``application/dtmf-relay`` is read by pjsip itself.
    """
    kind = header_value(message, "content-type").partition(";")[0].strip().lower()
    body = message.partition("\r\n\r\n")[2].strip()
    return body.upper() if kind == "application/dtmf" and re.fullmatch(r"[0-9*#A-Da-d]", body) else ""


def is_safe_header(name: str, value: str) -> bool:
    """Whether a header can be written as one line: a token as name, no control characters in the value."""
    return bool(_TOKEN.match(name)) and len(value) <= MAX_HEADER_CHARS and value.isprintable()


def safe_headers(wanted: Mapping[str, str] | None) -> tuple[list[tuple[str, str]], int]:
    """The headers that may be written, and how many were refused because they would break the message."""
    pairs = list((wanted or {}).items())
    good = [(name, value) for name, value in pairs if is_safe_header(name, value)]
    return good, len(pairs) - len(good)


def is_safe_uri(uri: str) -> bool:
    """Whether a URI can stand in a request line and in angle brackets."""
    return bool(re.match(r"sips?:[^\s<>\"]+\Z", uri, re.IGNORECASE)) and uri.isprintable()


def bare_uri(value: str) -> str:
    """The URI of a name-addr such as ``"Ana" <sip:1002@host>`` (RFC 3261 section 20.10), or of a bare one."""
    inside = re.search(r"<([^<>]*)>", _QUOTED.sub("", value))
    return inside[1] if inside else value.strip()


_REDACTIONS = (
    (re.compile(r"(sips?:)[^@\s<>\"]+@", re.IGNORECASE), r"\1…@"),
    (re.compile(r"(tel:)[^\s;>\"]+", re.IGNORECASE), r"\1…"),
    (re.compile(r"((?:To|From):\s*)[^<\n]*(?=<)", re.IGNORECASE), r"\1"),
    (re.compile(r'"[^"\n]*"(?=\s*<)'), '"…"'),
    (re.compile(r"\+?\d{6,}"), "…"),
)
_PRIVATE_LINE = re.compile(r"dtmf|digit", re.IGNORECASE)


def redact(text: str) -> str:
    """A library's log line without user parts, display names and long numbers; empty when it is about digits.

    Of several lines only the first is kept: behind it the library shows the message it could not read.
    """
    text = text.partition("\n")[0]
    if _PRIVATE_LINE.search(text):
        return ""
    for pattern, replacement in _REDACTIONS:
        text = pattern.sub(replacement, text)
    return text
