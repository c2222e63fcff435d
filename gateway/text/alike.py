# SPDX-License-Identifier: GPL-3.0-or-later
"""Does one text say what another says somewhere? For comparing what was heard with what was played.

Of 30,000 pairs of unrelated telephone prompts with 12 letters and more, 1.4 % reach a likeness of 66, 3.2 % one of 58.
With fewer letters it tells little: 1 % then reach 75.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rapidfuzz import fuzz

from gateway.text.folding import bare

_OTHERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Match:
    """How alike, 0 to 100, and which part of the other text it is: from and to, as fractions of its letters."""

    likeness: float
    first: float
    end: float


def find_alike(heard: str, played: str) -> Match:
    """The place in ``played`` that is most like ``heard``; the whole of it when it is shorter than that."""
    needle, hay = plain(heard), plain(played)
    if not needle or not hay:
        return Match(0.0, 0.0, 0.0)
    found = fuzz.partial_ratio_alignment(needle, hay) if len(needle) <= len(hay) else None
    if found is None:
        return Match(fuzz.ratio(needle, hay), 0.0, 1.0)
    return Match(found.score, found.dest_start / len(hay), found.dest_end / len(hay))


def plain(text: str) -> str:
    """Letters and digits, without case and accents, single spaces between words."""
    return _OTHERS.sub(" ", bare(text)).strip()
