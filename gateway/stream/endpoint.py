# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an utterance begins and ends.

The end-pointer sees verdicts, never sound. It is idle until ``start_frames`` of the last ``start_window`` frames are
voiced; then an utterance is under way until ``end_ms`` of silence, the longest length, or the end of the stream.

Three positions matter, and mixing them up loses words:

* ``speech_end``: the end of the last frame that certainly belongs to the utterance;
* ``voiced_end``: the end of the last frame judged voiced at all, be it a click or the first frame of going on;
* ``heard``: all that has been fed.

A single voiced frame inside a pause is on trial: it is neither taken as going on (clicks would cancel every
preparation) nor thrown away. While the trial runs, no decision falls; it lasts two frames at most with 2 of 3.
Whatever comes out, the frame lies inside the span, because a span never ends before ``voiced_end``.

Algorithmic delay: ``start_frames`` frames for a start (the pre-roll brings the sound back), ``end_ms`` for an end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.stream.events import (
    EndCause,
    EndpointEvent,
    LongSilence,
    SpeechEnded,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    VoiceFrame,
)
from gateway.stream.plan import EndpointPlan, Mode

SILENT_DBFS = -120.0
"""Level given to samples that never arrived."""


@dataclass(slots=True)
class _Utterance:
    """What is known of the utterance under way. ``frames`` covers its last part, where a cut may fall."""

    first_sample: int
    speech_end: int
    voiced_end: int
    in_pause: bool = False
    paused_at: int | None = None
    """Where `SpeechPaused` was said in the pause under way."""
    trial: deque[bool] = field(default_factory=deque)
    frames: deque[VoiceFrame] = field(default_factory=deque)

    @property
    def covered(self) -> bool:
        """`SpeechPaused` was said in this pause, and nothing voiced lies behind it."""
        return self.paused_at is not None and self.voiced_end <= self.paused_at


class Endpointer:
    """Turns one leg's voice frames into the start, pause, going-on and end of utterances.

    Spans of successive utterances are ordered and never share a sample: the pre-roll stops at the end of the span
    before. The plan may be exchanged between utterances with `replan`.
    """

    def __init__(self, plan: EndpointPlan) -> None:
        self.plan = plan
        self._next_plan = plan
        self._window: deque[VoiceFrame] = deque(maxlen=plan.start_window)
        self._utterance: _Utterance | None = None
        self._begun = False
        self._heard = 0
        self._floor = 0
        self._finished = False
        self._tail_quiet = False
        self._gate_shut = False
        self._silence_armed = False
        self._silent_since = 0
        self._silent_samples = 0
        self._counts = {"frames": 0, "utterances": 0, "paused": 0, "resumed": 0, "clicks": 0, "cuts": 0, "gaps": 0}

    @property
    def speaking(self) -> bool:
        """True while an utterance is under way."""
        return self._utterance is not None

    @property
    def heard(self) -> int:
        """Index of the first sample not fed yet."""
        return self._heard

    @property
    def tail_quiet(self) -> bool:
        """Of the utterance that ended last: was every sample judged, and none voiced, since its `SpeechPaused`?

        Only then may what was prepared at the pause stand for the longer span.
        """
        return self._tail_quiet

    def gate(self, *, shut: bool) -> None:
        """Say whether a gate in front (hold, music, line tones) really replaces the sound by silence from now on.

        Silence behind a shut gate is not the talker's: it ends an utterance, but does not count as long silence.
        What decides is the gate's state, not whether a gate was configured.
        """
        self._gate_shut = shut

    def replan(self, plan: EndpointPlan) -> None:
        """Use ``plan`` from the next utterance on; ValueError when rate or frame differ from the running stream's."""
        if (plan.rate_hz, plan.frame_ms) != (self.plan.rate_hz, self.plan.frame_ms):
            raise ValueError("a running end-pointer cannot change rate_hz or frame_ms: make a new one")
        self._next_plan = plan
        if self._utterance is None:
            self._take_plan()

    def feed(self, frame: VoiceFrame) -> list[EndpointEvent]:
        """Take the next frame; ValueError when it reaches back, RuntimeError after `finish`.

        Samples that are missing before the frame count as silence.
        """
        if self._finished:
            raise RuntimeError("the end-pointer was finished: no frame may follow")
        if frame.samples <= 0:
            raise ValueError(f"a frame of {frame.samples} samples: it must hold at least one")
        if not self._begun:
            self._begun = True
            self._heard = self._floor = self._silent_since = frame.first_sample
        if frame.first_sample < self._heard:
            raise ValueError(f"frame at sample {frame.first_sample} reaches back: {self._heard} were heard already")
        events: list[EndpointEvent] = []
        while frame.first_sample > self._heard:
            self._counts["gaps"] += 1
            missing = min(frame.first_sample - self._heard, self.plan.longest_samples // 2)
            events += self._step(VoiceFrame(self._heard, missing, is_speech=False, level_dbfs=SILENT_DBFS))
        events += self._step(frame)
        return events

    def finish(self, at_sample: int) -> list[EndpointEvent]:
        """End of the stream, for whatever reason, at ``at_sample`` (the first sample that will never come).

        An utterance under way is ended, and so is one whose start was not confirmed yet. Samples behind the last
        frame (a tail shorter than a frame) belong to the kept tail. A second call says nothing.
        """
        if self._finished:
            return []
        self._finished = True
        return self.interrupt(at_sample)

    def interrupt(self, at_sample: int) -> list[EndpointEvent]:
        """The sound is taken away at ``at_sample`` (hold): end what is under way, as `finish` does. More may follow."""
        heard = max(self._heard, at_sample)
        events: list[EndpointEvent] = []
        if self._utterance is None and any(frame.is_speech for frame in self._window):
            events.append(self._start())
        if self._utterance is not None:
            if self._on_trial(self._utterance):
                self._utterance.speech_end = self._utterance.voiced_end
            unjudged = heard > self._heard
            self._heard = heard
            events.append(self._end(self._utterance, EndCause.STOP))
            self._tail_quiet = self._tail_quiet and not unjudged
        return events

    def statistics(self) -> dict[str, int]:
        """Counts since the start: frames, utterances, pauses, resumptions, lone clicks, forced cuts, gaps."""
        return dict(self._counts)

    # --- one frame -----------------------------------------------------------------------------------------------

    def _step(self, frame: VoiceFrame) -> list[EndpointEvent]:
        self._counts["frames"] += 1
        self._heard = frame.end_sample
        if self._utterance is None:
            return self._idle(frame)
        return self._speaking(self._utterance, frame)

    def _idle(self, frame: VoiceFrame) -> list[EndpointEvent]:
        self._window.append(frame)
        if sum(each.is_speech for each in self._window) >= self.plan.start_frames:
            return [self._start()]
        return self._long_silence(frame)

    def _long_silence(self, frame: VoiceFrame) -> list[EndpointEvent]:
        if not self._gate_shut:
            self._silent_samples += frame.samples
        if not self._silence_armed or self._silent_samples < self.plan.long_silence_samples:
            return []
        self._silence_armed = False
        return [LongSilence(self._silent_since, self._heard)]

    def _start(self) -> SpeechStarted:
        voiced = [frame for frame in self._window if frame.is_speech]
        first = max(self._floor, voiced[0].first_sample - self.plan.pre_roll_samples)
        end = voiced[-1].end_sample
        self._utterance = _Utterance(first, end, end, in_pause=end < self._heard)
        self._utterance.frames.extend(frame for frame in self._window if frame.first_sample >= first)
        self._window.clear()
        self._counts["utterances"] += 1
        self._silence_armed = True
        return SpeechStarted(first)

    def _speaking(self, utterance: _Utterance, frame: VoiceFrame) -> list[EndpointEvent]:
        events: list[EndpointEvent] = []
        utterance.frames.append(frame)
        limit = utterance.first_sample + self.plan.longest_samples
        keep_from = self._heard - self.plan.longest_samples // 2
        while utterance.frames[0].first_sample < keep_from:
            utterance.frames.popleft()
        if frame.is_speech:
            utterance.voiced_end = frame.end_sample
        if utterance.in_pause or not frame.is_speech:
            self._pausing(utterance, frame, events)
        else:
            utterance.speech_end = frame.end_sample
        if self._utterance is utterance and self._heard + self.plan.frame_samples > limit:
            events += self._cut(utterance)
        return events

    def _pausing(self, utterance: _Utterance, frame: VoiceFrame, events: list[EndpointEvent]) -> None:
        """A pause is under way: going on, still on trial, long enough to prepare, or long enough to end."""
        utterance.in_pause = True
        was_on_trial = self._on_trial(utterance)
        utterance.trial.append(frame.is_speech)
        while len(utterance.trial) > self.plan.resume_window:
            utterance.trial.popleft()
        if sum(utterance.trial) >= self.plan.resume_frames:
            if utterance.paused_at is not None:
                self._counts["resumed"] += 1
                events.append(SpeechResumed(frame.end_sample))
            utterance.speech_end = utterance.voiced_end
            utterance.in_pause, utterance.paused_at = False, None
            utterance.trial.clear()
            return
        silence = self._heard - utterance.speech_end
        trial_samples = self.plan.resume_window * self.plan.frame_samples
        if self._on_trial(utterance) and silence < self.plan.end_samples + trial_samples:
            return
        self._counts["clicks"] += was_on_trial
        if silence >= self.plan.end_samples:
            events.append(self._end(utterance, EndCause.SILENCE))
        elif self.plan.prepare_frames and silence >= self.plan.prepare_samples and not utterance.covered:
            utterance.paused_at = self._heard
            self._counts["paused"] += 1
            events.append(SpeechPaused(utterance.first_sample, utterance.speech_end, self._span_end(utterance)))

    def _on_trial(self, utterance: _Utterance) -> bool:
        """True while voiced frames of the pause could still become a resumption with the frames to come."""
        recent = list(utterance.trial)[-(self.plan.resume_window - 1) :] if self.plan.resume_window > 1 else []
        return any(recent)

    def _span_end(self, utterance: _Utterance) -> int:
        kept = max(utterance.speech_end + self.plan.keep_tail_samples, utterance.voiced_end)
        return min(kept, self._heard)

    def _end(self, utterance: _Utterance, cause: EndCause) -> SpeechEnded:
        end = self._span_end(utterance)
        self._tail_quiet = utterance.covered
        self._utterance = None
        self._window.clear()
        self._floor = end
        self._silent_since = utterance.speech_end
        self._silent_samples = 0 if self._gate_shut else self._heard - utterance.speech_end
        self._take_plan()
        return SpeechEnded(utterance.first_sample, utterance.speech_end, end, cause, self._heard)

    def _take_plan(self) -> None:
        if self._next_plan is not self.plan:
            self.plan = self._next_plan
            self._window = deque(self._window, maxlen=self.plan.start_window)

    # --- the longest utterance ------------------------------------------------------------------------------------

    def _cut(self, utterance: _Utterance) -> list[EndpointEvent]:
        """Cut at the best pause of the last half; what follows the cut is the beginning of the next utterance.

        Best is the longest run of silent frames, among equals the quietest. Without any, the quietest frame.
        In simultaneous mode words are final, and perhaps spoken, before the utterance ends: no cut may lie before one
        of them, so it is cut where it is.
        """
        self._counts["cuts"] += 1
        if self.plan.mode is Mode.SIMULTANEOUS:
            if utterance.in_pause:
                return [self._end(utterance, EndCause.LONGEST)]
            return self._split(utterance, speech_end=self._heard, at_sample=self._heard)
        runs = self._silent_runs(utterance)
        if not runs:
            quietest = min(utterance.frames, key=lambda frame: frame.level_dbfs)
            middle = quietest.first_sample + quietest.samples // 2
            return self._split(utterance, speech_end=middle, at_sample=middle)
        first, end, _ = max(runs, key=lambda run: (run[1] - run[0], -run[2]))
        if first >= utterance.speech_end:
            # the best pause is the one under way: nothing follows that could be the start of another utterance
            return [self._end(utterance, EndCause.LONGEST)]
        return self._split(utterance, speech_end=first, at_sample=first + (end - first) // 2)

    def _silent_runs(self, utterance: _Utterance) -> list[tuple[int, int, float]]:
        """Runs of silent frames as (first sample, end sample, mean level)."""
        runs: list[tuple[int, int, float]] = []
        levels: list[float] = []
        for frame in utterance.frames:
            if frame.is_speech or frame.end_sample <= utterance.first_sample:
                levels = []
                continue
            levels.append(frame.level_dbfs)
            mean = sum(levels) / len(levels)
            if len(levels) > 1:
                runs[-1] = (runs[-1][0], frame.end_sample, mean)
            else:
                runs.append((max(frame.first_sample, utterance.first_sample), frame.end_sample, mean))
        return runs

    def _split(self, utterance: _Utterance, *, speech_end: int, at_sample: int) -> list[EndpointEvent]:
        ended = SpeechEnded(utterance.first_sample, speech_end, at_sample, EndCause.CUT, self._heard)
        self._floor = at_sample
        self._tail_quiet = False
        self._take_plan()
        utterance.first_sample = at_sample
        utterance.paused_at = None
        while utterance.frames and utterance.frames[0].end_sample <= at_sample:
            utterance.frames.popleft()
        self._counts["utterances"] += 1
        return [ended, SpeechStarted(at_sample)]
