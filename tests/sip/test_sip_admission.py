# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is let in: passwords, paces and caps, on the wire and as rules (A21, A22, L03)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sip_harness import AgentProcess, until
from sip_peer import Peer

from gateway.sip.access import Admission, Trunk
from gateway.sip.admission import GUESSES_BURST, MAX_SOURCES, Admissions, Pace, Refusal
from gateway.sip.digest import NONCE_LIFE_NS, Doorman, Login, Verdict, digest_fields, digest_response

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]
LOGIN = Login("carol", "s3cret")
S = 1_000_000_000


def gate(*trunks: Trunk, burst: int = 3) -> Admissions:
    return Admissions(trunks, allow_loopback=False, calls_per_s=1, burst=burst, realm="here", secret=b"x")


def invite(authorization: str = "") -> str:
    line = f"Authorization: {authorization}\r\n" if authorization else ""
    return f"INVITE sip:1@gw SIP/2.0\r\nFrom: <sip:a@b>\r\n{line}\r\n"


def reason(verdict: Admission | Refusal) -> str:
    return verdict.reason if isinstance(verdict, Refusal) else "in"


def answer(challenge: str, password: str = LOGIN.password) -> str:
    fields = digest_fields(challenge) | {"uri": "sip:1@gw", "nc": "00000001", "cnonce": "c", "username": LOGIN.user}
    response = digest_response(Login(LOGIN.user, password), "here", "INVITE", fields)
    return (
        f'Digest username="{LOGIN.user}", realm="here", nonce="{fields["nonce"]}", uri="sip:1@gw", '
        f'response="{response}", qop=auth, nc=00000001, cnonce="c"'
    )


def test_rfc_2617_section_3_5_example() -> None:
    fields = {
        "uri": "/dir/index.html",
        "nonce": "dcd98b7102dd2f0e8b11d0f600bfb0c093",
        "nc": "00000001",
        "cnonce": "0a4f113b",
    }
    login = Login("Mufasa", "Circle Of Life")
    assert digest_response(login, "testrealm@host.com", "GET", fields) == "6629fae49393a05397450978507c4ef1"


def test_a_nonce_is_good_once_for_its_source_and_for_a_minute() -> None:
    doorman = Doorman("here", b"secret")
    value = answer(doorman.challenge("192.0.2.1", 5 * S))
    assert doorman.judge(value, "INVITE", LOGIN, "192.0.2.2", 6 * S) is Verdict.STALE
    assert doorman.judge(value, "INVITE", LOGIN, "192.0.2.1", 4 * S) is Verdict.STALE
    assert doorman.judge(value, "INVITE", LOGIN, "192.0.2.1", 6 * S + NONCE_LIFE_NS) is Verdict.STALE
    assert doorman.judge(value, "BYE", LOGIN, "192.0.2.1", 6 * S) is Verdict.BAD
    assert doorman.judge(value, "INVITE", LOGIN, "192.0.2.1", 6 * S) is Verdict.GOOD
    assert doorman.judge(value, "INVITE", LOGIN, "192.0.2.1", 6 * S) is Verdict.STALE, "a recorded answer is good again"
    forged = answer(Doorman("here", b"other").challenge("192.0.2.1", 5 * S))
    assert doorman.judge(forged, "INVITE", LOGIN, "192.0.2.1", 6 * S) is Verdict.STALE


@pytest.mark.parametrize(
    "value", ["", "Basic abc", "Digest", 'Digest response=""', "Digest \0", 'Digest nonce="-"', "D" * 9999]
)
def test_credentials_that_are_none(value: str) -> None:
    assert Doorman("here", b"s").judge(value, "INVITE", LOGIN, "192.0.2.1", 0) is Verdict.BAD


def test_a21_attempts_are_counted_by_source_and_never_against_a_trusted_trunk() -> None:
    one = gate(Trunk("open", ("192.0.2.0/24",)), Trunk("friend", ("198.51.100.1",), trusted=True))
    assert [reason(one.judge("192.0.2.1", invite(), {}, 0)) for _ in range(5)] == ["in"] * 3 + ["too-many-attempts"] * 2
    assert reason(one.judge("192.0.2.2", invite(), {}, 0)) == "in"
    assert reason(one.judge("192.0.2.1", invite(), {}, 1 * S)) == "in"
    assert {reason(one.judge("198.51.100.1", invite(), {}, 0)) for _ in range(50)} == {"in"}


def test_a22_a_stranger_is_told_the_same_whatever_it_tries() -> None:
    one = gate(Trunk("open", ("192.0.2.0/24",)))
    tries = [one.judge("203.0.113.9", invite(value), {}, 0) for value in ("", answer('Digest nonce="1"')) * 20]
    assert tries == [Refusal("not-in-access-list", 403)] * 40


def test_l03_ten_calls_with_the_right_password_are_let_in_whatever_others_send() -> None:
    one = gate(Trunk("carrier", ("192.0.2.0/24",), login=LOGIN))
    for now in range(10):
        asked = one.judge("192.0.2.1", invite(), {}, now)
        assert isinstance(asked, Refusal) and asked.code == 401
        wrong = one.judge("192.0.2.1", invite(answer(asked.headers["WWW-Authenticate"], "guess")), {}, now)
        assert isinstance(wrong, Refusal) and wrong.reason in ("wrong-password", "too-many-attempts")
        assert reason(one.judge("192.0.2.1", invite(answer(asked.headers["WWW-Authenticate"])), {}, now)) == "in"


def test_a_trunk_at_its_cap_is_busy() -> None:
    one = gate(Trunk("carrier", ("192.0.2.0/24",), trusted=True, max_calls=2))
    assert reason(one.judge("192.0.2.1", invite(), {"carrier": 1}, 0)) == "in"
    assert one.judge("192.0.2.1", invite(), {"carrier": 2}, 0) == Refusal("trunk-full", 486, {"Retry-After": "10"})


def test_sources_are_bounded() -> None:
    pace = Pace(1, 1)
    assert all(pace.allows(str(number), number) for number in range(MAX_SOURCES + 100))
    assert not pace.allows(str(MAX_SOURCES + 99), MAX_SOURCES + 99)
    assert pace.allows("0", MAX_SOURCES + 99), "the oldest source was to be forgotten"


def test_l03_a21_a22_on_the_wire(agents: Agents) -> None:
    trunks = [
        {"name": "secret", "networks": ["127.0.0.2"], "login": ["carol", "s3cret"], "max_calls": 1},
        {"name": "open", "networks": ["127.0.0.3"]},
    ]
    agent = agents(
        auto_answer=True,
        settings={
            "allow_loopback": False,
            "trunks": trunks,
            "bind_address": "0.0.0.0",
            "calls_burst": 2,
            "calls_per_s": 0.1,
        },
    )
    uri = f"sip:4711@127.0.0.1:{agent.port}"
    for _ in range(20):
        with Peer(agent.port, ip="127.0.0.9") as stranger:
            assert stranger.invite().code == 403
    for guess in range(GUESSES_BURST + 1):
        with Peer(agent.port, ip="127.0.0.2", user="carol") as wrong:
            told = wrong.with_digest("INVITE", uri, "guess", wrong.sdp()).code
            assert told == (401 if guess < GUESSES_BURST else 503)
    for _ in range(4):
        with (
            Peer(agent.port, ip="127.0.0.2", user="carol") as carol,
            Peer(agent.port, ip="127.0.0.2", user="carol") as more,
        ):
            good = carol.with_digest("INVITE", uri, "s3cret", carol.sdp())
            assert good.code == 200
            carol.answer, carol.to = good, good.headers["to"]
            carol.request("ACK", cseq=carol.cseq)
            full = more.with_digest("INVITE", uri, "s3cret", more.sdp())
            assert (full.code, full.headers["retry-after"]) == (486, "10")
            assert carol.bye().code == 200
            assert until(lambda: agent.statistics()["legs"] == 0)
    codes = []
    for _ in range(3):
        with Peer(agent.port, ip="127.0.0.3") as caller:
            codes.append(caller.invite().code)
            if codes[-1] == 200:
                caller.bye()
    assert codes == [200, 200, 503]
    reasons = [line for line in agent.errors if "call_refused" in line]
    assert all(
        any(word in line for line in reasons) for word in ("not-in-access-list", "trunk-full", "too-many-attempts")
    )
    assert not [line for line in agent.errors if "s3cret" in line or "guess" in line]
