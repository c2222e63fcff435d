# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes voice frames the way one writes them on paper: ``S`` voiced, ``.`` silent, ``_`` silent and quieter."""

from __future__ import annotations

from gateway.stream.endpoint import Endpointer
from gateway.stream.events import EndpointEvent, VoiceFrame

FRAME = 160  # 20 ms at 8 kHz
LEVELS = {"S": -20.0, "s": -30.0, ".": -50.0, "_": -70.0}


def frames(pattern: str, first_sample: int = 0) -> list[VoiceFrame]:
    """One frame a character."""
    return [
        VoiceFrame(first_sample + number * FRAME, FRAME, is_speech=mark in "Ss", level_dbfs=LEVELS[mark])
        for number, mark in enumerate(pattern)
    ]


def play(endpointer: Endpointer, pattern: str) -> list[EndpointEvent]:
    """Feed a pattern right behind what was heard."""
    events: list[EndpointEvent] = []
    for frame in frames(pattern, endpointer.heard):
        events += endpointer.feed(frame)
    return events
