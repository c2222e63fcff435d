# SPDX-License-Identifier: GPL-3.0-or-later
"""Kokoro-82M (StyleTTS 2 family) on ONNX: one model speaks many languages in the style of any of its voices.

The model reads IPA in its own alphabet, where affricates are single letters, as in Kokoro's own G2P "misaki". Its
letters for diphthongs were tried too: a recogniser read the result back no better. A style is a table of 256-vectors
by number of tokens.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gateway.speech.engines.alphabet import unsaid
from gateway.speech.engines.clip import Sound, Traits, chosen_voice, ordered_voices, spoken
from gateway.speech.engines.espeak import phonemes, said_phonemes
from gateway.speech.engines.kokoro_steps import ADDED, FRAME_SAMPLES, STEP_FRAMES, in_steps
from gateway.speech.engines.openvino_session import OpenVinoSession
from gateway.speech.engines.pace import Pace
from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Speech
from gateway.speech.protocols import SynthesizerCapabilities
from gateway.text.pronunciation import Spoken

RATE_HZ = 24_000
LONGEST_TOKENS = 508  # 510 rows of style, a pad at both ends
TRAITS = Traits(steady=0.32, haste=1.15)
"""Asked for 1.15 it speaks 1.10 times as fast, over 30 sentences. Of 26 at 1.3 times, a recogniser read back 15.6 % of
the words wrongly when the model did it all, 12.0 % with both, 13.6 % stretched alone; 10.8 % at 1.0. It hurries the
pieces of a sentence: the tail of 120 ms makes up for it (distance of the contours 1.15, 1.22 with 20 ms)."""
LANGUAGES = ("en", "es", "fr", "hi", "it", "pt")  # what the model was trained on and espeak-ng can read

_AFFRICATES = {"tʃ": "ʧ", "dʒ": "ʤ", "ts": "ʦ", "dz": "ʣ"}


class KokoroSynthesizer:
    """A directory: ``model.onnx``, ``vocab.json``, styles in ``voices*.npz`` (one array ``(510, 1, 256)`` a voice)."""

    def __init__(self, model_dir: Path, *, voice: str | None = None, threads: int = 1) -> None:
        tables = sorted(model_dir.glob("voices*.npz"))
        if not tables:
            raise ModelMissing(f"no Kokoro styles (voices*.npz) in {model_dir.name}: run `gateway models pull`")
        self._styles: dict[str, Sound] = {}
        for table in tables:
            with np.load(table, allow_pickle=False) as styles:  # pickled arrays could run code
                self._styles.update({name: styles[name].reshape(-1, 256) for name in styles.files})
        vocabulary = json.loads((model_dir / "vocab.json").read_text(encoding="utf-8"))
        self._ids: dict[str, int] = vocabulary.get("vocab", vocabulary)
        names = ordered_voices(sorted(self._styles), voice, model_dir.name)
        self._session = OpenVinoSession(model_dir / "model.onnx", threads, in_steps, f"steps of {STEP_FRAMES}")
        self._paces: defaultdict[tuple[str, str], Pace] = defaultdict(Pace)
        self.capabilities = SynthesizerCapabilities(
            voices=dict.fromkeys(LANGUAGES, names), rate_hz=RATE_HZ, streams=False, ipa=True
        )

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
        """Speak at 24 kHz; LookupError names a language or voice that is not here."""
        code, name = chosen_voice(self.capabilities.voices, language, voice)

        def speak(piece: str) -> Sound:
            clips = [
                self._speak(letters(ipa), name, TRAITS.asked(tempo)) for ipa in said_phonemes(piece, code, pronounced)
            ]
            return np.concatenate(clips) if clips else np.zeros(0, dtype=np.float32)

        def units(piece: str) -> int:
            return sum(letter.isalpha() for ipa in phonemes(piece, code) for letter in ipa)

        return spoken(
            text,
            language=code,
            rate_hz=RATE_HZ,
            voice=name,
            tempo=tempo,
            pitch=pitch,
            speak=speak,
            units=units,
            traits=TRAITS,
            pace=self._paces[name, code],
            unsaid=lambda piece: unsaid(letters(" ".join(said_phonemes(piece, code, pronounced))), self._ids),
        )

    def _speak(self, ipa: str, voice: str, tempo: float) -> Sound:
        tokens = self.tokens(ipa)[:LONGEST_TOKENS]
        if not tokens:
            return np.zeros(0, dtype=np.float32)
        style = self._styles[voice]
        made = self._session.run(
            {
                "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
                "style": style[min(len(tokens), len(style) - 1)][None].astype(np.float32),
                "speed": np.array([tempo], dtype=np.float32),
            }
        )
        sound = np.asarray(next(iter(made.values())), dtype=np.float32).reshape(-1)
        added = int(made[ADDED].sum()) if ADDED in made else 0
        return sound[: sound.size - added * FRAME_SAMPLES]

    def tokens(self, ipa: str) -> list[int]:
        """Ids of the model's letters; what its alphabet lacks is left out."""
        return [self._ids[letter] for letter in ipa if letter in self._ids]


def letters(ipa: str) -> str:
    """espeak-ng's IPA in the model's alphabet: accents stay apart (õ is two letters), the cedilla does not."""
    text = unicodedata.normalize("NFD", ipa).replace("c\u0327", "ç")
    for pair, letter in _AFFRICATES.items():
        text = text.replace(pair, letter)
    return re.sub(r"\s+", " ", text).strip()
