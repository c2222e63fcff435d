# SPDX-License-Identifier: GPL-3.0-or-later
"""Coqui voices: VITS, Piper's ONNX voices through Coqui's VITS, and XTTS, which clones the voice of a sample.

Coqui brings torch, numba and transformers: 1.9 GB, and caps on numpy and tokenizers that the gateway's lock would have
to follow. So it lives in a virtual environment of its own beside the gateway's (`scripts/setup-coqui`), and each speech
worker talks to a process there (`coqui_host`), which has no standard input, no network and no way to unpickle. What
belongs to the language (sentences, numbers, phonemes, loudness) is done here, as for any other voice.

A model's directory: ``NAME.onnx NAME.onnx.json`` (Piper), or ``config.json model.safetensors voice.json`` (VITS), or
those with ``vocab.json voices/NAME.wav`` (XTTS). ``voice.json`` is ``{"languages": ["tr"]}``.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from piper import PiperVoice
from piper.config import PiperConfig

from gateway.speech.engines.alphabet import all_said, unsaid
from gateway.speech.engines.clip import Sound, Traits, chosen_voice, ordered_voices, spoken
from gateway.speech.engines.coqui_place import HOST, coqui_python, refuse_unsafe
from gateway.speech.engines.espeak import said_phonemes
from gateway.speech.engines.pace import Pace
from gateway.speech.engines.piper import TRAITS, marked
from gateway.speech.errors import SpeechError
from gateway.speech.jobs import Speech
from gateway.speech.protocols import SynthesizerCapabilities
from gateway.text.pronunciation import Spoken
from gateway.text.tags import base_language

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "MPLBACKEND": "Agg"}


class CoquiProcess:
    """The process that holds the voice. It is started anew once when it dies over a request."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._command = (str(coqui_python()), "-I", str(HOST), "serve")
        self._arguments = (str(folder), str(threads))
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self.about = self._start()

    def ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], Sound]:
        """The answer and its sound, float32 of shape ``(n,)``; SpeechError with the host's own words."""
        try:
            return self._ask(request)
        except (EOFError, OSError):
            self.close()
            self._start()
        try:
            return self._ask(request)
        except (EOFError, OSError) as error:
            self.close()
            raise SpeechError("the Coqui process died twice over one text") from error

    def close(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.close()  # it ends when it hears nobody
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None

    @property
    def pid(self) -> int | None:
        """Its process id, while it lives."""
        return self._process.pid if self._process is not None else None

    def _start(self) -> dict[str, Any]:
        here, there = Pipe()
        # Above the standard ones: where those are closed the pipe would be one of them, and be replaced in the child.
        line = fcntl.fcntl(there.fileno(), fcntl.F_DUPFD, 3)
        there.close()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                [*self._command, str(line), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # it would hold what people said
                pass_fds=[line],
                env={**os.environ, **OFFLINE},
            )
        finally:
            os.close(line)
        self._line = here
        try:
            return self._heard()
        except (EOFError, OSError) as error:
            status = self._process.wait()
            self.close()
            raise SpeechError(f"Coqui could not start (exit status {status}): run `make coqui` again") from error
        except SpeechError:
            self.close()
            raise

    def _ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], Sound]:
        if self._line is None:
            raise EOFError
        self._line.send_bytes(json.dumps(request).encode())
        answer = self._heard()
        sound = self._line.recv_bytes() if answer.get("samples") else b""
        return answer, np.frombuffer(sound, dtype=np.float32)

    def _heard(self) -> dict[str, Any]:
        assert self._line is not None
        answer: dict[str, Any] = json.loads(self._line.recv_bytes())
        if "error" in answer:
            raise SpeechError(f"Coqui: {answer['error']}")
        return answer


class CoquiSynthesizer:
    """A Coqui voice, or a Piper voice in Coqui's VITS, behind the `Synthesizer` protocol."""

    def __init__(self, model_dir: Path, *, voice: str | None = None, threads: int = 1) -> None:
        refuse_unsafe(model_dir)
        self._piper = _piper_front(model_dir)
        self._process = CoquiProcess(model_dir, threads)
        about = self._process.about
        self._alphabet = frozenset(about["alphabet"])
        self._reads_phonemes = bool(about.get("phonemes"))
        self._traits = Traits() if "languages" in about else TRAITS
        self._speakers: dict[str, int | None] = dict(about.get("speakers") or {})
        if self._piper is not None:
            self._speakers = dict(self._piper.config.speaker_id_map or {})
        self._speakers = self._speakers or {model_dir.name: None}
        try:
            names = ordered_voices(self._speakers, voice, model_dir.name)
        except LookupError:
            self._process.close()
            raise
        self.capabilities = SynthesizerCapabilities(
            voices=dict.fromkeys(_languages(model_dir, about, self._piper), names),
            rate_hz=about["rate_hz"],
            streams=False,  # VITS makes a clip at once; a short first piece is as early as XTTS's own stream
            ipa=self._piper is not None or self._reads_phonemes,
        )
        self._paces: defaultdict[tuple[str, str], Pace] = defaultdict(Pace)

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
        code, name = chosen_voice(self.capabilities.voices, language, voice)
        manner = {
            "do": "speak",
            "speaker": self._speakers[name],
            "tempo": self._traits.asked(tempo),
            "language": code,
        }

        def speak(piece: str) -> Sound:
            clips = [self._process.ask(manner | part)[1] for part in self._parts(piece, code, pronounced)]
            return np.concatenate(clips) if clips else np.zeros(0, dtype=np.float32)

        return spoken(
            text,
            language=code,
            rate_hz=self.capabilities.rate_hz,
            voice=name,
            tempo=tempo,
            pitch=pitch,
            speak=speak,
            units=lambda piece: sum(map(str.isalpha, "".join(self._read(piece, code, pronounced)))),
            traits=self._traits,
            pace=self._paces[name, code],
            unsaid=lambda piece: self._unsaid(piece, code, pronounced),
        )

    def close(self) -> None:
        """End the process that holds the voice."""
        self._process.close()

    def _parts(self, piece: str, language: str, pronounced: Sequence[Spoken]) -> list[dict[str, Any]]:
        """What the process is asked to speak: ids for a Piper voice, else what the model reads."""
        read = self._read(piece, language, pronounced)
        if self._piper is not None:
            return [{"ids": self._piper.phonemes_to_ids(list(sentence))} for sentence in read]
        return [{"text": sentence} for sentence in read]

    def _read(self, piece: str, language: str, pronounced: Sequence[Spoken]) -> list[str]:
        """The piece as the model reads it: phonemes, or letters as its cleaner leaves them."""
        if self._piper is not None:
            return ["".join(sentence) for sentence in self._piper.phonemize(marked(piece, pronounced))]
        if self._reads_phonemes:
            return said_phonemes(piece, language, pronounced)
        return [str(self._process.ask({"do": "read", "text": piece})[0]["text"])]

    def _unsaid(self, piece: str, language: str, pronounced: Sequence[Spoken]) -> float:
        read = "".join(self._read(piece, language, pronounced))
        if self._piper is not None:
            return unsaid(read, self._piper.config.phoneme_id_map)
        return unsaid(read, self._alphabet) if self._alphabet else all_said(read)


def _piper_front(folder: Path) -> PiperVoice | None:
    """Piper's reading of text for a voice of its kind, without its session; None for Coqui's own models."""
    model = next(iter(sorted(folder.glob("*.onnx"))), None)
    if model is None:
        return None
    settings = json.loads(model.with_name(model.name + ".json").read_text(encoding="utf-8"))
    return PiperVoice(session=None, config=PiperConfig.from_dict(settings))


def _languages(folder: Path, about: Mapping[str, Any], piper: PiperVoice | None) -> list[str]:
    """The languages of the voice: Piper's, the model's own, or those of ``voice.json``."""
    if piper is not None:
        return [base_language(piper.config.espeak_voice)]
    if about.get("languages"):
        return list(about["languages"])
    file = folder / "voice.json"
    if not file.is_file():
        raise SpeechError(f"{folder.name} does not say what it speaks: write voice.json, e.g. {{'languages': ['tr']}}")
    return [base_language(language) for language in json.loads(file.read_text(encoding="utf-8"))["languages"]]
