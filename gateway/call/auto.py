# SPDX-License-Identifier: GPL-3.0-or-later
"""Legs whose language is ``auto``: which languages it can be, and which is assumed until the first words. Pure.

The candidates are those of the route, or else all that the installed models can interpret to and from the other party's
language; that language itself is one too, because then both are passed through.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from gateway.call.dialplan import AUTO, Match


def with_candidates(match: Match, pairs: Set[tuple[str, str]]) -> Match:
    """The match with an assumed language for each leg that is ``auto``; it stays so where there is none to assume.

    ``pairs`` are the directed pairs that can be interpreted.
    """
    route = match.route
    if AUTO not in (route.source, route.target):
        return match

    def served(one: str, other: str) -> bool:
        return one != other and (one, other) in pairs and (other, one) in pairs

    order = route.languages or tuple(sorted({language for pair in pairs for language in pair}))
    if route.source == route.target:
        known = tuple(one for one in order if any(served(one, other) for other in order))
        if not known:
            return match
        second = next(one for one in order if served(known[0], one))
        return replace(match, route=replace(route, source=known[0], target=second), candidates=(known, known))
    pinned = route.target if route.source == AUTO else route.source
    others = tuple(one for one in order if served(one, pinned))
    if not others:
        return match
    among = tuple(one for one in order if one == pinned or one in others)
    if route.source == AUTO:
        return replace(match, route=replace(route, source=others[0]), candidates=(among, ()))
    return replace(match, route=replace(route, target=others[0]), candidates=((), among))
