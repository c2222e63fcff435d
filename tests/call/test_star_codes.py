# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys during a call: which ones speak to the interpreter (SPEC A6)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.call.star_codes import AFTER_STAR_NS, CONTROLS, Asked, Control, Heard, NotOurs, StarCodes

pytestmark = pytest.mark.unit

SECOND = 1_000_000_000


def typed(keys: str, apart_ns: int = SECOND // 4) -> list[Heard]:
    """What keys mean, and what is left when the time is over."""
    codes = StarCodes()
    heard = [one for n, key in enumerate(keys) for one in codes.feed(key, n * apart_ns)]
    return [*heard, *codes.expire(len(keys) * apart_ns + AFTER_STAR_NS)]


@pytest.mark.parametrize(
    ("keys", "meaning"),
    [
        ("*0", [Asked(Control.HELP)]),
        ("*1", [Asked(Control.PAUSE)]),
        ("*2", [Asked(Control.REPEAT)]),
        ("*3", [Asked(Control.ORIGINAL)]),
        ("*4", [Asked(Control.TEMPO)]),
        ("*5", [Asked(Control.SWAP)]),
        ("*6", [Asked(Control.SAFETY)]),
        ("*1*1", [Asked(Control.PAUSE), Asked(Control.PAUSE)]),
        ("1", [NotOurs("1")]),
        ("#", [NotOurs("#")]),
        ("*", [NotOurs("*")]),
        ("**1", [NotOurs("*"), Asked(Control.PAUSE)]),
        ("*9", [NotOurs("*9", starred=True)]),
        ("*#", [NotOurs("*#", starred=True)]),
        ("1*1", [NotOurs("1"), Asked(Control.PAUSE)]),
        ("*11", [Asked(Control.PAUSE), NotOurs("1")]),
    ],
)
def test_a6_what_keys_mean(keys: str, meaning: list[Heard]) -> None:
    assert typed(keys) == meaning


def test_a6_a_star_is_forgotten_in_time_and_the_next_key_is_not_a_control() -> None:
    codes = StarCodes()
    assert codes.feed("*", 0) == ()
    assert codes.expire(AFTER_STAR_NS - 1) == ()
    assert codes.feed("1", AFTER_STAR_NS) == (NotOurs("*"), NotOurs("1"))


@settings(max_examples=200, deadline=None)
@given(st.text("0123456789*#ABCD", max_size=20), st.integers(0, 2 * AFTER_STAR_NS))
def test_a6_no_key_is_lost_doubled_or_moved(keys: str, apart_ns: int) -> None:
    by_control = {control: f"*{key}" for key, control in CONTROLS.items()}
    given_out = [one.keys if isinstance(one, NotOurs) else by_control[one.control] for one in typed(keys, apart_ns)]
    assert "".join(given_out) == keys
