# SPDX-License-Identifier: GPL-3.0-or-later
"""faster-whisper as it comes, greedy: the whole 30 s window for every utterance. The bench's plain pipeline.

It exists to be measured against: no shortened window, no guards but the library's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gateway.speech.jobs import Recognition
from gateway.speech.protocols import RecognizerCapabilities


class FasterWhisperRecognizer:
    """A CTranslate2 Whisper directory through ``faster_whisper.WhisperModel`` with its defaults, beam 1."""

    def __init__(self, model_dir: Path, *, threads: int = 1) -> None:
        from faster_whisper import WhisperModel  # noqa: PLC0415  # heavy, and only workers need it

        self._model = WhisperModel(str(model_dir), device="cpu", compute_type="int8", cpu_threads=threads)
        self.capabilities = RecognizerCapabilities(
            frozenset(self._model.supported_languages), identifies_language=True, hotwords=True, longest_s=math.inf
        )

    def recognize(
        self,
        pcm: bytes,
        *,
        language: str | None,
        hotwords: Sequence[str] = (),
        context: str = "",
        words: bool = False,
        candidates: Sequence[str] = (),
    ) -> Recognition:
        """Recognise s16le 16 kHz mono."""
        if not pcm:
            return Recognition("", language or "", 0.0, rejected="no-speech")
        audio = np.frombuffer(pcm, np.int16).astype(np.float32) / 32768
        if language is None and len(candidates) == 1:
            language = candidates[0]
        segments, info = self._model.transcribe(
            audio,
            language=language,
            beam_size=1,
            hotwords=" ".join(hotwords) or None,
            initial_prompt=context or None,
        )
        found = list(segments)
        weights = [max(1, len(segment.tokens)) for segment in found]
        mean = sum(s.avg_logprob * w for s, w in zip(found, weights, strict=True)) / max(1, sum(weights))
        return Recognition(
            " ".join(segment.text.strip() for segment in found),
            info.language,
            math.exp(mean) if found else 0.0,
            no_speech=max((segment.no_speech_prob for segment in found), default=1.0),
        )
