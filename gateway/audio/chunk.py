# SPDX-License-Identifier: GPL-3.0-or-later
"""Cutting a stream into chunks by whole numbers of samples: never by bytes, never by fractions of a millisecond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gateway.audio.pcm import Int16


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """The samples [first_sample, end_sample) of a stream, 1-D int16. The last one may be short, or empty."""

    index: int
    first_sample: int
    pcm: Int16
    is_last: bool

    @property
    def end_sample(self) -> int:
        """Index of the first sample behind the chunk."""
        return self.first_sample + int(self.pcm.size)


class Chunker:
    """Cuts exactly ``size_samples`` at a time. Algorithmic delay: up to one chunk.

    The tail is flagged as last, not padded and not dropped (S0.5). If the stream ends on a border, an empty chunk
    carries the flag, so that every stream has exactly one last chunk and no chunk waits to learn whether it is it.
    """

    def __init__(self, size_samples: int, first_sample: int = 0) -> None:
        if size_samples < 1:
            raise ValueError("a chunk holds at least one sample")
        self._held = np.zeros(size_samples, np.int16)
        self._fill = 0
        self._index = 0
        self._next_sample = first_sample
        self._ended = False

    def feed(self, pcm: Int16) -> list[Chunk]:
        """The chunks that these samples complete, in order."""
        if self._ended:
            raise ValueError("the stream has ended: make a new chunker")
        if pcm.dtype != np.int16 or pcm.ndim != 1:
            raise ValueError(f"expected 1-D int16 samples, got {pcm.dtype} of shape {pcm.shape}")
        chunks: list[Chunk] = []
        at = 0
        while at < pcm.size:
            count = min(self._held.size - self._fill, pcm.size - at)
            self._held[self._fill : self._fill + count] = pcm[at : at + count]
            self._fill += count
            at += count
            if self._fill == self._held.size:
                chunks.append(self._cut(is_last=False))
        return chunks

    def flush(self) -> Chunk:
        """Ends the stream: the tail, flagged as last. May be called once."""
        if self._ended:
            raise ValueError("the stream has already ended")
        self._ended = True
        return self._cut(is_last=True)

    def _cut(self, *, is_last: bool) -> Chunk:
        chunk = Chunk(self._index, self._next_sample, self._held[: self._fill].copy(), is_last)
        self._index += 1
        self._next_sample += self._fill
        self._fill = 0
        return chunk
