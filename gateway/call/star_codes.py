# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys pressed during a call: which of them speak to the interpreter, and which are meant for somebody else.

A control is a star and one more key, within a few seconds: telephones in use have no other key that people do not press
by habit, and a star alone is common in the menus of others. So a star is held back until it is known what follows; what
turns out to be no control is given out as it was pressed, in order (SPEC A6).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STAR = "*"
AFTER_STAR_NS = 4_000_000_000  # an unhurried thumb; longer, and a forgotten star would take the next key


class Control(StrEnum):
    """What a party may ask of the interpreter; the value is the name in events."""

    HELP = "help"
    PAUSE = "pause"
    REPEAT = "repeat"
    ORIGINAL = "original"
    TEMPO = "tempo"
    SWAP = "swap"
    SAFETY = "safety-words"


CONTROLS = {
    "0": Control.HELP,
    "1": Control.PAUSE,
    "2": Control.REPEAT,
    "3": Control.ORIGINAL,
    "4": Control.TEMPO,
    "5": Control.SWAP,
    "6": Control.SAFETY,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A control was pressed."""

    control: Control


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Keys that are no control, as they were pressed. ``starred``: a star and a key that means nothing here."""

    keys: str
    starred: bool = False


Heard = Asked | NotOurs


class StarCodes:
    """One party's keys. Feed every key with the time it came; `expire` gives out a star that was left alone."""

    def __init__(self, after_star_ns: int = AFTER_STAR_NS) -> None:
        self._after_star_ns = after_star_ns
        self._star_ns: int | None = None

    def feed(self, key: str, now_ns: int) -> tuple[Heard, ...]:
        """What a key completes; nothing after a star, which waits."""
        left = self.expire(now_ns)
        if key == STAR:
            left += (NotOurs(STAR),) if self._star_ns is not None else ()
            self._star_ns = now_ns
            return left
        if self._star_ns is None:
            return (*left, NotOurs(key))
        self._star_ns = None
        control = CONTROLS.get(key)
        return (*left, Asked(control) if control is not None else NotOurs(STAR + key, starred=True))

    def expire(self, now_ns: int) -> tuple[Heard, ...]:
        """The star that nothing followed in time, if there is one."""
        if self._star_ns is None or now_ns - self._star_ns < self._after_star_ns:
            return ()
        self._star_ns = None
        return (NotOurs(STAR),)
