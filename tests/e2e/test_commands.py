# SPDX-License-Identifier: GPL-3.0-or-later
"""The `gateway` command as its users meet it, mostly with something wrong: one line that names the remedy, exit 1.

Nothing here may show a stack trace, hang, or leave a process behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from gateway.bench.dialogue import PROMPTS
from gateway.bench.gateway_process import free_port
from gateway.bench.processes import alive
from gateway.text.normal import normal_words
from tests.e2e.conftest import require_models
from tests.e2e.sounds import SAID, first_and_last

pytestmark = [pytest.mark.sip, pytest.mark.slow, pytest.mark.timeout(240)]

LIMIT_S = 90.0


def family_of(session: int, folder: Path) -> list[int]:
    """All living processes of a session, and those that work in a folder: the embedded Redis has its own session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
                if int(fields[3]) == session or (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
    return [pid for pid in found if alive(pid)]


def gateway(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, and see that nobody and nothing is left, and nothing of the inside shows."""
    with tempfile.TemporaryDirectory(prefix="gw") as folder:
        return _run(arguments, environ, Path(folder))


def _run(arguments: Sequence[str], environ: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", *arguments],
        env={
            **os.environ,
            "COLUMNS": "120",
            "TMPDIR": str(folder),
            "XDG_STATE_HOME": str(folder),
            "GATEWAY__API__PORT": "0",
            **environ,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"gateway {' '.join(arguments)} hangs: {out}{err}")
    assert "Traceback" not in out + err, err
    until = time.monotonic() + 3
    while (left := family_of(process.pid, folder)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    assert list(folder.glob("gateway-*")) == []
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit 1, and the words are in the message."""
    assert done.returncode == 1, done.stdout + done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A UDP and TCP port that somebody else has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
        udp.bind(("127.0.0.1", 0))
        port: int = udp.getsockname()[1]
        tcp.bind(("127.0.0.1", port))
        tcp.listen()
        yield port


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["serve", "check-config", "doctor"])
def test_c3_an_unknown_setting_is_refused_with_a_guess(command: str) -> None:
    done = gateway(command, GATEWAY__SIP__PROT="5070")
    refused(done, "sip.prot", "GATEWAY__SIP__PROT", "did you mean sip.port?")


def test_a_settings_file_that_is_not_there(work: Path) -> None:
    refused(gateway("check-config", "--config", str(work / "none.yaml")), "none.yaml", "No such file")


def test_c3_check_config_tells_every_value_and_its_source() -> None:
    done = gateway("check-config", "--json", GATEWAY__SIP__PORT="5099")
    assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)["settings"]
    assert settings["sip.port"]["value"] == "5099"
    assert "GATEWAY__SIP__PORT" in settings["sip.port"]["source"]
    assert "gateway.yaml" in settings["sip.rtp_port_min"]["source"]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("routes: [", ["dialplan.yaml"]),
        ("hello", ["routes"]),
        ('routes: [{number: "7001", from: en, destination: "sip:b@127.0.0.1"}]', ["to"]),
        ('routes: [{number: "7001", from: en, to: xx, destination: "sip:b@127.0.0.1"}]', ["xx", "speech.voices"]),
        ('routes: [{number: "7001", form: en, to: pt, destination: "sip:b@127.0.0.1"}]', ["form"]),
    ],
)
def test_a_dial_plan_with_a_fault_is_refused_by_name(work: Path, plan: str, words: list[str]) -> None:
    file = work / "dialplan.yaml"
    file.write_text(plan)
    refused(gateway("check-config", GATEWAY__DIALPLAN__FILE=str(file)), *words)


def test_a_dial_plan_that_is_not_there_stops_serve(work: Path) -> None:
    done = gateway("serve", GATEWAY__DIALPLAN__FILE=str(work / "none.yaml"), GATEWAY__SIP__PORT=str(free_port()))
    refused(done, "none.yaml", "dialplan.file")


# --- starting ---------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_named_with_the_remedy(taken_port: int) -> None:
    refused(gateway("serve", GATEWAY__SIP__PORT=str(taken_port)), str(taken_port), "sip.port")


def test_a_redis_that_does_not_answer_is_named_with_the_remedy() -> None:
    nobody = free_port(socket.SOCK_STREAM)
    url = f"redis://127.0.0.1:{nobody}/0"
    done = gateway("serve", GATEWAY__REDIS__URL=url, GATEWAY__SIP__PORT=str(free_port()))
    refused(done, f"127.0.0.1:{nobody}", "redis.url")


@pytest.mark.parametrize("command", [["serve"], ["demo"], ["console", "FILE", "--from", "en", "--to", "pt"]])
def test_models_that_are_missing_are_named_with_the_command(work: Path, command: list[str]) -> None:
    sound = work / "a.wav"
    soundfile.write(sound, np.zeros(8000, np.int16), 8000)
    words = [str(sound) if word == "FILE" else word for word in command]
    if command == ["demo"]:
        words += ["--out", str(work / "out")]
    models = {"GATEWAY__MODELS__DIR": str(work / "models"), "GATEWAY__SIP__PORT": str(free_port())}
    refused(gateway(*words, **models), "gateway models pull whisper-base")


def test_doctor_answers_in_one_object() -> None:
    require_models()
    done = gateway("doctor", "--json", "--quick", GATEWAY__SIP__PORT=str(free_port()))
    report = json.loads(done.stdout)
    verdicts = {finding["check"]: finding for finding in report["findings"]}
    assert {"settings", "sip-library", "sip-port", "rtp-ports", "models", "redis"} <= set(verdicts)
    failed = [finding for finding in report["findings"] if finding["verdict"] == "fail"]
    assert report["ok"] and not failed and done.returncode == 0, failed


def test_doctor_finds_what_is_wrong_and_says_what_to_do(taken_port: int, work: Path) -> None:
    environ = {"GATEWAY__SIP__PORT": str(taken_port), "GATEWAY__MODELS__DIR": str(work)}
    done = gateway("doctor", "--json", "--quick", **environ)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    failed = {finding["check"]: finding["remedy"] for finding in report["findings"] if finding["verdict"] == "fail"}
    assert not report["ok"]
    assert "sip.port" in failed["sip-port"]
    assert "gateway models pull" in failed["models"]


# --- files ------------------------------------------------------------------------------------------------------------


def bad_file(kind: str, work: Path) -> Path:
    file = work / f"{kind}.wav"
    if kind == "empty":
        file.touch()
    elif kind == "text":
        file.write_text("This is not sound.\n" * 100)
    elif kind == "folder":
        file.mkdir()
    elif kind == "rate-0":
        soundfile.write(file, np.ones(8000, np.int16), 8000)
        header = bytearray(file.read_bytes())
        header[24:28] = bytes(4)  # the rate's place in a RIFF header
        file.write_bytes(header)
    elif kind == "no-samples":
        soundfile.write(file, np.zeros(0, np.int16), 8000)
    return file


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "folder", "rate-0", "no-samples"])
def test_s0_6_a_file_that_cannot_be_used_is_named(kind: str, work: Path) -> None:
    file = bad_file(kind, work)
    started = time.monotonic()
    refused(gateway("console", str(file), "--from", "en", "--to", "pt"), str(file), ": ")
    assert time.monotonic() - started < 30, "before the models are loaded"


def test_s0_1_probe_measures_instead_of_believing(work: Path) -> None:
    file = work / "claims.wav"
    soundfile.write(file, np.zeros((44_100, 2), np.int16), 44_100)
    done = gateway("probe", str(file), "--json")
    assert done.returncode == 0
    portrait = json.loads(done.stdout)
    assert (portrait["rate_hz"], portrait["channels"], portrait["measured_samples"]) == (44_100, 2, 44_100)
    assert portrait["measured_duration_s"] == pytest.approx(1.0)
    refused(gateway("probe", str(bad_file("text", work)), "--json"), "text.wav")


def spoken(name: str) -> tuple[np.ndarray[Any, Any], int]:
    if not (PROMPTS / f"{name}.wav").is_file():
        pytest.skip("needs human prompts: apt-get install asterisk-core-sounds-en-wav")
    pcm, rate_hz = soundfile.read(PROMPTS / f"{name}.wav", dtype="int16")
    return pcm, rate_hz


@pytest.mark.model
def test_s0_2_console_interprets_a_stereo_file_of_another_rate(work: Path) -> None:
    require_models()
    name = "vm-whichbox"
    pcm, rate_hz = spoken(name)
    wide = soxr.resample(pcm, rate_hz, 44_100)
    file, out = work / "stereo.wav", work / "out.wav"
    soundfile.write(file, np.stack([wide, wide], axis=1), 44_100)
    done = gateway("console", str(file), "--from", "en", "--to", "pt", "--fast", "--json", "--out", str(out))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (utterance,) = report["utterances"]
    assert first_and_last(utterance["source_text"], "en") == first_and_last(SAID[name], "en")
    assert "mensagem" in normal_words(utterance["target_text"], "pt")
    heard, heard_hz = soundfile.read(out, dtype="int16")
    assert heard_hz == 8000 and np.abs(heard).max() > 3000


def test_console_refuses_a_language_that_nobody_speaks(work: Path) -> None:
    file = work / "a.wav"
    soundfile.write(file, np.zeros(8000, np.int16), 8000)
    done = gateway("console", str(file), "--from", "en", "--to", "xx")
    assert done.returncode == 2
    assert "xx" in done.stderr and "speech.voices" in done.stderr


# --- scripts ----------------------------------------------------------------------------------------------------------


def test_a_script_that_is_none_is_named(work: Path) -> None:
    require_models()
    refused(gateway("demo", "--script", "nope", "--out", str(work)), "nope", "regression")


@pytest.mark.parametrize("words", [["nope"], ["serve", "--nope"], ["console", "a.wav"]])
def test_what_the_command_does_not_know_is_a_usage_error(words: list[str]) -> None:
    done = gateway(*words)
    assert done.returncode == 2
    assert "--help" in done.stderr
