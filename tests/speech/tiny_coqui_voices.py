# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by Coqui's own interpreter: writes small untrained models, and a trap that looks like one.

They say noise, and take every step that trained ones take. ``python tiny_coqui_voices.py FOLDER`` fills
``FOLDER/voice`` (VITS), ``FOLDER/cloner`` (XTTS) and ``FOLDER/trap``.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import soundfile
import torch
from tokenizers import Tokenizer, models
from TTS.tts.configs.vits_config import VitsConfig
from TTS.tts.configs.xtts_config import XttsConfig
from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer
from TTS.tts.models.vits import Vits
from TTS.tts.models.xtts import Xtts

SMALL = {
    "hidden_channels": 16,
    "hidden_channels_ffn_text_encoder": 32,
    "num_layers_text_encoder": 1,
    "num_layers_posterior_encoder": 1,
    "num_layers_flow": 1,
    "upsample_initial_channel_decoder": 32,
    "init_discriminator": False,
    "num_chars": 0,
}
CHARACTERS = {
    "characters_class": "TTS.tts.models.vits.VitsCharacters",
    "pad": "_",
    "punctuations": "!,.? ",
    "characters": "abcdefghijklmnopqrstuvwxyz",
    "phonemes": "",
}
SPECIAL = ["[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]"]
CLONER = {
    "gpt_layers": 1,
    "gpt_n_model_channels": 64,
    "gpt_n_heads": 2,
    "gpt_max_audio_tokens": 40,
    "gpt_max_text_tokens": 100,
    "gpt_max_prompt_tokens": 20,
    "gpt_use_perceiver_resampler": True,  # as in XTTS v2
    "decoder_input_dim": 64,
    "gpt_start_text_token": 3,
    "gpt_stop_text_token": 0,
}


class Trap:
    """What unpickling it would do is seen."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def write_cloner(folder: Path) -> None:
    """An XTTS with a sample of four seconds of noise to clone."""
    (folder / "voices").mkdir(parents=True)
    letters = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyz.,!?' "]
    tokens = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[], unk_token="[UNK]"))
    tokens.add_special_tokens(SPECIAL)
    tokens.save(str(folder / "vocab.json"))
    settings = {"model": "xtts", "languages": ["en"], "model_args": CLONER | {"gpt_number_text_tokens": len(letters)}}
    (folder / "config.json").write_text(json.dumps(settings))
    config = XttsConfig()
    config.from_dict(settings)
    model = Xtts(config)
    model.tokenizer = VoiceBpeTokenizer(vocab_file=str(folder / "vocab.json"))
    model.init_models()
    torch.save({"model": model.state_dict()}, folder / "model.pth")
    noise = np.random.default_rng(1).normal(0, 0.1, 4 * 22_050)
    soundfile.write(folder / "voices" / "ana.wav", noise, 22_050)


def main(folder: Path) -> None:
    torch.manual_seed(5)
    write_cloner(folder / "cloner")
    vocabulary = 2 + len(CHARACTERS["punctuations"]) + len(CHARACTERS["characters"])
    config = VitsConfig()
    settings = {"model": "vits", "text_cleaner": "basic_cleaners", "use_phonemes": False, "characters": CHARACTERS}
    settings |= {"add_blank": True, "model_args": SMALL | {"num_chars": vocabulary}}
    for name in ("voice", "trap"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(settings))
    config.from_dict(settings)
    state = Vits(config).state_dict() | {"disc.net": torch.zeros(1)}  # a trainer's checkpoint has its critic too
    torch.save({"model": state, "step": 1}, folder / "voice" / "model.pth")
    torch.save({"model": Trap(folder / "sprung")}, folder / "trap" / "model.pth")


main(Path(sys.argv[1]))
