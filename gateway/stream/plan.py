# SPDX-License-Identifier: GPL-3.0-or-later
"""The thresholds of end-pointing, kept together with the rate, frame and mode they were chosen for.

A silence of "400 ms" means nothing by itself: at another frame length or in another mode it is another decision.
So a plan is one value, it is checked as a whole, and a call echoes exactly the plan that its end-pointer holds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum


class Mode(StrEnum):
    """When the other party hears the interpreter: after the sentence, or clause by clause while the talker goes on."""

    CONSECUTIVE = "consecutive"
    SIMULTANEOUS = "simultaneous"


END_MS = {Mode.CONSECUTIVE: 400, Mode.SIMULTANEOUS: 240}
"""Silence that ends an utterance (consecutive) or a clause (simultaneous)."""

FRAME_MS = (10, 20, 30)  # what the WebRTC detector accepts


@dataclass(frozen=True, slots=True)
class EndpointPlan:
    """Thresholds of one leg's end-pointer. Durations in ms; ``*_samples`` are derived at ``rate_hz``.

    Durations that count silence are rounded up to whole frames, because a decision falls at a frame's end.
    ``keep_tail_ms`` 400: at 40 ms weak final consonants were cut off, at 800 ms recognisers began to loop.
    """

    rate_hz: int = 8000
    frame_ms: int = 20
    mode: Mode = Mode.CONSECUTIVE
    start_frames: int = 3
    start_window: int = 5
    resume_frames: int = 2
    """Voiced frames within ``resume_window`` that count as going on; one alone is a click."""
    resume_window: int = 3
    pre_roll_ms: int = 300
    prepare_ms: int = 100
    """Silence after which recognition may be prepared; 0 switches preparing off."""
    end_ms: int = 400
    keep_tail_ms: int = 400
    longest_utterance_ms: int = 20_000
    long_silence_ms: int = 5_000
    """Silence after which nothing of the last utterance is held any longer."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the value and the remedy."""
        if not 8000 <= self.rate_hz <= 48_000:
            raise ValueError(f"rate_hz {self.rate_hz} is not a telephone or model rate: use 8000, 16000 or 48000")
        if self.frame_ms not in FRAME_MS:
            raise ValueError(f"frame_ms {self.frame_ms} is not a voice detector frame: use 10, 20 or 30")
        if self.rate_hz * self.frame_ms % 1000:
            raise ValueError(f"frame_ms {self.frame_ms} at {self.rate_hz} Hz is not a whole number of samples")
        for name, part, window in (
            ("start", self.start_frames, self.start_window),
            ("resume", self.resume_frames, self.resume_window),
        ):
            if not 1 <= part <= window <= 50:
                raise ValueError(
                    f"{name}_frames {part} of {name}_window {window}: frames must be 1 or more, "
                    "not more than the window, and the window 50 at most"
                )
        for name in ("pre_roll_ms", "prepare_ms", "keep_tail_ms"):
            value = getattr(self, name)
            if not 0 <= value <= 5000:
                raise ValueError(f"{name} {value} is out of range: use 0 to 5000")
        if not self.frame_ms <= self.end_ms <= 10_000:
            raise ValueError(f"end_ms {self.end_ms} is out of range: use {self.frame_ms} to 10000")
        if self.prepare_ms >= self.end_ms:
            raise ValueError(
                f"prepare_ms {self.prepare_ms} must be less than end_ms {self.end_ms}: "
                "lower it, or use 0 to switch preparing off"
            )
        if self.longest_utterance_ms < 2 * (self.pre_roll_ms + self.end_ms) or self.longest_utterance_ms < 1000:
            raise ValueError(
                f"longest_utterance_ms {self.longest_utterance_ms} is too short: use 1000 or more, "
                "and twice pre_roll_ms + end_ms at least"
            )
        if self.long_silence_ms < self.end_ms:
            raise ValueError(f"long_silence_ms {self.long_silence_ms} must not be less than end_ms {self.end_ms}")

    @classmethod
    def for_mode(cls, mode: Mode, *, rate_hz: int = 8000, frame_ms: int = 20) -> EndpointPlan:
        """The default plan of a mode."""
        return cls(rate_hz=rate_hz, frame_ms=frame_ms, mode=mode, end_ms=END_MS[mode])

    def _frames(self, duration_ms: int) -> int:
        return -(-duration_ms // self.frame_ms)

    @property
    def frame_samples(self) -> int:
        """Samples of a full frame."""
        return self.rate_hz * self.frame_ms // 1000

    @property
    def pre_roll_samples(self) -> int:
        """Sound kept before the first voiced frame."""
        return self.rate_hz * self.pre_roll_ms // 1000

    @property
    def keep_tail_samples(self) -> int:
        """Sound kept behind the last voiced frame."""
        return self.rate_hz * self.keep_tail_ms // 1000

    @property
    def prepare_frames(self) -> int:
        """Silent frames before preparing; 0 = never."""
        return self._frames(self.prepare_ms)

    @property
    def prepare_samples(self) -> int:
        """`prepare_frames` in samples."""
        return self.prepare_frames * self.frame_samples

    @property
    def end_frames(self) -> int:
        """Silent frames that end an utterance."""
        return self._frames(self.end_ms)

    @property
    def end_samples(self) -> int:
        """`end_frames` in samples."""
        return self.end_frames * self.frame_samples

    @property
    def longest_samples(self) -> int:
        """Samples at which an utterance is cut."""
        return self._frames(self.longest_utterance_ms) * self.frame_samples

    @property
    def long_silence_samples(self) -> int:
        """Samples of silence that release everything."""
        return self._frames(self.long_silence_ms) * self.frame_samples

    def as_echo(self) -> dict[str, int | str]:
        """The values in force, for the call's record: as configured, plus the frames they really became."""
        echo: dict[str, int | str] = {
            field.name: value.value if isinstance(value := getattr(self, field.name), Mode) else value
            for field in fields(self)
        }
        echo["prepare_frames"] = self.prepare_frames
        echo["end_frames"] = self.end_frames
        return echo
