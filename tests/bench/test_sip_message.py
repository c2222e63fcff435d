# SPDX-License-Identifier: GPL-3.0-or-later
"""SIP messages: what is built can be read again, and nothing hostile gets past `BadMessage`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.sip_message import (
    BadMessage,
    Request,
    Response,
    build,
    parse,
    parse_address,
    parse_uri,
    parse_via,
)

pytestmark = pytest.mark.unit

INVITE = (
    b"INVITE sip:200@127.0.0.1 SIP/2.0\r\n"
    b"v: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bKa;rport, SIP/2.0/UDP 127.0.0.2;branch=z9hG4bKb\r\n"
    b'f: "Ann, <Lee>" <sip:100@127.0.0.1>;tag=x1\r\n'
    b"To: <sip:200@127.0.0.1>\r\n"
    b"i: abc@127.0.0.1\r\n"
    b"CSeq: 7  INVITE\r\n"
    b"Subject: one\r\n  two\r\n"
    b"l: 4\r\n\r\nbodyrest"
)


def test_compact_forms_folding_and_lists() -> None:
    message = parse(INVITE)
    assert isinstance(message, Request)
    assert (message.method, message.uri, message.cseq) == ("INVITE", "sip:200@127.0.0.1", (7, "INVITE"))
    assert [parse_via(via).host for via in message.all("Via")] == ["127.0.0.1", "127.0.0.2"]
    assert message.top_via.branch == "z9hG4bKa"
    assert message.first("subject") == "one two"
    assert message.body == b"body"  # RFC 3261 section 18.3: what follows Content-Length is dropped
    caller = parse_address(message.first("From"))
    assert (caller.display, caller.uri, caller.tag) == ("Ann, <Lee>", "sip:100@127.0.0.1", "x1")


def test_brackets_inside_a_quoted_name() -> None:
    address = parse_address('"Ann <Lee>" <sip:100@127.0.0.1;transport=udp>;tag=x1')
    assert (address.display, address.uri, address.tag) == ("Ann <Lee>", "sip:100@127.0.0.1;transport=udp", "x1")
    assert parse_address(str(address)) == address


def test_address_without_brackets_keeps_parameters_to_itself() -> None:
    address = parse_address("sip:100@127.0.0.1:5070;tag=9")
    assert (address.uri, address.tag) == ("sip:100@127.0.0.1:5070", "9")


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("sip:100@127.0.0.1", "100", "127.0.0.1", None),
        ("SIP:127.0.0.1:5061", "", "127.0.0.1", 5061),
        ("sip:*1@[::1]:7000;lr", "*1", "[::1]", 7000),
        ("sip:a@host.example;x=y?Subject=z", "a", "host.example", None),
    ],
)
def test_uris(text: str, user: str, host: str, port: int | None) -> None:
    uri = parse_uri(text)
    assert (uri.user, uri.host, uri.port) == (user, host, port)


@pytest.mark.parametrize("text", ["", "tel:100", "sip:", "sip:a@b:99999", "sip:a@b:0", "sip:a b@c", "sip:a@b\r\nX: y"])
def test_what_is_no_uri(text: str) -> None:
    with pytest.raises(BadMessage):
        parse_uri(text)


def _without(line: bytes) -> bytes:
    assert line in INVITE
    return INVITE.replace(line, b"")


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\r\n\r\n",
        b"INVITE sip:a@b SIP/2.0\r\n",
        b"INVITE sip:a@b HTTP/1.1\r\n\r\n",
        b"SIP/2.0 999 What\r\n\r\n",
        INVITE.replace(b"\r\n", b"\n"),
        INVITE.replace(b"Subject", b"Sub\0ject"),
        INVITE.replace(b"Subject: one", b"Subject: one\nVia: two"),
        INVITE.replace(b"Subject: one", b"Subject: one\rtwo"),
        INVITE.replace(b"Subject", b"\xff\xfe"),
        INVITE.replace(b"Subject: one", b"no colon here"),
        INVITE.replace(b"7  INVITE", b"7 BYE"),
        INVITE.replace(b"7  INVITE", b"99999999999 INVITE"),
        INVITE.replace(b"7  INVITE", b"-1 INVITE"),
        INVITE.replace(b"l: 4", b"l: -4"),
        INVITE.replace(b"l: 4", b"l: 4000"),
        INVITE.replace(b"l: 4", b"l: 4\r\nContent-Length: 5"),
        INVITE.replace(b"SIP/2.0/UDP 127.0.0.1:5070", b"HTTP/1.1"),
        _without(b"i: abc@127.0.0.1\r\n"),
        _without(b"To: <sip:200@127.0.0.1>\r\n"),
        INVITE.replace(b"To: <sip:200@127.0.0.1>", b"To: <sip:200@127.0.0.1"),
        INVITE.replace(b"Subject: one", b"\r\n".join(b"X: y" for _ in range(300))),
        b"A" * 70_000,
    ],
)
def test_hostile_datagrams_are_bad_messages(datagram: bytes) -> None:
    with pytest.raises(BadMessage):
        parse(datagram)


def test_a_forged_header_cannot_be_built() -> None:
    with pytest.raises(BadMessage):
        build(Response((("X-Name", "a\r\nVia: b"),), 200, "OK"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, len(INVITE)))
def test_mutated_datagrams_never_raise_anything_else(noise: bytes, at: int) -> None:
    for datagram in (noise, INVITE[:at] + noise + INVITE[at:], INVITE[:at]):
        try:
            message = parse(datagram)
        except BadMessage:
            continue
        assert parse(build(message)).body == message.body


TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(TOKEN, TOKEN, st.binary(max_size=200), st.integers(0, 2**31 - 1))
def test_round_trip(call_id: str, branch: str, body: bytes, number: int) -> None:
    headers = (
        ("Via", f"SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK{branch}"),
        ("From", "<sip:a@127.0.0.1>;tag=1"),
        ("To", "<sip:b@127.0.0.1>"),
        ("Call-ID", call_id),
        ("CSeq", f"{number} BYE"),
    )
    for message in (Request(headers, "BYE", "sip:b@127.0.0.1", body), Response(headers, 200, "OK", body)):
        again = parse(build(message))
        assert again.body == body
        assert again.headers == (*headers, ("Content-Length", str(len(body))))
        assert type(again) is type(message)
