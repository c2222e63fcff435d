# SPDX-License-Identifier: GPL-3.0-or-later
"""When each word was said: dynamic time warping over Whisper's cross-attention.

The method is that of openai/whisper ``timing.py``; CTranslate2 does the warping (`Whisper.align`). One more pass of the
decoder over the known tokens, in parallel, so it costs a fraction of decoding. Only joins, trimming and clause pauses
need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gateway.speech.jobs import MODEL_RATE_HZ, HeardWord

ENCODER_FRAMES_PER_S = 50  # the encoder halves the 10 ms hop
MEDIAN_FILTER = 7  # of openai/whisper


def word_times(
    model: Any, encoded: Any, tokenizer: Any, tokens: Sequence[int], feature_frames: int
) -> tuple[HeardWord, ...]:
    """The words of ``tokens`` with their samples at 16 kHz from the start of the sound, and their mean probability."""
    words, word_tokens = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    if len(word_tokens) < 2:
        return ()
    found = model.align(
        encoded, tokenizer.sot_sequence, [list(tokens)], [feature_frames], median_filter_width=MEDIAN_FILTER
    )[0]
    text_at = np.array([pair[0] for pair in found.alignments])
    time_at = np.array([pair[1] for pair in found.alignments])
    jumps = np.pad(np.diff(text_at), (1, 0), constant_values=1).astype(bool)
    samples = time_at[jumps] * (MODEL_RATE_HZ // ENCODER_FRAMES_PER_S)
    borders = np.pad(np.cumsum([len(each) for each in word_tokens[:-1]]), (1, 0))
    timed: list[HeardWord] = []
    for word, first, end in zip(words, borders[:-1], borders[1:], strict=False):
        text = word.strip()
        if timed and text and not any(char.isalnum() for char in text):
            timed[-1] = replace(timed[-1], text=timed[-1].text + text)  # a mark has no time of its own
        elif text:
            confidence = float(np.mean(found.text_token_probs[first:end]))
            timed.append(HeardWord(text, int(samples[first]), int(samples[end]), confidence))
    return tuple(timed)
