# SPDX-License-Identifier: GPL-3.0-or-later
"""The minutes of one direction: a record per segment, published once, when it is heard or known not to be.

A segment is an utterance in consecutive mode and a clause in simultaneous mode; here both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.audio.playout import PlayEvent
from gateway.call.interpretation import Outcome
from gateway.call.plan import DirectionPlan
from gateway.call.transcript import Utterance
from gateway.stream.clocks import SegmentClocks, Stamp

Publish = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class Entry:
    """What is known of a segment until its record is published."""

    segment_id: str
    span: tuple[int, int]
    """First and end sample on the talker's leg."""
    plan: DirectionPlan
    outcome: Outcome
    clocks: SegmentClocks
    audio_first_ns: int
    speculative: bool = False

    def as_heard(self, side: str, text: str) -> dict[str, Any]:
        """What is told when the segment's text is final: JSON-ready."""
        return {
            "segment_id": self.segment_id,
            "leg": side,
            "language": self.plan.source,
            "text": text,
            "withheld": self.outcome.verdict.withheld,
            "confidence": round(self.outcome.confidence, 3),
            "clocks_ns": {name: at_ns for name, at_ns in self.clocks.as_dict().items() if at_ns is not None},
            "source_span": list(self.span),
        }


class Minutes:
    """Open entries of one direction. ``side`` is the talker's."""

    def __init__(self, side: str, publish: Publish) -> None:
        self._side = side
        self._publish = publish
        self._open: dict[str, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Open an entry; it ends by `note`, `lose` or `drop`."""
        self._open[entry.segment_id] = entry

    def put_under(self, segment_id: str, plan: DirectionPlan) -> None:
        """It turned out to be said under another plan than it began with."""
        entry = self._open.get(segment_id)
        if entry is not None:
            entry.plan = plan

    def get(self, segment_id: str) -> Entry | None:
        """An entry that is still open."""
        return self._open.get(segment_id)

    def waiting_since_ns(self) -> int | None:
        """When the oldest speech ended that is not heard yet in the other language; None when nothing is open."""
        return min((entry.clocks.get(Stamp.AUDIO_END) or 0 for entry in self._open.values()), default=None)

    def note(self, event: PlayEvent) -> None:
        """Something became of a clip: a segment is heard with its first one."""
        entry = self._open.get(event.clip_id)
        if entry is None:
            return
        if event.what == "started":
            entry.clocks.mark(Stamp.PLAYED, event.at_ns)
            self._end(entry, None)
        elif event.what == "dropped":
            self._end(entry, "dropped")

    def lose(self, segment_id: str, reason: str) -> bool:
        """It will not be heard, for a counted reason; False when it was heard, or is not known."""
        entry = self._open.get(segment_id)
        if entry is not None:
            self._end(entry, reason)
        return entry is not None

    def merge(self, segment_id: str, other_id: str) -> None:
        """The second is said as a part of the first, whose entry then covers the sound of both."""
        entry, other = self._open.get(segment_id), self._open.pop(other_id, None)
        if entry is not None and other is not None:
            entry.span = (entry.span[0], max(entry.span[1], other.span[1]))

    def drop(self, segment_id: str) -> None:
        """It was not speech: there is nothing to record."""
        self._open.pop(segment_id, None)

    def close(self, reason: str) -> None:
        """The call is over: what is still open was not heard."""
        for entry in list(self._open.values()):
            self._end(entry, reason)

    def _end(self, entry: Entry, lost: str | None) -> None:
        del self._open[entry.segment_id]
        outcome, clocks = entry.outcome, entry.clocks
        for stamp, at_ns in ((Stamp.MT, outcome.translated_ns), (Stamp.FIRST_AUDIO, outcome.first_audio_ns)):
            if at_ns:
                clocks.mark(stamp, at_ns)
        stamps: Mapping[str, int | None] = clocks.as_dict()
        utterance = Utterance(
            segment_id=entry.segment_id,
            leg=self._side,
            source_lang=entry.plan.source,
            target_lang=entry.plan.target,
            source_text=outcome.source_text,
            target_text=outcome.target_text,
            audio_first_ns=entry.audio_first_ns,
            audio_end_ns=clocks.get(Stamp.AUDIO_END) or 0,
            played_ns=clocks.get(Stamp.PLAYED) or 0,
            confidence=outcome.confidence,
            lost=lost,
            stages_s={name: ns / 1e9 for name, ns in clocks.stages().items()},
            clocks_ns={name: at_ns for name, at_ns in stamps.items() if at_ns is not None},
            source_span=entry.span,
            speculative=entry.speculative,
            begun_ahead=outcome.begun_ahead,
            numbers={
                "checked": outcome.rendered.numbers.checked,
                "repaired": outcome.rendered.numbers.repaired,
                "unrepaired": outcome.rendered.numbers.unrepaired,
                "continued": int(outcome.continued),
            },
            terms={
                "hits": outcome.rendered.hits,
                "repairs": outcome.rendered.repairs,
                "misses": outcome.rendered.misses,
                "idioms": outcome.rendered.idioms,
                "rules": outcome.rules,
                "hotwords": outcome.hotwords,
                "transliterated": outcome.transliterated,
            },
        )
        self._publish("utterance", utterance.as_json())
