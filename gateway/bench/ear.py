# SPDX-License-Identifier: GPL-3.0-or-later
"""Ear latency: from the talker's last sound to the listener's first translated sound, on the telephones' RTP alone.

The gateway's records only say *where to look*: its own stamps never enter the figure. For each segment

* the start is the last sample above -45 dBFS that the talker's telephone **sent** between ``audio_first_ns`` and
  ``audio_end_ns`` + 300 ms (but not in the next segment): weak last consonants may lie behind what the gateway took
  for the end of speech;
* the end is the first sample above -45 dBFS that the listener's telephone **received** between ``played_ns`` - 40 ms
  and ``played_ns`` + 1.5 s. When something else (the ducked original, the last translation) was sounding there
  already, the search begins at ``played_ns`` itself, before which nothing of the clip can have arrived, and the
  utterance is marked ``masked``: its figure may be up to a packet too small.

The times of samples are those of `capture`. Every segment ends up in ``heard`` or, with a reason, in ``unheard``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gateway.bench.capture import Capture, first_above, last_above, packet_rate
from gateway.bench.checks import repeated_join
from gateway.bench.records import SegmentRecord, Spoken

TAIL_NS = 300_000_000
BEFORE_PLAYED_NS = 40_000_000
AFTER_PLAYED_NS = 1_500_000_000
_SOUNDING_NS = 60_000_000  # three packets: sound in them means that the ear was busy when the window opened

REMAINDER = "network_and_jitter"
ASKED_WITHIN_NS = 3_000_000_000  # behind the end of the turn: the end window, and the recognition
ASKED_AGAIN = "asked-again"
_VANISHED = "not-played"


@dataclass(frozen=True, slots=True)
class Heard:
    """One utterance whose translation arrived. ``stages_ns`` sum to ``ear_ns`` exactly; the last is the remainder:
    packetisation, both networks, the gateway's jitter buffer, and what its stamps do not cover."""

    segment_id: str
    leg: str
    direction: str
    speech_end_ns: int
    first_audio_ns: int
    stages_ns: Mapping[str, int]
    masked: bool

    @property
    def ear_ns(self) -> int:
        """The ear latency; negative when a clause was spoken before the talker had finished."""
        return self.first_audio_ns - self.speech_end_ns


@dataclass(frozen=True, slots=True)
class Unheard:
    """A segment, or a turn without any segment, that has no ear latency, and why."""

    name: str
    leg: str
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Latency of ``count`` utterances in ms; percentiles by linear interpolation, sigma of the sample."""

    count: int
    p50_ms: float
    p95_ms: float
    sigma_ms: float
    min_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class EarReport:
    """What the two ears say about a call."""

    heard: tuple[Heard, ...]
    unheard: tuple[Unheard, ...]
    overall: Spread | None
    by_direction: Mapping[str, Spread]
    stages_p50_ms: Mapping[str, float]
    egress_pps: Mapping[str, float]
    """What each telephone received, packets per second from the first packet to the last (row A8)."""
    lost_segments: int
    """Segments with a text that were neither played nor lost for a counted reason, and turns without any segment
    whose talker was not asked to say it again."""
    duplicate_segments: int
    """Segment ids with more than one record, and joins at which three or more words repeat."""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, with latencies in ms."""
        return {
            "utterances": [
                {
                    "segment_id": one.segment_id,
                    "leg": one.leg,
                    "direction": one.direction,
                    "ear_ms": one.ear_ns / 1e6,
                    "speech_end_ns": one.speech_end_ns,
                    "first_audio_ns": one.first_audio_ns,
                    "masked": one.masked,
                    "stages_ms": {name: ns / 1e6 for name, ns in one.stages_ns.items()},
                }
                for one in self.heard
            ],
            "unheard": [asdict(one) for one in self.unheard],
            "overall": asdict(self.overall) if self.overall else None,
            "by_direction": {name: asdict(spread) for name, spread in self.by_direction.items()},
            "stages_p50_ms": dict(self.stages_p50_ms),
            "egress_pps": dict(self.egress_pps),
            "lost_segments": self.lost_segments,
            "duplicate_segments": self.duplicate_segments,
        }


def measure(
    records: Sequence[SegmentRecord],
    captures: Mapping[str, Capture],
    spoken: Sequence[Spoken] = (),
    *,
    references: Sequence[str] = (),
    unclear: Sequence[tuple[str, int]] = (),
) -> EarReport:
    """Match records with captures.

    Args:
        records: the gateway's segments of one call, any order.
        captures: one per leg, keyed by the leg's name in the records; exactly two.
        spoken: the turns that were really sent: those without a segment are reported.
        references: texts in which a repetition is meant, for the count of repeated joins.
        unclear: leg and stamp of what was too unsure to be spoken, where the talker was asked to say it again (B10):
            a turn that ends so is not lost.

    Raises:
        ValueError: not two captures, or a record of a leg that has none.
    """
    if len(captures) != 2:
        raise ValueError("an interpreted call has two ears")
    unknown = {record.leg for record in records} - set(captures)
    if unknown:
        raise ValueError(f"no capture of leg {', '.join(sorted(unknown))}")
    heard: list[Heard] = []
    unheard: list[Unheard] = []
    ordered = sorted(records, key=lambda record: (record.audio_first_ns, record.segment_id))
    for record in ordered:
        outcome = _listen(record, _next_start(record, ordered), captures)
        if isinstance(outcome, Heard):
            heard.append(outcome)
        else:
            unheard.append(outcome)
    missed = [turn for turn in spoken if not any(_covers(record, turn) for record in ordered)]
    asked = [turn for turn in missed if any(_asked_about(turn, *one) for one in unclear)]
    unheard += [Unheard(turn.turn_id, turn.leg, ASKED_AGAIN if turn in asked else "no-segment") for turn in missed]
    vanished = sum(one.reason == _VANISHED for one in unheard)
    return EarReport(
        heard=tuple(heard),
        unheard=tuple(unheard),
        overall=spread([one.ear_ns / 1e6 for one in heard]),
        by_direction=_by_direction(heard),
        stages_p50_ms=_stage_medians(heard),
        egress_pps={leg: packet_rate(capture.received).overall_pps for leg, capture in captures.items()},
        lost_segments=vanished + len(missed) - len(asked),
        duplicate_segments=_duplicates(ordered, references),
    )


def spread(values_ms: Sequence[float]) -> Spread | None:
    """Percentiles and sigma of latencies; None without any."""
    if not values_ms:
        return None
    values = np.asarray(values_ms, dtype=np.float64)
    p50, p95 = np.percentile(values, [50, 95])
    sigma = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Spread(len(values), float(p50), float(p95), sigma, float(values.min()), float(values.max()))


def _listen(record: SegmentRecord, next_start_ns: float, captures: Mapping[str, Capture]) -> Heard | Unheard:
    talker = captures[record.leg]
    listener = next(capture for leg, capture in captures.items() if leg != record.leg)
    until_ns = int(min(record.audio_end_ns + TAIL_NS, next_start_ns - 1))
    end = last_above(talker.sent, record.audio_first_ns - TAIL_NS, until_ns)
    if record.played_ns is None:
        return Unheard(record.segment_id, record.leg, _why_not_played(record))
    if end is None:
        return Unheard(record.segment_id, record.leg, "no-speech-was-sent")
    opens_ns = record.played_ns - BEFORE_PLAYED_NS
    masked = first_above(listener.received, opens_ns - _SOUNDING_NS, opens_ns) is not None
    begin = first_above(listener.received, record.played_ns if masked else opens_ns, record.played_ns + AFTER_PLAYED_NS)
    if begin is None:
        return Unheard(record.segment_id, record.leg, "nothing-received")
    ear_ns = begin.at_ns - end.at_ns
    stages = dict(record.stages_ns)
    stages[REMAINDER] = ear_ns - sum(stages.values())
    return Heard(record.segment_id, record.leg, record.direction, end.at_ns, begin.at_ns, stages, masked)


def _why_not_played(record: SegmentRecord) -> str:
    if record.lost is not None:
        return record.lost
    if not record.source_text:
        return "nothing-recognised"
    return "same-language" if record.source_lang == record.target_lang else _VANISHED


def _next_start(record: SegmentRecord, ordered: Sequence[SegmentRecord]) -> float:
    later = (other.audio_first_ns for other in ordered if other.leg == record.leg)
    return min((start for start in later if start > record.audio_first_ns), default=math.inf)


def _asked_about(turn: Spoken, leg: str, at_ns: int) -> bool:
    return leg == turn.leg and turn.first_ns < at_ns < turn.last_ns + ASKED_WITHIN_NS


def _covers(record: SegmentRecord, turn: Spoken) -> bool:
    overlap = min(record.audio_end_ns, turn.last_ns + TAIL_NS) - max(record.audio_first_ns, turn.first_ns)
    return record.leg == turn.leg and overlap > 0


def _by_direction(heard: Sequence[Heard]) -> dict[str, Spread]:
    spreads = {}
    for direction in sorted({one.direction for one in heard}):
        found = spread([one.ear_ns / 1e6 for one in heard if one.direction == direction])
        if found is not None:
            spreads[direction] = found
    return spreads


def _stage_medians(heard: Sequence[Heard]) -> dict[str, float]:
    names = [*dict.fromkeys(name for one in heard for name in one.stages_ns if name != REMAINDER)]
    names += [REMAINDER] if heard else []
    return {name: float(np.median([one.stages_ns.get(name, 0) / 1e6 for one in heard])) for name in names}


def _duplicates(ordered: Sequence[SegmentRecord], references: Sequence[str]) -> int:
    count = sum(number - 1 for number in Counter(record.segment_id for record in ordered).values())
    for leg in {record.leg for record in ordered}:
        texts = [record.source_text for record in ordered if record.leg == leg]
        count += sum(repeated_join(first, second, references) is not None for first, second in pairwise(texts))
    return count
