# SPDX-License-Identifier: GPL-3.0-or-later
"""Has a listener talked over a translation long enough to mean it?

A nod ("mhm", "sim") lasts less than half a second, so only speech that goes on for longer counts, short pauses
included. And a loudspeaker telephone sends back what it plays: an echo interrupts nobody (`echo`).
"""

from __future__ import annotations

from typing import Protocol

from gateway.call.echo import EchoWatch
from gateway.stream.events import VoiceFrame

LOOKED_AT_S = 1  # of what was said last, when it is asked whether that is an echo
PAUSE_MS = 300  # a longer pause starts the count anew


class Playing(Protocol):
    """What the talker of this side is given to hear."""

    @property
    def translating(self) -> bool:
        """True while a translation sounds."""


class TalkOver:
    """Feed each verdict on what a party says; `take` is True once when they have talked over what they hear. Pure."""

    def __init__(self, after_ms: int, rate_hz: int, played: Playing, echo: EchoWatch) -> None:
        self._after_samples = after_ms * rate_hz // 1000
        self._pause_samples = PAUSE_MS * rate_hz // 1000
        self._looked_at = LOOKED_AT_S * rate_hz
        self._played = played
        self._echo = echo
        self._voiced = 0
        self._silent = 0
        self._due = False

    def take(self) -> bool:
        """True when they have talked over a translation for the time that counts, since the last look."""
        due, self._due = self._due, False
        return due

    def feed(self, verdict: VoiceFrame) -> None:
        """The next verdict, which the echo watch has seen already. A time of 0 never counts."""
        self._silent = 0 if verdict.is_speech else self._silent + verdict.samples
        if not self._after_samples or not self._played.translating or self._silent >= self._pause_samples:
            self._voiced = 0
            return
        self._voiced += verdict.samples if verdict.is_speech else 0
        if self._voiced < self._after_samples:
            return
        self._voiced = 0
        self._due = self._due or not self._echo.is_echo(verdict.end_sample - self._looked_at, verdict.end_sample)
