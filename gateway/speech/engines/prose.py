# SPDX-License-Identifier: GPL-3.0-or-later
"""Cuts text into what an engine can take in one go, and knows what can be spoken at all.

Translation models drop everything behind the first sentence or the end of their window; speech models garble or cut
long sentences. So text is cut before an engine sees it: at sentence ends, then at clause borders, at last at a space.
What a language writes with (script, spaces, abbreviations) is data: ``languages.json`` beside this file.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from anyascii import anyascii

from gateway.text.tags import base_language

_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|[।॥؟۔]+")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WIDE_MARKS = re.compile(r"\s*([、。，！？；：])\s*")
_CLAUSE_END = re.compile(r"[,;:—–](?=\s)|[，、；：،؛]")


@cache
def language_data() -> Mapping[str, Any]:
    """The table of what is known about languages; keys ``unspaced``, ``scripts``, ``abbreviations``, …"""
    data: Mapping[str, Any] = json.loads((Path(__file__).parent / "languages.json").read_text(encoding="utf-8"))
    return data


def is_unspaced(language: str) -> bool:
    """Whether the language is written without spaces between words."""
    return base_language(language) in language_data()["unspaced"]


def joiner(language: str) -> str:
    """What goes between two sentences of the language: a space, or nothing."""
    return "" if is_unspaced(language) else " "


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit in the text, of any script."""
    return any(character.isalnum() for character in text)


def speakable(text: str, language: str) -> str:
    """The part of the text that a voice of the language can say; empty when there is nothing to say.

    Emoji, control and zero-width characters go; letters of a foreign script go (a voice would spell their Unicode
    names or fail); digits and punctuation stay. Punctuation alone is nothing to say.
    """
    scripts = scripts_of(language)
    kept = []
    for character in unicodedata.normalize("NFC", text):
        category = unicodedata.category(character)
        if category[0] == "L" and category != "Lm":
            kept.append(" " if _is_foreign(character, scripts) else character)
        elif category[0] in "NMP" or category in {"Zs", "Sc", "Sm", "Lm"} or character in "°":
            kept.append(character)
        elif category == "Cf":
            continue  # zero-width space, joiners, direction marks
        else:
            kept.append(" ")
    spoken = re.sub(r"\s+", " ", "".join(kept)).strip()
    return spoken if has_words(spoken) else ""


def scripts_of(language: str) -> tuple[str, ...]:
    """The scripts that a language is written in, by their names in Unicode."""
    return tuple(language_data()["scripts"].get(base_language(language), ["LATIN"]))


def _is_foreign(letter: str, scripts: tuple[str, ...]) -> bool:
    return not unicodedata.name(letter, "").startswith((*scripts, "FULLWIDTH LATIN", "MASCULINE", "FEMININE"))


def transliterated(text: str, language: str) -> tuple[str, int]:
    """The text (NFC) with words of foreign scripts in Latin letters, and how many there were.

    A name that was not translated is then said, after a fashion, instead of left out. Only for languages in Latin
    script, and only inside of a text that has words of its own: letters alone in another script are nothing to say.
    """
    if text.isascii() or "LATIN" not in scripts_of(language) or not speakable(text, language):
        return text, 0
    return in_latin(text, language)


def in_latin(text: str, language: str) -> tuple[str, int]:
    """The text (NFC) with each word that a language's scripts cannot write in Latin letters, and how many there were.

    Each Han character is a word by itself.
    """
    scripts = scripts_of(language)
    words = re.split(r"(\s+)", _HAN.sub(r" \g<0> ", unicodedata.normalize("NFC", text)).strip())
    foreign = [any(letter.isalpha() and _is_foreign(letter, scripts) for letter in word) for word in words]
    latin = [anyascii(word) if is_foreign else word for word, is_foreign in zip(words, foreign, strict=True)]
    written = _WIDE_MARKS.sub(lambda mark: f"{anyascii(mark[1])} ", "".join(latin)) if any(foreign) else "".join(latin)
    return re.sub(r"\s+", " ", written).strip(), sum(foreign)


def sentences(text: str, language: str) -> list[str]:
    """Cut at sentence ends; abbreviations, initials and numbers do not end a sentence. Empty text gives no sentence."""
    short = frozenset(language_data()["abbreviations"].get(base_language(language), ()))
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if match.group()[0] == "." and _is_abbreviation(text[start : match.start()], text[match.end() :], short):
            continue
        if piece := text[start : match.end()].strip():
            found.append(piece)
        start = match.end()
    if piece := text[start:].strip():
        found.append(piece)
    return found


def _is_abbreviation(before: str, after: str, short: frozenset[str]) -> bool:
    words = before.rsplit(maxsplit=1)
    last = words[-1].lstrip("(\"'“¿¡").lower() if words else ""
    following = after.lstrip()[:1]
    if last in short or (len(last) == 1 and last.isalpha() and before[-1:].isupper()):
        # an abbreviation may still end the sentence, but a wrong cut costs more meaning than a missing one
        return True
    return following.islower()


def pieces(text: str, language: str, longest: int) -> list[str]:
    """Cut into sentences, and any sentence above ``longest`` characters at clause borders, else at spaces.

    Joining the pieces with `joiner` gives the text again, up to white space.
    """
    return [part for sentence in sentences(text, language) for part in _within(sentence, longest)]


def _within(sentence: str, longest: int) -> list[str]:
    parts = []
    rest = sentence
    while len(rest) > longest:
        cut = _best_cut(rest, longest)
        parts.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [part for part in (*parts, rest) if part]


def _best_cut(text: str, longest: int) -> int:
    """The last clause border within ``longest``, if it leaves a fair piece; else the last space; else the limit."""
    borders = [match.end() for match in _CLAUSE_END.finditer(text, 0, longest) if match.end() >= longest // 4]
    if borders:
        return borders[-1]
    space = text.rfind(" ", longest // 4, longest)
    return space if space > 0 else longest


def marks(text: str) -> int:
    """Punctuation inside the text at which a voice makes a pause; that at its end does not count."""
    inside = text.rstrip(" \t\n.,;:!?…。！？，、।؟۔\"'”’»)]")
    return sum(len(pattern.findall(inside)) for pattern in (_SENTENCE_END, _CLAUSE_END))


def halves(text: str) -> tuple[str, str] | None:
    """Cut near the middle: at the nearest clause border, else the nearest space; None when there is neither."""
    middle = len(text) / 2
    cuts = [match.end() for match in _CLAUSE_END.finditer(text)] or [m.start() for m in re.finditer(r"\s", text)]
    cuts = [cut for cut in cuts if has_words(text[:cut]) and has_words(text[cut:])]
    if not cuts:
        return None
    cut = min(cuts, key=lambda position: abs(position - middle))
    return text[:cut].strip(), text[cut:].strip()
