# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped lists of terms, and how they are judged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import count, permutations

import pytest

from gateway.bench.terms_bench import TermInContext, _direction, lexicon_of, local_translator, shipped_terms
from gateway.settings import load_settings
from gateway.speech.engines.routers import RoutedTranslator
from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Translation
from gateway.speech.protocols import TranslatorCapabilities

TERMS = shipped_terms()


class Stubborn:
    """Renders each word by one never seen before, but for those that it keeps."""

    capabilities = TranslatorCapabilities(frozenset({("en", "pt")}), target_prefix=False, batch=False)

    def __init__(self, *kept: str) -> None:
        self.kept = kept
        self.numbers = count()

    def translate(self, texts: Sequence[str], *, source: str, target: str, register: str = "") -> Translation:
        return Translation(tuple(" ".join(map(self._word, text.split())) for text in texts), (source, target))

    def _word(self, word: str) -> str:
        return word if word in self.kept else "".join(chr(97 + int(digit)) * 3 for digit in str(next(self.numbers)))


@pytest.mark.unit
def test_the_shipped_lists_say_each_term_in_each_language() -> None:
    assert len(TERMS) >= 200
    assert len({one.domain for one in TERMS}) >= 5
    languages = sorted(TERMS[0].term)
    for language in languages:
        others = [one for one in languages if one != language]
        counts = Counter(one.term[language].casefold() for one in TERMS)
        assert [term for term, number in counts.items() if number > 1] == []
        finder = lexicon_of(TERMS, language, others[0]).terms
        silent = [
            one.term[language]
            for one in TERMS
            if one.term[language].casefold() not in {hit.found.casefold() for hit in finder.find(one.said[language])}
        ]
        assert silent == []


@pytest.mark.unit
def test_b8_a_term_is_judged_by_the_output_itself() -> None:
    terms = [
        TermInContext("x", {"en": "dose", "pt": "toma"}, {"en": "one dose", "pt": "uma toma"}),
        TermInContext("x", {"en": "copayment", "pt": "taxa moderadora"}, {"en": "the copayment", "pt": "a taxa"}),
    ]
    router = RoutedTranslator([Stubborn("toma")])
    found = asyncio.run(_direction(terms, router, "en", "pt"))
    assert (found["hits"], found["repairs"], found["misses"]) == (0, 1, 1)
    assert [one["term"] for one in found["missed"]] == ["copayment"]


@pytest.mark.model
@pytest.mark.parametrize("pair", list(permutations(sorted(TERMS[0].term), 2)), ids="-".join)
def test_b8_terms_come_through_the_real_translators(pair: tuple[str, str]) -> None:
    try:
        translator = local_translator(load_settings(None, {}))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    found = asyncio.run(_direction(TERMS[::5], translator, *pair))
    assert found["missed"] == []
    assert found["hits"] + found["repairs"] == len(TERMS[::5])
