# SPDX-License-Identifier: GPL-3.0-or-later
"""What every call works with: the user agent, the engines, the prompts, the state, and the choices in force."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gateway.call.events import CallEvent, EventBus
from gateway.call.prompts import PromptBook
from gateway.sip.protocols import UserAgent
from gateway.speech.protocols import SpeechService
from gateway.stream.plan import EndpointPlan
from gateway.text.terms import TermList


class CallRegister(Protocol):
    """Where the state of live calls is kept. Calls never wait for it."""

    def put_call(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Keep or replace a live call's record."""

    def end_call(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Replace it by the ended call's record."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long things may take, in seconds."""

    ring_timeout_s: float = 30.0
    longest_s: float = 14_400.0
    last_words_s: float = 20.0
    """How long a party that stays behind is kept to hear the other's last words."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts a call is given. One desk serves all calls."""

    user_agent: UserAgent
    speech: SpeechService
    prompts: PromptBook
    register: CallRegister
    bus: EventBus
    endpoint: EndpointPlan
    limits: CallLimits = field(default_factory=CallLimits)
    vad_aggressiveness: int = 2
    """0 takes most for speech, 3 least (WebRTC's scale)."""
    disclosure: bool = True
    first_clause_chars: int = 0
    hotwords: tuple[str, ...] = ()
    terms: Callable[[], TermList] = TermList
    """The term list in force now; each utterance takes the one of its moment."""
    recordings: Path | None = None
    clock: Callable[[], int] = time.monotonic_ns

    def publish(self, kind: str, call: str, **data: Any) -> None:
        """Tell the listeners."""
        self.bus.publish(CallEvent(kind, call, self.clock(), data))
