# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.26 with the real recogniser: a voice in white noise of 5 dB comes down to safety words, and "help" is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from gateway.audio.loudness import active_level
from gateway.bench.dialogue import PROMPTS
from gateway.call.party import LEG_RATE_HZ
from gateway.call.prompts import PromptBook
from gateway.call.safety_mode import SafetyMode
from gateway.call.turns import TurnRules
from gateway.speech.engines.registry import RECOGNIZERS, build
from gateway.speech.jobs import RecognizeTask, Result, SynthesizeTask, Task
from tests.call.duplex import Duplex, Sound

pytestmark = pytest.mark.model

LEVEL_DBFS, SNR_DB = -20.0, 5.0
TICK = LEG_RATE_HZ // 10


class Listener(Duplex):
    """Both directions; what A says goes to a real recogniser."""

    def __init__(self, recognizer: Any) -> None:
        super().__init__({"en": [""], "pt": [""]})
        self.recognizer = recognizer

    def answer(self, task: Task) -> Result:
        if isinstance(task, RecognizeTask):
            result: Result = self.recognizer.recognize(task.pcm, language=task.language, hotwords=task.hotwords)
            return result
        return super().answer(task)


def in_noise(*names: str) -> Sound:
    gap = np.zeros(round(0.8 * LEG_RATE_HZ))
    parts = [gap]
    for name in names:
        file = PROMPTS / f"{name}.wav"
        if not file.is_file():
            pytest.skip("needs human prompts: apt-get install asterisk-core-sounds-en-wav")
        pcm, _ = soundfile.read(file, dtype="float64")
        parts += [pcm * 10 ** ((LEVEL_DBFS - active_level(pcm.astype(np.float32), LEG_RATE_HZ)) / 20), gap]
    sound = np.concatenate(parts)
    sound += np.random.default_rng(3).standard_normal(sound.size) * 10 ** ((LEVEL_DBFS - SNR_DB) / 20)
    return (sound.clip(-1, 1) * 32767).astype(np.int16)


def test_s1_26_a_human_voice_in_noise_comes_down_to_safety_words(model_dir: Callable[[str], Path]) -> None:
    recognizer = build("whisper:whisper-base", RECOGNIZERS, model_dir, 2)

    async def work() -> None:
        call = Listener(recognizer)
        told: list[dict[str, Any]] = []
        clips = {(language, "safety-words"): np.full(160, 900, np.int16) for language in ("en", "pt")}
        book = PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent"), recorded=clips)
        directions = (call.a_to_b, call.b_to_a)
        mode = SafetyMode(directions, TurnRules(), prompts=book, tell=lambda kind, data: told.append(data))

        async def say(sound: Sound) -> None:
            for at in range(0, sound.size, TICK):
                await call.run(sound[at : at + TICK])
                mode.tick()

        await say(in_noise("vm-msgforwarded", "vm-whichbox", "privacy-prompt"))
        assert mode.on == [True, False] and told[0]["leg"] == "a" and told[0]["snr_db"] < 10
        before = len(call.speech.of(SynthesizeTask))
        await say(in_noise("vm-helpexit"))
        await call.run(1.5)
        spoken = [ticket.task.text for ticket in call.speech.of(SynthesizeTask)[before:]]
        assert any(text.endswith("socorro") for text in spoken), spoken
        assert not any("(pt)" in text for text in spoken), "a translator was asked"
        await call.close()

    asyncio.run(asyncio.wait_for(work(), 100))
