# SPDX-License-Identifier: GPL-3.0-or-later
"""Session descriptions of a G.711 telephone: offer and answer (RFC 4566, RFC 3264, RFC 4733)."""

from __future__ import annotations

import re
from dataclasses import dataclass

RATE_HZ = 8000
STATIC = {0: "PCMU", 8: "PCMA"}  # RFC 3551, table 4
_NUMBER = {name: number for number, name in STATIC.items()}
EVENT_PAYLOAD = 101  # any dynamic number would do; 101 is what most peers offer
DIRECTIONS = ("sendrecv", "sendonly", "recvonly", "inactive")
_MIRROR = {"sendrecv": "sendrecv", "sendonly": "recvonly", "recvonly": "sendonly", "inactive": "inactive"}


class BadSdp(ValueError):
    """The body is no session description this telephone can use."""


class NoCommonCodec(BadSdp):
    """The peer offers no codec this telephone speaks: 488 (RFC 3261 section 21.4.26)."""


@dataclass(frozen=True, slots=True)
class Description:
    """What the first accepted audio line says. ``lines`` are all media lines, which an answer must mirror."""

    host: str
    port: int
    codecs: tuple[tuple[int, str], ...]
    """(payload type, name) of G.711 codecs in the order of preference."""
    event_payload: int | None
    ptime_ms: int
    direction: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Media:
    """What both sides agreed on, seen from this telephone."""

    remote: tuple[str, int]
    codec: str
    payload_type: int
    event_payload: int | None
    ptime_ms: int
    direction: str
    """What this telephone may do: ``sendonly`` means it sends and does not expect to hear."""


def parse_sdp(body: bytes) -> Description:
    """Read the first audio line with G.711 in it; a missing last line break is fine.

    Raises:
        BadSdp: not SDP, no audio line, a NUL, a port or payload type out of range.
        NoCommonCodec: audio without PCMU and PCMA.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSdp("not UTF-8") from error
    lines = [line.strip() for line in re.split(r"\r\n|\n|\r", text) if line.strip()]
    if "\0" in text or not lines or not lines[0].startswith("v="):
        raise BadSdp("not a session description")
    session: list[str] = []
    media: list[list[str]] = []
    for line in lines:
        if line.startswith("m="):
            media.append([line])
        else:
            (media[-1] if media else session).append(line)
    audio = next((block for block in media if block[0].startswith("m=audio ") and " RTP/AVP " in block[0]), None)
    if audio is None:
        raise BadSdp("no audio over RTP/AVP")
    match = re.fullmatch(r"m=audio (\d{1,5})(?:/\d+)? RTP/AVP((?: \d{1,3})+)", audio[0])
    if not match or int(match[1]) > 65_535:
        raise BadSdp("audio line")
    offered = [int(number) for number in match[2].split()]
    names = dict(STATIC)
    event_payload = None
    for line in audio:
        found = re.fullmatch(r"a=rtpmap:(\d{1,3}) ([\w.-]+)/(\d+)(?:/\d+)?", line)
        if found and int(found[1]) < 128:
            if found[2].lower() == "telephone-event" and int(found[3]) == RATE_HZ:
                event_payload = int(found[1])
            names[int(found[1])] = found[2].upper()
    codecs = tuple((number, names[number]) for number in offered if names.get(number) in _NUMBER)
    if not codecs:
        raise NoCommonCodec("neither PCMU nor PCMA")
    return Description(
        host=_connection(audio) or _connection(session),
        port=int(match[1]),
        codecs=codecs,
        event_payload=event_payload if event_payload in offered else None,
        ptime_ms=_ptime(audio),
        direction=_direction(audio) or _direction(session) or "sendrecv",
        lines=tuple(block[0] for block in media),
    )


def offer(host: str, port: int, codecs: tuple[str, ...], *, version: int, direction: str = "sendrecv") -> bytes:
    """An offer of the given codecs (names of `STATIC`) and telephone events, 20 ms packets."""
    numbers = [_NUMBER[name] for name in codecs]
    return _render(host, version, [_audio(port, [*zip(numbers, codecs, strict=True)], EVENT_PAYLOAD, direction)])


def answer(offered: Description, host: str, port: int, codecs: tuple[str, ...], *, version: int) -> tuple[bytes, Media]:
    """Answer an offer with its first codec that we speak; other media lines are refused with port 0 (RFC 3264, 6).

    Raises:
        NoCommonCodec: nothing in common.
    """
    chosen = next(((number, name) for number, name in offered.codecs if name in codecs), None)
    if chosen is None:
        raise NoCommonCodec("no codec in common")
    direction = _MIRROR[offered.direction]
    blocks, accepted = [], False
    for line in offered.lines:
        if not accepted and line.startswith("m=audio ") and " RTP/AVP " in line:
            blocks.append(_audio(port, [chosen], offered.event_payload, direction))
            accepted = True
        else:
            blocks.append([re.sub(r"\A(m=\S+) \S+", r"\1 0", line)])
    media = Media((offered.host, offered.port), chosen[1], chosen[0], offered.event_payload, 20, direction)
    return _render(host, version, blocks), media


def settle(answered: Description, codecs: tuple[str, ...]) -> Media:
    """What an answer to our offer means for us."""
    chosen = next(((number, name) for number, name in answered.codecs if name in codecs), None)
    if chosen is None:
        raise NoCommonCodec("the answer holds no codec we offered")
    return Media(
        (answered.host, answered.port),
        chosen[1],
        chosen[0],
        answered.event_payload,
        answered.ptime_ms,
        _MIRROR[answered.direction],
    )


def _audio(port: int, codecs: list[tuple[int, str]], event_payload: int | None, direction: str) -> list[str]:
    numbers = [number for number, _ in codecs] + ([event_payload] if event_payload is not None else [])
    lines = [f"m=audio {port} RTP/AVP {' '.join(map(str, numbers))}"]
    lines += [f"a=rtpmap:{number} {name}/{RATE_HZ}" for number, name in codecs]
    if event_payload is not None:
        lines += [f"a=rtpmap:{event_payload} telephone-event/{RATE_HZ}", f"a=fmtp:{event_payload} 0-15"]
    return [*lines, "a=ptime:20", f"a={direction}"]


def _render(host: str, version: int, blocks: list[list[str]]) -> bytes:
    head = ["v=0", f"o=- {version} {version} IN IP4 {host}", "s=-", f"c=IN IP4 {host}", "t=0 0"]
    return ("\r\n".join(head + [line for block in blocks for line in block]) + "\r\n").encode()


def _connection(lines: list[str]) -> str:
    return next((line.split()[-1] for line in lines if re.fullmatch(r"c=IN IP[46] \S+", line)), "")


def _direction(lines: list[str]) -> str:
    return next((line[2:] for line in lines if line[:2] == "a=" and line[2:] in DIRECTIONS), "")


def _ptime(lines: list[str]) -> int:
    found = next((match[1] for line in lines if (match := re.fullmatch(r"a=ptime:(\d{1,3})", line))), "20")
    return min(max(int(found), 10), 200)
