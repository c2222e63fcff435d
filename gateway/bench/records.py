# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway's account of one segment, as the bench reads it: what it understood, what it spoke, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """Stamps are ns of the machine's monotonic clock, the same that the telephones' captures carry.

    ``stages_ns`` are the gateway's own shares of the wait behind ``audio_end_ns``, in the order they happened.
    """

    segment_id: str
    leg: str
    source_lang: str
    target_lang: str
    source_text: str
    target_text: str
    audio_first_ns: int
    audio_end_ns: int
    played_ns: int | None = None
    """When the first frame of its first clip was handed to the SIP stack; None when nothing was played."""
    lost: str | None = None
    """The counted reason for which nothing was played."""
    stages_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def direction(self) -> str:
        """``en>pt``."""
        return f"{self.source_lang}>{self.target_lang}"

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SegmentRecord:
        """Read a transcript entry of the gateway: ``stages`` in seconds, ``played_ns`` 0 for never.

        Raises:
            ValueError: a field is missing or of the wrong kind; the message names it.
        """
        try:
            return SegmentRecord(
                segment_id=str(data["segment_id"]),
                leg=str(data["leg"]),
                source_lang=str(data["source_lang"]),
                target_lang=str(data["target_lang"]),
                source_text=str(data["source_text"]),
                target_text=str(data["target_text"]),
                audio_first_ns=int(data["audio_first_ns"]),
                audio_end_ns=int(data["audio_end_ns"]),
                played_ns=int(data.get("played_ns") or 0) or None,
                lost=data.get("lost"),
                stages_ns={str(name): round(float(s) * 1e9) for name, s in (data.get("stages") or {}).items()},
            )
        except KeyError as error:
            raise ValueError(f"segment record without {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"segment record: {error}") from error


@dataclass(frozen=True, slots=True)
class Spoken:
    """A turn that a telephone really sent: departures of its first and last packet."""

    turn_id: str
    leg: str
    language: str
    text: str
    first_ns: int
    last_ns: int
