# SPDX-License-Identifier: GPL-3.0-or-later
"""Encrypted sound and signalling, as far as the library at hand can (A1)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from g711 import tone
from sip_harness import AgentProcess, side_by_side, until
from sip_peer import Peer
from srtp import Aes128, SecureRtpSocket, key_in

from gateway.sip.limits import TLS_TOO_OLD, tls_is_sound
from gateway.sip.settings import SipSettings

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]
KEY = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n"


def test_mandatory_srtp_refuses_plain_sound_with_488(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440, settings={"srtp": "mandatory"})
    with Peer(agent.port) as plain:
        assert plain.invite().code == 488
    with Peer(agent.port) as secure:
        answer = secure.invite(secure.sdp().replace("RTP/AVP", "RTP/SAVP") + KEY)
        assert (answer.code, "RTP/SAVP" in answer.body, "a=crypto:1" in answer.body) == (200, True, True)
        assert secure.bye().code == 200
    assert until(lambda: any("sip_srtp_keys_readable" in line for line in agent.errors))
    assert "WVNfX19z" not in "".join(agent.errors)


def test_two_agents_talk_with_srtp(agents: Agents) -> None:
    left = agents(auto_answer=True, tone_hz=440, settings={"srtp": "mandatory"})
    right = agents(tone_hz=1200, settings={"srtp": "mandatory"})
    right.tell("dial", leg="out", uri=f"sip:5@127.0.0.1:{left.port}")
    leg = left.event("MediaActive")["leg"]
    assert until(lambda: right.hear("out")["samples"] > 12_000)
    assert right.hear("out")["peak_hz"] == pytest.approx(440, abs=3)
    assert left.hear(leg)["peak_hz"] == pytest.approx(1200, abs=3)
    right.tell("hangup", leg="out")
    left.event("Ended", leg=leg)


def test_optional_srtp_takes_both(agents: Agents) -> None:
    agent = agents(auto_answer=True, settings={"srtp": "optional"})
    for offer_of in (lambda p: p.sdp(), lambda p: p.sdp().replace("RTP/AVP", "RTP/SAVP") + KEY):
        with Peer(agent.port) as peer:
            assert peer.invite(offer_of(peer)).code == 200
            assert until(lambda peer=peer: len(peer.rtp.received) > 5)  # type: ignore[misc]
            assert peer.bye().code == 200


def test_rfc_3711_vectors() -> None:
    cipher = Aes128(bytes.fromhex("E1F97A0D3E018BE0D64FA32C06DE4139"))
    salt = int("0EC675AD498AFEEBB6960B3AABE6", 16)
    assert cipher.stream(salt << 16, 16).hex().upper() == "C61E7A93744F39EE10734AFE3FF7A087"
    assert cipher.stream((salt ^ (1 << 48)) << 16, 4).hex().upper() == "CEBE321F"


def hears(agent: AgentProcess, leg: str) -> bool:
    """A new second of the caller's tone has come."""
    before = agent.hear(leg)["samples"]
    if not until(lambda: agent.hear(leg)["samples"] >= before + 8000):
        return False
    return bool(agent.hear(leg)["peak_hz"] == pytest.approx(1000, abs=3))


def test_b12_the_roll_over_counter_outlives_a_re_invite(agents: Agents) -> None:
    """The sequence numbers wrap, as they do once in 22 minutes; then the stream is negotiated anew with its keys."""
    agent = agents(auto_answer=True, tone_hz=440, settings={"srtp": "mandatory"})

    def call(name: str, *, held: bool) -> None:
        with Peer(agent.port, user=name) as peer:
            peer.rtp.close()
            peer.rtp = rtp = SecureRtpSocket(key_in(KEY), first_seq=65_536 - 40)

            def offer(version: int, direction: str = "sendrecv") -> str:
                return peer.sdp(direction, version=version).replace("RTP/AVP", "RTP/SAVP") + KEY

            def egress_opens(answer: str) -> bool:
                """The last packets are ours to read; the gateway begins low, and does not wrap within minutes."""
                crypto, start = key_in(answer), len(rtp.received)
                return until(lambda: len(rtp.received) >= start + 25) and all(
                    crypto.open(packet, roll_over=0) for packet in rtp.received[start:]
                )

            answer = peer.invite(offer(1))
            assert answer.code == 200
            leg = agent.talking(peer)
            rtp.stream(peer.remote_rtp, tone(1000, 1))
            assert until(lambda: rtp.roll_over == 1)
            assert hears(agent, leg)
            assert egress_opens(answer.body)
            if held:
                assert peer.invite(offer(2, "sendonly")).code == 200
                agent.event("MediaHeld", leg=leg)
            answer = peer.invite(offer(3))
            assert answer.code == 200
            assert hears(agent, leg), "the roll-over counter was lost on the way to us"
            assert egress_opens(answer.body), "the roll-over counter was lost on the way from us"
            assert peer.bye().code == 200

    side_by_side(as_it_was=lambda: call("one", held=False), behind_a_hold=lambda: call("two", held=True))


def certificate(folder: Path) -> dict[str, str | int | bool]:
    """A certificate of its own authority, for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    return {"certificate": cert, "key": key, "ca": cert, "verify": True, "port": 0}


@pytest.mark.skipif(tls_is_sound(), reason="this pjsua2 has a sound TLS")
def test_an_openssl_that_is_too_old_is_refused_in_words(agents: Agents, tmp_path: Path) -> None:
    agent = agents(settings={"transports": ["udp", "tls"], "tls": certificate(tmp_path)})
    assert agent.failure == TLS_TOO_OLD
    assert agent.process.wait(10) == 3


@pytest.mark.skipif(not tls_is_sound(), reason="needs a pjsua2 of `make pjsua2`: this one's OpenSSL is too old")
def test_two_agents_talk_over_tls_and_a_stranger_does_not(agents: Agents, tmp_path: Path) -> None:
    secure = {"transports": ["udp", "tls"], "tls": certificate(tmp_path), "srtp": "mandatory"}
    left, right = agents(auto_answer=True, tone_hz=440, settings=secure), agents(tone_hz=1200, settings=secure)
    right.tell("dial", leg="out", uri=f"sip:5@127.0.0.1:{left.tls_port};transport=tls")
    right.event("Answered", leg="out")
    assert until(lambda: right.hear("out")["samples"] > 12_000)
    assert right.hear("out")["peak_hz"] == pytest.approx(440, abs=3)
    right.tell("hangup", leg="out")
    left.event("Ended")
    (tmp_path / "other").mkdir()
    stranger = agents(settings=secure | {"tls": certificate(tmp_path / "other")})
    stranger.tell("dial", leg="no", uri=f"sip:5@127.0.0.1:{left.tls_port};transport=tls")
    assert stranger.event("Ended", leg="no")["code"] in (502, 503)


def test_tls_without_a_certificate_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="goes with sip"):
        SipSettings(transports=("udp", "tls"))
    with pytest.raises(ValueError, match="srtp 'yes' must be one of"):
        SipSettings(srtp="yes")
