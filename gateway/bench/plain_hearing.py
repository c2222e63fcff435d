# SPDX-License-Identifier: GPL-3.0-or-later
"""The plain pipeline hears what a stream heard: each utterance on its own, cut by hand, with the same model.

Its words are what the model can hear at all; what it hears and the stream does not was lost by the streaming.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gateway.audio.resample import resample
from gateway.bench.corpus import Line, Placed
from gateway.bench.demo import Say
from gateway.bench.sdp import RATE_HZ
from gateway.bench.stream_figures import Group, Segment, recalled, word_figures
from gateway.runtime import model_store, worker_threads
from gateway.settings import Loaded
from gateway.speech.engines.registry import RECOGNIZERS, build
from gateway.speech.jobs import MODEL_RATE_HZ
from gateway.speech.protocols import Recognizer

MARGIN = RATE_HZ * 3 // 10  # 300 ms on either side


def plain_recognizer(loaded: Loaded) -> Recognizer:
    """The settings' model in faster-whisper's own loop."""
    model = loaded.settings.speech.recognizer.split(":")[1]
    threads = worker_threads(loaded.settings)
    made: Recognizer = build(f"faster_whisper:{model}", RECOGNIZERS, model_store(loaded).ensure_verified, threads)
    return made


def plain_groups(
    lines: Sequence[Line], language: str, hear: Callable[[], Recognizer], say: Say
) -> list[tuple[Group, ...]]:
    """What it hears of each line's utterances, a group each."""
    recognizer = hear()
    found: list[tuple[Group, ...]] = []
    for line in lines:
        groups = []
        for placed in line.placed:
            first, end = max(0, placed.first_sample - MARGIN), placed.last_sample + MARGIN
            pcm = resample(np.ascontiguousarray(line.pcm[first:end]), RATE_HZ, MODEL_RATE_HZ)
            text = recognizer.recognize(pcm.tobytes(), language=language).text
            groups.append(Group((placed,), (Segment(placed.name, first, end, text, placed.end_s),)))
            if len(groups) % 20 == 0:
                say(f"plain: {len(groups)} of {len(line.placed)} utterances")
        found.append(tuple(groups))
    return found


def beside_plain(heard: Sequence[Sequence[Group]], plain: Sequence[Sequence[Group]], language: str) -> dict[str, Any]:
    """The plain pipeline's own figures, and the first and last words that it heard and the stream did not.

    Both sequences hold the groups of each line.
    """
    lost: dict[str, list[str]] = {"first": [], "last": []}
    for mine, theirs in zip(heard, plain, strict=True):
        words = {_place(one.placed): one for group in mine for one in recalled(group, language)}
        for other in (one for group in theirs for one in recalled(group, language)):
            own = words[_place(other.placed)]
            for name, which in (("first", 0), ("last", -1)):
                if other.words and other.words[which] and not own.words[which]:
                    lost[name].append(other.placed.name)
    figures = word_figures([group for each in plain for group in each], language)
    return {**figures, "first_words_lost": lost["first"], "last_words_lost": lost["last"]}


def _place(placed: Placed) -> tuple[str, int]:
    return placed.name, placed.first_sample
