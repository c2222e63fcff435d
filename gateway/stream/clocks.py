# SPDX-License-Identifier: GPL-3.0-or-later
"""When a segment passed each point, and what the way between them cost.

Two figures are kept apart, because one hides the other: how long a sentence takes (audio_end → final), and how long a
leg takes to come to rest (stop → terminal, `StopClock`).

Stamps are ns on one monotonic clock. They come in any order: with preparation a segment is submitted before its end
is confirmed, and a clause can be translated before the sentence is final.
"""

from __future__ import annotations

from enum import StrEnum


class Stamp(StrEnum):
    """The points of a segment's way."""

    AUDIO_END = "audio_end"
    """Its last voiced sample arrived."""
    VAD_END = "vad_end"
    """The end-pointer confirmed the end."""
    SUBMIT = "submit"
    """Its recognition was queued: for a promoted candidate, when the candidate was queued."""
    PREVIEW = "preview"
    """First hypothesis with new words."""
    FINAL = "final"
    """Its text can no longer change."""
    MT = "mt"
    """Its translation is verified."""
    FIRST_AUDIO = "first_audio"
    """First synthesized sound is there."""
    PLAYED = "played"
    """First synthesized sample went into the other leg."""
    TERMINAL = "terminal"
    """The leg came to rest."""


_MUST_NOT_PRECEDE = (
    (Stamp.AUDIO_END, Stamp.VAD_END),
    (Stamp.VAD_END, Stamp.FINAL),
    (Stamp.SUBMIT, Stamp.FINAL),
    (Stamp.MT, Stamp.FIRST_AUDIO),
    (Stamp.FIRST_AUDIO, Stamp.PLAYED),
    (Stamp.FINAL, Stamp.TERMINAL),
    (Stamp.PLAYED, Stamp.TERMINAL),
)
"""(earlier, later). A preview may come while the talker speaks, and clauses are spoken before the sentence is final."""

_STAGES = (
    ("endpoint", Stamp.VAD_END),
    ("queue", Stamp.SUBMIT),
    ("recognise", Stamp.FINAL),
    ("translate", Stamp.MT),
    ("synthesise", Stamp.FIRST_AUDIO),
    ("play_wait", Stamp.PLAYED),
)


class SegmentClocks:
    """The nine stamps of one segment, each set once."""

    def __init__(self, segment_id: str) -> None:
        self.segment_id = segment_id
        self._stamps: dict[Stamp, int] = {}

    def mark(self, stamp: Stamp, now_ns: int) -> None:
        """Set a stamp; ValueError when it is set already or contradicts one that is."""
        if stamp in self._stamps:
            raise ValueError(f"{stamp} of segment {self.segment_id} is set already")
        for earlier, later in _MUST_NOT_PRECEDE:
            if stamp is later and self._stamps.get(earlier, now_ns) > now_ns:
                raise ValueError(f"{stamp} of segment {self.segment_id} would be before {earlier}")
            if stamp is earlier and self._stamps.get(later, now_ns) < now_ns:
                raise ValueError(f"{stamp} of segment {self.segment_id} would be after {later}")
        self._stamps[stamp] = now_ns

    def get(self, stamp: Stamp) -> int | None:
        """The stamp in ns, or None."""
        return self._stamps.get(stamp)

    def audio_end_to_final_ns(self) -> int | None:
        """How long the talker's last sound took to become a text that cannot change."""
        return self._between(Stamp.AUDIO_END, Stamp.FINAL)

    def audio_end_to_played_ns(self) -> int | None:
        """How long the other party waited, as seen inside the gateway; negative when clauses were spoken before."""
        return self._between(Stamp.AUDIO_END, Stamp.PLAYED)

    def stages(self) -> dict[str, int]:
        """What each stage added to the wait after audio_end, in ns; the values sum to `total_ns`.

        A stage is charged only for the time in which it held up everything before it: from the latest stamp of the
        stages in front to its own, and nothing if its own was earlier (work done ahead costs no wait). ``queue`` is
        the wait between the confirmed end and the submission, so it is 0 for a promoted candidate. The time of a
        stage without a stamp goes to the next one that has one. Empty without audio_end.
        """
        start = self._stamps.get(Stamp.AUDIO_END)
        if start is None:
            return {}
        parts: dict[str, int] = {}
        reached = start
        for name, stamp in _STAGES:
            at = self._stamps.get(stamp)
            if at is not None:
                parts[name] = max(0, at - reached)
                reached = max(reached, at)
        return parts

    def total_ns(self) -> int:
        """From audio_end to the latest stage stamp; 0 when all lie before it or audio_end is missing."""
        start = self._stamps.get(Stamp.AUDIO_END)
        ends = [self._stamps[stamp] for _, stamp in _STAGES if stamp in self._stamps]
        return max(0, max(ends) - start) if start is not None and ends else 0

    def as_dict(self) -> dict[str, int | None]:
        """All nine stamps by name, for records."""
        return {stamp.value: self._stamps.get(stamp) for stamp in Stamp}

    def _between(self, first: Stamp, last: Stamp) -> int | None:
        start, end = self._stamps.get(first), self._stamps.get(last)
        return None if start is None or end is None else end - start


class StopClock:
    """How long a leg takes from stop (BYE or end of file seen) to its terminal event."""

    def __init__(self) -> None:
        self._stop_ns: int | None = None
        self._terminal_ns: int | None = None

    def stop(self, now_ns: int) -> None:
        """The leg was told to stop; ValueError the second time."""
        if self._stop_ns is not None:
            raise ValueError("stop is set already")
        self._stop_ns = now_ns

    def terminal(self, now_ns: int) -> None:
        """The leg came to rest; ValueError the second time, before `stop`, or earlier than it."""
        if self._stop_ns is None or now_ns < self._stop_ns:
            raise ValueError("terminal would be before stop")
        if self._terminal_ns is not None:
            raise ValueError("terminal is set already")
        self._terminal_ns = now_ns

    def stop_to_terminal_ns(self) -> int | None:
        """The figure, once both are there."""
        if self._stop_ns is None or self._terminal_ns is None:
            return None
        return self._terminal_ns - self._stop_ns
