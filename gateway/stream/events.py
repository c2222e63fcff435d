# SPDX-License-Identifier: GPL-3.0-or-later
"""What the streaming core is told and what it says: plain values, no behaviour.

All positions are sample indices on the leg's own timeline at the leg's rate. ``now_ns`` is a monotonic stamp that
the caller passes in; the core never reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class VoiceFrame:
    """The verdict of the voice detector on one frame."""

    first_sample: int
    samples: int
    is_speech: bool
    level_dbfs: float
    is_music: bool = False
    """Held notes, and nothing louder than they: neither anybody's voice nor the noise around one."""

    @property
    def end_sample(self) -> int:
        """Index of the first sample behind the frame."""
        return self.first_sample + self.samples


# --- what the end-pointer says ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Speech began; ``first_sample`` already includes the pre-roll."""

    first_sample: int


@dataclass(frozen=True, slots=True)
class SpeechPaused:
    """Silence has lasted the prepare time: the span may be prepared, nothing is decided yet.

    It comes again in the same pause when a lone voiced frame stood behind the first, which may be the end of a word.
    """

    first_sample: int
    speech_end: int
    end_sample: int


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """The talker went on before the end was confirmed: what was prepared is void."""

    at_sample: int


class EndCause(StrEnum):
    """Why a segment's span was closed."""

    SILENCE = "silence"
    LONGEST = "longest-utterance"
    CUT = "cut"
    """It was the longest, and its talker goes on: the next utterance begins where it ends."""
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The utterance is over: ``speech_end`` is its last voiced sample, ``end_sample`` includes the kept tail."""

    first_sample: int
    speech_end: int
    end_sample: int
    cause: EndCause
    confirmed_at: int


@dataclass(frozen=True, slots=True)
class LongSilence:
    """Nothing was said for the long-silence time: whatever is still held of the last utterance is let go."""

    since_sample: int
    at_sample: int


EndpointEvent = SpeechStarted | SpeechPaused | SpeechResumed | SpeechEnded | LongSilence

# --- what the owner of a leg's segments says ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """The samples of a leg that one recognition covers, and the plan (languages, voice, terms) it is made under."""

    first_sample: int
    end_sample: int
    plan_version: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Start a cancellable recognition of ``span``; it belongs to the preparer until promoted."""

    candidate_id: str
    span: Span


@dataclass(frozen=True, slots=True)
class Release:
    """Cancel the candidate: speech went on, a newer candidate replaced it, or the plan changed."""

    candidate_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Submit:
    """Hand the segment to the queue as an immutable job; ``candidate_id`` names a candidate to promote instead."""

    segment_id: str
    span: Span
    candidate_id: str | None


@dataclass(frozen=True, slots=True)
class Finalized:
    """The segment's one and only final text. An empty text means: heard, and it was not speech."""

    segment_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The segment ends without a text, for a counted reason."""

    segment_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Terminal:
    """Nothing is current, pending, or in flight on this leg any more, and nothing will be."""

    leg: str


SegmentEvent = Prepare | Release | Submit | Finalized | Lost | Terminal
