# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.spelling_trie import SpellingTrie

pytestmark = pytest.mark.unit

words = st.text(alphabet="ab", min_size=1, max_size=6)


@settings(max_examples=200)
@given(st.lists(words, max_size=12), st.text(alphabet="abc", min_size=1, max_size=12), st.data())
def test_a_walk_finds_what_a_search_through_all_finds(spellings: list[str], text: str, data: st.DataObject) -> None:
    trie: SpellingTrie[int] = SpellingTrie()
    for number, spelling in enumerate(spellings):
        trie.add(spelling, number)
    at = data.draw(st.integers(0, len(text) - 1))
    expected = {
        at + len(one): [number for number, other in enumerate(spellings) if other == one]
        for one in spellings
        if text.startswith(one, at)
    }
    found = trie.longest_first(text, at)
    assert dict(found) == expected
    assert [end for end, _ in found] == sorted(expected, reverse=True)
