# SPDX-License-Identifier: GPL-3.0-or-later
"""The four aligned sound tracks of a call, as a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile

from gateway.bench.capture import Capture, by_time
from gateway.bench.sdp import RATE_HZ

TRACKS = ("A sent", "B received", "B sent", "A received")


def write_tracks(path: Path, captures: Mapping[str, Capture], start_ns: int, end_ns: int) -> None:
    """A WAV of the four `TRACKS` on the clock's line from ``start_ns`` on, 8 kHz, 16 bits. ``captures`` has the legs
    ``a`` and ``b``; KeyError without."""
    a, b = captures["a"], captures["b"]
    lines = [by_time(track, start_ns, end_ns) for track in (a.sent, b.received, b.sent, a.received)]
    soundfile.write(path, np.stack(lines, axis=1), RATE_HZ, subtype="PCM_16", format="WAV")
