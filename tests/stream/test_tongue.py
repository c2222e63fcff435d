# SPDX-License-Identifier: GPL-3.0-or-later
"""B3: identified from the first speech, changed only after agreeing utterances and a cool-down."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stream.tongue import LEAST_MS, SURE, Evidence, Tongue, TongueRules, heard_in

pytestmark = pytest.mark.unit

S = 1_000_000_000
RULES = TongueRules(agree=2, cooldown_ns=15 * S)


def after(*said: tuple[int, str, float, int], candidates: tuple[str, ...] = ("en", "pt")) -> Tongue:
    """(second, language, share, ms) each, the rest of the share to the next candidate."""
    tongue = Tongue(candidates, candidates[0])
    for at_s, language, share, ms in said:
        other = next(one for one in candidates if one != language)
        tongue = heard_in(tongue, Evidence({language: share, other: 1 - share}, ms), RULES, at_s * S)
    return tongue


@pytest.mark.parametrize(
    ("said", "language", "known"),
    [
        ((), "en", False),
        (((1, "pt", 0.97, 1500),), "pt", True),
        (((1, "pt", 0.55, 1500),), "en", False),  # not clear enough
        (((1, "pt", 0.99, 300),), "en", False),  # "sim" tells nothing
        (((1, "pt", 0.55, 1500), (5, "pt", 0.9, 1500)), "pt", True),
    ],
)
def test_b3_the_first_clear_utterance_decides(
    said: tuple[tuple[int, str, float, int], ...], language: str, known: bool
) -> None:
    tongue = after(*said)
    assert (tongue.language, tongue.known) == (language, known)


EN = (1, "en", 0.95, 2000)


@pytest.mark.parametrize(
    ("said", "language"),
    [
        (((20, "pt", 0.95, 2000),), "en"),  # one foreign sentence
        (((20, "pt", 0.95, 2000), (24, "pt", 0.95, 2000)), "pt"),
        (((20, "pt", 0.95, 2000), (24, "en", 0.95, 2000), (28, "pt", 0.95, 2000)), "en"),  # they do not agree
        (((20, "pt", 0.95, 2000), (24, "en", 0.7, 2000), (28, "pt", 0.95, 2000)), "pt"),  # unsure is no evidence
        (((20, "pt", 0.95, 2000), (24, "en", 0.95, 400), (28, "pt", 0.95, 2000)), "pt"),  # nor is short
        (((20, "pt", 0.79, 2000), (24, "pt", 0.79, 2000)), "en"),
        (((4, "pt", 0.95, 2000), (8, "pt", 0.95, 2000)), "pt"),  # a wrong first decision is soon corrected
        (
            ((20, "pt", 0.95, 900), (24, "pt", 0.95, 900), (30, "en", 0.95, 900), (34, "en", 0.95, 900)),
            "pt",
        ),  # too soon
        (((20, "pt", 0.95, 900), (24, "pt", 0.95, 900), (30, "en", 0.95, 900), (39, "en", 0.95, 900)), "en"),
    ],
)
def test_b3_a_known_language_changes_slowly(said: tuple[tuple[int, str, float, int], ...], language: str) -> None:
    assert after(EN, *said).language == language


def test_b3_two_utterances_in_two_other_languages_do_not_agree() -> None:
    assert after(EN, (20, "pt", 0.9, 2000), (24, "es", 0.9, 2000), candidates=("en", "pt", "es")).language == "en"


def test_b3_what_is_no_candidate_is_never_chosen() -> None:
    tongue = heard_in(Tongue(("en", "pt"), "en"), Evidence({"la": 0.9, "pt": 0.1}, 2000), RULES, S)
    assert not tongue.known and tongue.language == "en"


evidence = st.tuples(st.integers(0, 20), st.sampled_from(["en", "pt", "es"]), st.floats(0, 1), st.integers(0, 4000))


@given(st.lists(evidence, max_size=30), st.integers(1, 4), st.integers(0, 30))
def test_b3_no_sequence_breaks_the_rules(said: list[tuple[int, str, float, int]], agree: int, cooldown_s: int) -> None:
    rules = TongueRules(agree, cooldown_s * S)
    tongue = Tongue(("en", "pt", "es"), "en")
    now_s = 0
    changes: list[int] = []
    sure: list[str] = []
    for step_s, language, share, ms in said:
        now_s += step_s
        rest = {one: (1 - share) / 2 for one in tongue.candidates if one != language}
        was_known, before = tongue.known, tongue.language
        tongue = heard_in(tongue, Evidence({language: share, **rest}, ms), rules, now_s * S)
        best = max({language: share, **rest}.items(), key=lambda item: item[1])
        if was_known and best[1] >= SURE and ms >= LEAST_MS:
            sure.append(best[0])
        assert tongue.language in tongue.candidates
        assert tongue.known or not was_known, "what is known stays known"
        if was_known and tongue.language != before:
            changes.append(now_s)
            assert sure[-agree:] == [tongue.language] * agree
            sure.clear()
    assert all(later - earlier >= cooldown_s for earlier, later in pairwise(changes))
