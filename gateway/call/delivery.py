# SPDX-License-Identifier: GPL-3.0-or-later
"""In which way a voice speaks: a style that was chosen, and small variations that keep a long call from tiring.

Styles are data (``styles.yaml``). What they set are the levers that every engine has by now, because the last of them
are applied to the finished sound: tempo, pitch, pauses and level. The engines' own levers for liveliness were tried and
left alone: Piper's noise scales at 0.45 to 1.65 times their value moved the spread of its pitch by 5 %.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

NEUTRAL = "neutral"
EVERY = "every"  # of a voice: in whatever style
TEMPO_VARIES = 0.03  # either way, from utterance to utterance; a listener does not notice a single change
PITCH_VARIES = 0.015  # a quarter of a semitone
_BOUNDS = {"tempo": (0.8, 1.25), "pitch": (0.9, 1.1), "pauses": (0.0, 3.0), "gain_db": (-6.0, 4.0), "pace": (1.0, 1.2)}


class StyleError(ValueError):
    """The styles file cannot be used, or has no such style; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Factors on a voice's own tempo, pitch and pauses between clauses, a gain, and the pace of people who talk."""

    tempo: float = 1.0
    pitch: float = 1.0
    pauses: float = 1.0
    gain_db: float = 0.0
    pace: float = 1.0
    """Factor on the tempo in simultaneous mode: a voice slower than people talk could not keep up with them."""

    def __post_init__(self) -> None:
        """Refuse what would not be understood."""
        for name, (low, high) in _BOUNDS.items():
            if not low <= getattr(self, name) <= high:
                raise StyleError(f"{name} of a style must be {low:g} to {high:g}, not {getattr(self, name)!r}")

    def varied(self, key: int) -> Delivery:
        """A little faster or slower, higher or lower; the same for the same key."""
        chance = random.Random(key)  # noqa: S311 - no secret
        tempo = self.tempo * (1 + chance.uniform(-TEMPO_VARIES, TEMPO_VARIES))
        pitch = self.pitch * (1 + chance.uniform(-PITCH_VARIES, PITCH_VARIES))
        return replace(self, tempo=_within("tempo", tempo), pitch=_within("pitch", pitch))


def _within(name: str, value: float) -> float:
    low, high = _BOUNDS[name]
    return round(min(max(value, low), high), 4)


def shipped_styles() -> Path:
    """The styles file that comes with the gateway."""
    return Path(__file__).with_name("styles.yaml")


def load_delivery(path: Path, style: str, voice: str) -> Delivery:
    """A style for a voice (``engine:model[:voice]``). StyleError when the file is bad or has no such style."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StyleError(f"{path}: cannot be read: {error}") from None
    styles = document.get("styles") if isinstance(document, dict) else None
    if not isinstance(styles, dict) or not styles:
        raise StyleError(f"{path}: must have a map of styles")
    if style not in styles:
        raise StyleError(f"{path}: there is no style {style!r}: there are {', '.join(map(str, styles))}")
    own = (document.get("voices") or {}).get(voice, {})
    try:
        return Delivery(**_numbers({**(styles[style] or {}), **own.get(EVERY, {}), **own.get(style, {})}))
    except (StyleError, TypeError) as error:
        raise StyleError(f"{path}: style {style!r}: {error}") from None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    known = {field.name for field in fields(Delivery)}
    for name, value in values.items():
        if name not in known or not isinstance(value, int | float) or isinstance(value, bool):
            raise StyleError(f"{name}: {value!r} is not usable: give numbers for {', '.join(sorted(known))}")
    return {name: float(value) for name, value in values.items()}
