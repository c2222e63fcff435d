# SPDX-License-Identifier: GPL-3.0-or-later
"""Piper voices (VITS exported to ONNX): one directory, one language, quick enough to speak during a pause."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from piper import PiperVoice, SynthesisConfig
from piper.config import PiperConfig

from gateway.speech.engines.alphabet import unsaid
from gateway.speech.engines.clip import Sound, Traits, chosen_voice, ordered_voices, spoken
from gateway.speech.engines.onnx_session import open_session
from gateway.speech.engines.pace import Pace
from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Speech
from gateway.speech.protocols import SynthesizerCapabilities
from gateway.text.pronunciation import Spoken, ipa_parts
from gateway.text.tags import base_language

TRAITS = Traits(steady=0.36, open_tail_ms=20)
"""Asked for 1.3 it speaks 1.17 times as fast, over 24 sentences. Two pieces of a sentence sound more like the sentence
in one with a tail of 20 ms (distance of the contours 0.73) than with 120 (0.81)."""


class PiperSynthesizer:
    """A voice directory: ``NAME.onnx`` and ``NAME.onnx.json``. Several speakers in one model are several voices."""

    def __init__(self, model_dir: Path, *, voice: str | None = None, threads: int = 1) -> None:
        model = next(iter(sorted(model_dir.glob("*.onnx"))), None)
        if model is None:
            raise ModelMissing(f"no Piper voice (*.onnx) in {model_dir.name}: run `gateway models pull`")
        settings = json.loads(model.with_name(model.name + ".json").read_text(encoding="utf-8"))
        self._voice = PiperVoice(session=open_session(model, threads), config=PiperConfig.from_dict(settings))
        self._speakers: dict[str, int | None] = dict(self._voice.config.speaker_id_map) or {model.stem: None}
        names = ordered_voices(self._speakers, voice, model_dir.name)
        self._language = base_language(settings.get("language", {}).get("code") or settings["espeak"]["voice"])
        self.capabilities = SynthesizerCapabilities(
            voices={self._language: names}, rate_hz=self._voice.config.sample_rate, streams=False, ipa=True
        )
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)

    def synthesize(
        self,
        text: str,
        *,
        language: str,
        voice: str | None = None,
        tempo: float = 1.0,
        pitch: float = 1.0,
        pronounced: Sequence[Spoken] = (),
    ) -> Speech:
        """Speak at the voice's own rate; LookupError names a language or voice that is not here."""
        _, name = chosen_voice(self.capabilities.voices, language, voice)
        scale = self._voice.config.length_scale / TRAITS.asked(tempo)
        style = SynthesisConfig(
            speaker_id=self._speakers[name],
            length_scale=scale,
            normalize_audio=False,
        )

        def speak(piece: str) -> Sound:
            chunks = [chunk.audio_float_array for chunk in self._voice.synthesize(marked(piece, pronounced), style)]
            return np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.float32)

        return spoken(
            text,
            language=language,
            rate_hz=self.capabilities.rate_hz,
            voice=name,
            tempo=tempo,
            pitch=pitch,
            speak=speak,
            units=self._units,
            traits=TRAITS,
            pace=self._paces[name],
            unsaid=lambda piece: unsaid(self._phonemes(piece), self._voice.config.phoneme_id_map),
        )

    def _units(self, piece: str) -> int:
        return sum(letter.isalpha() for letter in self._phonemes(piece))

    def _phonemes(self, piece: str) -> str:
        return "".join(letter for sentence in self._voice.phonemize(piece) for letter in sentence)


def marked(piece: str, pronounced: Sequence[Spoken]) -> str:
    """Piper's own notation for IPA inside of text; what a talker said never becomes that."""
    return "".join(
        f"[[{part}]]" if is_ipa else part.replace("[[", "[") for part, is_ipa in ipa_parts(piece, pronounced)
    )
