# SPDX-License-Identifier: GPL-3.0-or-later
"""Coqui itself: a Piper voice in its VITS, a VITS of its own, what it refuses. Skipped where it is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soxr

from gateway.speech.engines.alphabet import MOST_UNSAID
from gateway.speech.engines.coqui import CoquiSynthesizer
from gateway.speech.engines.coqui_place import coqui_python
from gateway.speech.engines.registry import RECOGNIZERS, SYNTHESIZERS, build
from gateway.speech.errors import EngineMissing, SpeechError
from gateway.speech.jobs import MODEL_RATE_HZ, Speech
from gateway.speech.manifest import Licence, load_manifest
from gateway.speech.own_models import take_in

# its libraries alone take half a minute to load on a busy machine
pytestmark = [pytest.mark.model, pytest.mark.timeout(400)]

PIPER = "piper-en_US-joe-medium"
TEXT = "Good morning, can you help me with my electricity bill?"
FREE = Licence(spdx="CC0-1.0")


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return coqui_python()
    except EngineMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def joe(python: Path, model_dir: Callable[[str], Path]) -> Iterator[CoquiSynthesizer]:
    voice = build(f"coqui:{PIPER}", SYNTHESIZERS, model_dir, 2)
    yield voice
    voice.close()


@pytest.fixture(scope="module")
def tiny(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``voice``, ``cloner`` and ``trap``, each with ``model.pth``."""
    folder = tmp_path_factory.mktemp("tiny")
    maker = Path(__file__).with_name("tiny_coqui_voices.py")
    subprocess.run([python, "-I", maker, folder], check=True, capture_output=True, timeout=300)
    return folder


def seconds(speech: Speech) -> float:
    return len(speech.pcm) / 2 / speech.rate_hz


def test_s1_12_what_coqui_says_is_heard_over_the_phone(joe: CoquiSynthesizer, model_dir: Callable[[str], Path]) -> None:
    assert joe.capabilities.voices == {"en": (PIPER,)} and joe.capabilities.rate_hz == 22_050
    speech = joe.synthesize(TEXT, language="en-GB")
    line = soxr.resample(np.frombuffer(speech.pcm, dtype="<i2"), speech.rate_hz, 8000)
    pcm = soxr.resample(line, 8000, MODEL_RATE_HZ).astype("<i2").tobytes()
    heard = build("whisper:whisper-base", RECOGNIZERS, model_dir, 2).recognize(pcm, language="en")
    assert "electricity bill" in heard.text.lower(), heard
    assert speech.unsaid == 0.0 and speech.respoken == 0
    assert seconds(joe.synthesize(TEXT, language="en", tempo=1.4)) < 0.85 * seconds(speech)


def test_i01_nothing_to_say_says_nothing(joe: CoquiSynthesizer) -> None:
    for text in ("", "...", "😀"):
        assert joe.synthesize(text, language="en") == Speech(b"", 22_050, PIPER)
    with pytest.raises(LookupError, match="'pt'"):
        joe.synthesize("olá", language="pt")


def test_i08_a_text_in_another_script_counts_as_unsaid(joe: CoquiSynthesizer) -> None:
    assert joe.synthesize("今日はいい天気です", language="en").unsaid == 1.0


def test_the_process_has_nobody_to_ask_and_ends_with_its_owner(joe: CoquiSynthesizer) -> None:
    process = joe._process
    before = process.pid
    assert str(Path(f"/proc/{before}/fd/0").readlink()) == os.devnull
    os.kill(before or 0, 9)
    assert seconds(joe.synthesize("One moment.", language="en")) > 0.3, "it is started again"
    assert process.pid != before
    assert process._process is not None and process._line is not None
    process._line.close()  # as when its worker was killed
    assert process._process.wait(timeout=20) == 0


def test_i09_it_starts_with_closed_standard_streams(python: Path, model_dir: Callable[[str], Path]) -> None:
    code = (
        "import os, sys, pathlib\n"
        "for standard in (0, 1, 2): os.close(standard)\n"
        "from gateway.speech.engines.coqui import CoquiSynthesizer\n"
        "voice = CoquiSynthesizer(pathlib.Path(sys.argv[1]), threads=2)\n"
        "said = len(voice.synthesize('Hello.', language='en').pcm)\n"
        "voice.close()\n"
        "os._exit(0 if said > 10_000 else 3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model_dir(PIPER))], timeout=300, check=False)
    assert done.returncode == 0


def test_i10_a_checkpoint_becomes_safetensors_and_i08_its_letters_are_all_it_says(tiny: Path, tmp_path: Path) -> None:
    model = take_in(tiny / "voice", tmp_path, "tiny", licence=FREE, languages=["tr"], shipped=load_manifest())
    assert {file.path for file in model.files} == {"config.json", "model.safetensors", "voice.json"}
    voice = build("coqui:tiny", SYNTHESIZERS, lambda name: tmp_path / name, 2)
    try:
        assert voice.capabilities.voices == {"tr": ("tiny",)}
        speech = voice.synthesize("Merhaba, bir dakika.", language="tr")
        assert seconds(speech) > 0.05 and speech.unsaid == 0.0  # capitals are made small by its cleaner
        assert voice.synthesize("Güneş çıktı, ağaçlar yeşil", language="tr").unsaid > MOST_UNSAID
    finally:
        voice.close()


def test_s1_12_xtts_speaks_with_the_voice_of_a_sample(tiny: Path, tmp_path: Path) -> None:
    model = take_in(tiny / "cloner", tmp_path, "cloner", licence=FREE, languages=[], shipped=load_manifest())
    assert model.licence.accept and "voices/ana.wav" in {file.path for file in model.files}
    voice = build("coqui:cloner:ana", SYNTHESIZERS, lambda name: tmp_path / name, 2)
    try:
        assert voice.capabilities.voices == {"en": ("ana",)} and voice.capabilities.rate_hz == 24_000
        assert seconds(voice.synthesize("Hello there.", language="en")) > 0.05
    finally:
        voice.close()


def test_i10_a_checkpoint_that_would_run_code_is_not_taken_in(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(SpeechError, match="mkdir") as refused:
        take_in(tiny / "trap", tmp_path, "trap", licence=FREE, languages=["tr"], shipped=load_manifest())
    assert "weights_only" not in str(refused.value)
    assert not (tiny / "sprung").exists()
    assert list(tmp_path.iterdir()) == []
