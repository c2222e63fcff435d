# SPDX-License-Identifier: GPL-3.0-or-later
"""When a party can hardly be heard for noise: only their safety words are translated, and both are told (SPEC S1.26).

A recogniser does not fall silent in noise, it makes things up. So below a ratio of speech to noise, kept for some
seconds, nothing is believed but the few words of `gateway.text.safety`, which are looked for, and spoken by their
meaning. It is over when the ratio is well above again for as long; between the two nothing changes, and neither while
the ratio is unknown: before somebody has spoken, on hold, or long after the last word.

A party may also switch it by key, and an operator by the API: on, whatever the noise, or off, whatever the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import structlog

from gateway.call.party import Party
from gateway.call.prompts import SAFETY_WORDS, SAFETY_WORDS_OVER, PromptBook
from gateway.call.turns import TurnRules
from gateway.text.safety import safety_words

log = structlog.get_logger(__name__)

WELL_ABOVE_DB = 3.0  # the ratio of steady noise wanders by 2 dB either way
LOOK_S = 1.0  # of sound, between two looks at the meter


class SafetyWish(StrEnum):
    """Who decides: the noise, or somebody."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class NoiseRule:
    """One talker's: `feed` what the meter tells; ``noisy`` is the verdict. Pure."""

    def __init__(self, below_db: float, after_s: float) -> None:
        """``below_db`` 0: never noisy."""
        self.noisy = False
        self._below_db = below_db
        self._after_s = after_s
        self._against_s = 0.0
        """For how long the ratio has spoken against the verdict."""

    def feed(self, snr_db: float | None, seconds: float) -> bool:
        """The ratio now, and the sound since the last look; the verdict."""
        if snr_db is None or not self._below_db:
            self._against_s = 0.0
            return self.noisy
        clear = snr_db >= self._below_db + WELL_ABOVE_DB
        self._against_s = self._against_s + seconds if (clear if self.noisy else snr_db < self._below_db) else 0.0
        if self._against_s >= self._after_s:
            self.noisy, self._against_s = not self.noisy, 0.0
        return self.noisy


class Muffled(Protocol):
    """The part of a direction that noise changes."""

    source: Party
    target: Party

    @property
    def snr_db(self) -> float | None:
        """The talker's speech against the noise around them."""

    @property
    def heard(self) -> int:
        """Samples of the talker's that were listened to so far; those of a pause are none."""

    def set_safety_words(self, on: bool) -> None:
        """Translate nothing but safety words from the next utterance on."""


@dataclass(slots=True)
class _Ear:
    """One direction with what has become of it."""

    direction: Muffled
    rule: NoiseRule
    looked_at: int = 0
    on: bool = False


class SafetyMode:
    """Of one call. ``tell`` takes a kind and data of an event. `tick` and `set` belong to the event loop."""

    def __init__(
        self,
        directions: Sequence[Muffled],
        rules: TurnRules,
        *,
        prompts: PromptBook,
        tell: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self.wish = SafetyWish.AUTO
        self._ears = [_Ear(one, NoiseRule(rules.safety_below_db, rules.safety_after_s)) for one in directions]
        self._prompts = prompts
        self._tell = tell
        self._told = False
        self._begun = 0

    @property
    def on(self) -> list[bool]:
        """For each direction, whether only safety words are translated."""
        return [ear.on for ear in self._ears]

    @property
    def possible(self) -> bool:
        """Whether there are safety words for a language pair of the call."""
        return any(_has_words(ear.direction) for ear in self._ears)

    def set(self, wish: SafetyWish) -> None:
        """Let the noise decide, or decide instead of it."""
        self.wish = wish
        self._settle()

    def switch(self) -> bool:
        """By key: off where it is on, on where it is off; what is so now. The noise is not asked any more."""
        self.set(SafetyWish.OFF if any(self.on) else SafetyWish.ON)
        return any(self.on)

    def tick(self) -> None:
        """Look at what has been heard since the last time."""
        for ear in self._ears:
            rate_hz = ear.direction.source.rate_hz
            seconds = (ear.direction.heard - ear.looked_at) / rate_hz
            if seconds >= LOOK_S:
                ear.looked_at = ear.direction.heard
                ear.rule.feed(ear.direction.snr_db, LOOK_S)  # what passed on hold is counted, but was not listened to
        self._settle()

    def _settle(self) -> None:
        for ear in self._ears:
            wanted = ear.rule.noisy if self.wish is SafetyWish.AUTO else self.wish is SafetyWish.ON
            wanted = wanted and _has_words(ear.direction)
            if wanted is ear.on:
                continue
            ear.on = wanted
            self._begun += wanted
            ear.direction.set_safety_words(wanted)
            by = "noise" if self.wish is SafetyWish.AUTO else "hand"
            told = {"leg": ear.direction.source.side, "on": wanted, "by": by, "snr_db": ear.direction.snr_db}
            self._tell("safety-mode", told)
            log.info("safety_words_only" if wanted else "safety_words_over", leg=ear.direction.source.line, by=by)
        if any(self.on) is not self._told:
            self._told = not self._told
            name = SAFETY_WORDS if self._told else SAFETY_WORDS_OVER
            for ear in self._ears:
                party = ear.direction.source
                party.prompt(name, self._prompts.clip(party.language, name))

    def statistics(self) -> dict[str, Any]:
        """Who decides, for whom it holds, and how often it has begun."""
        return {"wish": self.wish.value, "on": self.on, "begun": self._begun}


def _has_words(direction: Muffled) -> bool:
    return safety_words(direction.source.language, direction.target.language) is not None
