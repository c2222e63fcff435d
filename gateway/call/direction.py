# SPDX-License-Identifier: GPL-3.0-or-later
"""One direction of a call: what one party says, to the ear of the other.

    frames → voice detector → end-pointer → segments → interpretations → the other party's play-out

This is the only place where the pure stages meet the loop. `hear` runs them on what has arrived; everything slow is a
task of its own. Utterances are spoken in the order in which they were said.

In consecutive mode a segment is recognised, translated and spoken as a whole, begun in the silence behind it. In
simultaneous mode the growing utterance is decoded as it goes (`live`), clauses are released from what is stable
(`stream.clause`) and spoken one by one (`clauses`); the segment's own recognition only finishes what is still open.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from gateway.audio.loudness import amplified
from gateway.audio.playout import ClipKind
from gateway.call.ahead import Ahead
from gateway.call.clause_line import ClauseLine
from gateway.call.clauses import ClauseSpeaker, SpokenClause
from gateway.call.desk import Booth
from gateway.call.ear import Ear
from gateway.call.floor import Floor
from gateway.call.gate import Withheld
from gateway.call.hearing import Hearing, text_beside_cut
from gateway.call.identified import Identified
from gateway.call.interpretation import ECHO, INTERRUPTED, LOW_CONFIDENCE, Interpretation, Outcome
from gateway.call.live import LiveUtterance, Step
from gateway.call.minutes import Entry, Minutes, Publish
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.call.played import Played
from gateway.call.prompts import LEFT_OUT, PLEASE_REPEAT
from gateway.call.recording import CallRecorder
from gateway.call.wishes import Wishes
from gateway.speech.errors import QueueFull
from gateway.speech.jobs import MODEL_RATE_HZ, Recognition, Speech
from gateway.stream.buffering import AdaptiveBuffer
from gateway.stream.clocks import SegmentClocks, Stamp, StopClock
from gateway.stream.endpoint import Endpointer
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
    SpeechStarted,
    Submit,
    Terminal,
    VoiceFrame,
)
from gateway.stream.lag import LagPolicy, Waiting
from gateway.stream.manner import Talker
from gateway.stream.plan import Mode
from gateway.stream.segments import SegmentLine

log = structlog.get_logger(__name__)

VOICE_DBFS = -19.0  # active level of all voices (`speech.engines.clip`)
REPEAT_PAUSE_NS = 5_000_000_000  # "please repeat" is said at most every 5 s
OVERLAP_MS = 800  # of sound before a forced cut: a long word and its neighbour


class Direction:
    """Listens to ``source`` and speaks to ``target``. All methods belong to the asyncio loop."""

    def __init__(
        self,
        call_id: str,
        source: Party,
        target: Party,
        plan: DirectionPlan,
        *,
        booth: Booth,
        publish: Publish,
        recorder: CallRecorder | None = None,
        on_language: Callable[[str], None] = lambda language: None,
    ) -> None:
        self.plan = plan
        self.source = source
        self.target = target
        self.last_voice_ns = 0
        """When an utterance was last under way."""
        self._call_id = call_id
        self._booth = booth
        self._publish = publish
        self._recorder = recorder
        endpoint = booth.endpoint_for(plan.mode)
        self._wishes = Wishes(plan, booth)
        self._ear = Ear(endpoint.rate_hz, endpoint.frame_ms, booth.vad_aggressiveness)
        self._talker = Talker(source.rate_hz)
        self._endpointer = Endpointer(endpoint)
        self._line = SegmentLine(source.leg, self._mint)
        self._buffer = AdaptiveBuffer(self.source.rate_hz)
        self._minutes = Minutes(source.side, publish)
        self._played = Played(source.side, target, self._minutes, booth.prompts, publish)
        self._floor = Floor(
            booth.turns,
            source,
            target,
            talker=self._talker,
            arrival_ns=self._arrival_ns,
            prompts=booth.prompts,
            publish=publish,
            clock=booth.clock,
        )
        self._identified = Identified(
            source,
            booth.turns,
            habits=self._talker,
            wishes=self._wishes,
            publish=publish,
            clock=booth.clock,
            change=on_language,
        )
        self._lag = LagPolicy()
        self._live: LiveUtterance | None = None
        self._lives: dict[int, LiveUtterance] = {}
        self._candidates: dict[str, Hearing] = {}
        self._hearings: dict[str, Hearing] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._spoken: asyncio.Event | None = None
        self._cut_at = -1
        self._before_cut: dict[int, Hearing] = {}
        self._clauses = ClauseSpeaker(
            leg=source.leg,
            speech=booth.speech,
            mouth=target,
            pending_s=target.playout.pending_s,
            on_begin=self._clause_begins,
            on_lost=self._clause_lost,
            on_notice=self._say_left_out,
            clock=booth.clock,
        )
        self._clause_line = ClauseLine(
            call_id,
            source,
            speaker=self._clauses,
            minutes=self._minutes,
            floor=self._floor,
            publish=publish,
            arrival_ns=self._arrival_ns,
            clock=booth.clock,
        )
        self._stop_clock = StopClock()
        self._listening = False
        self._skip_samples = 0
        self._paused_by: set[str] = set()
        self._stopped = False
        self._minted = Counter[str]()
        self._vad_end_ns: dict[int, int] = {}
        self._speech_end_sample: dict[int, int] = {}
        self._repeat_ns = -REPEAT_PAUSE_NS
        self._counts: Counter[str] = Counter()

    @property
    def over(self) -> bool:
        """True when nothing will be spoken any more."""
        return self._line.terminal and not self._following and self._clauses.idle

    # --- what the call says ---------------------------------------------------------------------------------------

    def listen(self, skip_ms: int = 0) -> None:
        """The party is there: what comes from now on is speech to be interpreted, not early media.

        ``skip_ms`` of what comes next are still early media, on their way through the jitter buffer.
        """
        self.hear()
        self.pass_through()
        self._skip_samples = skip_ms * self.source.rate_hz // 1000
        self._listening = True

    def pause(self, reason: str) -> None:
        """Interpret nothing until this reason is taken back by `resume`; what was said before it is still spoken."""
        if not self._paused_by:
            self.hear()
            if self._ear.started and not self._stopped:
                for event in self._endpointer.interrupt(self._ear.heard):
                    self._on_endpoint(event)
        self._paused_by.add(reason)

    @property
    def paused(self) -> bool:
        """True while nothing is interpreted, for any reason."""
        return bool(self._paused_by)

    def resume(self, reason: str) -> None:
        """Take one reason for the pause back; the last one lets the next utterance be heard."""
        if self._paused_by == {reason}:
            self.hear()  # what came during the pause
        self._paused_by.discard(reason)

    def set_mode(self, mode: str) -> None:
        """Interpret from the next utterance on in this mode. ValueError for an unknown one."""
        self._wishes.set_mode(mode)
        self._endpointer.replan(self._booth.endpoint_for(mode))

    def set_languages(self, voice: str | None) -> None:
        """Interpret from the next utterance on between the languages that the parties have now, in this voice."""
        self._wishes.set_languages(self.source.language, self.target.language, voice)
        self._identified.moved_to(self.source.language)
        self.pass_through()

    def identify(self, candidates: tuple[str, ...]) -> None:
        """Find out from the next utterance on which of these languages the party speaks; none: it is as set."""
        self._identified.look_among(candidates)

    def pass_through(self) -> None:
        """Two who speak the same language hear each other: as loud as a translation, and without one (SPEC B4)."""
        same = self.source.language == self.target.language
        self.target.playout.set_passing(self._talker.gain_to(VOICE_DBFS) if same else None)

    def wanted(self) -> DirectionPlan:
        """The plan that the next utterance will work under."""
        return self._wishes.next(self.plan)

    def set_original(self, on: bool) -> None:
        """Let the listener hear the talker's own voice under the translation, or not."""
        self.target.playout.set_original(on)

    def set_tempo(self, ratio: float) -> None:
        """Speak faster (over 1) or slower to the listener, what is under way included. ValueError beyond 0.6 to 1.6."""
        self.target.playout.set_tempo(ratio)

    def interrupts(self) -> bool:
        """Whether the talker has interrupted what they hear, since the last look."""
        return self._floor.interrupts(self.plan.source, self._live.agreement.preview if self._live else "")

    def cut(self) -> None:
        """The listener talks: fade what is being spoken, and speak nothing of what was said before this moment."""
        cut = self.target.playout.flush(ClipKind.TRANSLATION)
        for hearing in self._hearings.values():
            hearing.interpretation.cut()
        self._clauses.cut()
        self._counts["interrupted"] += 1
        self._publish("interrupted", {"leg": self.source.side, "clips": len(cut)})

    def hear(self) -> None:
        """Take what has arrived from the party."""
        for frame in self.source.ring.drain():
            if self._recorder is not None:
                self._recorder.said(self.source.side, frame)
            if self._skip_samples > 0:
                self._skip_samples -= frame.samples
            elif self._listening and not self._stopped:
                self.target.playout.hear_original(frame.pcm)  # in a pause too: then the parties talk to each other
                for verdict in () if self._paused_by else self._ear.feed(frame):
                    self._judge(verdict)

    def tick(self) -> None:
        """Submit again what a full queue refused; note what has been played; let go what waits for more words."""
        for event in self._line.tick():
            self._do(event)
        self._played.tick()
        waiting_since_ns = None if self._endpointer.speaking else self._minutes.waiting_since_ns()
        self.target.wait(self._booth.clock(), waiting_since_ns)
        if not self._endpointer.speaking and not self._lives:
            self._clause_line.silence(self._ear.heard)

    def stop(self) -> None:
        """The party is gone, or the sound has ended: end what is under way. The same path for both (SPEC S4.10)."""
        if self._stopped:
            return
        self.hear()
        self._stopped = True
        self._stop_clock.stop(self._booth.clock())
        for verdict in self._ear.finish():
            self._judge(verdict)
        if self._ear.started:
            for endpoint_event in self._endpointer.finish(self._ear.heard):
                self._on_endpoint(endpoint_event)
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
        self.tick()
        self._minutes.close("call-ended")

    # --- sound in ---------------------------------------------------------------------------------------------------

    def _judge(self, verdict: VoiceFrame) -> None:
        self._talker.feed(verdict)
        self._floor.feed(verdict)
        for event in self._endpointer.feed(verdict):
            self._on_endpoint(event)
        if self._endpointer.speaking:
            self.last_voice_ns = self._booth.clock()
            # in a pause the candidate comes first; without previews only simultaneous mode needs the growing text
            wanted = (self._booth.previews or self.plan.mode == Mode.SIMULTANEOUS) and self._identified.known
            if self._live is not None and verdict.is_speech and wanted:
                self._counts["previews_asked"] += self._live.grow(self._ear.heard)

    def _on_endpoint(self, event: EndpointEvent) -> None:
        match event:
            case SpeechStarted():
                self._refresh_plan()
                self._live = self._lives[event.first_sample] = self._new_live(event.first_sample)
            case SpeechPaused():
                if self._live is not None:
                    self._live.pause()
            case SpeechEnded():
                self._vad_end_ns[event.first_sample] = self._booth.clock()
                self._speech_end_sample[event.first_sample] = event.speech_end
                self._cut_at = event.end_sample if event.cause is EndCause.LONGEST else -1
                self._live = None
        for out in self._line.on_endpoint(event, self.plan.version, tail_quiet=self._endpointer.tail_quiet):
            self._do(out)

    def _refresh_plan(self) -> None:
        """Between utterances, and only there, newer terms, modes and languages come into force (invariant 8)."""
        self.plan = self._identified.as_known(self.wanted())

    def _new_live(self, first_sample: int) -> LiveUtterance:
        plan = self.plan.for_utterance(first_sample)
        return LiveUtterance(
            first_sample,
            plan,
            ear=self._ear,
            speech=self._booth.speech,
            leg=self.source.leg,
            rate_hz=self.source.rate_hz,
            buffer=self._buffer,
            on_step=self._on_step,
            ahead=Ahead(plan, self._booth.speech, self.source.leg, self._counts),
            clock=self._booth.clock,
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
                self._stop_clock.terminal(self._booth.clock())
                self._clause_line.flush()

    def _hearing(self, name: str, span: Span) -> Hearing:
        """A recognition of the span; in simultaneous mode only of what is not committed yet."""
        live = self._lives[span.first_sample]
        whole = live.plan.mode == Mode.CONSECUTIVE
        before = self._before_cut.get(span.first_sample) if whole else None
        first = span.first_sample if whole else live.from_sample
        if before is not None:
            first = max(before.span.first_sample, first - OVERLAP_MS * self.source.rate_hz // 1000)
        covered = replace(span, first_sample=first)
        is_cut = whole and span.end_sample == self._cut_at
        beside_cut = is_cut or before is not None
        playing_ms = round(self.target.playout.pending_s() * 1000)
        pace = self._lag.next((Waiting(name, 0),), self._booth.clock(), playing_ms=playing_ms)
        settle = partial(text_beside_cut, covered, before, is_cut, self.source.rate_hz, self._counts)
        interpretation = Interpretation(
            name,
            self._ear.cut(covered),
            live.plan,
            leg=self.source.leg,
            speech=self._booth.speech,
            mouth=self.target,
            on_text=self._on_text,
            clock=self._booth.clock,
            speak=whole,
            words=beside_cut,
            settle=settle if beside_cut else None,
            ahead=live.ahead if whole else None,
            admit=partial(self._floor.admit, (first, span.end_sample)) if whole else None,
            identify=self._identified.asked((first, span.end_sample)),
            tempo=pace.tempo,
            echo=self._floor.echoes(first, span.end_sample),
            manner=partial(self._talker.manner, first, span.end_sample) if self._booth.follow_talker else None,
        )
        return Hearing(interpretation, live, covered)

    def _prepare(self, event: Prepare) -> None:
        candidate = self._hearing(event.candidate_id, event.span)
        try:
            candidate.interpretation.start(confirmed=False)
        except QueueFull:
            self._counts["prepares_refused"] += 1
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
        clocks.mark(Stamp.AUDIO_END, self._arrival_ns(self._speech_end_sample.pop(first, event.span.end_sample) - 1))
        clocks.mark(Stamp.VAD_END, self._vad_end_ns.pop(first, self._booth.clock()))
        clocks.mark(Stamp.SUBMIT, interpretation.outcome.submitted_ns)
        if hearing.live.first_preview_ns:
            clocks.mark(Stamp.PREVIEW, hearing.live.first_preview_ns)
        self._minutes.add(
            Entry(
                event.segment_id,
                (first, event.span.end_sample),
                interpretation.plan,
                interpretation.outcome,
                clocks,
                self._arrival_ns(first),
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
        self._minutes.put_under(segment_id, hearing.interpretation.plan)
        if outcome.rejected != ECHO:
            self._identified.settle((hearing.span.first_sample, hearing.span.end_sample), outcome.heard)
        if hearing.live.plan.mode == Mode.SIMULTANEOUS:
            heard = outcome.heard or Recognition("", "", 0.0)
            said = heard if text else replace(heard, text="", words=())
            self._clause_line.commit(hearing.live.plan, hearing.live.finish(said, hearing.span), self._ear.heard)
            text = "" if outcome.rejected == ECHO else hearing.live.agreement.text
        else:
            hearing.live.stop()
        self._lives.pop(hearing.live.first_sample, None)
        for event in self._line.finalized(segment_id, text):
            self._do(event)

    def _finalized(self, event: Finalized) -> None:
        entry = self._minutes.get(event.segment_id)
        assert entry is not None
        entry.clocks.mark(Stamp.FINAL, self._booth.clock())
        outcome = entry.outcome
        self._floor.settle(outcome.verdict)
        if not event.text:
            self._counts[f"silent-{outcome.rejected or 'nothing-said'}"] += 1
            if outcome.rejected == LOW_CONFIDENCE:
                self._publish("unclear", {"segment_id": event.segment_id, "leg": self.source.side})
                self._ask_to_repeat()
            return
        self._talker.learn(*entry.span, event.text)
        self.pass_through()
        self._publish("heard", entry.as_heard(self.source.side, event.text))

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
            for event in self._line.failed(segment_id, failure):
                self._do(event)
            if self._minutes.get(segment_id) is not None:
                self._lost(segment_id, failure)  # its text was final, but it could not be spoken
        elif not outcome.source_text or not interpretation.speaks:
            self._minutes.drop(segment_id)
        elif outcome.verdict.withheld:
            self._minutes.lose(segment_id, outcome.verdict.withheld)
            if outcome.verdict.withheld is Withheld.SAME_LANGUAGE:
                self._hand_on(segment_id, hearing)
        elif not outcome.first_audio_ns:
            self._minutes.lose(segment_id, "nothing-to-say")

    def _hand_on(self, segment_id: str, hearing: Hearing) -> None:
        """The words by which a leg turned out to speak the other's language, where they were not heard as they came."""
        expected = hearing.live.plan.source != self.target.language
        if expected and not self.target.playout.original_wanted:
            own = amplified(self._ear.cut(hearing.span), self._talker.gain_to(VOICE_DBFS))
            self.target.say(segment_id, Speech(own, MODEL_RATE_HZ, "own"), more_follows=False)

    def _lost(self, segment_id: str, reason: str) -> None:
        if not self._minutes.lose(segment_id, reason):
            self._publish("lost", {"segment_id": segment_id, "leg": self.source.side, "reason": reason})
        self._counts[f"lost-{reason}"] += 1
        log.warning("segment_lost", call=self._call_id, segment=segment_id, reason=reason)
        if reason not in ("call-ended", INTERRUPTED) and not self._stopped:
            self._ask_to_repeat()

    # --- clauses, in simultaneous mode --------------------------------------------------------------------------------

    def _on_step(self, live: LiveUtterance, step: Step) -> None:
        if step.agreement.is_preview:
            self._publish("preview", live.as_preview(step, self._call_id, self.source.side))
        if live.plan.mode == Mode.SIMULTANEOUS:
            if not self._floor.echoes(live.first_sample, self._ear.heard):
                self._clause_line.commit(live.plan, step.agreement.committed, self._ear.heard)
        else:
            # all but the ragged last word: a guess need not be stable, it only has to come early
            live.ahead.consider((*live.agreement.committed, *step.agreement.unstable)[:-1])

    def _clause_begins(self, clause: SpokenClause, outcome: Outcome) -> None:
        entry = self._minutes.get(clause.clause_id)
        if entry is not None:
            entry.outcome = outcome

    def _clause_lost(self, clause_id: str, reason: str) -> None:
        if reason.startswith("merged"):
            self._minutes.merge(reason.removeprefix("merged-"), clause_id)
            return
        self._lost(clause_id, reason)

    def _say_left_out(self) -> None:
        """The listener is told that something was left out."""
        self.target.prompt(LEFT_OUT, self._booth.prompts.clip(self.target.language, LEFT_OUT))

    # --- small parts ------------------------------------------------------------------------------------------------

    def _ask_to_repeat(self) -> None:
        """The talker is told, in their own language, that this was lost: better than a silent hole."""
        now_ns = self._booth.clock()
        if now_ns - self._repeat_ns >= REPEAT_PAUSE_NS:
            self._repeat_ns = now_ns
            self.source.prompt(PLEASE_REPEAT, self._booth.prompts.clip(self.source.language, PLEASE_REPEAT))

    def _mint(self) -> str:
        self._minted["segments"] += 1
        return f"{self._call_id}-{self.source.side}{self._minted['segments']}"

    def _arrival_ns(self, sample: int) -> int:
        arrived_ns = self._ear.arrival_ns(sample)
        return self._booth.clock() if arrived_ns is None else arrived_ns

    def statistics(self) -> dict[str, Any]:
        """Counts of every stage; no words."""
        return {
            "mode": self.plan.mode,
            "paused": bool(self._paused_by),
            "endpoint": self._endpointer.statistics(),
            "segments": self._line.statistics(),
            "ear": self._ear.statistics(),
            "clauses": self._clauses.statistics(),
            "turns": self._floor.statistics(),
            "language": self._identified.statistics(),
            "buffer": self._buffer.statistics(),
            "stop_to_terminal_ns": self._stop_clock.stop_to_terminal_ns(),
            **self._counts,
        }
