# SPDX-License-Identifier: GPL-3.0-or-later
"""Makeshifts, and that they are called so: pairs translated by a detour, languages spoken in another's voice (S1.27).

A pair without a model of its own is translated over a third language, which costs meaning twice. A language without a
voice is read out in the voice of another. Both are better than no call, so they are served; but they are marked in
``/v1/languages`` and in what a call tells of itself, and the parties hear it once, when they are connected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.call.party import Party
from gateway.call.prompts import MAKESHIFT, PromptBook
from gateway.text.tags import base_language


@dataclass(frozen=True, slots=True)
class Fallback:
    """What is makeshift from one language into another."""

    via: tuple[str, ...] = ()
    """Languages that the text passes through on its way."""
    voice_of: str = ""
    """The language in whose voice it is spoken; empty for its own."""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"via": list(self.via), "voice_of": self.voice_of or None}


class Fallbacks:
    """All makeshifts of the loaded engines."""

    def __init__(self, capabilities: Mapping[str, Any] | None = None) -> None:
        """``capabilities`` of the speech service: ``routes`` are language paths, ``borrowed`` maps to the lender."""
        known = capabilities or {}
        self._via = {(route[0], route[-1]): tuple(route[1:-1]) for route in known.get("routes", ())}
        self._voice_of: dict[str, str] = dict(known.get("borrowed", {}))

    def of(self, source: str, target: str) -> Fallback | None:
        """What is makeshift from one language into another; None for a pair with a model and a voice."""
        if source == target:
            return None
        found = Fallback(
            self._via.get((base_language(source), base_language(target)), ()),
            self._voice_of.get(base_language(target), ""),
        )
        return found if found != Fallback() else None


class FallbackNotice:
    """Of one call: tells both parties once, for each pair of languages that they come to speak. Look with `tick`."""

    def __init__(
        self,
        parties: Sequence[Party],
        fallbacks: Fallbacks,
        *,
        prompts: PromptBook,
        tell: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._a, self._b = parties
        self._fallbacks = fallbacks
        self._prompts = prompts
        self._tell = tell
        self._told: set[frozenset[str]] = set()

    def both(self) -> dict[str, Any]:
        """The makeshifts of both directions, null for none: JSON-ready."""
        there = self._fallbacks.of(self._a.language, self._b.language)
        back = self._fallbacks.of(self._b.language, self._a.language)
        return {"a_to_b": there and there.as_json(), "b_to_a": back and back.as_json()}

    def tick(self) -> None:
        """The parties are connected: say it, if it was not said of these languages."""
        pair = frozenset((self._a.language, self._b.language))
        if pair in self._told:
            return
        self._told.add(pair)
        both = self.both()
        if not any(both.values()):
            return
        self._tell("fallback", both)
        for party in (self._a, self._b):
            party.prompt(MAKESHIFT, self._prompts.clip(party.language, MAKESHIFT))
