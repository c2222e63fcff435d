# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of turn-taking in force: when a listener interrupts, what an echo costs, when a language changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnRules:
    """Thresholds; the settings of `turns` are the same, and say why. 0 switches `barge_in_ms` and `echo_hits` off."""

    barge_in_ms: int = 700
    """A listener talks over a translation for so long: the rest of it may be cut."""
    barge_in_grace_s: float = 1.0
    """A translation is never cut before it has sounded for so long."""
    stale_s: float = 2.0
    """Nor when what it translates was said less than so long ago: then it is news."""
    backchannels: bool = True
    """Beneath a translation "uh-huh" is neither translated nor an interruption."""
    echo_guard: bool = True
    """What comes back from a loudspeaker is not translated again."""
    echo_hits: int = 6
    """So many echoes"""
    echo_window_s: float = 30.0
    """within so long pause the translation of that party"""
    echo_pause_s: float = 10.0
    """for so long."""
    safety_below_db: float = 10.0
    """Speech that stands out of the noise by less than this"""
    safety_after_s: float = 5.0
    """for so long is believed no more than its safety words (0 dB: never)."""
    language_agree: int = 2
    """Utterances in a row that must be in another language before an ``auto`` leg changes to it."""
    language_cooldown_s: float = 15.0
    """And so long must have passed since it changed last."""
