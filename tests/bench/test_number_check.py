# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of random numbers: it passes with a translator that copies, and notices one that does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.bench import number_check
from gateway.bench.number_check import check_numbers

pytestmark = pytest.mark.unit


def copying(texts: Sequence[str], source: str, target: str) -> Sequence[str]:
    return texts


def test_b9_no_number_of_six_languages_changes() -> None:
    checked, wrong = check_numbers(400, 7, copying, pairs=())
    assert (checked, wrong) == (400, [])


def test_a_number_that_changes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_check, "reading", lambda text, language: text.replace("7", "8"))
    _, wrong = check_numbers(60, 7, copying, pairs=())
    assert wrong and wrong[0].route in {"de", "en", "es", "fr", "pt", "zh"}


def test_the_same_seed_gives_the_same_numbers() -> None:
    asked: list[list[str]] = [[], []]
    for log in asked:
        check_numbers(20, 3, lambda texts, source, target, log=log: log.extend(texts) or texts)  # type: ignore[misc]
    assert asked[0] == asked[1] and asked[0]
