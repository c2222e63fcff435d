# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts: recordings take the place of texts, bad ones are told at once, and the cache knows its voice (SPEC A10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import soundfile

from gateway.call.controls import HELP, NOTHING, ORIGINAL_OFF, ORIGINAL_ON, PAUSED, RESUMED, SWAPPED, TEMPOS, UNKNOWN
from gateway.call.menu import MENU_PROMPTS
from gateway.call.party import LEG_RATE_HZ
from gateway.call.prompt_files import load_recordings
from gateway.call.prompts import CALLER_DISCLOSURE, NEEDED, PromptBook, PromptError, load_prompt_texts, shipped_prompts
from gateway.speech.jobs import SynthesizeTask
from tests.call.scripted import ScriptedSpeech

pytestmark = pytest.mark.unit

NAMES = (*NEEDED, "please-repeat")


def tone(seconds: float, rate_hz: int, channels: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    wave = np.int16(8000) * np.sign(np.sin(np.arange(round(seconds * rate_hz)) / 9))
    return np.asarray(wave if channels == 1 else np.stack([wave] * channels, axis=1), np.int16)


def test_recordings_are_found_by_language_and_name_and_brought_to_the_rate(tmp_path: Path) -> None:
    (tmp_path / "pt").mkdir()
    (tmp_path / ".DS_Store").write_text("")
    soundfile.write(tmp_path / "pt" / "please-repeat.wav", tone(0.5, 44_100), 44_100)
    recorded = load_recordings(tmp_path, NAMES, rate_hz=LEG_RATE_HZ)
    assert list(recorded) == [("pt", "please-repeat")]
    assert recorded["pt", "please-repeat"].size == pytest.approx(0.5 * LEG_RATE_HZ, abs=2)


def test_everything_wrong_with_the_folder_is_told_at_once_with_the_remedy(tmp_path: Path) -> None:
    pt = tmp_path / "pt"
    pt.mkdir()
    soundfile.write(pt / "please-repaet.wav", tone(0.5, 8000), 8000)
    soundfile.write(pt / "please-repeat.wav", tone(0.5, 8000, channels=2), 8000)
    soundfile.write(pt / "caller-disclosure.wav", np.zeros(8000, np.int16), 8000)
    (pt / "callee-disclosure.wav").write_bytes(b"RIFFnothing")
    (tmp_path / "please-repeat.wav").write_bytes(b"")
    with pytest.raises(PromptError) as told:
        load_recordings(tmp_path, NAMES, rate_hz=LEG_RATE_HZ)
    lines = str(told.value).splitlines()
    assert len(lines) == 5
    for words in ("rename it to please-repeat.wav", "2 channels", "no sound", "16-bit PCM WAV", "only LANGUAGE/NAME"):
        assert sum(words in line for line in lines) == 1, words


def test_a_prompt_of_more_than_a_minute_is_refused(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    soundfile.write(tmp_path / "en" / "please-repeat.wav", tone(61, 8000), 8000)
    with pytest.raises(PromptError, match="longer than 60 s"):
        load_recordings(tmp_path, NAMES, rate_hz=LEG_RATE_HZ)


def test_a_missing_folder_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"call\.prompt_dir"):
        load_recordings(tmp_path / "none", NAMES, rate_hz=LEG_RATE_HZ)


def test_a_language_that_is_recorded_needs_no_texts(tmp_path: Path) -> None:
    texts = tmp_path / "prompts.yaml"
    texts.write_text("en: {caller-disclosure: a, callee-disclosure: b}\n")
    with pytest.raises(PromptError, match="'pt' lacks"):
        load_prompt_texts(texts, ["en", "pt"])
    load_prompt_texts(texts, ["en", "pt"], {("pt", name) for name in NEEDED})


def test_a_recording_is_said_instead_of_the_text_and_nothing_is_synthesized(tmp_path: Path) -> None:
    async def work() -> None:
        mine = np.full(100, 5, np.int16)
        texts = {"en": {CALLER_DISCLOSURE: "hello", "please-repeat": "again"}}
        recorded = {("en", CALLER_DISCLOSURE): mine}
        book = PromptBook(texts, {"en": "e:m@1"}, rate_hz=8000, cache=tmp_path, recorded=recorded)
        speech = ScriptedSpeech()
        await book.load(speech)
        assert [ticket.task.text for ticket in speech.of(SynthesizeTask)] == ["again"]
        assert book.clip("en", CALLER_DISCLOSURE) is mine
        assert book.has("en", texts["en"]) and not book.has("en", ["other"])
        assert book.lacks("en", ["please-repeat", CALLER_DISCLOSURE, "other"]) == ["other"]

    asyncio.run(work())


def test_a_prompt_is_made_once_for_each_voice_and_text(tmp_path: Path) -> None:
    async def made(voice: str, text: str) -> int:
        speech = ScriptedSpeech()
        await PromptBook({"en": {"x": text}}, {"en": voice}, rate_hz=8000, cache=tmp_path).load(speech)
        return len(speech.tickets)

    async def work() -> list[int]:
        orders = [("e:m@1", "hello"), ("e:m@1", "hello"), ("e:m@2", "hello"), ("e:m@1", "good day")]
        return [await made(*order) for order in orders]

    assert asyncio.run(work()) == [1, 0, 1, 1]


def test_what_is_not_needed_at_once_is_made_when_nobody_talks(tmp_path: Path) -> None:
    async def work() -> None:
        texts = {"en": {CALLER_DISCLOSURE: "hello", "please-repeat": "again", "left-out": "less"}}
        speech = ScriptedSpeech()
        made_at: list[int] = []

        async def idle() -> None:
            made_at.append(len(speech.tickets))

        book = PromptBook(texts, {"en": "e:m@1"}, rate_hz=8000, cache=tmp_path)
        await book.load(speech, NEEDED)
        assert not made_at and len(speech.tickets) == 1
        await book.load(speech, idle=idle)
        assert made_at == [1, 2] and book.has("en", texts["en"])

    asyncio.run(work())


def test_the_shipped_prompts_say_in_every_language_all_that_the_gateway_can_say() -> None:
    shipped = load_prompt_texts(shipped_prompts(), ())
    controls = {HELP, NOTHING, ORIGINAL_OFF, ORIGINAL_ON, PAUSED, RESUMED, SWAPPED, UNKNOWN}
    wanted = {*NEEDED, *MENU_PROMPTS, *controls, *(name for name, _ in TEMPOS)}
    for language, texts in shipped.items():
        assert wanted <= set(texts), language
        assert set(texts) == set(shipped["en"]), language
