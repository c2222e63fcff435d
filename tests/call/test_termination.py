# SPDX-License-Identifier: GPL-3.0-or-later
"""Endings are few, named in one place, and never a bare 400."""

from __future__ import annotations

import re

import pytest

from gateway.call import termination
from gateway.call.termination import Ending, Result, callee_failure

pytestmark = pytest.mark.unit

ENDINGS = [value for value in vars(termination).values() if isinstance(value, Ending)]


def test_there_are_five_results_and_all_are_used() -> None:
    assert len(Result) == 5
    assert {ending.result for ending in ENDINGS} == set(Result)


def test_reasons_are_kebab_case_and_unique() -> None:
    reasons = [ending.reason for ending in ENDINGS]
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", reason) for reason in reasons)
    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize("code", range(400, 700))
def test_a22_any_final_code_of_the_callee_has_a_meaning(code: int) -> None:
    ending = callee_failure(code)
    assert ending.result is Result.UNANSWERED
    assert 400 <= ending.sip_code < 700 and ending.sip_code not in (400, 487)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(486, "callee-busy"), (603, "callee-declined"), (404, "callee-unknown"), (503, "callee-unreachable")],
)
def test_the_usual_codes(code: int, reason: str) -> None:
    assert callee_failure(code).reason == reason


def test_refusals_that_pass_say_when_to_try_again() -> None:
    for ending in (termination.NO_FREE_LEG, termination.DRAINING, termination.NOT_READY):
        assert int(ending.sip_headers()["Retry-After"]) > 0
    assert "Retry-After" not in termination.UNKNOWN_NUMBER.sip_headers()
