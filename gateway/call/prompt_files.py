# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts spoken by a human: ``LANGUAGE/NAME.wav`` in a folder takes the place of the synthesized voice.

The whole folder is read, and everything that is wrong with it is told at once: a prompt that is silently not used is
found out by a caller.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import soundfile

from gateway.audio.pcm import Int16
from gateway.audio.resample import resample
from gateway.call.prompts import PromptError

LONGEST_S = 60.0  # a caller listens no longer to a machine; also what a mistaken file of music exceeds
QUIETEST_PEAK = 330  # of 32767: -40 dBFS; a recording below is empty, or was made without a microphone


def load_recordings(folder: Path, names: Collection[str], *, rate_hz: int) -> Mapping[tuple[str, str], Int16]:
    """Recorded prompts by (language, name), 1-D int16 at ``rate_hz``. ``names``: those that the gateway can say.

    Any sound file of one channel does, at any rate. PromptError: the folder or some of its files cannot be used.
    """
    if not folder.is_dir():
        raise PromptError(f"{folder}: is no folder; create it, or unset call.prompt_dir")
    faults: list[str] = []
    found: dict[tuple[str, str], Int16] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.parent.parent != folder or path.suffix.lower() != ".wav":
            faults.append(f"{path}: only LANGUAGE/NAME.wav is looked for, such as en/please-repeat.wav")
        elif path.stem not in names:
            close = difflib.get_close_matches(path.stem, names, n=1)
            faults.append(f"{path}: there is no prompt of this name" + _rename(close))
        else:
            try:
                found[path.parent.name, path.stem] = _read(path, rate_hz)
            except ValueError as fault:
                faults.append(f"{path}: {fault}")
    if faults:
        raise PromptError("\n".join(faults))
    return found


def _read(path: Path, rate_hz: int) -> Int16:
    try:
        pcm, from_hz = soundfile.read(path, dtype="int16", frames=int(LONGEST_S * 192_000), always_2d=True)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"cannot be read as sound ({error}); save it as 16-bit PCM WAV") from None
    samples, channels = pcm.shape
    if channels != 1:
        raise ValueError(f"has {channels} channels; save it as mono")
    if samples > LONGEST_S * from_hz:
        raise ValueError(f"is longer than {LONGEST_S:g} s; cut it")
    if not samples or np.abs(pcm.astype(np.int32)).max() < QUIETEST_PEAK:
        raise ValueError("holds no sound; record it again")
    return resample(np.ascontiguousarray(pcm[:, 0]), from_hz, rate_hz)


def _rename(close: list[str]) -> str:
    return f"; rename it to {close[0]}.wav" if close else ""
