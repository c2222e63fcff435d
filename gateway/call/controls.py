# SPDX-License-Identifier: GPL-3.0-or-later
"""The interpreter at the parties' fingertips: what each key does, and the short answer to who pressed it (SPEC A6).

The answer is said in the presser's language, to the presser alone. What it says and to whom is all this file knows of
a call; the directions do the rest. Keys are personal data (people dial numbers and PINs): only the names of controls
are told to listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from gateway.call.party import Party
from gateway.call.prompts import PromptBook
from gateway.call.safety_mode import SafetyMode
from gateway.call.star_codes import Asked, Control, Heard, NotOurs, StarCodes

HELP = "control-help"
PAUSED = "control-paused"
RESUMED = "control-resumed"
ORIGINAL_ON = "control-original-on"
ORIGINAL_OFF = "control-original-off"
SWAPPED = "control-swapped"
UNKNOWN = "control-unknown"
NOTHING = "control-nothing"
TEMPOS = (("control-normal", 1.0), ("control-slower", 0.85), ("control-faster", 1.2))
"""What each press of ``*4`` goes on to; both stay within what a stretched voice bears without sounding so."""

BY_KEYS = "keys"
"""The reason under which the directions are paused."""


class Steered(Protocol):
    """The part of a direction that keys can steer."""

    target: Party

    def pause(self, reason: str) -> None:
        """Interpret nothing for this reason."""

    def resume(self, reason: str) -> None:
        """Take the reason back."""

    def set_original(self, on: bool) -> None:
        """Let the listener hear the talker's own voice, or not."""

    def set_tempo(self, ratio: float) -> None:
        """Speak faster or slower to the listener."""


class Controls:
    """The keys of both parties of one call. `press` and `tick` belong to the event loop.

    Args:
        parties: both.
        directions: both; a pause is of the whole interpreter, since half of a conversation is none.
        allowed: sides ("a", "b") whose keys control; those of others are passed on at most.
        safety: what only lets safety words through.
        set_language: takes a side and its new language.
        pass_on: takes the presser and keys that are no control; None keeps them.
        tell: takes a kind and data of an event.
        original: whether the call begins with the talkers' own voices under the translation.
    """

    def __init__(
        self,
        parties: tuple[Party, Party],
        directions: Iterable[Steered],
        *,
        prompts: PromptBook,
        allowed: frozenset[str],
        safety: SafetyMode,
        set_language: Callable[[str, str], None],
        pass_on: Callable[[Party, str], None] | None,
        tell: Callable[[str, dict[str, Any]], None],
        clock: Callable[[], int],
        original: bool = False,
    ) -> None:
        self._parties = parties
        self._directions = tuple(directions)
        self._prompts = prompts
        self._codes = {party.side: StarCodes() for party in parties if party.side in allowed}
        self._safety = safety
        self._set_language = set_language
        self._pass_on = pass_on
        self._tell = tell
        self._clock = clock
        self._original = dict.fromkeys(("a", "b"), original)
        self._tempo = dict.fromkeys(("a", "b"), 0)
        self.paused = False
        """The interpreter pauses because somebody asked for it."""
        self._acts: Mapping[Control, Callable[[Party], dict[str, Any]]] = {
            Control.HELP: self._help,
            Control.PAUSE: self._pause,
            Control.REPEAT: self._repeat,
            Control.ORIGINAL: self._switch_original,
            Control.TEMPO: self._next_tempo,
            Control.SWAP: self._swap,
            Control.SAFETY: self._switch_safety,
        }

    def press(self, party: Party, key: str) -> None:
        """A party pressed a key."""
        codes = self._codes.get(party.side)
        heard: tuple[Heard, ...] = (NotOurs(key),) if codes is None else codes.feed(key, self._clock())
        self._take(party, heard)

    def tick(self) -> None:
        """Let go the stars that nothing followed."""
        for party in self._parties:
            codes = self._codes.get(party.side)
            if codes is not None:
                self._take(party, codes.expire(self._clock()))

    def _take(self, party: Party, heard: Iterable[Heard]) -> None:
        for one in heard:
            match one:
                case Asked(control):
                    told = self._acts[control](party)
                    self._tell("control", {"leg": party.side, "control": control.value, **told})
                case NotOurs(keys, starred):
                    if self._pass_on is not None:
                        self._pass_on(party, keys)
                    elif starred:
                        self._answer(party, UNKNOWN)

    # --- what the controls do -----------------------------------------------------------------------------------

    def _help(self, party: Party) -> dict[str, Any]:
        self._answer(party, HELP)
        return {}

    def set_paused(self, on: bool) -> None:
        """Interpret nothing until it is taken back, by a key or by the operator."""
        self.paused = on
        for direction in self._directions:
            if on:
                direction.pause(BY_KEYS)
            else:
                direction.resume(BY_KEYS)
            # a pause is to talk without the interpreter, not to sit in silence
            direction.set_original(on or self._original[direction.target.side])

    def set_original(self, party: Party, on: bool) -> None:
        """Whether a party hears the other's own voice under the translation."""
        self._original[party.side] = on
        self._to(party).set_original(on or self.paused)

    def set_tempo(self, party: Party, ratio: float) -> None:
        """How fast a party is spoken to; a key goes on to the next of its own steps. ValueError beyond 0.6 to 1.6."""
        self._to(party).set_tempo(ratio)

    def _pause(self, party: Party) -> dict[str, Any]:
        self.set_paused(not self.paused)
        self._answer(party, PAUSED if self.paused else RESUMED)
        return {"on": self.paused}

    def _repeat(self, party: Party) -> dict[str, Any]:
        again = party.last_words.take()
        if not party.answer("repeated", again):
            self._answer(party, NOTHING)
        return {"on": bool(again.size)}

    def _switch_original(self, party: Party) -> dict[str, Any]:
        on = not self._original[party.side]
        self.set_original(party, on)
        self._answer(party, ORIGINAL_ON if on else ORIGINAL_OFF)
        return {"on": on}

    def _next_tempo(self, party: Party) -> dict[str, Any]:
        step = self._tempo[party.side] = (self._tempo[party.side] + 1) % len(TEMPOS)
        name, ratio = TEMPOS[step]
        self.set_tempo(party, ratio)
        self._answer(party, name)
        return {"tempo": ratio}

    def _swap(self, party: Party) -> dict[str, Any]:
        a, b = self._parties
        languages = {"a": b.language, "b": a.language}
        for side, language in languages.items():
            self._set_language(side, language)
        self._answer(party, SWAPPED)
        return {"languages": list(languages.values())}

    def _switch_safety(self, party: Party) -> dict[str, Any]:
        if not self._safety.possible:
            self._answer(party, UNKNOWN)
            return {"on": False}
        return {"on": self._safety.switch()}  # both parties are told what that means

    def _to(self, listener: Party) -> Steered:
        return next(direction for direction in self._directions if direction.target is listener)

    def _answer(self, party: Party, name: str) -> None:
        party.answer(name, self._prompts.clip(party.language, name))
