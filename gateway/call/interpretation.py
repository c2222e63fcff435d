# SPDX-License-Identifier: GPL-3.0-or-later
"""One utterance's way from sound to spoken translation.

It may start as a candidate, in the silence after the speech and before anybody knows that the speech is over: then
it runs with low priority and stops at the gate, with the first piece of sound in hand. `confirm` opens the gate; the
utterance then belongs to the segment and goes on with high priority. `withdraw` ends a candidate that was overtaken
by more speech. What is behind the gate cannot be withdrawn: it is spoken, or it fails for a counted reason.

In simultaneous mode the two halves come apart: an utterance is only heard (``speak=False``), and each clause of it,
whose text is known already, is only spoken (``source`` is a text).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from gateway.audio.loudness import amplified
from gateway.call.ahead import Ahead
from gateway.call.gate import TRANSLATE, Verdict, Withheld
from gateway.call.pieces import speech_pieces
from gateway.call.plan import DirectionPlan
from gateway.call.rendering import Rendered, Route, render
from gateway.speech.errors import QueueFull, SpeechError
from gateway.speech.jobs import (
    Done,
    Priority,
    Recognition,
    RecognizeTask,
    Speech,
    Task,
    Translation,
)
from gateway.speech.protocols import SpeechService, Ticket
from gateway.stream.manner import USUAL, Manner
from gateway.text.hotwords import repair_hotwords
from gateway.text.safety import SafetyWord

log = structlog.get_logger(__name__)

LOW_CONFIDENCE = "low-confidence"
HOPELESS = 0.05  # calibrated confidence below which not even a safety word is believed: one of twenty would be right
ECHO = "echo"
INTERRUPTED = "interrupted"
SLOWEST, FASTEST = 0.8, 1.3  # of style and talker together; the lag policy's own limit is the same
PAUSE_MS = 120  # between clauses, before the lag policy shortens it: a talker's own short pause


@dataclass(slots=True)
class Outcome:
    """What became of an utterance so far; stamps are monotonic ns, 0 when it was not reached."""

    source_text: str = ""
    target_text: str = ""
    confidence: float = 0.0
    rejected: str | None = None
    verdict: Verdict = TRANSLATE
    """Whether the text is to be translated."""
    hotwords: int = 0
    """Misheard words that were pulled to a hotword."""
    transliterated: int = 0
    """Words that the voice said by Latin letters, because it does not read their script."""
    rules: int = 0
    """Corrections by the rule map."""
    continued: bool = False
    """It went on with a number that was begun before, digit by digit."""
    begun_ahead: bool = False
    """The sound of its beginning was there already (`ahead`)."""
    safety: tuple[SafetyWord, ...] = ()
    """The safety words that were said, where nothing else is translated."""
    rendered: Rendered = field(default_factory=lambda: Rendered(""))
    """The translation, and what became of its numbers, terms and idioms."""
    heard: Recognition | None = None
    """The recognition itself, with its words where they were asked for."""
    submitted_ns: int = 0
    translated_ns: int = 0
    first_audio_ns: int = 0


class Mouth(Protocol):
    """Where spoken pieces go."""

    def say(self, name: str, speech: Speech, *, more_follows: bool, gap_ms: int = 0) -> None:
        """Queue one piece of the utterance ``name`` for play-out, and a pause behind it."""


class Identify(Protocol):
    """What is known of the talker's language, where that has to be found out."""

    @property
    def candidates(self) -> tuple[str, ...]:
        """What it can be; empty when it is pinned."""

    @property
    def known(self) -> bool:
        """False: any of them."""

    def plan_for(self, plan: DirectionPlan, heard: Recognition) -> DirectionPlan:
        """The plan under which the utterance stands after all."""


class Interpretation:
    """Runs one utterance through recognise, translate, speak. One asyncio task; no state is shared with others."""

    def __init__(
        self,
        name: str,
        source: bytes | str,
        plan: DirectionPlan,
        *,
        leg: str,
        speech: SpeechService,
        mouth: Mouth,
        on_text: Callable[[str, Outcome], None],
        clock: Callable[[], int] = time.monotonic_ns,
        speak: bool = True,
        words: bool = False,
        context: str = "",
        settle: Callable[[Recognition], Awaitable[str]] | None = None,
        translation: str | None = None,
        ahead: Ahead | None = None,
        admit: Callable[[DirectionPlan, str], Verdict] | None = None,
        identify: Identify | None = None,
        tempo: float = 1.0,
        gap_factor: float = 1.0,
        manner: Callable[[str], Manner] | None = None,
        echo: bool = False,
        going_on: Callable[[str], str | None] | None = None,
    ) -> None:
        self.name = name
        """The candidate's id, then the segment's."""
        self.plan = plan
        self.outcome = Outcome()
        self._hearing = (
            RecognizeTask(
                source,
                plan.source if identify is None or identify.known else None,
                plan.hotwords,
                context=context,
                words=words or not speak,
                candidates=identify.candidates if identify is not None else (),
            )
            if isinstance(source, bytes)
            else None
        )
        self._identify = identify
        self._settle = settle
        """Makes the text from a recognition whose sound overlaps a neighbour's; by default it is its own."""
        self.heard = asyncio.Event()
        """Set when the recognition is there, or never will be."""
        if isinstance(source, str):
            self.outcome.source_text, self.outcome.rules = plan.lexicon.rules.replaced(source)
        self.speaks = speak
        """False when it is only heard, and others speak."""
        self._known_translation = translation
        self._ahead = ahead
        self._admit = admit
        """Decides whether a text is to be translated; by default each is."""
        self._tempo = tempo
        self._echo = echo
        """The sound is what the talker's telephone was given to play (`echo`)."""
        self._going_on = going_on
        """How to write a text that goes on with a number; None for any other."""
        self._manner_of = manner
        """How the talker says a text, for the voice to follow; None: as the voice speaks by itself."""
        self._gap_ms = round(PAUSE_MS * gap_factor * plan.delivery.pauses) if isinstance(source, str) else 0
        self._leg = leg
        self._speech = speech
        self._mouth = mouth
        self._on_text = on_text
        self._clock = clock
        self._confirmed = asyncio.Event()
        self._recognised = False
        self._cut = False
        self._before: asyncio.Event | None = None
        self.spoken = asyncio.Event()
        """Set when the last piece is queued, or never will be: the next utterance may speak."""
        self._ticket: Ticket | None = None
        self._task: asyncio.Task[str | None] | None = None

    # --- its owner's side ---------------------------------------------------------------------------------------

    def start(self, *, confirmed: bool) -> None:
        """Submit the recognition. QueueFull: nothing was accepted, and the interpretation must be thrown away."""
        if confirmed:
            self._confirmed.set()
        self.outcome.submitted_ns = self._clock()
        if self._hearing is not None:
            priority = Priority.FINAL if confirmed else Priority.PREPARE
            self._ticket = self._speech.submit(self._leg, self._hearing, priority)
        self._task = asyncio.create_task(self._run(), name=f"interpret-{self.name}")

    def confirm(self, segment_id: str, before: asyncio.Event | None) -> None:
        """The silence lasted: the candidate becomes the segment's job. ``before`` is set when it may speak."""
        self.name = segment_id
        self._before = before
        self._confirmed.set()
        if self._ticket is not None:
            self._ticket.promote(Priority.FINAL)
        if self._recognised:
            self._on_text(self.name, self.outcome)

    def cut(self) -> None:
        """The listener talks: say no piece of it any more. What was not begun ends as ``interrupted``."""
        self._cut = True

    def withdraw(self) -> None:
        """Cancel a candidate. RuntimeError for a confirmed one: an accepted job is finished or counted."""
        if self._confirmed.is_set():
            raise RuntimeError(f"{self.name} is confirmed and cannot be withdrawn")
        if self._task is not None:
            self._task.cancel()
        self.spoken.set()

    async def finished(self) -> str | None:
        """Wait for the end; None when all was said, else the reason why not."""
        assert self._task is not None
        try:
            return await self._task
        finally:
            self.spoken.set()
            self.heard.set()

    # --- the line of stages -------------------------------------------------------------------------------------

    async def _run(self) -> str | None:
        try:
            if self._hearing is not None:
                await self._recognise(self._hearing)
            self._recognised = True
            if not self.outcome.source_text or not self.speaks or self.outcome.verdict.withheld:
                await self._confirmed.wait()
                return None
            await self._translate()
            if not await self._say():
                return INTERRUPTED
        except QueueFull:
            return "queue-full"
        except SpeechError as error:
            log.warning("interpretation_failed", leg=self._leg, error=type(error).__name__, detail=str(error))
            return "recogniser-failed" if not self._recognised else "speech-failed"
        return None

    async def _recognise(self, hearing: RecognizeTask) -> None:
        done = await self._ask(hearing, Priority.FINAL, self._ticket)
        heard = done.result
        assert isinstance(heard, Recognition)
        outcome = self.outcome
        if self._identify is not None and self.speaks:
            self.plan = self._identify.plan_for(self.plan, heard)
            if heard.text and heard.language != self.plan.source:
                again = replace(hearing, language=self.plan.source, hotwords=self.plan.hotwords, candidates=())
                shares, again_heard = heard.languages, (await self._ask(again, Priority.FINAL)).result
                assert isinstance(again_heard, Recognition)
                heard = replace(again_heard, languages=shares)
        outcome.heard = heard
        self.heard.set()
        text = await self._settle(heard) if self._settle is not None else heard.text
        text, repairs = repair_hotwords(text.strip(), self.plan.hotwords, heard.confidence)
        outcome.source_text, outcome.rules = self.plan.lexicon.rules.replaced(text)
        outcome.hotwords = len(repairs)
        outcome.confidence = heard.confidence ** (1 / self.plan.temperature)
        outcome.rejected = heard.rejected
        if self._admit is not None and outcome.source_text:
            outcome.verdict = self._admit(self.plan, outcome.source_text)
        if self.plan.safety_words is not None and outcome.verdict.withheld is None:
            found = self.plan.safety_words.found(outcome.source_text)
            outcome.safety = found if outcome.confidence >= HOPELESS else ()
            if outcome.safety:
                outcome.source_text = self.plan.safety_words.said(outcome.safety)
            elif outcome.source_text:
                outcome.verdict = Verdict(Withheld.NOISE)
        if self._echo:
            outcome.verdict = Verdict(Withheld.ECHO)
        unclear = outcome.confidence < self.plan.repeat_below and outcome.verdict.withheld is None
        if outcome.source_text and unclear and not outcome.safety:
            outcome.source_text, outcome.rejected = "", LOW_CONFIDENCE
        if outcome.verdict.withheld is Withheld.ECHO:  # whatever was understood, nobody said it
            outcome.source_text, outcome.rejected = "", ECHO
        self._recognised = True
        if self._confirmed.is_set():
            self._on_text(self.name, outcome)

    async def _translate(self) -> None:
        outcome, plan = self.outcome, self.plan
        if plan.safety_words is not None:
            sure = outcome.confidence >= plan.repeat_below
            outcome.rendered = Rendered(plan.safety_words.spoken(outcome.safety, sure=sure))
            outcome.target_text, outcome.translated_ns = outcome.rendered.text, self._clock()
            return
        route = Route(plan.source, plan.target, self._translated)
        goes_on = self._going_on(outcome.source_text) if self._going_on is not None else None
        outcome.continued = goes_on is not None
        text = goes_on or outcome.source_text
        rendered = await render(text, route, plan.lexicon, known=self._known_translation)
        outcome.rendered, outcome.target_text = rendered, rendered.text.strip()
        outcome.translated_ns = self._clock()

    async def _translated(self, texts: Sequence[str]) -> Sequence[str]:
        done = await self._ask(self.plan.translating(texts), Priority.FINAL)
        assert isinstance(done.result, Translation)
        return done.result.texts

    async def _say(self) -> bool:
        """False when it was cut before anything was said."""
        outcome, plan = self.outcome, self.plan
        ready = await self._ahead.take(outcome.target_text) if self._ahead is not None else None
        outcome.begun_ahead = ready is not None
        rest = outcome.target_text[len(ready[0]) :].strip() if ready else outcome.target_text
        pieces = [ready[0]] if ready else []
        if rest:
            # what is heard first gives time for a longer second piece
            pieces += speech_pieces(rest, plan.target, plan.first_chars * (2 if ready else 1))
        manner = self._manner_of(outcome.source_text) if self._manner_of is not None else USUAL
        for number, piece in enumerate(pieces):
            speech = ready[1] if ready and number == 0 else await self._synthesized(piece, manner.tempo)
            outcome.transliterated += speech.transliterated
            speech = replace(speech, pcm=amplified(speech.pcm, manner.gain_db + plan.delivery.gain_db))
            if number == 0:
                outcome.first_audio_ns = self._clock()
                await self._confirmed.wait()
                if self._before is not None:
                    await self._before.wait()
            if self._cut:
                return number > 0
            more = number + 1 < len(pieces)
            self._mouth.say(self.name, speech, more_follows=more, gap_ms=0 if more else self._gap_ms)
        return True

    async def _synthesized(self, piece: str, manner_tempo: float) -> Speech:
        delivery = self.plan.delivery
        own = min(max(manner_tempo * delivery.tempo, SLOWEST), FASTEST)
        tempo = max(self._tempo, own) if self._tempo > 1 else own  # who falls behind does not slow down
        task = self.plan.saying(piece, tempo)
        done = await self._ask(task, Priority.CLAUSE)
        assert isinstance(done.result, Speech)
        return done.result

    async def _ask(self, task: Task, when_confirmed: Priority, ticket: Ticket | None = None) -> Done:
        """Submit a task with the priority that fits and wait for its result; a guess that was shed waits."""
        while True:
            confirmed = self._confirmed.is_set()
            try:
                if ticket is None:
                    ticket = self._speech.submit(self._leg, task, when_confirmed if confirmed else Priority.PREPARE)
                self._ticket = ticket
                done = await ticket.result()
                assert isinstance(done, Done)
                return done
            except QueueFull:
                if confirmed:
                    raise
                ticket = None
                await self._confirmed.wait()
            except asyncio.CancelledError:
                if ticket is not None:
                    ticket.cancel()
                raise
