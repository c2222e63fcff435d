# SPDX-License-Identifier: GPL-3.0-or-later
"""Human telephone prompts to speak with, and a recogniser's ear for what a telephone heard."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from gateway.bench.capture import SPEECH_DBFS, Pcm, Track, by_time, level_envelope
from gateway.bench.dialogue import PROMPTS, trim
from gateway.bench.sdp import RATE_HZ
from gateway.speech.jobs import Recognition, RecognizeTask
from gateway.speech.local import Engines
from gateway.text.normal import normal_words

# What whisper-base understands word by word in this voice.
SAID = {
    "followme/status": "The person you are calling is not at their desk; I will try to locate them for you.",
    "followme/sorry": "I'm sorry, but I was unable to locate the person you are calling.",
    "queue-youarenext": "Your call is now first in line and will be answered by the next available representative.",
    "privacy-prompt": "Please enter your phone number, starting with the area code.",
    "vm-whichbox": "To leave a message, please enter a mailbox number.",
    "vm-msgforwarded": "Your message has been successfully forwarded.",
    "conf-waitforleader": "The conference will begin when the leader arrives.",
    "ss-noservice": "The number you have dialed is not in service. Please check the number and try again.",
}
_WINDOW_MS = 20


def prompt(name: str, work: Path) -> Path:
    """A recorded prompt as an 8 kHz file without silence around it; the test is skipped where there are none."""
    file = PROMPTS / f"{name}.wav"
    if not file.is_file():
        pytest.skip("needs human prompts: apt-get install asterisk-core-sounds-en-wav")
    sound, rate_hz = soundfile.read(file, dtype="int16")
    assert rate_hz == RATE_HZ
    out = work / f"{name.replace('/', '-')}.wav"
    soundfile.write(out, trim(sound), RATE_HZ, subtype="PCM_16")
    return out


def read_back(engines: Engines, pcm: Pcm, language: str | None = None, rate_hz: int = RATE_HZ) -> Recognition:
    """What the recogniser hears in sound of a telephone; language None lets it say which of the served ones it is.

    It is the one in which the recogniser is surest. Asked about all of its hundred languages, whisper-base takes a
    synthetic voice on a telephone line for Latin now and then.
    """
    wide = np.asarray(soxr.resample(pcm, rate_hz, 16_000), dtype=np.int16).tobytes()
    served = [language] if language else sorted({pair[0] for pair in engines.capabilities()["pairs"]})
    heard = [engines.run(RecognizeTask(wide, each)) for each in served]
    best = max(heard, key=lambda one: one.confidence if isinstance(one, Recognition) else 0.0)
    assert isinstance(best, Recognition)
    return best


def heard_between(track: Track, start_ns: int, end_ns: int) -> Pcm:
    """What arrived between two times, with a little silence around it, as a recogniser likes it."""
    rest = np.zeros(RATE_HZ // 4, np.int16)
    return np.concatenate([rest, by_time(track, start_ns, end_ns), rest])


def bursts(pcm: Pcm, *, apart_ms: int = 700, rate_hz: int = RATE_HZ) -> list[tuple[int, int]]:
    """(first, end) samples of each stretch of sound, parted by at least ``apart_ms`` of silence."""
    window = rate_hz * _WINDOW_MS // 1000
    loud = np.flatnonzero(level_envelope(pcm, rate_hz, _WINDOW_MS) >= SPEECH_DBFS)
    if not len(loud):
        return []
    breaks = [at for at, (one, two) in enumerate(pairwise(loud), start=1) if (two - one) * _WINDOW_MS > apart_ms]
    return [(int(run[0]) * window, (int(run[-1]) + 1) * window) for run in np.split(loud, breaks)]


def first_and_last(text: str, language: str) -> tuple[str, str]:
    """The words at the borders of a text."""
    words = normal_words(text, language)
    return words[0], words[-1]


def holds(words: Sequence[str], text: str, language: str) -> bool:
    """All the words are in the text."""
    return set(words) <= set(normal_words(text, language))
