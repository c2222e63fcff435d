# SPDX-License-Identifier: GPL-3.0-or-later
"""Key presses on the wire, by RFC 4733 and by INFO: through the menu into a call, and for the interpreter in a call.

Prompts are tones whose pitch tells the language, so that a test hears who is spoken to, and in which one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from g711 import peak_hz, talk
from sip_harness import Exchange, open_exchange, until
from sip_peer import Peer, RtpSocket
from test_sip_digits import KEYS, press

from tests.sip.exchange import PROMPT_HZ

pytestmark = pytest.mark.sip

EVENTS = 101
NUMBER = "4815162342"
PIN = "9021045871"  # long enough that no stamp or id in a log holds it by chance


@pytest.fixture(scope="module")
def keyed(worker_rtp: Iterator[int]) -> Iterator[Exchange]:
    """A gateway that speaks, obeys keys, and passes on those that are not for it."""
    with open_exchange(next(worker_rtp), prompts=True, controls="ab", pass_digits=True) as one:
        yield one


def hears(rtp: RtpSocket, language: str) -> bool:
    """Whether the last fifth of a second is a prompt in a language."""
    sound = rtp.sound(0.2)
    return sound.size > 0 and np.abs(sound).max() > 1000 and abs(peak_hz(sound)[0] - PROMPT_HZ[language]) < 10


def info(peer: Peer, key: str) -> None:
    peer.request("INFO", f"Signal={key}\r\nDuration=160\r\n", "Content-Type: application/dtmf-relay\r\n")
    assert peer.final("INFO").code == 200


def nothing_told(exchange: Exchange, keys: str) -> bool:
    """Whether the keys are in no log line of any level and in no event."""
    return keys not in "".join(exchange.agent.errors) and keys not in str(exchange.agent.lines)


def test_a2_k07_through_the_menu_into_a_call(keyed: Exchange) -> None:
    with Peer(keyed.agent.port, number="7000") as a:
        start = keyed.position()
        assert a.invite().code == 200
        assert until(lambda: hears(a.rtp, "en")) and until(lambda: hears(a.rtp, "pt")), "each language offers itself"
        press(a, "2", EVENTS)
        assert until(lambda: hears(a.rtp, "pt"))
        press(a, NUMBER + "#", EVENTS)
        assert until(lambda: hears(a.rtp, "pt"))
        assert keyed.callee.receive(0.3) is None, "nobody is rung before the number is confirmed"
        info(a, "1")
        keyed.callee.accept()
        keyed.agent.event("call-phase", start=start, phase="bridged")
        a.bye()
        keyed.callee.next("BYE")
        ended = keyed.agent.event("call-ended", start=start)
        assert (ended["reason"], ended["languages"]) == ("caller-hung-up", ["pt", "en"])
        assert nothing_told(keyed, NUMBER)


def test_a2_toll_fraud_a_number_that_no_rule_allows_is_never_dialled(keyed: Exchange) -> None:
    with Peer(keyed.agent.port, number="7000") as a:
        start = keyed.position()
        a.invite()
        press(a, "1" + "0019005551234#", EVENTS)
        press(a, "7001#", EVENTS)  # a route of the plan, but not of the menu
        press(a, "911#", EVENTS)
        assert a.wait_bye(8) is not None, "three such numbers are enough"
        assert keyed.callee.receive(0.1) is None and keyed.third.receive(0.1) is None
        assert keyed.agent.event("call-ended", start=start)["reason"] == "no-choice"


def test_a6_keys_that_are_no_controls_go_on_as_events(keyed: Exchange) -> None:
    with Peer(keyed.agent.port, number="7001") as a:
        b, start = keyed.callee, keyed.position()
        a.invite()
        b.event_payload = EVENTS
        b.accept()
        keyed.agent.event("call-phase", start=start, phase="bridged")
        before = len(b.rtp.received)
        press(a, "5*9*08", EVENTS)

        def passed() -> str:
            events = [packet for packet in b.rtp.received[before:] if packet.payload_type == EVENTS]
            stamps = dict.fromkeys((packet.timestamp, packet.payload[0]) for packet in events)
            return "".join(KEYS[code] for _, code in stamps)

        assert until(lambda: len(passed()) >= 4)
        assert passed() == "5*98", "the help was asked of the gateway"
        b.event_payload = None
        a.bye()
        b.next("BYE")


def test_a6_k07_controls_answer_the_presser_alone_and_other_keys_go_on(keyed: Exchange) -> None:
    with Peer(keyed.agent.port, number="7001") as a:
        b, start = keyed.callee, keyed.position()
        a.invite()
        b.accept()
        keyed.agent.event("call-phase", start=start, phase="bridged")
        press(a, "*0", EVENTS)
        assert keyed.agent.event("control", start=start)["control"] == "help"
        assert until(lambda: hears(a.rtp, "en"))
        assert np.abs(b.rtp.sound(0.5)).max() < 100, "the other party hears nothing of it"
        press(a, PIN, EVENTS)
        press(a, "*1", EVENTS)
        assert keyed.agent.event("control", start=start, control="pause")["on"]
        a.rtp.stream(a.remote_rtp, talk(10))
        threading.Event().wait(0.8)
        a.rtp.stream(a.remote_rtp, b"\xff" * 1600)
        threading.Event().wait(0.8)
        assert not [line for line in keyed.agent.lines[start:] if line.get("event") in ("heard", "utterance", "lost")]
        start = keyed.position()
        info(a, "*")
        info(a, "1")
        assert not keyed.agent.event("control", start=start, control="pause")["on"]
        a.rtp.stream(a.remote_rtp, talk(10))
        threading.Event().wait(0.8)
        a.rtp.stream(a.remote_rtp, b"\xff" * 1600)
        assert keyed.agent.event("utterance", 8, start, leg="a")["lost"] is None
        a.bye()
        b.next("BYE")
        assert keyed.agent.event("call-ended", start=start)["controls"] == {"help": 1, "pause": 2}
        assert nothing_told(keyed, PIN)
