# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens, rate cap, journal, signatures, addresses: the parts of the API that need no socket."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import re
import stat
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from gateway.api.dictionaries import merged, plain_terms
from gateway.api.journal import Journal
from gateway.api.limits import MOST_ASKERS, RateCap
from gateway.api.outbound import is_public
from gateway.api.problems import KINDS, Problem
from gateway.api.server import ApiError, hooks
from gateway.api.signing import signed_headers, signing_key
from gateway.api.tokens import LOOK_EVERY_NS, ROLES, Permission, TokenBook, TokenError, TokenFile
from gateway.call.events import CallEvent
from gateway.call.glossary_document import read_document
from gateway.settings import load_settings

pytestmark = pytest.mark.unit

NOW = "2026-06-01T00:00:00+00:00"


class Clock:
    def __init__(self) -> None:
        self.ns = 0
        self.utc = NOW

    def book(self, path: Path) -> TokenBook:
        return TokenBook(path, clock=lambda: self.ns, utc=lambda: self.utc)


# --- tokens


def test_only_a_hash_of_a_token_is_kept_in_a_private_file(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "state" / "tokens.json")
    record, token = file.create("console", "operator", created=NOW)
    text = file.path.read_text()
    assert token not in text and token.split("_", 2)[2] not in text
    assert hashlib.sha256(token.encode()).hexdigest() in text
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.read() == (record,)


def test_a_revoked_token_is_dead_within_a_second(tmp_path: Path) -> None:
    clock, file = Clock(), TokenFile(tmp_path / "tokens.json")
    book = clock.book(file.path)
    assert book.check("gw_00000000_" + "x" * 43) is None
    _, token = file.create("console", "operator", created=NOW)
    clock.ns += LOOK_EVERY_NS
    known = book.check(token)
    assert known is not None and (known.name, known.role) == ("console", "operator")
    file.revoke("console")
    clock.ns += LOOK_EVERY_NS
    assert book.check(token) is None
    assert not book.still(known)


@pytest.mark.parametrize(
    "spoiled", ["", "{", "[]", '{"tokens": 3}', '{"tokens": [{"id": "x"}]}', '{"tokens": [{"role": "god"}]}']
)
def test_a_spoiled_file_lets_nobody_in(tmp_path: Path, spoiled: str) -> None:
    clock, file = Clock(), TokenFile(tmp_path / "tokens.json")
    _, token = file.create("console", "admin", created=NOW)
    book = clock.book(file.path)
    assert book.check(token) is not None
    file.path.write_text(spoiled)
    clock.ns += LOOK_EVERY_NS
    assert book.check(token) is None
    with pytest.raises(TokenError, match="cannot be read"):
        file.read()


def test_a_token_expires(tmp_path: Path) -> None:
    clock, file = Clock(), TokenFile(tmp_path / "tokens.json")
    _, token = file.create("guest", "viewer", created=NOW, expires="2026-06-02T00:00:00+00:00")
    book = clock.book(file.path)
    known = book.check(token)
    assert known is not None
    clock.utc = "2026-06-02T00:00:00+00:00"
    assert book.check(token) is None and not book.still(known)


@given(st.text(max_size=70))
@effort(max_examples=50)
def test_no_other_text_is_a_token(text: str) -> None:
    book = Clock().book(Path("/nonexistent/tokens.json"))
    token = book.issue_local()
    assert book.check(token) is not None
    assert book.check(text) is None
    assert book.check(token[:-1]) is None and book.check(token + "A") is None and book.check(token.upper()) is None


def test_names_roles_and_revocations_that_make_no_sense_are_told(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    with pytest.raises(TokenError, match="choose one of"):
        file.create("x", "god", created=NOW)
    with pytest.raises(TokenError, match="name"):
        file.create("x\n", "viewer", created=NOW)
    with pytest.raises(TokenError, match="there is no token"):
        file.revoke("x")
    for _ in range(2):
        file.create("twin", "viewer", created=NOW)
    with pytest.raises(TokenError, match="2 tokens"):
        file.revoke("twin")


def test_each_role_contains_the_one_before_and_only_admin_calls_anywhere() -> None:
    ordered = [ROLES[role] for role in ("monitor", "viewer", "auditor", "operator", "admin")]
    assert all(small < large for small, large in pairwise(ordered))
    assert [role for role, allowed in ROLES.items() if Permission.ANYWHERE in allowed] == ["admin"]
    assert Permission.WORDS not in ROLES["viewer"]


# --- rate cap


@given(st.lists(st.integers(0, 400_000_000), min_size=1, max_size=200))
@effort(max_examples=50)
def test_no_rhythm_of_requests_exceeds_the_rate(gaps_ns: list[int]) -> None:
    cap, now_ns, passed = RateCap(5), 0, 0
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        wait_s = cap.wait_s("x", now_ns)
        if wait_s:
            assert cap.wait_s("x", now_ns + round(wait_s * 1e9) + 1000) == 0
            now_ns += round(wait_s * 1e9) + 1000
        passed += 1
    assert passed <= 10 + now_ns / 1e9 * 5 + 1


def test_the_cap_remembers_a_bounded_number_of_askers() -> None:
    cap = RateCap(1)
    for number in range(3 * MOST_ASKERS):
        assert cap.wait_s(f"address {number}", 0) == 0
    assert len(cap._buckets) == MOST_ASKERS


# --- journal


def told(journal: Journal, call: str, count: int) -> None:
    for _ in range(count):
        journal.add(CallEvent("preview", call, 1, {"text": "x"}))


def test_the_journal_goes_on_where_a_listener_was_and_tells_what_it_missed() -> None:
    journal = Journal(most_events=10, wall=lambda: 7.0)
    told(journal, "c", 8)
    page = journal.since("c", 5)
    assert ([event["id"] for event in page.events], page.missed, page.over) == ([6, 7, 8], 0, False)
    told(journal, "c", 10)
    page = journal.since("c", 5)
    assert ([event["id"] for event in page.events], page.missed) == (list(range(9, 19)), 3)
    assert journal.since("c", 99).events == [], "a number of another life"
    assert journal.statistics() == {"calls": 1, "events": 10, "dropped": 8}


def test_the_journal_says_over_only_behind_the_last_event() -> None:
    journal = Journal()
    told(journal, "c", 3)
    journal.add(CallEvent("call-ended", "c", 1))
    assert not journal.since("c", 0, most=2).over
    assert journal.since("c", 2).over
    assert journal.since("c", 4).over


def test_ended_calls_are_forgotten_and_live_ones_are_not() -> None:
    journal = Journal(most_ended=2)
    told(journal, "live", 1)
    for name in ("x", "y", "z"):
        journal.add(CallEvent("call-ended", name, 1))
    assert [journal.holds(name) for name in ("live", "x", "y", "z")] == [True, False, True, True]


def test_whoever_waits_is_woken_by_the_next_event() -> None:
    async def work() -> None:
        journal = Journal()
        told(journal, "c", 1)
        waiting = asyncio.create_task(journal.wait("c", 1, 30))
        await asyncio.sleep(0)
        assert not waiting.done()
        told(journal, "c", 1)
        await asyncio.wait_for(waiting, 1)
        await asyncio.wait_for(journal.wait("c", 2, 0.01), 1)

    asyncio.run(work())


# --- signatures


def test_a_webhook_for_an_event_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    hook = {"url": "https://crm.example/calls", "secret": "x" * 24}
    for kind, remedy in (("call-end", "did you mean call-ended?"), ("?", "utterance")):
        config.write_text(yaml.safe_dump({"api": {"webhooks": [{**hook, "events": [kind]}]}}))
        with pytest.raises(ApiError, match=re.escape(remedy)):
            hooks(load_settings(config, {}))


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's reference libraries."""
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 2**33))
@effort(max_examples=30)
def test_a_changed_body_time_or_id_has_another_signature(body: bytes, other: bytes, at_s: int) -> None:
    def made(message_id: str, at: int, content: bytes) -> str:
        return signed_headers(b"k" * 32, message_id, at, content)["webhook-signature"]

    mine = made("id", at_s, body)
    expected = hmac.digest(b"k" * 32, f"id.{at_s}.".encode() + body, "sha256")
    assert mine == "v1," + base64.b64encode(expected).decode()
    assert mine != made("id2", at_s, body) and mine != made("id", at_s + 1, body)
    assert (mine == made("id", at_s, other)) == (body == other)


def test_a_secret_that_claims_to_be_base64_must_be() -> None:
    with pytest.raises(ValueError, match="base64"):
        signing_key("whsec_!!!")


# --- addresses


INNER = [
    "127.0.0.1",
    "127.9.9.9",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "0.0.0.0",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.2.1",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2001:db8::1",
    "2002:a9fe:a9fe::1",
]


@pytest.mark.parametrize("address", INNER)
def test_ssrf_no_inner_address_is_public_however_it_is_wrapped(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_ssrf_public_addresses_are(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


# --- problems and dictionaries


def test_problems_have_unique_slugs_and_survive_the_way_between_gateways() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", slug) for slug in KINDS)
    for kind in KINDS.values():
        document = json.loads(json.dumps(Problem(kind, "why", {"reason": "x"}).as_json()))
        again = Problem.from_json(document)
        assert (again.kind, again.detail, again.more) == (kind, "why", {"reason": "x"})


def test_a_change_replaces_what_is_about_the_same_word_and_keeps_the_rest() -> None:
    present = {
        "hotwords": {"en": ["Acme"]},
        "terms": [
            {"from": "en", "to": "pt", "forms": ["invoice", "bill"], "target": "fatura"},
            {"from": "pt", "to": "en", "forms": ["fatura"], "target": "invoice"},
        ],
        "pronunciations": [{"language": "pt", "written": "Acme", "say": "Ácmi"}],
    }
    change = {
        "hotwords": {"en": ["Zeta", "Acme"], "pt": ["Braga"]},
        "terms": [{"from": "en", "to": "pt", "forms": "invoice", "target": "nota fiscal"}],
        "pronunciations": [{"language": "pt", "written": "Acme", "say": "Áquimi"}],
    }
    both = merged(present, change)
    assert both["hotwords"] == {"en": ["Zeta", "Acme"], "pt": ["Braga"]}
    assert [term["target"] for term in both["terms"]] == ["invoice", "nota fiscal"]
    assert [one["say"] for one in both["pronunciations"]] == ["Áquimi"]
    assert merged(both, change) == both
    read_document(both)


def test_s1_19_the_plain_form_takes_an_underscore_for_a_space() -> None:
    document = plain_terms({"myocardial_infarction": "infarto", "stroke": "AVC"}, "en", "pt")
    first, second = read_document(document).terms
    assert first.spellings() == ("myocardial infarction", "myocardial_infarction")
    assert second.spellings() == ("stroke",)
