# SPDX-License-Identifier: GPL-3.0-or-later
"""What every call works with: the user agent, the engines, the prompts, the state, and the choices in force."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from gateway.audio.original import Ducking
from gateway.call.delivery import Delivery
from gateway.call.events import CallEvent, EventBus
from gateway.call.fallback import Fallbacks
from gateway.call.glossary import Glossaries, Glossary
from gateway.call.plan import DirectionPlan
from gateway.call.prompts import PromptBook
from gateway.call.turns import TurnRules
from gateway.sip.protocols import UserAgent
from gateway.speech.protocols import SpeechService
from gateway.stream.plan import END_MS, EndpointPlan, Mode

CHARS_PER_S = 15.0  # unhurried speech, in alphabetic scripts; measured on the bundle's voices at 13 to 16
FEWEST_CHARS = 12


class CallRegister(Protocol):
    """Where the state of live calls is kept. Calls never wait for it."""

    def put_call(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Keep or replace a live call's record."""

    def end_call(self, call_id: str) -> None:
        """The call is over: remove it."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long things may take, in seconds."""

    ring_timeout_s: float = 30.0
    longest_s: float = 14_400.0
    silence_s: float = 0.0
    """Hang up a bridged call in which neither party has spoken for this long; 0 never."""
    last_words_s: float = 20.0
    """How long a party that stays behind is kept to hear the other's last words."""


@dataclass(frozen=True, slots=True)
class Booth:
    """What one direction of speech works with; it knows nothing of telephones."""

    speech: SpeechService
    prompts: PromptBook
    endpoint: EndpointPlan
    clause_end_ms: int = END_MS[Mode.SIMULTANEOUS]
    """Silence that ends an utterance in simultaneous mode."""
    previews: bool = True
    """Decode the growing utterance in consecutive mode too, where it only shows."""
    temperature: float = 1.0
    """Calibrates the recogniser's confidence."""
    repeat_below: float = 0.0
    """Calibrated confidence below which the talker is asked to repeat; 0 never."""
    vad_aggressiveness: int = 2
    """0 takes most for speech, 3 least (WebRTC's scale)."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """By language: seconds that the voice needs for a second of speech on this machine."""
    first_sound_ms: int = 0
    """How long the first piece of a translation may take to be synthesized; 0: it is spoken in one piece."""
    begin_ahead: bool = True
    """Whether beginnings are made before their talker has finished."""
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    """By language: the style in which its voice speaks; what is missing speaks in its own."""
    varies: bool = False
    """Speak each utterance a little differently."""
    turns: TurnRules = field(default_factory=TurnRules)
    """When a listener interrupts, what an echo costs, when a language changes."""
    follow_talker: bool = False
    """The voice follows the talker in speed and level."""
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    """What is makeshift between which languages."""
    glossary: Callable[[], Glossary] = Glossary
    """The glossary in force now; each utterance takes the one of its moment."""
    clock: Callable[[], int] = time.monotonic_ns

    def endpoint_for(self, mode: str) -> EndpointPlan:
        """The end-pointer's thresholds in a mode. ValueError for an unknown one."""
        chosen = Mode(mode)
        if chosen is self.endpoint.mode:
            return self.endpoint
        return replace(self.endpoint, mode=chosen, end_ms=self.clause_end_ms)

    def first_chars(self, language: str) -> int:
        """Characters that the voice of a language makes in `first_sound_ms` on this machine; 0 for no limit."""
        speed = self.speeds.get(language, 0.0)
        if not self.first_sound_ms or not speed:
            return 0
        return max(FEWEST_CHARS, round(self.first_sound_ms / 1000 / speed * CHARS_PER_S))

    def delivery(self, language: str) -> Delivery:
        """The style in which the voice of a language speaks."""
        return self.deliveries.get(language, Delivery())

    def plan(
        self, source: str, target: str, *, mode: str = "consecutive", voice: str | None = None, register: str = ""
    ) -> DirectionPlan:
        """The first plan of a direction between two languages."""
        return DirectionPlan(
            version=1,
            source=source,
            target=target,
            mode=mode,
            voice=voice,
            register=register,
            delivery=self.delivery(target),
            varies=self.varies,
            first_chars=self.first_chars(target),
            temperature=self.temperature,
            repeat_below=self.repeat_below,
        ).with_glossary(self.glossary())


@dataclass(frozen=True, slots=True)
class Desk:
    """What every call works with: the booth, the telephones, the register, and the choices in force."""

    booth: Booth
    user_agent: UserAgent
    register: CallRegister
    bus: EventBus
    glossaries: Glossaries
    limits: CallLimits = field(default_factory=CallLimits)
    leads_to: Callable[[str, str], bool] = lambda uri, language: False
    """Whether a party with this language may be called at this address (`DialPlan.leads_to`)."""
    disclosure: bool = True
    recordings: Path | None = None
    ducking: Ducking = field(default_factory=Ducking)
    """The talker's own voice under the translation."""
    comfort_dbfs: float | None = None
    """Level of the noise that says that the line is open; None for silence."""
    waiting_cue_s: float = 0.0
    """Wait for a translation after which the listener hears a cue; 0 never."""
    controls: frozenset[str] = frozenset()
    """Sides whose keys control the interpreter."""
    pass_digits: bool = False
    """Keys that are no control go on to the other party."""

    def publish(self, kind: str, call: str, **data: Any) -> None:
        """Tell the listeners."""
        self.bus.publish(CallEvent(kind, call, self.booth.clock(), data))
