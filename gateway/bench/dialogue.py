# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripted conversations: who says what, from which recording, and after which pause.

A script is data (``dialogues/*.json``, or a file of the user's own in any two languages). Turns that name a recorded
telephone prompt are spoken by a human voice when Debian's sound package is installed; all others are synthesized by
the caller's engine. Either way a turn becomes an 8 kHz file without silence around the speech, so that the pauses of
the script are the pauses that are heard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from gateway.bench.capture import SPEECH_DBFS, Pcm, threshold_amplitude
from gateway.bench.sdp import RATE_HZ
from gateway.speech.jobs import Speech

PROMPTS = Path("/usr/share/asterisk/sounds/en_US_f_Allison")  # Debian: asterisk-core-sounds-en-wav
SCRIPTS = ("demo", "bench", "regression")
PACES = ("translated", "timed")

_LEAD_MS, _TAIL_MS = 20, 60  # kept around speech: attacks and weak last consonants lie below the threshold
_SPOKEN_RMS_DBFS = -18.0  # level of the recorded prompts while they speak; synthesized turns are brought to it
_PEAK_DBFS = -3.0

Synthesize = Callable[[str, str], Speech]
"""(text, language) to sound of any rate."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance. ``pause_ms`` is the silence in front of it in a timed script."""

    turn_id: str
    speaker: str
    language: str
    text: str
    prompt: str | None = None
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation of the legs ``a`` and ``b``. Pace ``translated`` waits until the other has heard the
    translation; ``timed`` keeps the script's pauses whatever the interpreter does."""

    name: str
    pace: str
    languages: Mapping[str, str]
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class VoicedTurn:
    """A turn with its sound file. ``origin`` is ``recorded`` or ``synthesized``."""

    turn: Turn
    path: Path
    samples: int
    origin: str

    @property
    def duration_ms(self) -> float:
        """Length of the speech."""
        return self.samples * 1000 / RATE_HZ


@dataclass(frozen=True, slots=True)
class VoicedScript:
    """A script that telephones can play."""

    script: Script
    turns: tuple[VoicedTurn, ...]

    @property
    def speech_s(self) -> float:
        """Speech and scripted pauses together."""
        return sum(turn.duration_ms + turn.turn.pause_ms for turn in self.turns) / 1000


def load_script(name: str | Path) -> Script:
    """A bundled script by its name, or one from a file.

    Raises:
        ValueError: neither, or the file is no script; the message says where.
    """
    try:
        if isinstance(name, str) and name in SCRIPTS:
            text = (resources.files("gateway.bench") / "dialogues" / f"{name}.json").read_text(encoding="utf-8")
        else:
            text = Path(name).read_text(encoding="utf-8")
        return parse_script(json.loads(text))
    except OSError as error:
        raise ValueError(f"no script {name}: bundled are {', '.join(SCRIPTS)}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"script {name} is not JSON: {error}") from error


def parse_script(data: Any) -> Script:
    """A script from its JSON form; ValueError names what is wrong."""
    if not isinstance(data, dict) or not isinstance(data.get("turns"), list) or not data["turns"]:
        raise ValueError("a script is an object with a list of turns")
    languages = data.get("languages")
    if not isinstance(languages, dict) or set(languages) != {"a", "b"}:
        raise ValueError("a script names the languages of a and b")
    pace = data.get("pace", "translated")
    if pace not in PACES:
        raise ValueError(f"the pace of a script is one of {', '.join(PACES)}")
    turns = []
    for number, item in enumerate(data["turns"], start=1):
        if not isinstance(item, dict) or item.get("speaker") not in languages or not str(item.get("text", "")).strip():
            raise ValueError(f"turn {number} needs a speaker (a or b) and a text")
        pause_ms = item.get("pause_ms", 0)
        if not isinstance(pause_ms, int) or not 0 <= pause_ms <= 60_000:
            raise ValueError(f"turn {number}: pause_ms is 0 to 60000")
        speaker = item["speaker"]
        turns.append(
            Turn(f"{speaker}{number:02d}", speaker, languages[speaker], item["text"], item.get("prompt"), pause_ms)
        )
    return Script(str(data.get("name", "script")), pace, dict(languages), tuple(turns))


def voice_script(
    script: Script, directory: Path, synthesize: Synthesize | None = None, *, prompts: Path = PROMPTS
) -> VoicedScript:
    """Write one 8 kHz file per turn and ``script.json`` into ``directory``.

    Raises:
        ValueError: a turn has neither a recording nor an engine, or its sound holds no speech.
    """
    directory.mkdir(parents=True, exist_ok=True)
    voiced = []
    for turn in script.turns:
        recording = prompts / f"{turn.prompt}.wav" if turn.prompt else None
        if recording is not None and recording.is_file():
            pcm, origin = trim(_read(recording)), "recorded"
        elif synthesize is not None:
            pcm, origin = level(trim(_at_phone_rate(synthesize(turn.text, turn.language)))), "synthesized"
        else:
            raise ValueError(f"turn {turn.turn_id} ({turn.language}) has no recording and there is no engine to say it")
        if not len(pcm):
            raise ValueError(f"turn {turn.turn_id} ({turn.language}, {origin}) holds no speech")
        path = directory / f"{turn.turn_id}.wav"
        soundfile.write(path, pcm, RATE_HZ, subtype="PCM_16")
        voiced.append(VoicedTurn(turn, path, len(pcm), origin))
    told = [{**asdict(one.turn), "file": one.path.name, "samples": one.samples, "origin": one.origin} for one in voiced]
    manifest = {"name": script.name, "pace": script.pace, "languages": dict(script.languages), "turns": told}
    (directory / "script.json").write_text(json.dumps(manifest, ensure_ascii=False, indent=1), encoding="utf-8")
    return VoicedScript(script, tuple(voiced))


def regression_shape(voiced: VoicedScript) -> list[str]:
    """What keeps a voiced script from being the regression dialogue of row S0.8; empty when it is one."""
    faults = []
    pauses = [turn.turn.pause_ms for turn in voiced.turns[1:]]
    short = [
        turn
        for before, turn in zip(voiced.turns, voiced.turns[1:], strict=False)
        if turn.turn.speaker != before.turn.speaker and turn.duration_ms < 2000
    ]
    if not 30 <= voiced.speech_s <= 60:
        faults.append(f"lasts {voiced.speech_s:.1f} s, not 30 to 60 s")
    if len({turn.turn.speaker for turn in voiced.turns}) != 2:
        faults.append("has not two talkers")
    if sum(pause > 3000 for pause in pauses) != 1:
        faults.append("has not exactly one pause above 3 s")
    if any(not 500 <= pause <= 1500 for pause in pauses if pause <= 3000):
        faults.append("has a gap outside 0.5 to 1.5 s")
    if not short:
        faults.append("has no reply below 2 s")
    return faults


def trim(pcm: Pcm) -> Pcm:
    """Cut the silence around speech, but for the lead and tail that belong to it; empty when there is no speech."""
    loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > threshold_amplitude(SPEECH_DBFS))
    if not len(loud):
        return pcm[:0]
    begin = max(int(loud[0]) - _LEAD_MS * RATE_HZ // 1000, 0)
    return pcm[begin : int(loud[-1]) + 1 + _TAIL_MS * RATE_HZ // 1000]


def level(pcm: Pcm) -> Pcm:
    """Bring speech to the level of the recorded prompts, without clipping."""
    loud = pcm[np.abs(pcm.astype(np.int32)) > threshold_amplitude(SPEECH_DBFS)].astype(np.float64)
    if not len(loud):
        return pcm
    gain = threshold_amplitude(_SPOKEN_RMS_DBFS) / np.sqrt(np.mean(loud**2))
    gain = min(gain, threshold_amplitude(_PEAK_DBFS) / np.abs(loud).max())
    return np.asarray(np.rint(pcm * gain), dtype=np.int16)


def references(script: Script) -> Sequence[str]:
    """The texts, for checks in which a meant repetition must not count."""
    return [turn.text for turn in script.turns]


def _read(path: Path) -> Pcm:
    sound, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
    return _resample(np.asarray(sound[:, 0], dtype=np.int16), rate_hz)


def _at_phone_rate(speech: Speech) -> Pcm:
    return _resample(np.frombuffer(speech.pcm, dtype="<i2").astype(np.int16), speech.rate_hz)


def _resample(pcm: Pcm, rate_hz: int) -> Pcm:
    return pcm if rate_hz == RATE_HZ else np.asarray(soxr.resample(pcm, rate_hz, RATE_HZ), dtype=np.int16)
