# SPDX-License-Identifier: GPL-3.0-or-later
"""Session descriptions: codecs by payload number, directions mirrored, other media refused."""

from __future__ import annotations

import pytest

from gateway.bench import sdp

pytestmark = pytest.mark.unit

OFFER = (
    "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
    "m=video 5004 RTP/AVP 34\r\na=rtpmap:34 H263/90000\r\n"
    "m=audio 4000 RTP/AVP 96 8 0 9\r\nc=IN IP4 192.0.2.9\r\na=rtpmap:96 telephone-event/8000\r\na=ptime:30\r\n"
)


def test_b14_event_payload_and_codecs_by_number() -> None:
    found = sdp.parse_sdp(OFFER.encode())
    assert (found.host, found.port, found.ptime_ms) == ("192.0.2.9", 4000, 30)
    assert found.codecs == ((8, "PCMA"), (0, "PCMU"))
    assert found.event_payload == 96


def test_a25_answer_refuses_video_and_takes_the_first_codec_in_common() -> None:
    body, media = sdp.answer(sdp.parse_sdp(OFFER.encode()), "127.0.0.1", 7000, ("PCMU", "PCMA"), version=3)
    lines = body.decode().splitlines()
    assert "m=video 0 RTP/AVP 34" in lines
    assert "m=audio 7000 RTP/AVP 8 96" in lines
    assert lines.index("m=video 0 RTP/AVP 34") < lines.index("m=audio 7000 RTP/AVP 8 96")
    assert (media.codec, media.payload_type, media.remote) == ("PCMA", 8, ("192.0.2.9", 4000))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("sendonly", "recvonly"), ("recvonly", "sendonly"), ("inactive", "inactive"), ("sendrecv", "sendrecv")],
)
@pytest.mark.parametrize("ending", ["\r\n", ""])
def test_a01_direction_is_mirrored_even_without_a_last_line_break(theirs: str, ours: str, ending: str) -> None:
    offered = sdp.parse_sdp(f"{OFFER}a={theirs}{ending}".encode())
    body, media = sdp.answer(offered, "127.0.0.1", 7000, ("PCMU",), version=1)
    assert media.direction == ours
    assert f"a={ours}" in body.decode()


def test_our_offer_settles_with_the_answer_to_it() -> None:
    offered = sdp.parse_sdp(sdp.offer("127.0.0.1", 4000, ("PCMU", "PCMA"), version=1))
    body, theirs = sdp.answer(offered, "127.0.0.2", 5000, ("PCMA",), version=1)
    ours = sdp.settle(sdp.parse_sdp(body), ("PCMU", "PCMA"))
    assert (ours.codec, ours.remote, ours.event_payload) == ("PCMA", ("127.0.0.2", 5000), sdp.EVENT_PAYLOAD)
    assert theirs.remote == ("127.0.0.1", 4000)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"\xff\xfe",
        OFFER.replace("4000", "99999").encode(),
        OFFER.replace(" 96 8 0 9", " 4294967296").encode(),
        (OFFER + "a=fmtp:96 0-15\0\r\n").encode(),
        OFFER.replace("RTP/AVP 96", "RTP/SAVP 96").encode(),
    ],
)
def test_b15_what_is_no_description(body: bytes) -> None:
    with pytest.raises(sdp.BadSdp):
        sdp.parse_sdp(body)


def test_no_codec_in_common_is_told_apart() -> None:
    with pytest.raises(sdp.NoCommonCodec):
        sdp.parse_sdp(OFFER.replace(" 96 8 0 9", " 9 18").encode())
    with pytest.raises(sdp.NoCommonCodec):
        sdp.answer(sdp.parse_sdp(OFFER.replace(" 8 0", " 0").encode()), "127.0.0.1", 1, ("PCMA",), version=1)
