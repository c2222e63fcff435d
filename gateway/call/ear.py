# SPDX-License-Identifier: GPL-3.0-or-later
"""A party's sound, judged and kept: voice verdicts for the end-pointer, 16 kHz samples for the recogniser.

One position rules: the leg's own sample count. The store is addressed with it and does the arithmetic, so that a
span of the end-pointer and the PCM of a job are the same piece of sound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from gateway.audio.chunk import Chunk, Chunker
from gateway.audio.drift import DriftLedger
from gateway.audio.frames import Frame
from gateway.audio.pcmstore import PcmStore
from gateway.audio.reframe import FrameGap, GapAction, Reframer
from gateway.audio.resample import StreamResampler
from gateway.audio.snr import SnrMeter
from gateway.audio.vad import VoiceDetector
from gateway.speech.jobs import MODEL_RATE_HZ
from gateway.stream.events import Span, VoiceFrame

CHUNK_SAMPLES = 320  # 20 ms at the model's rate
STORE_S = 60.0  # twice the longest utterance, and then some
ANCHORS = 3000  # one a frame: a minute


class Ear:
    """Takes a leg's frames. ``feed`` gives a verdict per 20 ms; ``cut`` gives the sound of a span."""

    def __init__(self, rate_hz: int, frame_ms: int, aggressiveness: int) -> None:
        self.ledger = DriftLedger(rate_hz, MODEL_RATE_HZ)
        self.heard = 0
        """Index of the first sample not heard yet."""
        self._rate_hz = rate_hz
        self._reframer = Reframer(rate_hz * frame_ms // 1000)
        self._voice = VoiceDetector(rate_hz, frame_ms, aggressiveness)
        self.snr = SnrMeter(rate_hz, frame_ms)
        """How far speech stands out of the leg's noise."""
        self._resampler = StreamResampler(rate_hz, MODEL_RATE_HZ)
        self._chunker = Chunker(CHUNK_SAMPLES)
        self._store: PcmStore | None = None
        self._origin = 0
        self._taken = 0
        self._anchors: deque[tuple[int, int]] = deque(maxlen=ANCHORS)
        self.overwritten_samples = 0

    @property
    def started(self) -> bool:
        """True once a frame has come."""
        return self._store is not None

    def feed(self, frame: Frame) -> Iterator[VoiceFrame]:
        """Take a frame; a verdict for each 20 ms that it completes."""
        if self._store is None:
            self._store = PcmStore(MODEL_RATE_HZ, STORE_S, self._to_model(frame.first_sample))
            self._begin(frame.first_sample)
        self._anchors.append((frame.first_sample, frame.arrived_ns))
        yield from self._judge(self._reframer.feed(frame))

    def finish(self) -> Iterator[VoiceFrame]:
        """The sound has ended: what the stages still hold is let through, the last chunk flagged as last."""
        if self._store is None:
            return
        yield from self._judge(self._reframer.flush())
        self._end_line()

    def cut(self, span: Span) -> bytes:
        """The sound of a span for the recogniser: s16le mono at 16 kHz."""
        assert self._store is not None
        part = self._store.slice(self._to_model(span.first_sample), self._to_model(span.end_sample))
        self.overwritten_samples += part.overwritten_samples
        return part.pcm.tobytes()

    def arrival_ns(self, sample: int) -> int | None:
        """When the frame that holds a sample arrived; None when that is not known any more, or not yet."""
        for first, arrived_ns in reversed(self._anchors):
            if first <= sample:
                return arrived_ns
        return None

    def _judge(self, pieces: list[Frame | FrameGap]) -> Iterator[VoiceFrame]:
        for piece in pieces:
            if isinstance(piece, FrameGap):
                if piece.action is GapAction.RESTARTED:
                    self._end_line()
                    self._begin(piece.first_sample + piece.samples)
                continue
            self.heard = piece.end_sample
            self._taken += piece.samples
            self._keep(self._chunker.feed(self._resampler.feed(np.frombuffer(piece.pcm, np.int16))))
            verdict = self._voice.feed(piece.pcm, piece.first_sample)
            self.snr.feed(piece.pcm, verdict)
            yield verdict

    def _begin(self, first_sample: int) -> None:
        """A new line of resampler and chunks from this sample on: after a long hole the old one has ended."""
        self._origin, self._taken = first_sample, 0
        self._resampler = StreamResampler(self._rate_hz, MODEL_RATE_HZ)
        self._chunker = Chunker(CHUNK_SAMPLES, self._to_model(first_sample))
        self.ledger = DriftLedger(self._rate_hz, MODEL_RATE_HZ)

    def _end_line(self) -> None:
        self._keep(self._chunker.feed(self._resampler.flush()))
        self._keep([self._chunker.flush()])

    def _keep(self, chunks: list[Chunk]) -> None:
        assert self._store is not None
        for chunk in chunks:
            self.ledger.note(self._taken, chunk.end_sample - self._to_model(self._origin))
            self._store.append(chunk.pcm, chunk.first_sample)

    def _to_model(self, sample: int) -> int:
        return sample * MODEL_RATE_HZ // self._rate_hz

    def statistics(self) -> dict[str, Any]:
        """The counters of every stage, and whether the line keeps step."""
        verdict = self.ledger.verdict()
        return {
            "reframe": self._reframer.statistics(),
            "voice": self._voice.statistics(),
            "snr": self.snr.statistics(),
            "drift": {"verdict": verdict.verdict, "slope_ppm": round(verdict.slope_ppm, 3)},
            "overwritten_samples": self.overwritten_samples,
        }
