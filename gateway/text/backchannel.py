# SPDX-License-Identifier: GPL-3.0-or-later
"""Backchannels: the small words by which a listener says "go on" ("uh-huh", "sí", "嗯"), by language, as data.

The same word can be an answer ("Are you coming?" – "Sí."): that is a matter of *when* it is said, and not decided here.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources

from gateway.text.folding import fold, nfc
from gateway.text.tags import base_language

ANY = "*"  # sounds that are no words of any language in particular
_MOST_LETTERS = 40  # whoever says more than that says something
_OTHERS = re.compile(r"[\W_]+")
_DRAWN_OUT = re.compile(r"(.)\1{2,}")  # "mmmm", "siiim"


def is_backchannel(text: str, language: str) -> bool:
    """True when a text is nothing but backchannels of the language, or of no language in particular."""
    plain = _plain(text)
    return 0 < len(plain) <= _MOST_LETTERS and _pattern(base_language(language)).fullmatch(plain) is not None


def _plain(text: str) -> str:
    return _OTHERS.sub(" ", _DRAWN_OUT.sub(r"\1\1", fold(nfc(text)))).strip()


@lru_cache(maxsize=1)
def _table() -> dict[str, list[str]]:
    table: dict[str, list[str]] = json.loads(
        resources.files("gateway.text").joinpath("backchannels.json").read_text(encoding="utf-8")
    )
    return table


@lru_cache(maxsize=64)
def _pattern(language: str) -> re.Pattern[str]:
    """One or more of the phrases; parted by spaces where the script writes any."""
    phrases = {_plain(phrase) for phrase in (*_table()[ANY], *_table().get(language, ()))}
    one = "|".join(re.escape(phrase) for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))
    # Han, kana and Hangul syllables, which repeat without a space: 嗯嗯
    apart = " ?" if any(re.search(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", phrase) for phrase in phrases) else " "
    return re.compile(f"(?:{one})(?:{apart}(?:{one}))*")
