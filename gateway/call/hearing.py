# SPDX-License-Identifier: GPL-3.0-or-later
"""A recognition on its way, and what is made of its words beside a forced cut.

A talker who never pauses is cut in mid-word. The sound behind a cut is therefore recognised with some of what lies
before it, and the words of both are joined by their times (SPEC S3.1).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gateway.call.interpretation import Interpretation
from gateway.call.live import CONTEXT_WORDS, LiveUtterance, words_on_leg
from gateway.speech.jobs import Recognition
from gateway.stream.events import Span
from gateway.stream.join import join, unhurt
from gateway.stream.words import words_of, written


@dataclass(frozen=True, slots=True)
class Hearing:
    """A recognition on its way, the utterance it belongs to, and the sound it covers."""

    interpretation: Interpretation
    live: LiveUtterance
    span: Span
    is_cut: bool = False
    """It ends in a forced cut."""


def last_words(before: Hearing) -> str:
    """What was understood before a cut, for the recogniser to go on from; nothing while that is not known (S3.4)."""
    return written(words_of(before.interpretation.outcome.source_text)[-CONTEXT_WORDS:])


async def text_beside_cut(
    span: Span, before: Hearing | None, is_cut: bool, rate_hz: int, counts: Counter[str], heard: Recognition
) -> str:
    """The text of a recognition beside a forced cut: no word twice, and none that the cut went through.

    ``before`` is what was heard up to the cut at the span's beginning, ``is_cut`` says whether it also ends in one.
    """
    words = words_on_leg(heard.words, span, rate_hz)
    if not words:
        return heard.text
    if before is not None:
        await before.interpretation.heard.wait()
        earlier = before.interpretation.outcome.heard
        known = unhurt(
            words_on_leg(earlier.words if earlier else (), before.span, rate_hz), before.span.end_sample, rate_hz
        )
        joined = join(known, words, rate_hz=rate_hz, seam=(span.first_sample, before.span.end_sample))
        counts[f"joined-{joined.decided_by.value}"] += 1
        words = joined.words[len(known) :]
    return written(unhurt(words, span.end_sample, rate_hz) if is_cut else words)
