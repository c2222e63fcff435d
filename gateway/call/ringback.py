# SPDX-License-Identifier: GPL-3.0-or-later
"""What a party hears while somebody's telephone rings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from gateway.audio.playout import Clip, ClipKind
from gateway.call.party import Party

HZ = 425  # ITU-T E.180: 1 s on, 4 s off
ON_S = 1.0
PERIOD_S = 5.0
LEVEL = 2000  # of 32767: −24 dBFS, as loud as a quiet voice
LOOK_S = 0.1


async def ring_back(party: Party, rings: Callable[[], bool], waits: Callable[[], bool]) -> None:
    """Play it to a party as long as it waits, whenever it rings; as on any telephone."""
    samples = np.arange(int(ON_S * party.rate_hz))
    tone = (LEVEL * np.sin(2 * np.pi * HZ * samples / party.rate_hz)).astype(np.int16)
    while waits():
        if rings():
            party.playout.enqueue(Clip("ring-back", ClipKind.CUE, tone))
            await asyncio.sleep(PERIOD_S)
        else:
            await asyncio.sleep(LOOK_S)
