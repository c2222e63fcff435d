# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that are odd, wrong or broken on purpose: a subset of RFC 4475, and a small mutator with a fixed seed."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Odd:
    """One message; ``codes`` are the answers that are right, None in them stands for silence."""

    name: str
    text: str
    codes: frozenset[int | None]


def _message(
    line: str = "OPTIONS sip:gw@{gw} SIP/2.0",
    *,
    cseq: str = "1 OPTIONS",
    more: str = "",
    body: str = "",
    length: str | None = None,
    without: str = "",
    **instead: str,
) -> str:
    """A request with one thing wrong: a header replaced, left out, or put on top."""
    headers = {
        "Via": "SIP/2.0/UDP {me};branch=z9hG4bK-{n};rport",
        "From": "<sip:alice@{me}>;tag=t{n}",
        "To": "<sip:gw@{gw}>",
        "Call-ID": "torture-{n}",
        "CSeq": cseq,
        "Contact": "<sip:alice@{me}>",
        "Max-Forwards": "70",
        "Content-Length": str(len(body)) if length is None else length,
    }
    for name, value in instead.items():
        headers[name.replace("_", "-")] = value
    lines = [f"{name}: {value}" for name, value in headers.items() if name != without]
    return "\r\n".join([line, *lines]) + f"\r\n{more}\r\n{body}"


OK = frozenset({200})
REFUSED = frozenset({400, 403, 404, 405, 406, 415, 416, 420, 480, 481, 483, 486, 488, 489, 500, 501, 505, None})
ANY = OK | REFUSED

# By their names in RFC 4475. Where a user agent may take the message or not, both are right: the next call decides.
RFC_4475 = (
    Odd("wsinv", _message(more="TO :\r\n sip:x@y ;   tag = 1\r\nNewFangled:   new value\r\n continued\r\n"), ANY),
    Odd(
        "compact",
        "OPTIONS sip:gw@{gw} SIP/2.0\r\nv:SIP/2.0/UDP {me};branch=z9hG4bK-{n};rport\r\nf:<sip:a@{me}>;tag=t{n}\r\n"
        "t:<sip:gw@{gw}>\r\ni:torture-{n}\r\nCSeq:1 OPTIONS\r\nm:<sip:a@{me}>\r\nMax-Forwards:70\r\nl:0\r\n\r\n",
        OK,
    ),
    Odd("intmeth", _message("!interesting-Method0123456789_*+`.%indeed'~ sip:gw@{gw} SIP/2.0",
                            cseq="1 !interesting-Method0123456789_*+`.%indeed'~"), REFUSED),
    Odd("esc01", _message("OPTIONS sip:sips%3Auser%40example.com@{gw} SIP/2.0"), ANY),
    Odd("escnull", _message("OPTIONS sip:null-%00-null@{gw} SIP/2.0", From="sip:null-%00-null@{me};tag=t{n}"), ANY),
    Odd("lwsdisp", _message(From="caller<sip:caller@{me}>;tag=t{n}"), ANY),
    Odd("longreq", _message(To='"I have a very very long name ' + "y" * 900 + '" <sip:gw@{gw}>'), ANY),
    Odd("dblreq", _message() + _message().replace("torture-{n}", "torture-2-{n}"), ANY),
    Odd("semiuri", _message("OPTIONS sip:user;par=u%40example.net@{gw} SIP/2.0"), ANY),
    Odd("transports", _message(Via="SIP/2.0/UNKNOWN {me};branch=z9hG4bK-{n}"), ANY),
    Odd("badinv01", _message(Contact='"Joe" <sip:joe@x>;;;;', Via="SIP/2.0/UDP {me};;,;,,"), REFUSED),
    Odd("clerr", _message(length="9999", body="v=0\r\n"), ANY),
    Odd("ncl", _message(length="-999"), REFUSED),
    Odd("scalar02", _message(cseq="36893488147419103232 OPTIONS", Max_Forwards="300"), ANY),
    Odd("quotbal", _message(To='"Mr. J. User <sip:gw@{gw}>'), REFUSED | OK),
    Odd("ltgtruri", _message("OPTIONS <sip:gw@{gw}> SIP/2.0"), REFUSED),
    Odd("lwsruri", _message("OPTIONS sip:gw@{gw}; lr SIP/2.0"), REFUSED),
    Odd("lwsstart", _message("OPTIONS  sip:gw@{gw}  SIP/2.0"), ANY),
    Odd("trws", _message("OPTIONS sip:gw@{gw} SIP/2.0  "), ANY),
    Odd("escruri", _message("OPTIONS sip:gw@{gw}?Route=%3Csip:x%3E SIP/2.0"), ANY),
    Odd("baddate", _message(more="Date: Fri, 01 Jan 2010 16:00:00 EST\r\n"), ANY),
    Odd("badvers", _message("OPTIONS sip:gw@{gw} SIP/7.0"), REFUSED),
    Odd("mismatch01", _message(cseq="8 INVITE"), REFUSED | OK),
    Odd("mismatch02", _message("NEWMETHOD sip:gw@{gw} SIP/2.0", cseq="8 INVITE"), REFUSED),
    Odd("insuf", _message(without="Call-ID"), REFUSED),
    Odd("no-from", _message(without="From"), REFUSED),
    Odd("no-cseq", _message(without="CSeq"), REFUSED),
    Odd("no-via", _message(without="Via"), REFUSED),
    Odd("unkscm", _message("OPTIONS nobodyKnowsThisScheme:totallyopaquecontent SIP/2.0"), ANY),
    Odd("novelsc", _message("OPTIONS soap.beep://192.0.2.103:3002 SIP/2.0"), ANY),
    Odd("bext01", _message(more="Require: nothingSupportsThis, nothingSupportsThisEither\r\n"), ANY),
    Odd("invut", _message("INVITE sip:gw@{gw} SIP/2.0", cseq="1 INVITE", body="<audio/>",
                          more="Content-Type: application/unknownformat\r\n"), ANY),
    Odd("multi01", _message(more="Call-ID: other\r\nCSeq: 9 INVITE\r\nMax-Forwards: 5\r\nFrom: <sip:b@c>\r\n"), ANY),
    Odd("mcl01", _message(more="Content-Length: 5\r\n"), ANY),
    Odd("bcast", "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.198;branch=z9hG4bK1324923\r\nCall-ID: torture-{n}\r\n"
                 "From: sip:a@b;tag=1\r\nTo: sip:c@d;tag=2\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n", REFUSED),
    Odd("bigcode", "SIP/2.0 4294967301 better not break the receiver\r\nVia: SIP/2.0/UDP {me};branch=z9hG4bK{n}\r\n"
                   "CSeq: 353494 INVITE\r\nContent-Length: 0\r\n\r\n", REFUSED),
    Odd("zeromf", _message(Max_Forwards="0"), ANY),
    Odd("cparam", _message(Contact="sip:+19725552222@gw1.example.net;unknownparam"), ANY),
    Odd("tel", _message("INVITE tel:+4930123456 SIP/2.0", cseq="1 INVITE"), ANY),
    Odd("ipv6", _message(Contact="<sip:a@[2001:db8::9:1]>"), ANY),
    Odd("nul", _message(From='"\0" <sip:a@{me}>;tag=\0{n}'), ANY),
    Odd("utf-8", _message(From='"Bücher ☎" <sip:a@{me}>;tag=t{n}'), ANY),
)  # fmt: skip


INSERTS = (b"\0", b"\r\n", b"\r\n\r\n", b"%00", b'"', b"<", b";", b"\xff\xfe", b"A" * 300)
NUMBERS = (b"-1", b"0", b"65536", b"4294967296", b"9" * 30, b"")


def fill(text: str, *, me: str, gateway: str, number: int) -> bytes:
    """The message as bytes, with addresses and a dialog of its own."""
    return text.replace("{me}", me).replace("{gw}", gateway).replace("{n}", str(number)).encode()


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """The seed with one to four faults."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(7):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randint(1, 40)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 80)]
            case 3:
                data[at:at] = chance.choice(
                    [b"\0", b"\r\n", b"\r\n\r\n", b"%00", b'"', b"<", b";", b"\xff\xfe", b"A" * 300]
                )
            case 4:
                numbers = [m.span() for m in re.finditer(rb"\d+", bytes(data))]
                if numbers:
                    first, end = chance.choice(numbers)
                    data[first:end] = chance.choice(NUMBERS)
            case 5:
                data = data[: chance.randrange(len(data) + 1)]
            case 6:
                lines = bytes(data).split(b"\r\n")
                chance.shuffle(lines)
                data = bytearray(b"\r\n".join(lines))
    return bytes(data)[:3900]


def broken_packets(count: int, chance: random.Random) -> Iterator[bytes]:
    """RTP and RTCP with wrong lengths, versions, extensions, paddings and counts (B16)."""
    for number in range(count):
        if number % 2:
            head = struct.pack(
                "!BBHII", chance.randrange(256), chance.randrange(256), number & 0xFFFF, number * 160, 77
            )
            extension = struct.pack("!HH", chance.randrange(65536), chance.choice([0, 1, 255, 65535]))
            yield (head + extension + chance.randbytes(chance.randrange(180)))[: chance.randrange(1, 210)]
        else:
            kind, words = chance.choice([200, 201, 202, 203, 204, 205, 206, 207]), chance.choice([0, 1, 6, 255, 65535])
            yield struct.pack("!BBH", 0x80 | chance.randrange(64), kind, words) + chance.randbytes(
                chance.randrange(120)
            )
