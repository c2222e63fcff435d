# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.27: what is makeshift is called so, in the call's own data and to both parties."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.call.fallback import Fallback, FallbackNotice, Fallbacks
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import MAKESHIFT, PromptBook
from tests.call.test_keys_in_a_call import listen

pytestmark = pytest.mark.unit

CAPABILITIES = {
    "routes": [("en", "pt"), ("pt", "en"), ("es", "en", "pt"), ("pt", "en", "es"), ("en", "uk"), ("uk", "en")],
    "borrowed": {"uk": "en"},
}


def test_a_detour_and_a_borrowed_voice_are_makeshifts_and_a_pair_of_its_own_is_none() -> None:
    known = Fallbacks(CAPABILITIES)
    assert known.of("en", "pt-BR") is None and known.of("pt", "pt") is None
    assert known.of("es", "pt-BR") == Fallback(via=("en",))
    assert known.of("en", "uk") == Fallback(voice_of="en")
    assert known.of("uk", "en") is None, "what is heard in one's own voice is as ever"
    assert Fallbacks().of("es", "pt") is None, "nothing is known before the models are loaded"


def test_both_are_told_once_for_each_pair_of_languages() -> None:
    async def work() -> None:
        languages = ("en", "pt", "es", "uk")
        clip = np.full(320, 3000, np.int16)
        book = PromptBook(
            {},
            {},
            rate_hz=LEG_RATE_HZ,
            cache=Path("/nonexistent"),
            recorded={(language, MAKESHIFT): clip for language in languages},
        )
        a, b = (
            Party(side, f"leg-{side}", language, lambda: None)
            for side, language in zip("ab", ("es", "pt"), strict=True)
        )
        told: list[tuple[str, dict[str, Any]]] = []
        notice = FallbackNotice((a, b), Fallbacks(CAPABILITIES), prompts=book, tell=lambda *one: told.append(one))
        for _ in range(3):
            notice.tick()
        assert [await listen(a), await listen(b)] == [[MAKESHIFT], [MAKESHIFT]]
        there = {"via": ["en"], "voice_of": None}
        assert told == [("fallback", {"a_to_b": there, "b_to_a": there})]
        a.language = "en"
        notice.tick()
        assert [await listen(a), await listen(b)] == [[], []] and notice.both() == {"a_to_b": None, "b_to_a": None}
        b.language = "uk"
        notice.tick()
        assert [await listen(a), await listen(b)] == [[MAKESHIFT], [MAKESHIFT]]
        assert told[-1][1] == {"a_to_b": {"via": [], "voice_of": "en"}, "b_to_a": None}
        a.language, b.language = "pt", "es"
        notice.tick()
        assert [await listen(a), await listen(b)] == [[], []], "it was said of these two"

    asyncio.run(asyncio.wait_for(work(), 20))
