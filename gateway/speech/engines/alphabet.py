# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a text a voice cannot say. Pure.

Engines drop what their alphabet lacks without a word, and what is left is said wrongly or not at all
(coqui-ai/TTS#2412, #3577). A tenth lost is a foreign name; a fifth is another language.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container

MOST_UNSAID = 0.2
"""Share of a text's letters and digits that may be lost before it counts as an error."""


def letters(text: str) -> int:
    """Letters and digits of the text, composed, of any script; emoji and punctuation are none."""
    return sum(character.isalnum() for character in unicodedata.normalize("NFC", text))


def unsaid(text: str, alphabet: Container[str]) -> float:
    """Share (0..1) of the text's letters and digits that are not in the alphabet; the text is taken as it stands."""
    said = [character in alphabet for character in text if character.isalnum()]
    return 1.0 - sum(said) / len(said) if said else 0.0


def all_said(_piece: str) -> float:
    """For a voice that can say anything."""
    return 0.0
