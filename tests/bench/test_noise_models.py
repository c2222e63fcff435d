# SPDX-License-Identifier: GPL-3.0-or-later
"""A7, F01, E08: what nobody said is spoken to nobody, through detector, end-pointer and the real recogniser."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.bench.noise_bench import not_speech, trigger_row
from gateway.bench.noises import NOT_SPEECH
from gateway.bench.simulate import local_recognizer
from gateway.bench.tail_bench import HearingEngines
from gateway.settings import load_settings
from gateway.speech.errors import ModelMissing

pytestmark = pytest.mark.model

SECONDS = 3.0


def test_a7_a_few_seconds_of_each_sound_make_the_gateway_say_nothing() -> None:
    loaded = load_settings(None, {})
    try:
        engines = HearingEngines(local_recognizer(loaded), ("en", "pt"))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    sounds = [not_speech(name, SECONDS, 5) for name in NOT_SPEECH]
    row = trigger_row(loaded, engines, "all", np.concatenate(sounds))
    assert row.spoken == row.recognised == 0, row.texts
    assert 1 <= row.decodings <= 30  # music is decoded, or the test would prove nothing of the guard
