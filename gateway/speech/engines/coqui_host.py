# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: PLC0415 - each kind of model imports what it needs, in seconds and hundreds of MB
"""Runs inside Coqui's own virtual environment: loads one voice, then answers one request at a time.

A script, not a module of the gateway: it is started as ``PYTHON -I coqui_host.py serve FD FOLDER THREADS`` by
`gateway.speech.engines.coqui`, and imports Coqui and what comes with it alone. FD is a socket that carries
`multiprocessing.connection` messages: a request is one JSON object, an answer is one JSON object, followed by the sound
(float32, native order) if it says ``samples``. There is no standard input to be asked on, and no output: Coqui
prints and logs the texts that it speaks.

Whatever a model folder holds, nothing in it is run and nothing is fetched for it: weights are read from ONNX and
safetensors alone, and an audit hook refuses unpickling and every connection once the libraries are imported.

``PYTHON -I coqui_host.py convert SOURCE.pth TARGET.safetensors`` writes the tensors of a checkpoint, once, when a model
is taken into the store. It reads them by torch's weights-only unpickler, which makes tensors and plain values alone.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

REFUSED = ("pickle.find_class", "socket.connect", "socket.getaddrinfo")
DROPPED = ("disc.", "speaker_encoder.", "torch_mel_spectrogram_", "dvae.")  # of training, never used to speak
LONGEST_SAMPLE_S = 30  # of a voice to be cloned; XTTS hears no more


class Voice(Protocol):
    """A loaded model: what it is, and how it speaks."""

    about: dict[str, Any]

    def read(self, text: str) -> str:
        """The text as the model's own cleaner leaves it."""

    def speak(self, request: Mapping[str, Any]) -> Any:
        """Sound as a float32 array, shape ``(n,)``."""


class OnnxVoice:
    """A VITS in ONNX with Piper's inputs, run by `Vits.inference_onnx`."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime
        import torch
        from TTS.tts.models.vits import Vits

        model = next(iter(sorted(folder.glob("*.onnx"))))
        settings = json.loads(model.with_name(model.name + ".json").read_text(encoding="utf-8"))
        inference = settings.get("inference", {})
        self._vits = Vits.__new__(Vits)  # the graph has its own weights: no others are made around it
        torch.nn.Module.__init__(self._vits)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # `Vits.load_onnx` takes all cores and lets them spin between sentences, which the recogniser would miss.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._vits.onnx_sess = onnxruntime.InferenceSession(
            str(model), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._vits.inference_noise_scale = inference.get("noise_scale", 0.667)  # Piper's own defaults
        self._vits.inference_noise_scale_dp = inference.get("noise_w", 0.8)
        self._length_scale = inference.get("length_scale", 1.0)
        self._many = any(put.name == "sid" for put in self._vits.onnx_sess.get_inputs())
        self.about = {"rate_hz": settings["audio"]["sample_rate"], "alphabet": "", "device": "cpu"}

    def read(self, text: str) -> str:
        """Phonemes come as ids."""
        return text

    def speak(self, request: Mapping[str, Any]) -> Any:
        """``ids``, ``tempo``, ``speaker``."""
        import numpy

        self._vits.length_scale = self._length_scale / request["tempo"]
        speaker = request.get("speaker") if self._many else None
        ids = numpy.array([request["ids"]], dtype=numpy.int64)
        return self._vits.inference_onnx(ids, speaker_id=speaker).reshape(-1)


class VitsVoice:
    """Coqui's own VITS: ``config.json``, ``model.safetensors``, and ``speakers.json`` where there are several."""

    def __init__(self, folder: Path, config: Any) -> None:
        import torch
        from TTS.tts.models.vits import Vits
        from TTS.tts.utils.text.tokenizer import TTSTokenizer

        args, characters = config.model_args, config.characters
        if args.use_d_vector_file or args.use_language_embedding:
            raise ValueError("a VITS that needs speaker vectors or language numbers is not supported")
        kind = characters.characters_class if characters is not None else None
        if kind and not kind.startswith("TTS.tts."):
            raise ValueError(f"characters_class {kind!r} is not one of Coqui's own")
        phonemes, config.use_phonemes = config.use_phonemes, False  # phonemes come ready from the gateway
        self._tokenizer, config = TTSTokenizer.init_from_config(config)
        self._cleaner = None if phonemes else self._tokenizer.text_cleaner
        speakers = _speakers(folder)
        args.init_discriminator = False
        args.speakers_file = config.speakers_file = None  # a path on the machine that trained it
        args.num_speakers = config.num_speakers = len(speakers)
        self._vits = Vits(config, None, self._tokenizer, None)
        self._vits.load_state_dict(_weights(folder), strict=True)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._vits.eval().to(self._device)
        self._length_scale = self._vits.length_scale
        self.about = {
            "rate_hz": int(config.audio.sample_rate),
            "alphabet": "".join(letter for letter in self._tokenizer.characters.vocab if len(letter) == 1),
            "phonemes": bool(phonemes),
            "language": config.phoneme_language if phonemes else None,
            "speakers": speakers,
            "device": self._device,
        }

    def read(self, text: str) -> str:
        """In lower case, abbreviations written out, as it was trained; phonemes stay as they are."""
        return text if self._cleaner is None else str(self._cleaner(text))

    def speak(self, request: Mapping[str, Any]) -> Any:
        """``text``, ``tempo``, ``speaker``; letters outside of the vocabulary are left out."""
        import torch

        known = self._tokenizer.characters.vocab
        # Coqui's own `encode` logs what it does not know, and the text with it
        ids = self._tokenizer.encode("".join(letter for letter in request["text"] if letter in known))
        if not ids:
            return torch.zeros(0).numpy()
        if self._tokenizer.add_blank:
            ids = self._tokenizer.intersperse_blank_char(ids)
        if self._tokenizer.use_eos_bos:
            ids = self._tokenizer.pad_with_bos_eos(ids)
        self._vits.length_scale = self._length_scale / request["tempo"]
        aux: dict[str, Any] = dict.fromkeys(("x_lengths", "d_vectors", "speaker_ids", "language_ids", "durations"))
        if request.get("speaker") is not None:
            aux["speaker_ids"] = torch.tensor([request["speaker"]], device=self._device)
        with torch.inference_mode():
            made = self._vits.inference(torch.tensor([ids], device=self._device), aux)
        return made["model_outputs"].reshape(-1).float().cpu().numpy()


class XttsVoice:
    """XTTS: ``config.json``, ``model.safetensors``, ``vocab.json``; each ``voices/NAME.wav`` is a voice to clone."""

    def __init__(self, folder: Path, config: Any) -> None:
        import torch
        from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer
        from TTS.tts.models.xtts import Xtts

        samples = sorted(folder.glob("voices/*.wav"))
        if not samples:
            raise ValueError("XTTS speaks in the voice of a sample: put voices/NAME.wav, 6 to 30 s, into the model")
        self._xtts = Xtts(config)
        self._xtts.tokenizer = VoiceBpeTokenizer(vocab_file=str(folder / "vocab.json"))
        self._xtts.init_models()
        self._xtts.load_state_dict(_weights(folder), strict=True)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._xtts.eval()  # returns nothing, unlike torch's; it also makes the decoder's loop
        self._xtts.to(self._device)
        self._cloned = [self._clone(sample) for sample in samples]
        self.about = {
            "rate_hz": int(config.model_args.output_sample_rate),
            "alphabet": "",
            "languages": sorted({language.split("-")[0] for language in config.languages}),
            "speakers": {sample.stem: number for number, sample in enumerate(samples)},
            "device": self._device,
        }

    def read(self, text: str) -> str:
        """It takes text of any of its languages."""
        return text

    def speak(self, request: Mapping[str, Any]) -> Any:
        """``text``, ``language``, ``tempo``, ``speaker``."""
        language = "zh-cn" if request["language"] == "zh" else request["language"]
        latent, embedding = self._cloned[request.get("speaker") or 0]
        # One piece of a sentence at a time: its own stream would come no earlier than a short first piece does.
        made = self._xtts.inference(request["text"], language, latent, embedding, speed=request["tempo"])
        return made["wav"].reshape(-1)

    def _clone(self, sample: Path) -> tuple[Any, Any]:
        import soundfile
        import torch

        sound, rate_hz = soundfile.read(sample, dtype="float32", always_2d=True)
        audio = torch.from_numpy(sound.mean(axis=1)[None, : rate_hz * LONGEST_SAMPLE_S])
        latent = self._xtts.get_gpt_cond_latents(audio.to(self._device), rate_hz, length=LONGEST_SAMPLE_S)
        return latent, self._xtts.get_speaker_embedding(audio.to(self._device), rate_hz)


def _weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return dict(load_file(folder / "model.safetensors"))


def _speakers(folder: Path) -> dict[str, int]:
    file = folder / "speakers.json"
    if not file.is_file():
        return {}
    names = json.loads(file.read_text(encoding="utf-8"))
    return {str(name): int(number) for name, number in names.items()}


def kind_of(folder: Path) -> str:
    """``onnx``, ``vits`` or ``xtts``, by what lies in the folder; ValueError names another kind."""
    if any(folder.glob("*.onnx")):
        return "onnx"
    kind = str(json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model", ""))
    if kind not in {"vits", "xtts"}:
        raise ValueError(f"{kind!r} models are not supported: vits and xtts are")
    return kind


def open_voice(kind: str, folder: Path, threads: int) -> Voice:
    """The voice of the folder."""
    import torch
    from TTS.config import load_config

    torch.set_num_threads(threads)
    if kind == "onnx":
        return OnnxVoice(folder, threads)
    config = load_config(folder / "config.json")
    return VitsVoice(folder, config) if kind == "vits" else XttsVoice(folder, config)


@contextmanager
def guarded() -> Iterator[None]:
    """Refuse unpickling and connections inside; an audit hook cannot be taken off, so it is switched."""
    armed = True

    def refuse(event: str, _args: tuple[Any, ...]) -> None:
        if armed and event in REFUSED:
            raise PermissionError(f"{event} is refused: models are read from this disk, and never unpickled")

    sys.addaudithook(refuse)
    try:
        yield
    finally:
        armed = False


def serve(line: Connection, folder: Path, threads: int) -> None:
    """Answer requests until the other side is gone."""
    try:
        kind = kind_of(folder)
        # Imports may unpickle caches of their own; what comes behind them must not.
        import_module("TTS.tts.models.xtts" if kind == "xtts" else "TTS.tts.models.vits")
    except Exception as error:
        _answer(line, {"error": f"{type(error).__name__}: {error}"})
        return
    with guarded():
        try:
            voice = open_voice(kind, folder, threads)
        except Exception as error:
            _answer(line, {"error": f"{type(error).__name__}: {error}"})
            return
        _answer(line, voice.about)
        while True:
            try:
                request = json.loads(line.recv_bytes())
            except EOFError:
                return
            try:
                if request["do"] == "read":
                    _answer(line, {"text": voice.read(request["text"])})
                else:
                    _answer(line, {}, voice.speak(request))
            except Exception as error:
                _answer(line, {"error": f"{type(error).__name__}: {error}"})


def _answer(line: Connection, header: dict[str, Any], sound: Any = None) -> None:
    if sound is not None:
        header["samples"] = len(sound)
    line.send_bytes(json.dumps(header).encode())
    if sound is not None and len(sound):
        line.send_bytes(sound.astype("float32").tobytes())


def convert(source: Path, target: Path) -> None:
    """Write the tensors of a checkpoint as safetensors; raises `pickle.UnpicklingError` if it holds anything else."""
    import torch
    from safetensors.torch import save_file
    from TTS.tts.models.xtts import _legacy_safe_globals

    with _legacy_safe_globals():  # XTTS's checkpoint carries its configuration, of these few classes
        state = torch.load(source, map_location="cpu", weights_only=True)
    tensors = {key.removeprefix("xtts."): value for key, value in state.get("model", state).items()}
    save_file(
        {key: value.contiguous().clone() for key, value in tensors.items() if not key.startswith(DROPPED)}, target
    )


def main(arguments: list[str]) -> None:
    """``serve FD FOLDER THREADS`` or ``convert SOURCE TARGET``."""
    logging.disable(logging.CRITICAL)  # it would name what is said
    match arguments:
        case ["serve", descriptor, folder, threads]:
            serve(Connection(int(descriptor)), Path(folder), int(threads))
            os._exit(0)  # nobody is left to hear: torch's orderly end takes seconds
        case ["convert", source, target]:
            convert(Path(source), Path(target))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
