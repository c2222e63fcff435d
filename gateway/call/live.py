# SPDX-License-Identifier: GPL-3.0-or-later
"""The utterance under way: decoded again and again while it grows, so that its beginning is known before its end.

Each decoding covers the sound from the last trimmed word border to now, in the recogniser's shortened window. What
successive decodings agree on is committed and never changes (`stream.agreement`); the rest is a preview, which may
change and is never spoken. Decodings are spaced by what they cost: they are the first thing that a busy machine leaves
out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from gateway.call.ahead import Ahead
from gateway.call.ear import Ear
from gateway.call.plan import DirectionPlan
from gateway.speech.errors import QueueFull, SpeechError
from gateway.speech.jobs import MODEL_RATE_HZ, Done, HeardWord, Priority, Recognition, RecognizeTask
from gateway.speech.protocols import SpeechService, Ticket
from gateway.stream.agreement import Agreement, AgreementStep, Hypothesis
from gateway.stream.buffering import AdaptiveBuffer
from gateway.stream.events import Span
from gateway.stream.join import join, unhurt
from gateway.stream.words import Word, words_of, written

FIRST_MS = 600  # sound before the first decoding: in less there is seldom a whole word
KEEP_WORDS = 3  # committed words that stay in the decoded sound, as context for the next ones
CONTEXT_WORDS = 20  # before a forced cut: the sentence under way, seldom more
TRIM_ABOVE_S = 6.0  # below this the encoder's window costs the same anyway
SHARE = 0.5  # of the time, at most, that decodings may take in consecutive mode, where they only show


@dataclass(slots=True)
class Seam:
    """Where a talker who never pauses was cut: the utterance behind it hears some of the sound before it again."""

    from_sample: int
    cut_sample: int
    known: tuple[Word, ...] | None = None
    """What was understood up to the cut; None until that is final."""

    @property
    def context(self) -> str:
        """The end of it, for the recogniser to go on from (SPEC S3.4)."""
        return written((self.known or ())[-CONTEXT_WORDS:])

    def behind(self, words: tuple[Word, ...], span: Span, rate_hz: int) -> tuple[Word, ...]:
        """The words of a decoding that begins before the cut, without those that are known."""
        if self.known is None:
            return tuple(word for word in words if (word.first_sample or 0) >= self.cut_sample)
        return join(self.known, words, rate_hz=rate_hz, seam=(span.first_sample, self.cut_sample)).words[
            len(self.known) :
        ]


@dataclass(frozen=True, slots=True)
class Step:
    """What a decoding changed, and the stamp of its result."""

    agreement: AgreementStep
    text: str
    at_ns: int


class LiveUtterance:
    """One utterance from its first sample on. ``on_step`` is told of each decoding that is not too late."""

    def __init__(
        self,
        first_sample: int,
        plan: DirectionPlan,
        *,
        ear: Ear,
        speech: SpeechService,
        leg: str,
        rate_hz: int,
        buffer: AdaptiveBuffer,
        on_step: Callable[[LiveUtterance, Step], None],
        ahead: Ahead,
        clock: Callable[[], int],
        seam: Seam | None = None,
    ) -> None:
        self.first_sample = first_sample
        self.plan = plan
        self.agreement = Agreement()
        self.from_sample = seam.from_sample if seam else first_sample
        """Where the decoded sound begins: the utterance's start, later a border of committed words."""
        self._seam = seam
        self.ahead = ahead
        self.finished = False
        self.first_preview_ns = 0
        self._skipped = 0
        self._ear = ear
        self._speech = speech
        self._leg = leg
        self._rate_hz = rate_hz
        self._buffer = buffer
        self._on_step = on_step
        self._clock = clock
        self._decoded_to = first_sample
        self._not_before_ns = 0
        self._ticket: Ticket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def context(self) -> str:
        """What was understood before the sound that is decoded, where that begins at a forced cut."""
        return self._seam.context if self._seam is not None and self.from_sample < self.first_sample else ""

    def as_preview(self, step: Step, call_id: str, side: str) -> dict[str, Any]:
        """What is told of a decoding: JSON-ready. It shows, and is never spoken."""
        return {
            "utterance": f"{call_id}-{side}@{self.first_sample}",
            "leg": side,
            "language": self.plan.source,
            "text": step.text,
            "stable": self.agreement.text,
            "words": [[word.text, word.confidence] for word in step.agreement.unstable],
        }

    def grow(self, heard: int) -> bool:
        """Sound up to ``heard`` is there: decode if it is time. True when a decoding was submitted."""
        new = heard - self._decoded_to
        least = self._buffer.buffer_samples
        if self._decoded_to == self.first_sample:
            least = max(least, FIRST_MS * self._rate_hz // 1000)
        if self._seam is not None and self._seam.known is None:
            return False  # what is final before the cut comes before what stands behind it
        if self.finished or self._ticket is not None or new < least or self._clock() < self._not_before_ns:
            return False
        span = Span(self.from_sample, heard, self.plan.version)
        task = RecognizeTask(
            self._ear.cut(span), self.plan.source, self.plan.lexicon.hotwords, context=self.context, words=True
        )
        try:
            self._ticket = self._speech.submit(self._leg, task, Priority.PREVIEW)
        except QueueFull:
            self._not_before_ns = self._clock() + self._buffer.buffer_ms * 1_000_000
            return False
        self._decoded_to = heard
        self._task = asyncio.create_task(self._await(self._ticket, span, new), name=f"preview-{self._leg}")
        return True

    def pause(self) -> None:
        """The talker pauses: a decoding that has not begun gives way to the candidate; one that runs is heard."""
        self.ahead.hold()
        if self._ticket is not None and self._ticket.withdraw():
            self._abort()

    def finish(self, heard: Recognition, span: Span, *, is_cut: bool = False) -> tuple[Word, ...]:
        """The utterance's last decoding; the words that were not committed before. Only the first call counts.

        ``is_cut``: the span ends in a forced cut.
        """
        if self.finished:
            return ()
        self.stop()
        last = self._hypothesis(heard, span)
        if is_cut:
            last = replace(last, words=unhurt(last.words, span.end_sample, self._rate_hz))
        return self.agreement.finish(last).committed

    def stop(self) -> None:
        """No more decodings."""
        self.finished = True
        if self._ticket is not None:
            self._ticket.cancel()
        self._abort()

    def _abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._ticket = self._task = None

    async def _await(self, ticket: Ticket, span: Span, new_samples: int) -> None:
        try:
            done = await ticket.result()
        except SpeechError:  # shed, or the worker was lost: the next decoding will cover this sound
            self._ticket = self._task = None
            return
        self._ticket = self._task = None
        assert isinstance(done, Done)
        heard = done.result
        assert isinstance(heard, Recognition)
        run_ns = done.done_ns - done.started_ns
        self._buffer.feed(new_samples, run_ns)
        if self.plan.mode == "consecutive":
            self._not_before_ns = self._clock() + round(run_ns * (1 / SHARE - 1))
        if self.finished or heard.rejected:
            return
        step = self.agreement.feed(self._hypothesis(heard, span))
        now_ns = self._clock()
        if step.is_preview and not self.first_preview_ns:
            self.first_preview_ns = now_ns
        self._trim()
        self._on_step(self, Step(step, self.agreement.preview, now_ns))

    def _hypothesis(self, heard: Recognition, span: Span) -> Hypothesis:
        words = words_on_leg(heard.words, span, self._rate_hz)
        if heard.text and not heard.words:
            words = tuple(words_of(heard.text))
        if self._seam is not None and span.first_sample < self.first_sample:
            words = self._seam.behind(words, span, self._rate_hz)
        return Hypothesis(words, span.end_sample, self._skipped)

    def _trim(self) -> None:
        """Drop committed sound from the next decoding, once it is long enough to cost something."""
        if self._decoded_to - self.from_sample < TRIM_ABOVE_S * self._rate_hz:
            return
        border = self.agreement.border(KEEP_WORDS)
        if border is not None and border.sample > self.from_sample:
            self.from_sample, self._skipped = border.sample, border.words


def words_on_leg(words: Iterable[HeardWord], span: Span, rate_hz: int) -> tuple[Word, ...]:
    """The words of a recognition of ``span``, with their places on the leg's own time line."""

    def at(sample: int) -> int:
        return min(span.first_sample + sample * rate_hz // MODEL_RATE_HZ, span.end_sample)

    return tuple(Word(word.text, at(word.first_sample), at(word.end_sample), word.confidence) for word in words)
