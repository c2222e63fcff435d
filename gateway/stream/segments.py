# SPDX-License-Identifier: GPL-3.0-or-later
"""The one owner of a leg's tails: from sound under way to a text that can no longer change, or to a counted loss.

::

    current ──end──► pending(segment_id) ──accepted──► in_flight ──result──► finalized
                          └─ refused: stays pending, submitted again at the next tick, lost after too many refusals

Only this object moves a segment on, so that a tail cannot be sent twice or by nobody. A segment id is minted once,
at the end of its utterance, and ends once. Terminal is said once, after stop, when all three places are empty.

Recognition may be *prepared* while the end of an utterance is still uncertain. The candidate belongs to the line.
When the utterance ends as the candidate assumed (same beginning, same last voiced sample, same plan, and nothing but
verified silence since), the submission names it, to be promoted instead of recognised again. Until the queue accepts,
the candidate stays the line's, and the line releases it if the segment is lost; once accepted, it is part of an
immutable job, and neither stop, nor a new plan, nor a newer candidate can touch it.

Finals may come back in another order than they were spoken in; spans say the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.stream.events import (
    EndpointEvent,
    Finalized,
    LongSilence,
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

QUEUE_FULL = "queue-full"


class SegmentStateError(RuntimeError):
    """Something happened to a segment that cannot happen in its state: a fault of the caller."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    candidate_id: str
    span: Span
    speech_end: int


@dataclass(slots=True)
class _Pending:
    span: Span
    candidate_id: str | None
    asked: bool = True
    refusals: int = 0


class SegmentLine:
    """Owns the current, pending and in-flight segments of one leg.

    ``mint`` gives a new unique segment id at each call. A pending segment is lost with ``queue-full`` after
    ``refusals_allowed`` refusals, or when more than ``pending_limit`` wait: the oldest one that is not being asked for.
    """

    def __init__(
        self, leg: str, mint: Callable[[], str], *, refusals_allowed: int = 25, pending_limit: int = 16
    ) -> None:
        if refusals_allowed < 1 or pending_limit < 1:
            raise ValueError("refusals_allowed and pending_limit must be 1 or more")
        self.leg = leg
        self._mint = mint
        self._refusals_allowed = refusals_allowed
        self._pending_limit = pending_limit
        self._current: int | None = None
        self._candidate: _Candidate | None = None
        self._candidates_made = 0
        self._pending: dict[str, _Pending] = {}
        self._in_flight: dict[str, Span] = {}
        self._floor: int | None = None
        self._plan_version: int | None = None
        self._stopping = False
        self._terminal = False
        self._counts: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()

    # --- what can be asked ---------------------------------------------------------------------------------------

    @property
    def terminal(self) -> bool:
        """True after `Terminal` was said."""
        return self._terminal

    @property
    def waiting(self) -> bool:
        """True when a refused segment waits for `tick`."""
        return any(not each.asked for each in self._pending.values())

    @property
    def candidate_id(self) -> str | None:
        """The candidate under preparation, if there is one."""
        return self._candidate.candidate_id if self._candidate else None

    def statistics(self) -> dict[str, Any]:
        """Counts since the start, losses by reason, and what is held now."""
        names = ("submitted", "accepted", "refused", "finalized", "prepared", "promoted", "released", "late_results")
        return {name: self._counts[name] for name in names} | {
            "lost": dict(self._lost),
            "current": int(self._current is not None),
            "pending": len(self._pending),
            "pending_limit": self._pending_limit,
            "in_flight": len(self._in_flight),
        }

    # --- what the end-pointer says -------------------------------------------------------------------------------

    def on_endpoint(self, event: EndpointEvent, plan_version: int, *, tail_quiet: bool = False) -> list[SegmentEvent]:
        """Take an event of the end-pointer, made while ``plan_version`` was in force.

        ``tail_quiet`` matters for `SpeechEnded` alone: nothing voiced since the last `SpeechPaused`. Without it what
        was prepared is not used. SegmentStateError on an event that cannot follow the one before.
        """
        if self._stopping:
            raise SegmentStateError(f"{type(event).__name__} after stop")
        events = self.plan_changed(plan_version)
        match event:
            case SpeechStarted():
                self._begin(event)
            case SpeechPaused():
                events += self._prepare(event, plan_version)
            case SpeechResumed():
                self._require_current(event)
                events += self._release("resumed")
            case SpeechEnded():
                events += self._end(event, plan_version, tail_quiet)
            case LongSilence():
                if self._current is not None:
                    raise SegmentStateError("LongSilence while an utterance is under way")
        return events

    def _require_current(self, event: SpeechPaused | SpeechResumed | SpeechEnded) -> None:
        if self._current is None:
            raise SegmentStateError(f"{type(event).__name__} while no utterance is under way")
        if not isinstance(event, SpeechResumed) and event.first_sample != self._current:
            raise SegmentStateError(
                f"{type(event).__name__} of the utterance at {event.first_sample}, but {self._current} is under way"
            )

    def _begin(self, event: SpeechStarted) -> None:
        if self._current is not None:
            raise SegmentStateError("SpeechStarted while an utterance is under way")
        if self._floor is not None and event.first_sample < self._floor:
            raise SegmentStateError(
                f"an utterance at {event.first_sample} reaches into the span that ended at {self._floor}"
            )
        self._current = event.first_sample

    def _prepare(self, event: SpeechPaused, plan_version: int) -> list[SegmentEvent]:
        self._require_current(event)
        events = self._release("replaced")
        self._candidates_made += 1
        span = Span(event.first_sample, event.end_sample, plan_version)
        self._candidate = _Candidate(f"{self.leg}/prepare-{self._candidates_made}", span, event.speech_end)
        self._counts["prepared"] += 1
        return [*events, Prepare(self._candidate.candidate_id, span)]

    def _end(self, event: SpeechEnded, plan_version: int, tail_quiet: bool) -> list[SegmentEvent]:
        self._require_current(event)
        if not event.first_sample < event.end_sample:
            raise SegmentStateError(f"an empty span at {event.first_sample}")
        span = Span(event.first_sample, event.end_sample, plan_version)
        events: list[SegmentEvent] = []
        promoted: str | None = None
        candidate = self._candidate
        if candidate is not None:
            same = candidate.speech_end == event.speech_end and candidate.span.first_sample == event.first_sample
            if same and tail_quiet and candidate.span.end_sample <= event.end_sample:
                promoted, self._candidate = candidate.candidate_id, None
            else:
                events += self._release("not-quiet" if same else "other-span")
        self._current = None
        self._floor = event.end_sample
        segment_id = self._mint()
        if segment_id in self._pending or segment_id in self._in_flight:
            raise SegmentStateError(f"segment id {segment_id} was minted twice")
        self._pending[segment_id] = _Pending(span, promoted)
        events += self._bound_pending()
        self._counts["submitted"] += 1
        return [*events, Submit(segment_id, span, promoted)]

    def _bound_pending(self) -> list[SegmentEvent]:
        waiting = [segment_id for segment_id, each in self._pending.items() if not each.asked]
        if len(self._pending) <= self._pending_limit or not waiting:
            return []
        return self._lose(waiting[0], QUEUE_FULL)

    # --- what the preparer says ----------------------------------------------------------------------------------

    def withdrawn(self, candidate_id: str) -> bool:
        """The preparer gave a candidate up by itself (shed under load, or failed); False when it was not the line's.

        A segment that waits for the queue with this candidate is submitted without it next time.
        """
        if self._candidate is not None and self._candidate.candidate_id == candidate_id:
            self._candidate = None
            return True
        for each in self._pending.values():
            if each.candidate_id == candidate_id:
                each.candidate_id = None
                return True
        return False

    # --- what the queue says -------------------------------------------------------------------------------------

    def accepted(self, segment_id: str) -> None:
        """The queue took the job: the segment, and the candidate it names, are the job's from here on."""
        if self._late(segment_id):
            return
        pending = self._asked(segment_id, "accepted")
        del self._pending[segment_id]
        self._in_flight[segment_id] = pending.span
        self._counts["accepted"] += 1
        self._counts["promoted"] += pending.candidate_id is not None

    def refused(self, segment_id: str) -> list[SegmentEvent]:
        """The queue did not take the job: it stays here until the next `tick`, or is lost after too many refusals."""
        if self._late(segment_id):
            return []
        pending = self._asked(segment_id, "refused")
        self._counts["refused"] += 1
        pending.asked = False
        pending.refusals += 1
        if pending.refusals < self._refusals_allowed:
            return []
        return self._lose(segment_id, QUEUE_FULL) + self._settle()

    def tick(self) -> list[SegmentEvent]:
        """Submit again what was refused, oldest first."""
        events: list[SegmentEvent] = []
        for segment_id, each in self._pending.items():
            if not each.asked:
                each.asked = True
                events.append(Submit(segment_id, each.span, each.candidate_id))
        return events

    def _asked(self, segment_id: str, what: str) -> _Pending:
        pending = self._pending.get(segment_id)
        if pending is None or not pending.asked:
            raise SegmentStateError(f"segment {segment_id} was {what}, but it was not submitted")
        return pending

    # --- what the job says ---------------------------------------------------------------------------------------

    def finalized(self, segment_id: str, text: str) -> list[SegmentEvent]:
        """The job's result. For a segment that already ended it is counted as late and changes nothing."""
        if not self._landed(segment_id):
            return []
        self._counts["finalized"] += 1
        return [Finalized(segment_id, text), *self._settle()]

    def failed(self, segment_id: str, reason: str) -> list[SegmentEvent]:
        """The job ended without a text, for a kebab-case ``reason``."""
        if not self._landed(segment_id):
            return []
        self._lost[reason] += 1
        return [Lost(segment_id, reason), *self._settle()]

    def _landed(self, segment_id: str) -> bool:
        if segment_id in self._pending:
            raise SegmentStateError(f"a result for segment {segment_id}, which no queue has accepted")
        if self._in_flight.pop(segment_id, None) is None:
            self._counts["late_results"] += 1
            return False
        return True

    # --- what the call says --------------------------------------------------------------------------------------

    def plan_changed(self, version: int) -> list[SegmentEvent]:
        """Languages, voice or terms changed: what was prepared under another plan is released.

        Submitted segments keep the plan they were spoken under.
        """
        if version == self._plan_version:
            return []
        self._plan_version = version
        return self._release("plan-changed")

    def stop(self) -> list[SegmentEvent]:
        """Nothing will be said on this leg any more; hang-up and end of file alike.

        The end-pointer's `finish` comes first, so that no utterance is under way. A second call says nothing.
        """
        if self._current is not None:
            raise SegmentStateError("stop while an utterance is under way: feed what Endpointer.finish says first")
        if self._stopping:
            return []
        self._stopping = True
        return self._settle()

    def abandon(self, reason: str) -> list[SegmentEvent]:
        """Stop without waiting: all that is held ends as `Lost` with ``reason``, then comes `Terminal`."""
        if self._terminal:
            return []
        self._stopping = True
        events = self._release(reason)
        if self._current is not None:
            self._current = None
            self._lost[reason] += 1
            events.append(Lost(self._mint(), reason))
        for segment_id in list(self._pending):
            events += self._lose(segment_id, reason)
        for segment_id in self._in_flight:
            self._lost[reason] += 1
            events.append(Lost(segment_id, reason))
        self._in_flight.clear()
        return events + self._settle()

    # --- the only places where things end ------------------------------------------------------------------------

    def _late(self, segment_id: str) -> bool:
        """True for an answer of the queue that comes after everything was given up."""
        late = self._terminal and segment_id not in self._pending
        self._counts["late_results"] += late
        return late

    def _release(self, reason: str) -> list[SegmentEvent]:
        if self._candidate is None:
            return []
        released, self._candidate = self._candidate, None
        self._counts["released"] += 1
        return [Release(released.candidate_id, reason)]

    def _lose(self, segment_id: str, reason: str) -> list[SegmentEvent]:
        pending = self._pending.pop(segment_id)
        self._lost[reason] += 1
        events: list[SegmentEvent] = []
        if pending.candidate_id is not None:
            self._counts["released"] += 1
            events.append(Release(pending.candidate_id, reason))
        return [*events, Lost(segment_id, reason)]

    def _settle(self) -> list[SegmentEvent]:
        held = self._current is not None or self._pending or self._in_flight
        if not self._stopping or self._terminal or held:
            return []
        self._terminal = True
        return [Terminal(self.leg)]
