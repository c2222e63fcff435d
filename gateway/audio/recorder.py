# SPDX-License-Identifier: GPL-3.0-or-later
"""A call's tracks in one file, aligned on one time line.

Each track is spooled to a file of its own at the place its sample index says; what was never written is a hole in
that file and reads as silence. Closing interleaves the spools into one WAV, a few seconds at a time, so memory does
not grow with the call. Runs on a thread that may touch the disk, never on PJSIP's clock thread.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
import structlog

from gateway.audio.pcm import Int16

log = structlog.get_logger(__name__)

MAX_RECORDING_S = 4 * 3600  # 8 kHz, 4 tracks, int16: 0.9 GB; a WAV file ends at 4 GiB
_BLOCK_SAMPLES = 1 << 16  # 8 s at 8 kHz


class TrackRecorder:
    """Writes ``tracks`` int16 tracks, addressed by absolute sample index from 0, to a multi-channel WAV at ``path``.

    Order and overlaps do not matter, the newest write wins. What lies before 0 or beyond ``max_s`` is dropped and
    counted. The file appears, whole, at close(); until then the sound lies in unnamed temporary files beside it.
    """

    def __init__(self, path: Path, rate_hz: int, tracks: int = 4, max_s: float = MAX_RECORDING_S) -> None:
        if rate_hz <= 0 or tracks < 1 or max_s <= 0:
            raise ValueError("a recording needs a rate, at least one track, and a length")
        self.path = path
        self.rate_hz = rate_hz
        self._limit = round(max_s * rate_hz)
        self._closed = False
        self._ends = [0] * tracks
        self._dropped_samples = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            self._spools: list[BinaryIO] = [
                opened.enter_context(tempfile.TemporaryFile(dir=path.parent, prefix=".track-")) for _ in range(tracks)
            ]
            self._open = opened.pop_all()

    def write(self, track: int, first_sample: int, pcm: Int16) -> None:
        """Puts 1-D int16 samples at their place. ValueError for a wrong array, a wrong track, or after close."""
        if self._closed:
            raise ValueError("the recording is closed")
        if not 0 <= track < len(self._spools):
            raise ValueError(f"there is no track {track}, only 0 to {len(self._spools) - 1}")
        if pcm.dtype != np.int16 or pcm.ndim != 1:
            raise ValueError(f"expected 1-D int16 samples, got {pcm.dtype} of shape {pcm.shape}")
        start = min(max(0, -first_sample), pcm.size)
        end = max(start, min(int(pcm.size), self._limit - first_sample))
        self._dropped_samples += int(pcm.size) - (end - start)
        if end == start:
            return
        spool = self._spools[track]
        spool.seek(2 * (first_sample + start))
        spool.write(pcm[start:end].astype("<i2").tobytes())
        self._ends[track] = max(self._ends[track], first_sample + end)

    def close(self) -> Path:
        """Finalises the file; all tracks end where the longest ends. May be called again."""
        if self._closed:
            return self.path
        self._closed = True
        unfinished = self.path.with_name(self.path.name + ".part")
        length = max(self._ends)
        with (
            self._open,
            soundfile.SoundFile(
                unfinished, "w", self.rate_hz, len(self._spools), subtype="PCM_16", format="WAV"
            ) as out,
        ):
            for spool in self._spools:
                spool.seek(0)
            for at in range(0, length, _BLOCK_SAMPLES):
                block = np.zeros((min(_BLOCK_SAMPLES, length - at), len(self._spools)), np.int16)
                for track, spool in enumerate(self._spools):
                    samples = np.frombuffer(spool.read(2 * block.shape[0]), "<i2")
                    block[: samples.size, track] = samples
                out.write(block)
        unfinished.replace(self.path)
        log.info("recording_finished", tracks=len(self._spools), samples=length, dropped=self._dropped_samples)
        return self.path

    def statistics(self) -> dict[str, int]:
        """Samples so far and samples dropped as out of range."""
        return {"samples": max(self._ends), "tracks": len(self._spools), "dropped_samples": self._dropped_samples}
