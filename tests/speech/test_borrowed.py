# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.27: a language without a voice is spoken in another's, by Latin letters, and pairs without a model by a detour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gateway.speech.engines.borrowed import BorrowedVoice, lender_of
from gateway.speech.engines.engine_set import EngineSpec, build_engines
from gateway.speech.engines.routers import RoutedSynthesizer
from gateway.speech.jobs import Speech, SynthesizeTask
from gateway.speech.protocols import SynthesizerCapabilities
from gateway.text.pronunciation import Spoken

SPEC = EngineSpec(
    recognizer="whisper:whisper-base",
    translators=("firefox:firefox-en-pt", "firefox:firefox-pt-en"),
    voices=(("uk", "borrowed:en"), ("en", "piper:piper-en_US-joe-medium"), ("zh", "borrowed:en")),
    threads=2,
)


class Reader:
    """A voice that notes what it is given to read."""

    def __init__(self, language: str = "en") -> None:
        self.capabilities = SynthesizerCapabilities({language: ("joe", "amy")}, 16_000, streams=False)
        self.read: list[tuple[str, str, str | None]] = []

    def synthesize(
        self,
        text: str,
        *,
        language: str,
        voice: str | None = None,
        tempo: float = 1.0,
        pitch: float = 1.0,
        pronounced: Sequence[Spoken] = (),
    ) -> Speech:
        self.read.append((text, language, voice))
        return Speech(b"\x01\x00" * len(text), 16_000, voice or "joe", transliterated=0)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("language", "text", "read", "words"),
    [
        ("uk", "Привіт, як справи?", "Privit, yak spravi?", 3),
        ("el", "Καλημέρα κόσμε", "Kalimera kosme", 2),
        ("zh", "你好，世界", "Ni Hao, Shi Jie", 4),
        ("uk", "Зателефонуйте Anna", "Zatelefonuyte Anna", 1),
        ("es", "Tengo 23 años, señor", "Tengo veintitrés años, señor", 0),
        ("uk", "", "", 0),
    ],
)
def test_s1_27_text_in_another_script_is_read_in_latin_letters(language: str, text: str, read: str, words: int) -> None:
    reader = Reader()
    spoken = BorrowedVoice(language, "en", reader).synthesize(text, language=language)
    assert reader.read == [(read, "en", None)]
    assert spoken.transliterated == words


@pytest.mark.unit
def test_a_borrowed_voice_stands_among_the_others_with_the_lenders_names() -> None:
    reader = Reader()
    voices = RoutedSynthesizer({"en": reader, "uk": BorrowedVoice("uk", "en", reader)})
    assert voices.capabilities.voices == {"en": ("joe", "amy"), "uk": ("joe", "amy")}
    assert voices.synthesize("так", language="uk", voice="amy").voice == "amy"
    assert reader.read == [("tak", "en", "amy")]
    with pytest.raises(LookupError, match="'ru' cannot borrow the voice of 'zh': that reads no Latin letters"):
        BorrowedVoice("ru", "zh", Reader("zh"))


@pytest.mark.unit
def test_a_line_that_borrows_needs_no_model() -> None:
    assert [lender_of(line) for _, line in SPEC.voices] == ["en", None, "en"]
    assert SPEC.models() == ("whisper-base", "firefox-en-pt", "firefox-pt-en", "piper-en_US-joe-medium")


@pytest.mark.model
def test_s1_27_the_bundles_voice_speaks_a_language_that_it_does_not_know(model_dir: Callable[[str], Path]) -> None:
    engines = build_engines(SPEC, model_dir)
    told = engines.capabilities()
    assert told["borrowed"] == {"uk": "en", "zh": "en"}
    assert told["routes"] == [("en", "pt"), ("pt", "en")]
    for language, text in (("uk", "Доброго дня, як ваші справи?"), ("zh", "你好，你今天怎么样？")):
        spoken = engines.run(SynthesizeTask(text, language))
        assert isinstance(spoken, Speech)
        seconds = len(spoken.pcm) / 2 / spoken.rate_hz
        assert 0.8 < seconds < 6, language
        assert np.abs(np.frombuffer(spoken.pcm, "<i2")).max() > 3000
        assert spoken.transliterated >= 5 and spoken.unsaid < 0.1
