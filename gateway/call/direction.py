# SPDX-License-Identifier: GPL-3.0-or-later
"""One direction of a call: what one party says, to the ear of the other.

    frames → voice detector → end-pointer → segments → interpretations → the other party's play-out

This is the only place where the pure stages meet the loop. `hear` runs them on what has arrived; everything slow is
an `Interpretation`, a task of its own. Utterances are spoken in the order in which they were said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from gateway.call.desk import Booth
from gateway.call.ear import Ear
from gateway.call.interpretation import Interpretation, Outcome
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.call.prompts import PLEASE_REPEAT
from gateway.call.recording import CallRecorder
from gateway.call.transcript import Utterance
from gateway.speech.errors import QueueFull
from gateway.stream.clocks import SegmentClocks, Stamp, StopClock
from gateway.stream.endpoint import Endpointer
from gateway.stream.events import (
    EndpointEvent,
    Finalized,
    Lost,
    Prepare,
    Release,
    SegmentEvent,
    Span,
    SpeechEnded,
    SpeechStarted,
    Submit,
    Terminal,
    VoiceFrame,
)
from gateway.stream.segments import SegmentLine

log = structlog.get_logger(__name__)

REPEAT_PAUSE_NS = 5_000_000_000  # "please repeat" is said at most every 5 s

Publish = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class _Segment:
    """What is known of a submitted segment until its record is published."""

    segment_id: str
    span: Span
    plan: DirectionPlan
    interpretation: Interpretation
    clocks: SegmentClocks
    audio_first_ns: int
    speculative: bool
    published: bool = False


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
    ) -> None:
        self.plan = plan
        self.source = source
        self.target = target
        self._call_id = call_id
        self._booth = booth
        self._publish = publish
        self._recorder = recorder
        endpoint = booth.endpoint
        self._ear = Ear(endpoint.rate_hz, endpoint.frame_ms, booth.vad_aggressiveness)
        self._endpointer = Endpointer(endpoint)
        self._line = SegmentLine(source.leg, self._mint)
        self._candidates: dict[str, Interpretation] = {}
        self._segments: dict[str, _Segment] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._spoken: asyncio.Event | None = None
        self._stop_clock = StopClock()
        self._listening = False
        self._stopped = False
        self._minted = 0
        self._vad_end_ns: dict[int, int] = {}
        self._speech_end_sample: dict[int, int] = {}
        self._repeat_ns = -REPEAT_PAUSE_NS
        self._counts: Counter[str] = Counter()
        self.last_voice_ns = 0
        """When an utterance was last under way."""

    @property
    def over(self) -> bool:
        """True when nothing will be spoken any more."""
        return self._line.terminal and not self._following

    # --- what the call says ---------------------------------------------------------------------------------------

    def listen(self) -> None:
        """The party is there: what comes from now on is speech to be interpreted, not early media."""
        self._listening = True

    def hear(self) -> None:
        """Take what has arrived from the party."""
        for frame in self.source.ring.drain():
            if self._recorder is not None:
                self._recorder.said(self.source.side, frame)
            if self._listening and not self._stopped:
                for verdict in self._ear.feed(frame):
                    self._judge(verdict)

    def tick(self) -> None:
        """Submit again what a full queue refused; note what has been played."""
        for event in self._line.tick():
            self._do(event)
        for played in self.target.playout.events():
            segment = self._segments.get(played.clip_id)
            if segment is not None and played.what == "started" and segment.clocks.get(Stamp.PLAYED) is None:
                segment.clocks.mark(Stamp.PLAYED, played.at_ns)
                self._record(segment, lost=None)
            elif segment is not None and played.what == "dropped" and not segment.published:
                self._record(segment, lost="dropped")

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
            candidate.withdraw()
        self._candidates.clear()
        for follower in self._following:
            follower.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        for event in self._line.abandon("call-ended"):
            self._do(event)
        self.tick()
        for segment in list(self._segments.values()):
            if not segment.published:
                self._record(segment, lost="call-ended")

    # --- sound in ---------------------------------------------------------------------------------------------------

    def _judge(self, verdict: VoiceFrame) -> None:
        if self._endpointer.speaking:
            self.last_voice_ns = self._booth.clock()
        for event in self._endpointer.feed(verdict):
            self._on_endpoint(event)

    def _on_endpoint(self, event: EndpointEvent) -> None:
        if isinstance(event, SpeechStarted):
            self._refresh_plan()
        elif isinstance(event, SpeechEnded):
            self._vad_end_ns[event.first_sample] = self._booth.clock()
            self._speech_end_sample[event.first_sample] = event.speech_end
        for out in self._line.on_endpoint(event, self.plan.version, tail_quiet=self._endpointer.tail_quiet):
            self._do(out)

    def _refresh_plan(self) -> None:
        """Between utterances, and only there, newer terms come into force (invariant 8)."""
        glossary = self._booth.glossary()
        if glossary.version != self.plan.glossary_version:
            self.plan = replace(self.plan, version=self.plan.version + 1).with_glossary(glossary)

    # --- segments ---------------------------------------------------------------------------------------------------

    def _do(self, event: SegmentEvent) -> None:
        match event:
            case Prepare():
                self._prepare(event)
            case Release():
                released = self._candidates.pop(event.candidate_id, None)
                if released is not None:
                    released.withdraw()
            case Submit():
                self._submit(event)
            case Finalized():
                self._finalized(event)
            case Lost():
                self._lost(event.segment_id, event.reason)
            case Terminal():
                self._stop_clock.terminal(self._booth.clock())

    def _interpretation(self, name: str, span: Span) -> Interpretation:
        return Interpretation(
            name,
            self._ear.cut(span),
            self.plan,
            leg=self.source.leg,
            speech=self._booth.speech,
            mouth=self.target,
            on_text=self._on_text,
            clock=self._booth.clock,
        )

    def _prepare(self, event: Prepare) -> None:
        candidate = self._interpretation(event.candidate_id, event.span)
        try:
            candidate.start(confirmed=False)
        except QueueFull:
            self._counts["prepares_refused"] += 1
            self._line.withdrawn(event.candidate_id)
            return
        self._candidates[event.candidate_id] = candidate

    def _submit(self, event: Submit) -> None:
        interpretation = self._candidates.pop(event.candidate_id, None) if event.candidate_id else None
        speculative = interpretation is not None
        if interpretation is None:
            interpretation = self._interpretation(event.segment_id, event.span)
            try:
                interpretation.start(confirmed=True)
            except QueueFull:
                for out in self._line.refused(event.segment_id):
                    self._do(out)
                return
        self._line.accepted(event.segment_id)
        first = event.span.first_sample
        clocks = SegmentClocks(event.segment_id)
        clocks.mark(Stamp.AUDIO_END, self._arrival_ns(self._speech_end_sample.pop(first, event.span.end_sample) - 1))
        clocks.mark(Stamp.VAD_END, self._vad_end_ns.pop(first, self._booth.clock()))
        clocks.mark(Stamp.SUBMIT, interpretation.outcome.submitted_ns)
        segment = _Segment(
            event.segment_id,
            event.span,
            interpretation.plan,
            interpretation,
            clocks,
            self._arrival_ns(first),
            speculative,
        )
        self._segments[event.segment_id] = segment
        before, self._spoken = self._spoken, interpretation.spoken
        interpretation.confirm(event.segment_id, before)
        follower = asyncio.create_task(self._follow(segment), name=f"follow-{event.segment_id}")
        self._following.add(follower)
        follower.add_done_callback(self._following.discard)

    def _on_text(self, segment_id: str, outcome: Outcome) -> None:
        for event in self._line.finalized(segment_id, outcome.source_text):
            self._do(event)

    def _finalized(self, event: Finalized) -> None:
        segment = self._segments[event.segment_id]
        segment.clocks.mark(Stamp.FINAL, self._booth.clock())
        outcome = segment.interpretation.outcome
        if not event.text:
            self._counts[f"silent-{outcome.rejected or 'nothing-said'}"] += 1
            return
        self._publish(
            "heard",
            {
                "segment_id": event.segment_id,
                "leg": self.source.side,
                "language": segment.plan.source,
                "text": event.text,
                "confidence": round(outcome.confidence, 3),
            },
        )

    async def _follow(self, segment: _Segment) -> None:
        """Wait until the utterance is spoken, or has failed; then its record is complete but for the playing."""
        interpretation = segment.interpretation
        try:
            failure = await interpretation.finished()
        except asyncio.CancelledError:
            failure = "call-ended"
        outcome, clocks = interpretation.outcome, segment.clocks
        for stamp, at_ns in ((Stamp.MT, outcome.translated_ns), (Stamp.FIRST_AUDIO, outcome.first_audio_ns)):
            if at_ns and clocks.get(stamp) is None:
                clocks.mark(stamp, at_ns)
        if failure is not None:
            for event in self._line.failed(segment.segment_id, failure):
                self._do(event)
            if not segment.published:
                self._lost(segment.segment_id, failure)
        elif not outcome.source_text:
            self._segments.pop(segment.segment_id, None)
        elif not outcome.first_audio_ns:
            self._record(segment, lost="nothing-to-say")

    def _lost(self, segment_id: str, reason: str) -> None:
        self._counts[f"lost-{reason}"] += 1
        segment = self._segments.get(segment_id)
        if segment is not None:
            self._record(segment, lost=reason)
        else:
            self._publish("lost", {"segment_id": segment_id, "leg": self.source.side, "reason": reason})
        log.warning("segment_lost", call=self._call_id, segment=segment_id, reason=reason)
        if reason != "call-ended" and not self._stopped:
            self._ask_to_repeat()

    def _ask_to_repeat(self) -> None:
        """The talker is told, in their own language, that this was lost: better than a silent hole."""
        now_ns = self._booth.clock()
        if now_ns - self._repeat_ns >= REPEAT_PAUSE_NS:
            self._repeat_ns = now_ns
            self.source.prompt(PLEASE_REPEAT, self._booth.prompts.clip(self.source.language, PLEASE_REPEAT))

    def _record(self, segment: _Segment, *, lost: str | None) -> None:
        """Publish the segment's one record."""
        if segment.published:
            return
        segment.published = True
        outcome, clocks = segment.interpretation.outcome, segment.clocks
        for stamp, at_ns in ((Stamp.MT, outcome.translated_ns), (Stamp.FIRST_AUDIO, outcome.first_audio_ns)):
            if at_ns and clocks.get(stamp) is None:
                clocks.mark(stamp, at_ns)
        self._segments.pop(segment.segment_id, None)
        utterance = Utterance(
            segment_id=segment.segment_id,
            leg=self.source.side,
            source_lang=segment.plan.source,
            target_lang=segment.plan.target,
            source_text=outcome.source_text,
            target_text=outcome.target_text,
            audio_first_ns=segment.audio_first_ns,
            audio_end_ns=clocks.get(Stamp.AUDIO_END) or 0,
            played_ns=clocks.get(Stamp.PLAYED) or 0,
            confidence=outcome.confidence,
            lost=lost,
            stages_s={name: ns / 1e9 for name, ns in clocks.stages().items()},
            clocks_ns={name: at_ns for name, at_ns in clocks.as_dict().items() if at_ns is not None},
            source_span=(segment.span.first_sample, segment.span.end_sample),
            speculative=segment.speculative,
        )
        self._publish("utterance", utterance.as_json())

    # --- small parts ------------------------------------------------------------------------------------------------

    def _mint(self) -> str:
        self._minted += 1
        return f"{self._call_id}-{self.source.side}{self._minted}"

    def _arrival_ns(self, sample: int) -> int:
        arrived_ns = self._ear.arrival_ns(sample)
        return self._booth.clock() if arrived_ns is None else arrived_ns

    def statistics(self) -> dict[str, Any]:
        """Counts of every stage; no words."""
        return {
            "endpoint": self._endpointer.statistics(),
            "segments": self._line.statistics(),
            "ear": self._ear.statistics(),
            "stop_to_terminal_ns": self._stop_clock.stop_to_terminal_ns(),
            **self._counts,
        }
