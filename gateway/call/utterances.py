# SPDX-License-Identifier: GPL-3.0-or-later
"""The utterances of one direction, from the end-pointer's events to the end of what is spoken of them.

    begun → decoded while it grows (`live`) → a candidate in each silence → a segment → spoken, or lost for a reason

In consecutive mode a segment is recognised, translated and spoken as a whole, begun in the silence behind it. In
simultaneous mode the growing utterance is decoded as it goes, clauses are released from what is stable
(`stream.clause`) and spoken one by one (`clauses`); the segment's own recognition only finishes what is still open.
Utterances are spoken in the order in which they were said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from gateway.audio.loudness import amplified
from gateway.call.ahead import Ahead
from gateway.call.clause_line import ClauseLine
from gateway.call.clauses import ClauseSpeaker, SpokenClause
from gateway.call.desk import Booth
from gateway.call.ear import Ear
from gateway.call.floor import Floor
from gateway.call.gate import Withheld
from gateway.call.hearing import Hearing, last_words, text_beside_cut
from gateway.call.identified import Identified
from gateway.call.interpretation import ECHO, INTERRUPTED, LOW_CONFIDENCE, Interpretation, Outcome
from gateway.call.live import LiveUtterance, Seam, Step
from gateway.call.minutes import Entry, Minutes, Publish
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.call.prompts import LEFT_OUT, PLEASE_REPEAT
from gateway.speech.errors import QueueFull
from gateway.speech.jobs import MODEL_RATE_HZ, Recognition, Speech
from gateway.stream.buffering import AdaptiveBuffer
from gateway.stream.clocks import SegmentClocks, Stamp, StopClock
from gateway.stream.events import (
    EndCause,
    EndpointEvent,
    Finalized,
    Lost,
    Prepare,
    Release,
    SegmentEvent,
    Span,
    SpeechEnded,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    Submit,
    Terminal,
)
from gateway.stream.lag import SENTENCES, LagPolicy, Waiting
from gateway.stream.manner import Talker
from gateway.stream.plan import Mode
from gateway.stream.segments import SegmentLine
from gateway.text.numbers.row import NumberRow

log = structlog.get_logger(__name__)

VOICE_DBFS = -19.0  # active level of all voices (`speech.engines.clip`)
REPEAT_PAUSE_NS = 5_000_000_000  # "please repeat" is said at most every 5 s
OVERLAP_MS = 800  # of sound before a forced cut: a long word and its neighbour


@dataclass(frozen=True, slots=True)
class Listening:
    """What one direction listens with, and whom it tells: the stages that its utterances go through."""

    call_id: str
    source: Party
    target: Party
    booth: Booth
    publish: Publish
    ear: Ear
    talker: Talker
    floor: Floor
    identified: Identified
    minutes: Minutes
    counts: Counter[str]
    arrival_ns: Callable[[int], int]
    """When a sample of the talker's came; now, if that is not known."""


class Utterances:
    """Belongs to a `Direction` and its loop. ``on_text`` is told that a text has become final."""

    def __init__(self, listening: Listening, on_text: Callable[[], None]) -> None:
        self.stop_clock = StopClock()
        self._live: LiveUtterance | None = None
        """The utterance under way."""
        self._at = listening
        self._on_final_text = on_text
        self._clock = listening.booth.clock
        self._line = SegmentLine(listening.source.leg, self._mint)
        self._buffer = AdaptiveBuffer(listening.source.rate_hz)
        self._lag = LagPolicy(SENTENCES)
        self._row = NumberRow(listening.source.rate_hz)
        self._lives: dict[int, LiveUtterance] = {}
        self._candidates: dict[str, Hearing] = {}
        self._hearings: dict[str, Hearing] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._spoken: asyncio.Event | None = None
        self._overlap_samples = OVERLAP_MS * listening.source.rate_hz // 1000
        self._cut_at = -1
        self._before_cut: dict[int, Hearing] = {}
        self._seam: Seam | None = None
        self._vad_end_ns: dict[int, int] = {}
        self._speech_end_sample: dict[int, int] = {}
        self._stopped = False
        self._minted = 0
        self._repeat_ns = -REPEAT_PAUSE_NS
        self._clauses = ClauseSpeaker(
            leg=listening.source.leg,
            speech=listening.booth.speech,
            mouth=listening.target,
            pending_s=listening.target.playout.pending_s,
            on_begin=self._clause_begins,
            on_lost=self._clause_lost,
            on_notice=self._say_left_out,
            clock=self._clock,
        )
        self._clause_line = ClauseLine(
            listening.call_id,
            listening.source,
            speaker=self._clauses,
            minutes=listening.minutes,
            floor=listening.floor,
            publish=listening.publish,
            arrival_ns=listening.arrival_ns,
            clock=self._clock,
        )

    @property
    def over(self) -> bool:
        """True when nothing will be spoken any more."""
        return self._line.terminal and not self._following and self._clauses.idle

    @property
    def preview(self) -> str:
        """What is understood so far of the utterance under way."""
        return self._live.agreement.preview if self._live else ""

    # --- what its direction says --------------------------------------------------------------------------------

    def on_endpoint(self, event: EndpointEvent, plan: DirectionPlan, *, tail_quiet: bool) -> None:
        """An utterance begins, pauses, goes on or ends, under this plan."""
        match event:
            case SpeechStarted():
                self._live = self._lives[event.first_sample] = self._new_live(event.first_sample, plan)
            case SpeechPaused():
                if self._live is not None:
                    self._live.pause()
            case SpeechResumed():
                if self._live is not None:
                    self._live.ahead.go_on()
            case SpeechEnded():
                self._vad_end_ns[event.first_sample] = self._clock()
                self._speech_end_sample[event.first_sample] = event.speech_end
                self._cut_at = event.end_sample if event.cause is EndCause.CUT else -1
                self._seam = Seam(self._cut_at - self._overlap_samples, self._cut_at) if self._cut_at > 0 else None
                self._live = None
        for out in self._line.on_endpoint(event, plan.version, tail_quiet=tail_quiet):
            self._do(out)

    def grow(self) -> None:
        """More of the utterance under way has been heard: decode it if it is time."""
        if self._live is not None:
            self._at.counts["previews_asked"] += self._live.grow(self._at.ear.heard)

    def cut(self) -> None:
        """The listener talks: speak nothing of what was said before this moment."""
        for hearing in self._hearings.values():
            hearing.interpretation.cut()
        self._clauses.cut()

    def tick(self) -> None:
        """Submit again what a full queue refused."""
        for event in self._line.tick():
            self._do(event)

    def silence(self) -> None:
        """The talker says nothing: let go what waits for more words."""
        if not self._lives:
            self._clause_line.silence(self._at.ear.heard)

    def ending(self) -> None:
        """The sound has ended: what the end-pointer still tells is the last of it."""
        self._stopped = True
        self.stop_clock.stop(self._clock())

    def stop(self) -> None:
        """Nothing more will be told."""
        for event in self._line.stop():
            self._do(event)

    async def close(self) -> None:
        """The call is over: what was not spoken yet is counted as lost."""
        for candidate in self._candidates.values():
            candidate.interpretation.withdraw()
        self._candidates.clear()
        for live in self._lives.values():
            live.stop()
            live.ahead.stop()
        self._lives.clear()
        for follower in self._following:
            follower.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await self._clauses.close()
        for event in self._line.abandon("call-ended"):
            self._do(event)

    def _new_live(self, first_sample: int, plan: DirectionPlan) -> LiveUtterance:
        plan = plan.for_utterance(first_sample)
        cut = self._seam is not None and self._seam.cut_sample == first_sample
        return LiveUtterance(
            first_sample,
            plan,
            ear=self._at.ear,
            speech=self._at.booth.speech,
            leg=self._at.source.leg,
            rate_hz=self._at.source.rate_hz,
            buffer=self._buffer,
            on_step=self._on_step,
            ahead=Ahead(
                plan,
                self._at.booth.speech,
                self._at.source.leg,
                self._at.counts,
                wanted=self._at.booth.begin_ahead,
            ),
            clock=self._clock,
            seam=self._seam if cut and plan.mode == Mode.SIMULTANEOUS else None,
        )

    # --- segments ---------------------------------------------------------------------------------------------------

    def _do(self, event: SegmentEvent) -> None:
        match event:
            case Prepare():
                self._prepare(event)
            case Release():
                released = self._candidates.pop(event.candidate_id, None)
                if released is not None:
                    released.interpretation.withdraw()
            case Submit():
                self._submit(event)
            case Finalized():
                self._finalized(event)
            case Lost():
                self._lost(event.segment_id, event.reason)
            case Terminal():
                self.stop_clock.terminal(self._clock())
                self._clause_line.flush()

    def _hearing(self, name: str, span: Span) -> Hearing:
        """A recognition of the span; in simultaneous mode only of what is not committed yet."""
        live = self._lives[span.first_sample]
        whole = live.plan.mode == Mode.CONSECUTIVE
        before = self._before_cut.get(span.first_sample) if whole else None
        first = span.first_sample if whole else live.from_sample
        if before is not None:
            first = max(before.span.first_sample, first - self._overlap_samples)
        covered = replace(span, first_sample=first)
        is_cut = whole and span.end_sample == self._cut_at
        beside_cut = is_cut or before is not None
        playing_ms = round(self._at.target.playout.pending_s() * 1000)
        pace = self._lag.next((Waiting(name, 0),), self._clock(), playing_ms=playing_ms)
        settle = partial(text_beside_cut, covered, before, is_cut, self._at.source.rate_hz, self._at.counts)
        interpretation = Interpretation(
            name,
            self._at.ear.cut(covered),
            live.plan,
            leg=self._at.source.leg,
            speech=self._at.booth.speech,
            mouth=self._at.target,
            on_text=self._on_text,
            clock=self._clock,
            speak=whole,
            words=beside_cut,
            context=last_words(before) if before is not None else live.context,
            settle=settle if beside_cut else None,
            ahead=live.ahead if whole else None,
            admit=partial(self._at.floor.admit, (first, span.end_sample)) if whole else None,
            identify=self._at.identified.asked((first, span.end_sample)),
            tempo=pace.tempo,
            echo=self._at.floor.echoes(first, span.end_sample),
            going_on=lambda text: self._row.going_on(text, live.plan.source, span.first_sample),
            manner=partial(self._at.talker.manner, first, span.end_sample) if self._at.booth.follow_talker else None,
        )
        return Hearing(interpretation, live, covered, span.end_sample == self._cut_at)

    def _prepare(self, event: Prepare) -> None:
        candidate = self._hearing(event.candidate_id, event.span)
        try:
            candidate.interpretation.start(confirmed=False)
        except QueueFull:
            self._at.counts["prepares_refused"] += 1
            self._line.withdrawn(event.candidate_id)
            return
        self._candidates[event.candidate_id] = candidate

    def _submit(self, event: Submit) -> None:
        hearing = self._candidates.pop(event.candidate_id, None) if event.candidate_id else None
        speculative = hearing is not None
        if hearing is None:
            hearing = self._hearing(event.segment_id, event.span)
            try:
                hearing.interpretation.start(confirmed=True)
            except QueueFull:
                for out in self._line.refused(event.segment_id):
                    self._do(out)
                return
        self._line.accepted(event.segment_id)
        first, interpretation = event.span.first_sample, hearing.interpretation
        clocks = SegmentClocks(event.segment_id)
        clocks.mark(Stamp.AUDIO_END, self._at.arrival_ns(self._speech_end_sample.pop(first, event.span.end_sample) - 1))
        clocks.mark(Stamp.VAD_END, self._vad_end_ns.pop(first, self._clock()))
        clocks.mark(Stamp.SUBMIT, interpretation.outcome.submitted_ns)
        if hearing.live.first_preview_ns:
            clocks.mark(Stamp.PREVIEW, hearing.live.first_preview_ns)
        self._at.minutes.add(
            Entry(
                event.segment_id,
                (first, event.span.end_sample),
                interpretation.plan,
                interpretation.outcome,
                clocks,
                self._at.arrival_ns(first),
                speculative,
            )
        )
        self._hearings[event.segment_id] = hearing
        if event.span.end_sample == self._cut_at:
            self._before_cut = {self._cut_at: hearing}  # of the utterance that begins at the cut
        before, self._spoken = self._spoken, interpretation.spoken
        interpretation.confirm(event.segment_id, before)
        follower = asyncio.create_task(self._follow(event.segment_id, hearing), name=f"follow-{event.segment_id}")
        self._following.add(follower)
        follower.add_done_callback(self._following.discard)

    def _on_text(self, segment_id: str, outcome: Outcome) -> None:
        """The segment's recognition is there, and the segment is confirmed: its text is final."""
        hearing = self._hearings[segment_id]
        text = outcome.source_text
        self._at.minutes.put_under(segment_id, hearing.interpretation.plan)
        if outcome.rejected != ECHO:
            self._at.identified.settle((hearing.span.first_sample, hearing.span.end_sample), outcome.heard)
        if hearing.live.plan.mode == Mode.SIMULTANEOUS:
            heard = outcome.heard or Recognition("", "", 0.0)
            said = heard if text else replace(heard, text="", words=())
            words = hearing.live.finish(said, hearing.span, is_cut=hearing.is_cut)
            self._clause_line.commit(hearing.live.plan, words, self._at.ear.heard)
            self._known_to_the_cut(hearing)
            text = "" if outcome.rejected == ECHO else hearing.live.agreement.text
        else:
            hearing.live.stop()
        self._lives.pop(hearing.live.first_sample, None)
        self._row.note(text, hearing.live.plan.source, hearing.span.end_sample)
        for event in self._line.finalized(segment_id, text):
            self._do(event)

    def _known_to_the_cut(self, hearing: Hearing) -> None:
        """What was understood before a forced cut is final: the utterance behind it may be decoded."""
        if self._seam is not None and hearing.span.end_sample == self._seam.cut_sample:
            self._seam.known = hearing.live.agreement.committed

    def _finalized(self, event: Finalized) -> None:
        entry = self._at.minutes.get(event.segment_id)
        assert entry is not None
        entry.clocks.mark(Stamp.FINAL, self._clock())
        outcome = entry.outcome
        self._at.floor.settle(outcome.verdict)
        if not event.text:
            self._at.counts[f"silent-{outcome.rejected or 'nothing-said'}"] += 1
            if outcome.rejected == LOW_CONFIDENCE:
                self._at.publish("unclear", {"segment_id": event.segment_id, "leg": self._at.source.side})
                self._ask_to_repeat()
            return
        self._at.talker.learn(*entry.span, event.text)
        self._on_final_text()
        self._at.publish("heard", entry.as_heard(self._at.source.side, event.text))

    async def _follow(self, segment_id: str, hearing: Hearing) -> None:
        """Wait until the utterance is spoken, or has failed; then its record is complete but for the playing."""
        interpretation = hearing.interpretation
        try:
            failure = await interpretation.finished()
        except asyncio.CancelledError:
            failure = "call-ended"
        self._hearings.pop(segment_id, None)
        self._lives.pop(hearing.live.first_sample, None)
        hearing.live.ahead.stop()
        outcome = interpretation.outcome
        if failure is not None:
            hearing.live.stop()
            self._known_to_the_cut(hearing)
            for event in self._line.failed(segment_id, failure):
                self._do(event)
            if self._at.minutes.get(segment_id) is not None:
                self._lost(segment_id, failure)  # its text was final, but it could not be spoken
        elif not outcome.source_text or not interpretation.speaks:
            self._at.minutes.drop(segment_id)
        elif outcome.verdict.withheld:
            self._at.minutes.lose(segment_id, outcome.verdict.withheld)
            if outcome.verdict.withheld is Withheld.SAME_LANGUAGE:
                self._hand_on(segment_id, hearing)
        elif not outcome.first_audio_ns:
            self._at.minutes.lose(segment_id, "nothing-to-say")

    def _hand_on(self, segment_id: str, hearing: Hearing) -> None:
        """The words by which a leg turned out to speak the other's language, where they were not heard as they came."""
        expected = hearing.live.plan.source != self._at.target.language
        if expected and not self._at.target.playout.original_wanted:
            own = amplified(self._at.ear.cut(hearing.span), self._at.talker.gain_to(VOICE_DBFS))
            self._at.target.say(segment_id, Speech(own, MODEL_RATE_HZ, "own"), more_follows=False)

    def _lost(self, segment_id: str, reason: str) -> None:
        if not self._at.minutes.lose(segment_id, reason):
            self._at.publish("lost", {"segment_id": segment_id, "leg": self._at.source.side, "reason": reason})
        self._at.counts[f"lost-{reason}"] += 1
        log.warning("segment_lost", call=self._at.call_id, segment=segment_id, reason=reason)
        if reason not in ("call-ended", INTERRUPTED) and not self._stopped:
            self._ask_to_repeat()

    # --- clauses, in simultaneous mode --------------------------------------------------------------------------------

    def _on_step(self, live: LiveUtterance, step: Step) -> None:
        if step.agreement.is_preview:
            self._at.publish("preview", live.as_preview(step, self._at.call_id, self._at.source.side))
        if live.plan.mode == Mode.SIMULTANEOUS:
            if not self._at.floor.echoes(live.first_sample, self._at.ear.heard):
                self._clause_line.commit(live.plan, step.agreement.committed, self._at.ear.heard)
        else:
            # all but the ragged last word: a guess need not be stable, it only has to come early
            live.ahead.consider((*live.agreement.committed, *step.agreement.unstable)[:-1])

    def _clause_begins(self, clause: SpokenClause, outcome: Outcome) -> None:
        entry = self._at.minutes.get(clause.clause_id)
        if entry is not None:
            entry.outcome = outcome

    def _clause_lost(self, clause_id: str, reason: str) -> None:
        if reason.startswith("merged"):
            self._at.minutes.merge(reason.removeprefix("merged-"), clause_id)
            return
        self._lost(clause_id, reason)

    def _say_left_out(self) -> None:
        """The listener is told that something was left out."""
        self._at.target.prompt(LEFT_OUT, self._at.booth.prompts.clip(self._at.target.language, LEFT_OUT))

    # --- small parts ------------------------------------------------------------------------------------------------

    def _ask_to_repeat(self) -> None:
        """The talker is told, in their own language, that this was lost: better than a silent hole."""
        now_ns = self._clock()
        if now_ns - self._repeat_ns >= REPEAT_PAUSE_NS:
            self._repeat_ns = now_ns
            self._at.source.prompt(PLEASE_REPEAT, self._at.booth.prompts.clip(self._at.source.language, PLEASE_REPEAT))

    def _mint(self) -> str:
        self._minted += 1
        return f"{self._at.call_id}-{self._at.source.side}{self._minted}"

    def statistics(self) -> dict[str, Any]:
        """Counts of every stage; no words."""
        return {
            "segments": self._line.statistics(),
            "clauses": self._clauses.statistics(),
            "buffer": self._buffer.statistics(),
            "stop_to_terminal_ns": self.stop_clock.stop_to_terminal_ns(),
        }
