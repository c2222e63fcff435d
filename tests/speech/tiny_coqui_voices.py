# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by Coqui's own interpreter: writes a small untrained VITS, and a trap that looks like one.

The voice says noise, and takes every step that a trained one takes. ``python tiny_coqui_voices.py FOLDER`` fills
``FOLDER/voice`` and ``FOLDER/trap``.
"""

import json
import os
import sys
from pathlib import Path

import torch
from TTS.tts.configs.vits_config import VitsConfig
from TTS.tts.models.vits import Vits

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


class Trap:
    """What unpickling it would do is seen."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def main(folder: Path) -> None:
    torch.manual_seed(5)
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
