# SPDX-License-Identifier: GPL-3.0-or-later
"""The recent past of a leg, addressed by absolute sample index: where segments take their sound from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gateway.audio.pcm import Int16


@dataclass(frozen=True, slots=True, eq=False)
class PcmSlice:
    """Samples [first_sample, end_sample), 1-D int16, and counts of those asked for that are gone or not yet there."""

    first_sample: int
    pcm: Int16
    overwritten_samples: int
    beyond_samples: int

    @property
    def end_sample(self) -> int:
        """Index of the first sample behind the slice."""
        return self.first_sample + int(self.pcm.size)

    @property
    def complete(self) -> bool:
        """True when the slice is all that was asked for."""
        return not self.overwritten_samples and not self.beyond_samples


class PcmStore:
    """A preallocated ring of ``capacity_s`` seconds of int16. Not shared between threads."""

    def __init__(self, rate_hz: int, capacity_s: float, first_sample: int = 0) -> None:
        capacity = round(rate_hz * capacity_s)
        if rate_hz <= 0 or capacity < 1:
            raise ValueError("the store needs a rate and room for at least one sample")
        self.rate_hz = rate_hz
        self._ring = np.zeros(capacity, np.int16)
        self._origin = first_sample
        self._end = first_sample
        self._truncated_reads = 0
        self._gap_samples = 0

    @property
    def first(self) -> int:
        """Index of the oldest sample still held."""
        return max(self._origin, self._end - self._ring.size)

    @property
    def end(self) -> int:
        """Index of the first sample not yet appended."""
        return self._end

    def append(self, pcm: Int16, first_sample: int | None = None) -> None:
        """Adds samples at the end. With ``first_sample`` a gap before them is filled with silence and counted.

        Raises ValueError for other than 1-D int16, or for samples that would lie before the end.
        """
        if pcm.dtype != np.int16 or pcm.ndim != 1:
            raise ValueError(f"expected 1-D int16 samples, got {pcm.dtype} of shape {pcm.shape}")
        if first_sample is not None:
            if first_sample < self._end:
                raise ValueError(f"sample {first_sample} was appended before: the store ends at {self._end}")
            gap = first_sample - self._end
            if gap:
                self._gap_samples += gap
                # of a gap longer than the ring only the last ring full can ever be read
                self._end += max(0, gap - self._ring.size)
                self._write(np.zeros(min(gap, self._ring.size), np.int16))
        self._write(pcm)

    def slice(self, first: int, end: int) -> PcmSlice:
        """A copy of the samples [first, end), clipped to what is held; what is missing is counted in the result."""
        if end < first:
            raise ValueError(f"the slice ends at {end} before it starts at {first}")
        from_sample = min(max(first, self.first), max(end, self.first))
        to_sample = max(from_sample, min(end, self._end))
        overwritten = min(end, self.first) - first if first < self.first else 0
        beyond = end - max(first, self._end) if end > self._end else 0
        if overwritten or beyond:
            self._truncated_reads += 1
        out = np.empty(to_sample - from_sample, np.int16)
        start = from_sample % self._ring.size
        head = min(out.size, self._ring.size - start)
        out[:head] = self._ring[start : start + head]
        out[head:] = self._ring[: out.size - head]
        return PcmSlice(from_sample, out, overwritten, beyond)

    def statistics(self) -> dict[str, int]:
        """Counters in samples, and the number of reads that came too late or too early."""
        return {
            "capacity_samples": int(self._ring.size),
            "first_sample": self.first,
            "end_sample": self._end,
            "gap_samples": self._gap_samples,
            "truncated_reads": self._truncated_reads,
        }

    def _write(self, pcm: Int16) -> None:
        kept = pcm[-self._ring.size :] if pcm.size else pcm
        self._end += pcm.size - kept.size
        start = self._end % self._ring.size
        head = min(kept.size, self._ring.size - start)
        self._ring[start : start + head] = kept[:head]
        self._ring[: kept.size - head] = kept[head:]
        self._end += kept.size
