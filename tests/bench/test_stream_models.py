# SPDX-License-Identifier: GPL-3.0-or-later
"""A short dialogue of human speech with the real recogniser, on a continuous line in virtual time."""

from __future__ import annotations

import pytest

from gateway.bench.corpus import CorpusMissing, human_prompts, lay
from gateway.bench.simulate import VirtualSpeech, local_recognizer
from gateway.bench.stream_bench import PAUSE_MS, figures
from gateway.bench.tail_bench import HearingEngines
from gateway.bench.talk import Talk, hold, in_virtual_time
from gateway.call.desk import Booth
from gateway.settings import load_settings
from gateway.speech.errors import ModelMissing

pytestmark = pytest.mark.model


def test_s4_2_human_speech_on_a_continuous_line() -> None:
    try:
        (line,) = lay(human_prompts("en"), utterances=5, pause_ms=PAUSE_MS, seed=7)
    except CorpusMissing as missing:
        pytest.skip(str(missing))
    loaded = load_settings(None, {})
    try:
        engines = HearingEngines(local_recognizer(loaded), ("en", "pt"))
    except ModelMissing as missing:
        pytest.skip(str(missing))

    async def act(desk: Booth) -> Talk:
        return await hold(desk, [line], ("en", "pt"), "consecutive", say=lambda message: None)

    talk, cpu_s = in_virtual_time(loaded, act, VirtualSpeech(engines, threads=2))
    found = figures([line], talk, "en", "pt")
    assert found["utterances"] == 5
    assert found["lost"] == 0
    assert found["duplicates"] == {"segment_ids": 0, "joins": 0}
    assert found["wer"] < 0.15
    assert found["last_word_recall"] >= 0.8
    assert found["audio_end_to_final"]["count"] >= 4
    assert cpu_s > 0
