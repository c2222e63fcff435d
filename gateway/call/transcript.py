# SPDX-License-Identifier: GPL-3.0-or-later
"""What was said and what was spoken for it: one record per segment, in the order in which they ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gateway.call.gate import ending_of


@dataclass(frozen=True, slots=True)
class Utterance:
    """One segment's record. Times are monotonic ns; 0 means that it never came to that."""

    segment_id: str
    leg: str
    """``a`` (the caller) or ``b``."""
    source_lang: str
    target_lang: str
    source_text: str
    target_text: str
    audio_first_ns: int
    audio_end_ns: int
    played_ns: int
    confidence: float
    lost: str | None = None
    """Why no translation was heard, if so: a counted reason."""
    stages_s: dict[str, float] = field(default_factory=dict)
    clocks_ns: dict[str, int] = field(default_factory=dict)
    source_span: tuple[int, int] = (0, 0)
    """First and end sample on the leg's timeline."""
    speculative: bool = False
    """True when the recognition had begun before the end of speech was confirmed."""
    begun_ahead: bool = False
    """True when the beginning of its translation was made while its talker still spoke."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Numbers said: ``checked`` in the translation, ``repaired`` there, ``unrepaired`` (said, but beside the text),
    ``continued`` (1: the utterance goes on with the number of the one before)."""
    terms: dict[str, int] = field(default_factory=dict)
    """Prescribed terms: ``hits``, ``repairs``, ``misses``; and what ``idioms``, ``rules``, ``hotwords`` replaced."""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "segment_id": self.segment_id,
            "leg": self.leg,
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "source_text": self.source_text,
            "target_text": self.target_text,
            "audio_first_ns": self.audio_first_ns,
            "audio_end_ns": self.audio_end_ns,
            "played_ns": self.played_ns,
            "confidence": round(self.confidence, 3),
            "lost": self.lost,
            "outcome": ending_of(self.lost),
            "stages": self.stages_s,
            "clocks_ns": self.clocks_ns,
            "source_span": list(self.source_span),
            "speculative": self.speculative,
            "begun_ahead": self.begun_ahead,
            "numbers": self.numbers,
            "terms": self.terms,
        }
