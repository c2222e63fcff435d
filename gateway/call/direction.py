# SPDX-License-Identifier: GPL-3.0-or-later
"""One direction of a call: what one party says, to the ear of the other.

    frames → voice detector → end-pointer → utterances (`utterances`) → the other party's play-out

This is the only place where the pure stages meet the loop. `hear` runs them on what has arrived; everything slow is a
task of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from gateway.audio.playout import ClipKind
from gateway.call.desk import Booth
from gateway.call.ear import Ear
from gateway.call.floor import Floor
from gateway.call.identified import Identified
from gateway.call.minutes import Minutes, Publish
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.call.played import Played
from gateway.call.recording import CallRecorder
from gateway.call.utterances import VOICE_DBFS, Listening, Utterances
from gateway.call.wishes import Wishes
from gateway.stream.endpoint import Endpointer
from gateway.stream.events import EndpointEvent, SpeechStarted, VoiceFrame
from gateway.stream.manner import Talker
from gateway.stream.plan import Mode


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
        self._booth = booth
        self._publish = publish
        self._recorder = recorder
        self._counts: Counter[str] = Counter()
        endpoint = booth.endpoint_for(plan.mode)
        self._wishes = Wishes(plan, booth)
        self._ear = Ear(endpoint.rate_hz, endpoint.frame_ms, booth.vad_aggressiveness)
        self._talker = Talker(source.rate_hz)
        self._endpointer = Endpointer(endpoint)
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
        listening = Listening(
            call_id=call_id,
            source=source,
            target=target,
            booth=booth,
            publish=publish,
            ear=self._ear,
            talker=self._talker,
            floor=self._floor,
            identified=self._identified,
            minutes=self._minutes,
            counts=self._counts,
            arrival_ns=self._arrival_ns,
        )
        self._utterances = Utterances(listening, on_text=self.pass_through)
        self._listening = False
        self._skip_samples = 0
        self._muted = False
        self._paused_by: set[str] = set()
        self._stopped = False

    @property
    def over(self) -> bool:
        """True when nothing will be spoken any more."""
        return self._utterances.over

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

    @property
    def heard(self) -> int:
        """Samples of the talker's that were listened to so far; those of a pause are none."""
        return self._ear.heard

    @property
    def snr_db(self) -> float | None:
        """How far the talker stands out of the noise around them; None until that is known."""
        ratio = self._ear.snr.ratio()
        return ratio.snr_db if ratio is not None else None

    def set_safety_words(self, on: bool) -> None:
        """From the next utterance on translate safety words alone, and let nothing else of the talker be heard."""
        self._wishes.set_safety(on)
        self._muted = on

    def set_original(self, on: bool) -> None:
        """Let the listener hear the talker's own voice under the translation, or not."""
        self.target.playout.set_original(on)

    def set_tempo(self, ratio: float) -> None:
        """Speak faster (over 1) or slower to the listener, what is under way included. ValueError beyond 0.6 to 1.6."""
        self.target.playout.set_tempo(ratio)

    def interrupts(self) -> bool:
        """Whether the talker has interrupted what they hear, since the last look."""
        return self._floor.interrupts(self.plan.source, self._utterances.preview)

    def cut(self) -> None:
        """The listener talks: fade what is being spoken, and speak nothing of what was said before this moment."""
        cut = self.target.playout.flush(ClipKind.TRANSLATION)
        self._utterances.cut()
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
                if self._paused_by or not self._muted:  # in a pause too: then the parties talk to each other
                    self.target.playout.hear_original(frame.pcm)
                for verdict in () if self._paused_by else self._ear.feed(frame):
                    self._judge(verdict)

    def tick(self) -> None:
        """Submit again what a full queue refused; note what has been played; let go what waits for more words."""
        self._utterances.tick()
        self._played.tick()
        waiting_since_ns = None if self._endpointer.speaking else self._minutes.waiting_since_ns()
        self.target.wait(self._booth.clock(), waiting_since_ns)
        if not self._endpointer.speaking:
            self._utterances.silence()

    def stop(self) -> None:
        """The party is gone, or the sound has ended: end what is under way. The same path for both (SPEC S4.10)."""
        if self._stopped:
            return
        self.hear()
        self._stopped = True
        self._utterances.ending()
        for verdict in self._ear.finish():
            self._judge(verdict)
        if self._ear.started:
            for endpoint_event in self._endpointer.finish(self._ear.heard):
                self._on_endpoint(endpoint_event)
        self._utterances.stop()

    async def close(self) -> None:
        """The call is over: what was not spoken yet is counted as lost."""
        await self._utterances.close()
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
            wanted = wanted and not self.plan.safety  # what is not believed is not shown either
            if verdict.is_speech and wanted:
                self._utterances.grow()

    def _on_endpoint(self, event: EndpointEvent) -> None:
        if isinstance(event, SpeechStarted):
            self._refresh_plan()
        self._utterances.on_endpoint(event, self.plan, tail_quiet=self._endpointer.tail_quiet)

    def _refresh_plan(self) -> None:
        """Between utterances, and only there, newer terms, modes and languages come into force (invariant 8)."""
        self.plan = self._identified.as_known(self.wanted())

    def _arrival_ns(self, sample: int) -> int:
        arrived_ns = self._ear.arrival_ns(sample)
        return self._booth.clock() if arrived_ns is None else arrived_ns

    def statistics(self) -> dict[str, Any]:
        """Counts of every stage; no words."""
        return {
            "mode": self.plan.mode,
            "paused": bool(self._paused_by),
            "endpoint": self._endpointer.statistics(),
            "ear": self._ear.statistics(),
            "turns": self._floor.statistics(),
            "language": self._identified.statistics(),
            **self._utterances.statistics(),
            **self._counts,
        }
