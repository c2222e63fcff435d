# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration lines, routes over several engines, and the light import."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import structlog

from gateway.speech.engines.engine_set import EngineSpec, build_engines
from gateway.speech.engines.registry import RECOGNIZERS, SYNTHESIZERS, TRANSLATORS, parse_line
from gateway.speech.engines.routers import RoutedSynthesizer, RoutedTranslator
from gateway.speech.jobs import Speech, Translation
from gateway.speech.protocols import SynthesizerCapabilities, TranslatorCapabilities
from gateway.text.pronunciation import Spoken

pytestmark = pytest.mark.unit

SPEC = EngineSpec(
    recognizer="whisper:whisper-base",
    translators=("firefox:firefox-en-pt", "firefox:firefox-pt-en", "ct2:nllb:en-pt"),
    voices=(("en", "piper:piper-en_US-joe-medium"), ("pt", "kokoro:kokoro-82m-int8:jm_kumo")),
)


class Pair:
    """Marks each text with the pair it went through."""

    def __init__(self, source: str, target: str, *registers: str) -> None:
        self.capabilities = TranslatorCapabilities(
            frozenset({(source, target)}), target_prefix=False, batch=False, registers=frozenset(registers)
        )
        self.asked: list[str] = []

    def translate(self, texts: Sequence[str], *, source: str, target: str, register: str = "") -> Translation:
        self.asked.append(register)
        return Translation(tuple(f"{text}>{target}" for text in texts), (source, target))


class Voice:
    def __init__(self, rate_hz: int, **voices: tuple[str, ...]) -> None:
        self.capabilities = SynthesizerCapabilities(voices, rate_hz, streams=False, ipa=rate_hz > 16_000)
        self.asked: list[tuple[str, tuple[Spoken, ...]]] = []

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
        self.asked.append((text, tuple(pronounced)))
        return Speech(b"", self.capabilities.rate_hz, voice or self.capabilities.voices[language][0])


def test_lines() -> None:
    assert parse_line("whisper:whisper-base", RECOGNIZERS) == ("whisper", "whisper-base", None)
    assert parse_line("kokoro:kokoro-82m-int8:jf_nezumi", SYNTHESIZERS) == ("kokoro", "kokoro-82m-int8", "jf_nezumi")
    with pytest.raises(ValueError, match="there are ct2, firefox"):
        parse_line("fierfox:m", TRANSLATORS)
    with pytest.raises(ValueError, match="names no model"):
        parse_line("firefox", TRANSLATORS)


def test_a_spec_crosses_processes_and_names_its_models() -> None:
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC
    assert SPEC.models() == (
        "whisper-base",
        "firefox-en-pt",
        "firefox-pt-en",
        "nllb",
        "piper-en_US-joe-medium",
        "kokoro-82m-int8",
    )


def test_a_faulty_line_is_found_before_a_model_is_loaded() -> None:
    spec = EngineSpec("whisper:whisper-base", (), (("en", "pipre:x"),))

    def never(model: str) -> Path:
        raise AssertionError(model)

    with pytest.raises(ValueError, match="pipre"):
        build_engines(spec, never)


def test_the_import_loads_no_model_library() -> None:
    code = (
        "import sys, gateway.speech.engines.engine_set; "
        "heavy = {'ctranslate2', 'onnxruntime', 'faster_whisper', 'fxtranslate', 'piper', 'numpy'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_b13_a_route_through_a_pivot() -> None:
    router = RoutedTranslator([Pair("pt", "en"), Pair("en", "es"), Pair("es", "fr")])
    answer = router.translate(["olá"], source="pt-BR", target="fr")
    assert answer == Translation(("olá>en>es>fr",), ("pt", "en", "es", "fr"))
    assert ("pt", "fr") in router.capabilities.pairs
    assert ("fr", "pt") not in router.capabilities.pairs


def test_b13_direct_before_pivot_and_english_before_others() -> None:
    pairs = [Pair("pt", "de"), Pair("de", "fr"), Pair("pt", "en"), Pair("en", "fr"), Pair("pt", "es")]
    assert RoutedTranslator(pairs).route("pt", "fr") == ("pt", "en", "fr")
    assert RoutedTranslator([*pairs, Pair("pt", "fr")]).route("pt", "fr") == ("pt", "fr")


def test_b13_a_pivot_need_not_be_english() -> None:
    assert RoutedTranslator([Pair("gl", "es"), Pair("es", "ca")]).route("gl", "ca") == ("gl", "es", "ca")


def test_no_route_is_named_and_the_same_language_passes() -> None:
    router = RoutedTranslator([Pair("pt", "en")])
    with pytest.raises(LookupError, match="en to pt"):
        router.translate(["x"], source="en", target="pt")
    assert router.translate(["x"], source="pt", target="pt-PT").texts == ("x",)


def test_voices_by_language_and_by_name() -> None:
    many = Voice(24_000, pt=("kumo", "nezumi"), en=("kumo",))
    router = RoutedSynthesizer({"en": Voice(22_050, en=("joe",)), "pt-BR": many})
    assert router.synthesize("x", language="en").rate_hz == 22_050
    assert router.synthesize("x", language="pt").voice == "kumo"
    assert router.synthesize("x", language="en", voice="kumo").rate_hz == 24_000
    assert router.capabilities.voices == {"en": ("joe", "kumo"), "pt": ("kumo", "nezumi")}
    with pytest.raises(LookupError, match="no voice 'zoe'"):
        router.synthesize("x", language="en", voice="zoe")
    with pytest.raises(LookupError, match="no voice for 'de'"):
        router.synthesize("x", language="de")
    with pytest.raises(LookupError, match="'fr'"):
        RoutedSynthesizer({"fr": many})


def test_b8_a_voice_gets_ipa_if_it_takes_it_else_the_respelling() -> None:
    able, plain = Voice(24_000, pt=("kumo",)), Voice(16_000, en=("joe",))
    router = RoutedSynthesizer({"en": plain, "pt": able})
    both, ipa = Spoken("Acme", say="Ackmee", ipa="ˈakmi"), Spoken("Xpto", ipa="ʃ")
    for language in ("pt", "en"):
        router.synthesize("Acme, Xpto", language=language, pronounced=(both, ipa))
    assert able.asked == [("Acme, Xpto", (both, ipa))]
    assert plain.asked == [("Ackmee, Xpto", ())]


def test_s1_28_a_register_goes_to_the_engine_that_has_it_and_is_told_once_of_the_others() -> None:
    polite, plain = Pair("en", "de", "formal"), Pair("de", "xx")
    router = RoutedTranslator([polite, plain])
    assert router.capabilities.registers == {"formal"}
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert router.translate(("a",), source="en", target="xx", register="formal").texts == ("a>de>xx",)
    assert polite.asked == ["formal"] * 3
    assert plain.asked == [""] * 3
    assert [each["event"] for each in logs].count("translator_without_register") == 1
