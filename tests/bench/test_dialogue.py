# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts become files: right rate, no silence around, the right origin, and the shape of S0.8."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.synthetic import silence, tone
from gateway.bench.capture import SPEECH_DBFS, threshold_amplitude
from gateway.bench.dialogue import (
    PROMPTS,
    SCRIPTS,
    level,
    load_script,
    parse_script,
    regression_shape,
    trim,
    voice_script,
)
from gateway.speech.jobs import Speech

pytestmark = pytest.mark.unit

SCRIPT = {
    "name": "two",
    "languages": {"a": "xx", "b": "yy"},
    "turns": [
        {"speaker": "a", "text": "one", "prompt": "hello"},
        {"speaker": "b", "text": "two", "pause_ms": 700},
    ],
}


def speak(text: str, language: str) -> Speech:
    """About 16 characters a second of noise at 22.05 kHz, with silence around."""
    rng = np.random.default_rng(len(text))
    sound = rng.normal(0, 500, int(22_050 * len(text) / 16)).astype("<i2")
    around = np.zeros(22_050 // 2, "<i2")
    return Speech(np.concatenate([around, sound, around]).tobytes(), 22_050, f"{language}-noise")


def test_files_are_at_phone_rate_and_without_silence_around(tmp_path: Path) -> None:
    voiced = voice_script(parse_script(SCRIPT), tmp_path, speak, prompts=tmp_path / "none")
    assert [(one.turn.turn_id, one.turn.language, one.origin) for one in voiced.turns] == [
        ("a01", "xx", "synthesized"),
        ("b02", "yy", "synthesized"),
    ]
    for one in voiced.turns:
        pcm, rate_hz = soundfile.read(one.path, dtype="int16")
        assert (rate_hz, pcm.ndim, len(pcm)) == (8000, 1, one.samples)
        loud = np.flatnonzero(np.abs(pcm.astype(int)) > threshold_amplitude(SPEECH_DBFS))
        assert loud[0] <= 160 + 8
        assert len(pcm) - loud[-1] <= 480 + 8
        assert one.duration_ms == pytest.approx(3 / 16 * 1000 + 80, abs=60)
    manifest = json.loads((tmp_path / "script.json").read_text(encoding="utf-8"))
    assert [turn["file"] for turn in manifest["turns"]] == ["a01.wav", "b02.wav"]


def test_recordings_come_first(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    soundfile.write(tmp_path / "prompts" / "hello.wav", np.concatenate([silence(300), tone(500), silence(300)]), 8000)
    voiced = voice_script(parse_script(SCRIPT), tmp_path / "out", speak, prompts=tmp_path / "prompts")
    assert [one.origin for one in voiced.turns] == ["recorded", "synthesized"]
    assert voiced.turns[0].duration_ms == pytest.approx(580, abs=1)


def test_without_recording_and_engine_the_turn_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a01 \(xx\)"):
        voice_script(parse_script(SCRIPT), tmp_path, None, prompts=tmp_path / "none")
    with pytest.raises(ValueError, match="holds no speech"):
        voice_script(parse_script(SCRIPT), tmp_path, lambda text, language: Speech(bytes(8000), 8000, "mute"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_bundled_scripts(name: str) -> None:
    script = load_script(name)
    by_leg = {leg: [turn for turn in script.turns if turn.speaker == leg] for leg in "ab"}
    assert all(turn.language == script.languages[turn.speaker] for turn in script.turns)
    least = {"demo": 5, "bench": 12, "regression": 4}[name]
    assert min(len(turns) for turns in by_leg.values()) >= least
    assert script.pace == ("timed" if name == "regression" else "translated")
    if PROMPTS.is_dir():
        assert [turn.prompt for turn in by_leg["a"] if not (PROMPTS / f"{turn.prompt}.wav").is_file()] == []


def test_s0_8_regression_dialogue_has_its_shape(tmp_path: Path) -> None:
    assert regression_shape(voice_script(load_script("regression"), tmp_path, speak)) == []
    faults = regression_shape(voice_script(load_script("demo"), tmp_path, speak))
    assert "has not exactly one pause above 3 s" in faults
    assert "has a gap outside 0.5 to 1.5 s" in faults


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turns": []}, "list of turns"),
        ({"languages": {"a": "xx"}}, "languages"),
        ({"pace": "fast"}, "pace"),
        ({"turns": [{"speaker": "c", "text": "x"}]}, "turn 1"),
        ({"turns": [{"speaker": "a", "text": "  "}]}, "turn 1"),
        ({"turns": [{"speaker": "a", "text": "x", "pause_ms": -1}]}, "pause_ms"),
    ],
)
def test_wrong_scripts_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_script({**SCRIPT, **change})


def test_a_script_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(SCRIPT), encoding="utf-8")
    assert load_script(path).languages == {"a": "xx", "b": "yy"}
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON"):
        load_script(path)
    with pytest.raises(ValueError, match="bundled are"):
        load_script("nonsense")


def test_trim_and_level() -> None:
    assert len(trim(silence(500))) == 0
    loud = level(tone(500, amplitude=3000))
    assert 20 * np.log10(np.sqrt(np.mean(loud.astype(float) ** 2)) / 32768) == pytest.approx(-18, abs=1.5)
    click = np.concatenate([tone(500, amplitude=300), np.array([20_000], np.int16)])
    assert np.abs(level(click).astype(int)).max() <= 32768 * 10 ** (-3 / 20) + 1
