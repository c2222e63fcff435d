# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources, order, provenance and faults of the settings (SPEC C3)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gateway.cli import check_config as command
from gateway.resources import resource
from gateway.runtime import engine_spec, worker_threads
from gateway.settings import Loaded, Settings, SettingsError, effective, load_settings
from gateway.settings.document import read_document
from gateway.settings.faults import all_keys
from gateway.settings.model import Speech

pytestmark = pytest.mark.unit


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config" / "gateway.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def faults_of(file: Path | None, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(file, environ or {})
    return [str(fault) for fault in caught.value.faults]


def test_c3_shipped_file_equals_defaults_and_holds_every_key_with_a_comment() -> None:
    file = resource("config/gateway.yaml")
    loaded = load_settings(file, {})
    assert loaded.settings == Settings()
    assert [key for key, source in loaded.provenance.items() if source == "default"] == []
    lines = file.read_text().splitlines()
    for key in all_keys():
        at = next(n for n, line in enumerate(lines) if line.startswith(f"  {key.split('.')[1]}:"))
        sibling_shares_comment = lines[at - 1].startswith("  ") and "#" not in lines[at - 1] and "#" in lines[at - 2]
        assert lines[at - 1].lstrip().startswith("#") or sibling_shares_comment, key


def test_h16_a_worker_never_leaves_the_number_of_its_threads_to_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries take more than there are cores, and are slower for it: architecture.md has the table."""
    for cores, threads in ((1, 1), (2, 2), (4, 4), (64, 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert worker_threads(Settings()) == threads
        assert engine_spec(Settings()).threads == threads
    assert worker_threads(Settings(speech=Speech(threads_per_worker=7))) == 7


def test_c3_order_of_sources_and_provenance(tmp_path: Path) -> None:
    file = write(tmp_path, "sip:\n  port: 5070\n  from_user: desk\n")
    loaded = load_settings(file, {"GATEWAY__SIP__PORT": "5080", "OTHER": "1"})
    assert (loaded.settings.sip.port, loaded.settings.sip.from_user, loaded.settings.sip.log_level) == (5080, "desk", 3)
    assert loaded.provenance["sip.port"] == "environment GATEWAY__SIP__PORT"
    assert loaded.provenance["sip.from_user"].endswith("gateway.yaml:3")
    assert loaded.provenance["sip.log_level"] == "default"


def test_c3_which_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = write(tmp_path, "sip: {port: 5071}\n")
    other = tmp_path / "other.yaml"
    other.write_text("sip: {port: 5072}\n")
    third = tmp_path / "third.yaml"
    third.write_text("sip: {port: 5073}\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings(None, {}).settings.sip.port == 5071
    assert load_settings(None, {"GATEWAY_CONFIG": str(other)}).settings.sip.port == 5072
    assert load_settings(third, {"GATEWAY_CONFIG": str(other)}).settings.sip.port == 5073
    local.unlink()
    assert load_settings(None, {}).settings == Settings()
    assert "cannot read the settings file" in faults_of(Path("missing.yaml"))[0]


def test_c3_environment_lists_maps_text_and_null(tmp_path: Path) -> None:
    environ = {
        "GATEWAY__SIP__TRANSPORTS": "[udp]",
        "GATEWAY__SIP__FROM_USER": "0100",
        "GATEWAY__SIP__PUBLIC_ADDRESS": "",
        "GATEWAY__SIP__TRUNKS": "[{name: pbx, networks: [192.0.2.7]}]",
        "GATEWAY__SPEECH__VOICES__NO": "piper:nb",
        "GATEWAY__CALL": "{mode: simultaneous, longest_s: 60}",
        "GATEWAY__CALL__LONGEST_S": "90",
        "GATEWAY__DIALPLAN__FILE": "plans/mine.yaml",
        "GATEWAY__LOG__PII": "true",
    }
    loaded = load_settings(write(tmp_path, ""), environ)
    settings = loaded.settings
    assert settings.sip.transports == ("udp",)
    assert settings.sip.from_user == "0100"
    assert settings.sip.public_address is None
    assert settings.sip.trunks[0].networks == ("192.0.2.7/32",)
    assert settings.speech.voices == {**Settings().speech.voices, "no": "piper:nb"}
    assert loaded.provenance["speech.voices.no"] == "environment GATEWAY__SPEECH__VOICES__NO"
    assert loaded.provenance["speech.voices.en"] == "default"
    assert (settings.call.mode, settings.call.longest_s) == ("simultaneous", 90)
    assert settings.dialplan.file == Path("plans/mine.yaml")
    assert settings.log.pii is True


def test_c3_map_in_file_replaces_the_default_map(tmp_path: Path) -> None:
    loaded = load_settings(write(tmp_path, "speech:\n  voices:\n    no: piper:nb\n"), {})
    assert loaded.settings.speech.voices == {"no": "piper:nb"}  # and `no` is a language, not false


def test_c3_secret_from_file_is_stripped_and_never_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary-4711\n")
    environ = {"GATEWAY__REDIS__PASSWORD_FILE": str(secret), "GATEWAY__REDIS__URL": "redis://u:canary-4711@h:1/0"}
    loaded = load_settings(write(tmp_path, ""), environ)
    assert loaded.settings.redis.password is not None
    assert loaded.settings.redis.password.get_secret_value() == "canary-4711"
    assert str(secret) in loaded.provenance["redis.password"]
    printed = json.dumps([effective(loaded.settings), loaded.provenance, repr(loaded.settings.redis.password)])
    assert "canary" not in printed


def test_c3_secret_never_shown_in_faults(tmp_path: Path) -> None:
    file = write(tmp_path, "redis:\n  password: [canary]\n  url: 'http://u:canary@h'\n  timeout_s: 99\n")
    faults = faults_of(file)
    assert len(faults) == 3
    assert "canary" not in "\n".join(faults)


@pytest.mark.parametrize(
    ("content", "remedy"),
    [(None, "cannot read the file"), (b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (b"x" * 70_000, "larger than")],
)
def test_c3_unusable_secret_file(tmp_path: Path, content: bytes | None, remedy: str) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
    (fault,) = faults_of(write(tmp_path, ""), {"GATEWAY__REDIS__PASSWORD_FILE": str(secret)})
    assert fault.startswith("redis.password (from ")
    assert remedy in fault


def test_c3_secret_given_twice(tmp_path: Path) -> None:
    environ = {"GATEWAY__REDIS__PASSWORD_FILE": "/x", "GATEWAY__REDIS__PASSWORD": "y"}
    assert "given twice" in faults_of(write(tmp_path, ""), environ)[0]


@pytest.mark.parametrize(
    ("text", "line", "key", "remedy"),
    [
        ("sip:\n  prot: 1\n", 2, "sip.prot", "did you mean sip.port?"),
        ("port: 1\n", 1, "port", "did you mean sip.port?"),
        ("redsi: {}\n", 1, "redsi", "did you mean redis?"),
        ("sip:\n  trunks:\n    - name: a\n      netwroks: []\n", 4, "sip.trunks.0.netwroks", "sip.trunks.0.networks?"),
        ("log:\n  qqqqqqq: 1\n", 2, "log.qqqqqqq", "the keys here are: level, format, pii"),
    ],
)
def test_c3_unknown_key_names_line_and_nearest(tmp_path: Path, text: str, line: int, key: str, remedy: str) -> None:
    file = write(tmp_path, text)
    found = [fault for fault in faults_of(file) if fault.startswith(f"{key} (from {file}:{line})")]
    assert found
    assert remedy in found[0]


def test_c3_unknown_environment_key(tmp_path: Path) -> None:
    (fault,) = faults_of(write(tmp_path, ""), {"GATEWAY__SIP__PROT": "1"})
    assert fault == "sip.prot (from environment GATEWAY__SIP__PROT): unknown key; did you mean sip.port?"


@pytest.mark.parametrize(
    ("section", "body", "fault"),
    [
        ("sip", "port: 70000", "port = 70000 (from {}:2): must be ≤ 65535"),
        ("sip", "port: true", "port = true (from {}:2): must be a number"),
        ("sip", "port: 5060.5", "port = 5060.5 (from {}:2): must be a whole number"),
        ("sip", "from_user: 7", "from_user = 7 (from {}:2): must be text: put it in quotes"),
        ("sip", "bind: localhost", "bind = localhost (from {}:2): must be an IP address of this machine"),
        ("sip", "codecs: [opus]", "codecs.0 = opus (from {}:2): must be 'PCMU', 'PCMA' or 'G722'"),
        ("sip", "codecs: []", "codecs = [] (from {}:2): must not be empty"),
        ("sip", "rtp_port_max: 16385\n  max_legs: 2", "rtp_port_max = 16385 (from {}:2): leaves 1 port pairs"),
        ("sip", "rtp_port_min: 16385", "rtp_port_min = 16385 (from {}:2): must be even"),
        ("sip", "trunks: [{{name: a, networks: [10.0.0.1/8]}}]", "trunks.0.networks.0 = 10.0.0.1/8 (from {}:2)"),
        ("endpoint", "frame_ms: 25", "frame_ms = 25 (from {}:2): must be 10, 20 or 30"),
        ("endpoint", "end_ms: 100", "prepare_ms = 100 (from default): must be shorter than end_ms (100)"),
        ("endpoint", "start_frames: 9", "start_frames = 9 (from {}:2): must not exceed start_window (5)"),
        ("speech", "recognizer: whisper", "recognizer = whisper (from {}:2): must have the form engine:model"),
        ("speech", "voices: {{EN1: a:b}}", "voices.EN1 = EN1 (from {}:2): must be an ISO 639 language code"),
        ("redis", "url: localhost", "url = localhost (from {}:2): must be redis://"),
        ("recording", "enabled: true", "enabled = true (from {}:2): needs recording.dir"),
        ("api", 'bind: "0.0.0.0"', "bind = 0.0.0.0 (from {}:2): is not loopback"),
        ("api", "tls_key: k.pem", "tls_certificate = null (from default): tls_certificate and tls_key belong together"),
        ("api", 'webhooks: [{{url: "https://x.example"}}]', "webhooks.0.secret = null (from {}:2): give either secret"),
        ("api", 'webhooks: [{{url: "ftp://x"}}]', "webhooks.0.url = ftp://x (from {}:2): must match"),
        ("log", "level: loud", "level = loud (from {}:2): must be 'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_c3_bad_value_is_one_line_with_place_and_remedy(tmp_path: Path, section: str, body: str, fault: str) -> None:
    file = write(tmp_path, f"{section}:\n  {body.format()}\n")
    (found,) = faults_of(file)
    assert found.startswith(f"{section}.{fault.format(file)}")
    assert "\n" not in found


@pytest.mark.parametrize("lender", ["xx", "uk", "be"])
def test_a_voice_is_borrowed_only_from_a_language_that_has_one(tmp_path: Path, lender: str) -> None:
    voices = {"uk": f"borrowed:{lender}", "be": "borrowed:en", "en": "piper:joe"}
    (found,) = faults_of(write(tmp_path, yaml.safe_dump({"speech": {"voices": voices}})))
    assert found.endswith(f"uk borrows from {lender}, which has no voice of its own to lend")
    loaded = load_settings(write(tmp_path, yaml.safe_dump({"speech": {"voices": {**voices, "uk": "borrowed:en"}}})), {})
    assert loaded.settings.speech.voice_line("uk") == loaded.settings.speech.voice_line("en") == "piper:joe"


def test_c3_all_faults_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, "sip:\n  port: 0\n  prot: 1\nlog:\n  level: loud\n")
    assert len(faults_of(file, {"GATEWAY__SIP__LOG_LEVEL": "9", "GATEWAY__CALL__MOOD": "x"})) == 5


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("sip: [\n", ":2: not valid YAML"),
        ("sip:\n  port: 1\n  port: 2\n", ":3: sip.port is given twice"),
        ("- sip\n", "must consist of sections"),
        ("sip: 5\n", "sip = 5 (from "),
        ("sip: &a\n  trunks: [*a]\n", "refers to itself"),
        ("sip: \x00\n", "not valid YAML"),
        ("sip: {port: !!int x}\n", ":1: 'x' does not fit its tag"),
        ("sip: {port: !!timestamp x}\n", ":1: 'x' does not fit its tag"),
        ("sip: {port: !!python/name:os.system x}\n", ":1: not valid YAML"),
        ("[" * 5000, "not valid YAML"),
    ],
)
def test_c3_broken_file_is_a_fault_not_a_trace(tmp_path: Path, text: str, remedy: str) -> None:
    assert any(remedy in fault for fault in faults_of(write(tmp_path, text)))


@given(st.text(max_size=80))
def test_c3_any_text_is_read_or_refused_in_words(text: str) -> None:
    read_document(text)


def test_c3_empty_section_keeps_defaults(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, "sip:\ncall: {}\n"), {}).settings == Settings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().sip.port = 1  # type: ignore[misc]


def test_relative_paths_beside_the_file_then_cwd_then_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_settings(write(tmp_path, ""), {})
    plan = loaded.settings.dialplan.file
    assert loaded.find(plan) == resource("dialplans/default.yaml")
    work = tmp_path / "work"
    for root in (work, tmp_path):
        (root / "dialplans").mkdir(parents=True)
        (root / "dialplans" / "default.yaml").touch()
        monkeypatch.chdir(work)
        assert loaded.find(plan) == root / "dialplans" / "default.yaml"
    assert loaded.find(Path("/abs/x")) == Path("/abs/x")
    assert loaded.find(Path("nowhere.yaml")) == tmp_path / "nowhere.yaml"


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(command.check_config)
    return app


def test_c3_check_config_prints_value_and_source(app: typer.Typer, tmp_path: Path) -> None:
    file = write(tmp_path, "sip: {port: 5099}\n")
    environ = {"GATEWAY__REDIS__PASSWORD": "canary", "GATEWAY__CALL__MODE": "simultaneous"}
    result = CliRunner().invoke(app, ["--config", str(file)], env=environ)
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["sip.port"] == ["5099", f"{file}:1"]
    assert rows["call.mode"] == ["simultaneous", "environment", "GATEWAY__CALL__MODE"]
    assert "canary" not in result.output
    report = json.loads(CliRunner().invoke(app, ["--config", str(file), "--json"], env=environ).stdout)
    assert report["settings"]["sip.port"] == {"value": "5099", "source": f"{file}:1"}
    assert set(all_keys()) - {"speech.voices"} <= set(report["settings"])


def test_c3_check_config_faults_go_to_stderr_with_exit_1(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--config", str(write(tmp_path, "sip: {port: 0, prot: 1}\n"))])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 3


def test_c3_check_config_runs_the_checks_of_other_rooms(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dialplan(loaded: Loaded) -> list[str]:
        return [f"{loaded.settings.dialplan.file}: no route"]

    monkeypatch.setattr(command, "extra_checks", [dialplan])
    result = CliRunner().invoke(app, ["--config", str(write(tmp_path, ""))])
    assert result.exit_code == 1
    assert "dialplans/default.yaml: no route" in result.stderr
