# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines with their real models, judged by each other: what a voice says, the recogniser reads at 8 kHz."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import soxr

from gateway.audio.loudness import active_level
from gateway.bench.voice_bench import measure_voice, texts_for
from gateway.speech.engines.dequantize import dequantized
from gateway.speech.engines.engine_set import EngineSet, EngineSpec, build_engines
from gateway.speech.engines.kokoro_steps import ADDED, in_steps
from gateway.speech.engines.registry import TRANSLATORS, build
from gateway.speech.jobs import (
    MODEL_RATE_HZ,
    Recognition,
    RecognizeTask,
    Speech,
    SynthesizeTask,
    TranslateTask,
    Translation,
)
from gateway.text.pronunciation import Spoken

MANY = (
    *("Kowalczyk", "Itaú", "Praça da Sé", "metformin", "Anneliese", "Petrobras", "warfarin", "Guimarães", "Siobhan"),
    *("Wrocław", "omeprazole", "Acme Cloud", "triage nurse", "front desk", "Ljubljana", "Nguyen", "Zolpidem", "bail"),
    *("Schmidbauer", "copayment"),
)

pytestmark = pytest.mark.model

SPEC = EngineSpec(
    recognizer="whisper:whisper-base",
    translators=("firefox:firefox-en-pt", "firefox:firefox-pt-en"),
    voices=(("en", "piper:piper-en_US-joe-medium"), ("pt", "kokoro:kokoro-82m-int8:jm_kumo")),
    threads=2,
)


@pytest.fixture(scope="module")
def engines(model_dir: Callable[[str], Path]) -> EngineSet:
    built = build_engines(SPEC, model_dir)
    built.warm()
    return built


def say(engines: EngineSet, text: str, language: str, tempo: float = 1.0) -> Speech:
    speech = engines.run(SynthesizeTask(text, language, tempo=tempo))
    assert isinstance(speech, Speech)
    return speech


def over_the_phone(speech: Speech) -> bytes:
    """Through an 8 kHz line, with the silence around it that a talker leaves."""
    sound = np.frombuffer(speech.pcm, dtype="<i2")
    line = soxr.resample(soxr.resample(sound, speech.rate_hz, 8000), 8000, MODEL_RATE_HZ)
    quiet = np.zeros(MODEL_RATE_HZ * 3 // 10, dtype=np.int16)
    return np.concatenate([quiet, line, quiet]).astype("<i2").tobytes()


def hear(
    engines: EngineSet, pcm: bytes, language: str | None, hotwords: tuple[str, ...] = (), context: str = ""
) -> Recognition:
    heard = engines.run(RecognizeTask(pcm, language, hotwords, context))
    assert isinstance(heard, Recognition)
    return heard


def words(text: str) -> list[str]:
    return re.sub(r"[^\w ]", " ", text.casefold()).split()


def test_s3_4_a_wrong_context_spoils_no_words_and_speaks_none_into_silence(engines: EngineSet) -> None:
    """What the window before had wrong must not spread: not into clear speech, not into a pause."""
    wrong = "the black cat plays the piano and the black cat plays the piano and the"
    for text in ("Your appointment is on Tuesday at nine.", "Please bring the documents with you.", "Thank you."):
        pcm = over_the_phone(say(engines, text, "en"))
        assert words(hear(engines, pcm, "en", context=wrong).text) == words(hear(engines, pcm, "en").text)
    noise = np.random.default_rng(3).normal(0, 30, 2 * MODEL_RATE_HZ)
    for silence in (np.zeros(2 * MODEL_RATE_HZ), noise):
        assert not hear(engines, silence.astype("<i2").tobytes(), "en", context=wrong).text


class Watched:
    """A model, and the options of every decoding that is asked of it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.asked: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, *sound: Any, **options: Any) -> Any:
        self.asked.append(options)
        return self._model.generate(*sound, **options)


def test_s1_11_every_window_of_a_stream_is_decoded_greedily(
    engines: EngineSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the window grows, whatever prompts it: one hypothesis, no sampling, and the same text again."""
    watched = Watched(engines.recognizer._model)  # type: ignore[attr-defined]
    monkeypatch.setattr(engines.recognizer, "_model", watched)
    line = over_the_phone(say(engines, "Please send the documents to Doctor Kowalczyk before nine on Tuesday.", "en"))
    step = MODEL_RATE_HZ * 2 * 4 // 10
    texts = []
    for end in (*range(step, len(line), step), len(line), len(line)):
        texts.append(hear(engines, line[:end], "en", MANY, "please send").text)
    assert texts[-1] == texts[-2]
    assert len(watched.asked) >= len(texts) - 1  # nothing is asked of a window without speech
    for options in watched.asked:
        assert options["beam_size"] == 1
        plain = {"num_hypotheses": 1, "sampling_topk": 1}
        assert {name: options.get(name, usual) for name, usual in plain.items()} == plain


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Good morning, can you help me with my electricity bill?"),
        ("pt", "Bom dia, o senhor pode me ajudar com a conta de luz?"),
    ],
)
def test_round_trip_over_eight_kilohertz(engines: EngineSet, language: str, text: str) -> None:
    pcm = over_the_phone(say(engines, text, language))
    heard = hear(engines, pcm, language)
    missing = set(words(text)) - set(words(heard.text))
    assert len(missing) <= 1, heard
    assert heard.confidence > 0.6
    assert heard.rejected is None
    assert hear(engines, pcm, None).language == language  # B3: identified from the same encoder output


def test_the_shipped_kokoro_has_the_border_at_which_it_is_given_whole_steps(model_dir: Callable[[str], Path]) -> None:
    model = onnx.load(model_dir("kokoro-82m-int8") / "model.onnx")
    outputs = [output.name for output in in_steps(dequantized(model)).graph.output]
    assert outputs == ["audio", ADDED]


def test_the_same_sound_gives_the_same_text(engines: EngineSet) -> None:
    pcm = over_the_phone(say(engines, "The meeting is on Thursday.", "en"))
    assert hear(engines, pcm, "en") == hear(engines, pcm, "en")


def test_f05_real_repeats_are_heard(engines: EngineSet) -> None:
    heard = hear(engines, over_the_phone(say(engines, "No, no, no! I said no.", "en")), "en")
    assert words(heard.text).count("no") >= 3


def test_f01_a_spoken_thank_you_survives(engines: EngineSet) -> None:
    assert "thank" in hear(engines, over_the_phone(say(engines, "Thank you very much.", "en")), "en").text.lower()


def test_sound_beyond_the_window_is_heard_whole(engines: EngineSet) -> None:
    numbers = ["apples", "bread", "cheese", "dinner", "eggs", "fish", "garlic", "honey"]
    text = " ".join(
        f"On day {i} we should buy some fresh {n} at the market near the station." for i, n in enumerate(numbers, 1)
    )
    speech = say(engines, text, "en")
    assert len(speech.pcm) / 2 / speech.rate_hz > 28
    heard = hear(engines, over_the_phone(speech), "en")
    assert [n for n in numbers if n in words(heard.text)] == numbers, heard
    assert heard.text.lower().count("garlic") == 1


def noises() -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    chance = np.random.default_rng(5)
    time = np.arange(3 * MODEL_RATE_HZ) / MODEL_RATE_HZ
    clicks = np.zeros_like(time)
    clicks[:: MODEL_RATE_HZ // 3] = 0.9
    spectrum = np.fft.rfft(chance.standard_normal(len(time)))
    pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), len(time))
    return {
        "silence": np.zeros_like(time),
        "white": chance.normal(0, 0.1, len(time)),
        "comfort": chance.normal(0, 0.001, len(time)),
        "pink": 0.3 * pink / np.abs(pink).max(),
        "bursts": chance.normal(0, 0.2, len(time)) * (np.sin(2 * np.pi * 1.5 * time) > 0.3),
        "hum": 0.1 * sum(np.sin(2 * np.pi * f * time) for f in (50, 100, 150)),
        "busy": 0.2 * (np.sin(2 * np.pi * 480 * time) + np.sin(2 * np.pi * 620 * time)) * (time % 1 < 0.5),
        "fax": 0.3 * np.sin(2 * np.pi * 1100 * time),
        "sweep": 0.3 * np.sin(2 * np.pi * np.cumsum(np.linspace(300, 3000, len(time))) / MODEL_RATE_HZ),
        "clicks": clicks,
    }


@pytest.mark.parametrize("language", ["en", "pt", None])
@pytest.mark.parametrize("hotwords", [(), MANY])
def test_b11_g01_noise_gives_no_text(engines: EngineSet, language: str | None, hotwords: tuple[str, ...]) -> None:
    invented = {}
    for name, sound in noises().items():
        pcm = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
        if text := hear(engines, pcm, language, hotwords).text:
            invented[name] = text
    assert invented == {}


def test_s1_9_a_hotword_is_heard_g05_neutral_text_is_as_without_and_g03_so_are_the_times(engines: EngineSet) -> None:
    # the voice says it differently each time
    draws = [over_the_phone(say(engines, "Please connect me to Mr. Kowalczyk in accounting.", "en")) for _ in range(3)]
    named = draws[0]
    neutral = over_the_phone(say(engines, "Please press one for sales.", "en"))
    assert sum("Kowalczyk" in hear(engines, draw, "en", MANY).text for draw in draws) >= 2
    assert hear(engines, neutral, "en", MANY) == hear(engines, neutral, "en")
    for pcm in (named, neutral):
        timed = engines.run(RecognizeTask(pcm, "en", MANY, words=True))
        assert isinstance(timed, Recognition)
        borders = [border for word in timed.words for border in (word.first_sample, word.end_sample)]
        assert len(timed.words) >= 5
        assert borders == sorted(borders)
        assert borders[-1] <= len(pcm) // 2


@pytest.mark.parametrize(
    ("language", "text", "ipa", "heard"),
    [
        ("en", "Please give me your Kowalczyk number.", "tˈɛlɪfˌoʊn", "telephone"),
        ("pt", "Eu queria uma Kowalczyk, por favor.", "bɐnˈɐnɐ", "banana"),
    ],
)
def test_b8_a_voice_says_a_word_in_ipa(engines: EngineSet, language: str, text: str, ipa: str, heard: str) -> None:
    speech = engines.run(SynthesizeTask(text, language, pronounced=(Spoken("Kowalczyk", ipa=ipa),)))
    assert isinstance(speech, Speech)
    assert heard in hear(engines, over_the_phone(speech), language).text.lower()


@pytest.mark.parametrize("size", [0, 1, 2, 320, 3201])
def test_scraps_of_sound_give_no_text(engines: EngineSet, size: int) -> None:
    assert hear(engines, b"\x01" * size, "en").text == ""


def test_h07_translation_keeps_counts_and_sentences(engines: EngineSet) -> None:
    answer = engines.run(TranslateTask(("Good morning. How are you? I am fine.", "...", "", "Yes."), "en", "pt-BR"))
    assert isinstance(answer, Translation)
    assert answer.route == ("en", "pt")
    assert len(answer.texts) == 4
    assert answer.texts[1:3] == ("...", "")
    assert len(re.findall(r"[.?!]", answer.texts[0])) == 3
    assert answer.texts[0].startswith("Bom dia")


def test_firefox_serves_calls_from_any_thread(engines: EngineSet) -> None:
    answers: list[str] = []

    def translate() -> None:
        answer = engines.run(TranslateTask(("Good morning.",), "en", "pt"))
        assert isinstance(answer, Translation)
        answers.extend(answer.texts)

    threads = [threading.Thread(target=translate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["Bom dia."] * 4


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("text", ["", "...", "😀", "\u200b", "？", "你好"])
def test_i01_nothing_to_say(engines: EngineSet, language: str, text: str) -> None:
    assert say(engines, text, language).pcm == b""


@pytest.mark.parametrize(("language", "rate_hz"), [("en", 22_050), ("pt", 24_000)])
def test_b24_the_rate_is_the_real_one(engines: EngineSet, language: str, rate_hz: int) -> None:
    speech = say(
        engines, "one two three four five six" if language == "en" else "um dois três quatro cinco seis", language
    )
    assert speech.rate_hz == rate_hz
    seconds = len(speech.pcm) / 2 / rate_hz
    assert 1.2 < seconds < 4.5  # six words at a natural pace; 16 kHz played as 24 kHz would be under
    sound = np.frombuffer(speech.pcm, dtype="<i2").astype(np.float64)
    power = np.abs(np.fft.rfft(sound)) ** 2
    frequencies = np.fft.rfftfreq(len(sound), 1 / rate_hz)
    band = power[(frequencies > 60) & (frequencies < 4000)].sum() / power.sum()
    assert band > 0.9  # a voice's energy lies here only if the rate is right


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Please wait while I transfer your call to the office."),
        ("pt", "Espere um momento enquanto eu transfiro a sua chamada."),
    ],
)
def test_b5_tempo_is_what_was_asked_for(engines: EngineSet, language: str, text: str) -> None:
    plain, fast = (len(say(engines, text, language, tempo).pcm) for tempo in (1.0, 1.3))
    assert plain / fast == pytest.approx(1.3, abs=0.13)  # a voice varies by a few per cent from run to run


@pytest.mark.parametrize("language", ["en", "pt"])
def test_level_and_head_of_a_clip(engines: EngineSet, language: str) -> None:
    speech = say(engines, "Hello, this is the hospital." if language == "en" else "Alô, aqui é do hospital.", language)
    sound = np.frombuffer(speech.pcm, dtype="<i2").astype(np.float64) / 32768
    assert np.abs(sound).max() <= 10 ** (-1 / 20) + 1e-3
    first = np.flatnonzero(np.abs(sound) > np.abs(sound).max() * 0.03)[0]
    assert first / speech.rate_hz < 0.08
    assert active_level(sound.astype(np.float32), speech.rate_hz) == pytest.approx(-19.0, abs=1.0)


def test_i11_the_telephone_costs_a_voice_few_words(engines: EngineSet, tmp_path: Path) -> None:
    voice = engines.synthesizer.engines["en"]
    row = measure_voice(voice, "piper:x", "en", texts_for("en", 3), engines.recognizer, 0.45, tmp_path)
    assert row["readback_wer_8k"] <= row["readback_wer_16k"] + 0.03
    assert row["loudness_db"] == pytest.approx(-19.0, abs=2.0) and row["alias_db"] <= -40
    assert row["respoken"] == 0 and row["sentences"] == 3
    assert {path.name.partition("medium-")[2] for path in tmp_path.iterdir()} == {
        "full-band.wav",
        "phone.wav",
        "tempo-0.8.wav",
        "tempo-1.3.wav",
        "over-original.wav",
    }


def test_i02_a_long_sentence_is_spoken_to_its_end(engines: EngineSet) -> None:
    text = (
        "The committee met on Thursday, and after a long debate about the budget, the schools, the roads and the "
        "hospital, the members agreed that nothing should be decided before the new figures were known, which, as the "
        "chairman said, would take at least another month, if not two, because the accountants were away, the offices "
        "were closed for the summer, and nobody had the keys to the cabinet in which the papers were kept"
    )
    assert len(text) > 400
    heard = words(hear(engines, over_the_phone(say(engines, text, "en")), "en").text)
    assert {"committee", "debate", "hospital", "chairman", "accountants", "summer", "cabinet", "papers"} <= set(heard)


def test_missing_pairs_and_voices_are_named(engines: EngineSet) -> None:
    with pytest.raises(LookupError, match="en to zh"):
        engines.run(TranslateTask(("x",), "en", "zh"))
    with pytest.raises(LookupError, match="'zh'"):
        engines.run(SynthesizeTask("x", "zh"))


def test_firefox_is_dropped_on_its_own_thread(
    model_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", faults.append)
    before = set(threading.enumerate())
    engine = build("firefox:firefox-en-pt", TRANSLATORS, model_dir, 1)
    (owner,) = set(threading.enumerate()) - before
    assert engine.translate(["Yes."], source="en", target="pt").texts == ("Sim.",)
    del engine
    gc.collect()
    owner.join(timeout=5)
    assert not owner.is_alive()
    assert faults == []
