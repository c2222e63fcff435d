# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory side of the store, without Redis."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.state.calls import CallBook
from gateway.state.connect import is_local, make_client, place
from gateway.state.errors import StateUnavailable
from gateway.state.terms import TermBook, Terms, call_scope, encode

pytestmark = pytest.mark.unit


@given(st.lists(st.tuples(st.sampled_from(["put", "end", "write", "fail"]), st.sampled_from("abc"), st.integers())))
def test_k04_what_was_written_ends_up_equal_to_what_lives(steps: list[tuple[str, str, int]]) -> None:
    book, written = CallBook(), dict[str, str]()
    for verb, call_id, value in [*steps, *[("write", "", 0)] * 3]:
        if verb == "put":
            book.put(call_id, {"n": value})
        elif verb == "end":
            book.end(call_id)
        else:
            batch = book.take(2)
            if verb == "fail":
                book.mark(batch)
                continue
            for key, text in batch.items():
                if text is None:
                    written.pop(key, None)
                else:
                    written[key] = text
    assert written == book.live()


def test_outbox_is_bounded_and_counts() -> None:
    book = CallBook(most_changed=2)
    for call_id in ("a", "b", "b", "c"):
        book.put(call_id, {})
    assert book.statistics() == {"live": 3, "waiting": 2, "merged": 1, "dropped": 1}
    assert list(book.take(9)) == ["b", "c"]


@pytest.mark.parametrize("data", [{"x": object()}, {"x": math.nan}, {"x": "y" * 70_000}])
def test_call_state_is_json_of_bounded_size(data: dict[str, Any]) -> None:
    book = CallBook()
    with pytest.raises((TypeError, ValueError)):
        book.put("a", data)
    assert book.live() == {}


def test_terms_size_is_bounded() -> None:
    with pytest.raises(ValueError, match="4194304 bytes"):
        encode({"x": "é" * 2_400_000})


def test_terms_snapshot_is_immutable() -> None:
    terms = Terms(1, encode({"hotwords": ["a"]}))
    terms.data["hotwords"].append("b")
    assert terms.data == {"hotwords": ["a"]}


def test_listeners_hear_new_content_only() -> None:
    book, heard = TermBook(), list[tuple[str, int]]()
    book.listen(lambda scope, terms: heard.append((scope, terms.version)))
    assert book.hold("all") == Terms(0)
    book.swap("all", Terms(1, '{"a":1}'))
    book.swap("all", Terms(1, '{"a":1}'))
    book.swap("all", Terms(9, '{"a":1}'))  # counted anew after a flush
    book.swap("all", Terms(1, '{"a":2}'))
    assert heard == [("all", 1), ("all", 1)]
    assert book.hold("all").version == 1
    assert call_scope("x") == "call:x"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("unix:///run/redis.sock", True),
        ("redis://127.0.0.9:1/0", True),
        ("redis://[::1]", True),
        ("redis://localhost", True),
        ("redis://192.0.2.1", False),
        ("rediss://redis:6379", False),
        ("redis://localhost.example", False),
    ],
)
def test_password_is_demanded_off_this_machine(url: str, local: bool) -> None:
    assert is_local(url) is local
    if local:
        make_client(url, None, 0.5)
    else:
        with pytest.raises(StateUnavailable, match="GATEWAY__REDIS__PASSWORD_FILE"):
            make_client(url, None, 0.5)
        make_client(url, "secret", 0.5)
        make_client(url.replace("://", "://user:secret@"), None, 0.5)


def test_messages_name_the_place_and_no_password() -> None:
    assert place("redis://user:secret@192.0.2.1/0") == "192.0.2.1:6379"
    assert place("unix:///run/x?password=secret") == "/run/x"


@pytest.mark.parametrize("url", ["http://h", "redis://127.0.0.1:port", "redis://127.0.0.1:1?db=x"])
def test_unusable_url_is_told_in_words(url: str) -> None:
    with pytest.raises(StateUnavailable, match=r"redis\.url"):
        make_client(url, "x", 0.5)
