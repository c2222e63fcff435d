# SPDX-License-Identifier: GPL-3.0-or-later
"""Text to IPA with the espeak-ng that piper-tts brings along. espeak-ng is one global machine: one caller at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, lru_cache

from piper.phonemize_espeak import EspeakPhonemizer

from gateway.speech.engines.prose import language_data
from gateway.text.pronunciation import Spoken, ipa_parts
from gateway.text.tags import base_language

_LOCK = threading.Lock()


@cache
def _phonemizer() -> EspeakPhonemizer:
    return EspeakPhonemizer()


def espeak_voice(language: str) -> str:
    """espeak-ng's voice for the language; LookupError when the table has none."""
    voice = language_data()["espeak"].get(base_language(language))
    if voice is None:
        raise LookupError(f"no phonemes for language {language!r}: add its espeak-ng voice to languages.json")
    return str(voice)


@lru_cache(maxsize=64)  # a piece is read twice: to be spoken, and to tell how long that may take
def phonemes(text: str, language: str) -> tuple[str, ...]:
    """IPA of each sentence, decomposed (NFD), punctuation and stress kept."""
    with _LOCK:
        return tuple("".join(sentence) for sentence in _phonemizer().phonemize(espeak_voice(language), text))


def said_phonemes(text: str, language: str, pronounced: Sequence[Spoken]) -> list[str]:
    """The same with the words that are ``pronounced`` as given; their sentence goes on before and behind them."""
    said: list[str] = []
    behind_ipa = False
    for part, is_ipa in ipa_parts(text, pronounced):
        sentences = [part] if is_ipa else list(phonemes(part, language))
        if said and sentences and (is_ipa or behind_ipa):
            said[-1] = f"{said[-1].rstrip()} {sentences.pop(0)}"
        said += sentences
        behind_ipa = is_ipa
    return said
