# SPDX-License-Identifier: GPL-3.0-or-later
"""The PBX recipes: what can be said of them without the PBX. Kamailio's is run in test_sip_registration."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

RECIPES = Path(__file__).parents[2] / "dialplans"
NOT_RUN = "Written by the documentation, not run"


def sections(path: Path) -> list[tuple[str, dict[str, list[str]]]]:
    """An Asterisk configuration file: sections in order, which may repeat, as their keys may."""
    found: list[tuple[str, dict[str, list[str]]]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.partition(";")[0].strip()
        if not text:
            continue
        if head := re.fullmatch(r"\[([\w-]+)\]", text):
            found.append((head[1], {}))
            continue
        key, equals, value = text.partition("=")
        assert equals and found, f"{path.name}:{number}: {line!r} is no setting"
        found[-1][1].setdefault(key.strip(), []).append(value.lstrip("> ").strip())
    return found


def test_a14_asterisk_endpoint_refers_to_what_is_there() -> None:
    parts = sections(RECIPES / "asterisk" / "pjsip.conf")
    kinds = {(values["type"][0], name) for name, values in parts}
    assert {kind for kind, _ in kinds} == {"transport", "endpoint", "aor", "identify"}
    endpoint = next(values for name, values in parts if values["type"] == ["endpoint"])
    assert ("transport", endpoint["transport"][0]) in kinds and ("aor", endpoint["aors"][0]) in kinds
    assert set(endpoint["allow"][0].split(",")) <= {"ulaw", "alaw", "g722"}
    assert endpoint["direct_media"] == ["no"], "the gateway hears the PBX alone"
    identify = next(values for name, values in parts if values["type"] == ["identify"])
    assert ("endpoint", identify["endpoint"][0]) in kinds
    contexts = [name for name, _ in sections(RECIPES / "asterisk" / "extensions.conf")]
    assert endpoint["context"][0] in contexts


@pytest.mark.parametrize("name", ["asterisk/extensions.conf", "freepbx/extensions_custom.conf"])
def test_a14_asterisk_extensions_are_whole(name: str) -> None:
    for context, lines in sections(RECIPES / name):
        assert set(lines) <= {"exten", "same"}, context
        for line in lines["exten"]:
            assert re.fullmatch(r"(s|_[0-9XZN.!]+),1,\w+\(.*\)", line), f"{context}: {line}"
        for line in lines.get("same", []):
            assert re.fullmatch(r"n,\w+(\(.*\))?", line), f"{context}: {line}"
            assert line.count("(") == line.count(")"), line


def test_a14_freeswitch_files_are_xml_and_match_the_numbers() -> None:
    gateway = ET.parse(RECIPES / "freeswitch" / "gateway.xml").getroot().find("gateway")
    assert gateway is not None
    params = {each.get("name"): each.get("value") for each in gateway.findall("param")}
    assert params["register"] == "false"
    assert re.fullmatch(r"[\d.]+:\d+", params["proxy"] or "")
    plan = ET.parse(RECIPES / "freeswitch" / "dialplan.xml").getroot()
    (condition,) = plan.iter("condition")
    assert re.match(condition.get("expression") or "", "7001")
    assert not re.match(condition.get("expression") or "", "201")
    bridges = [each.get("data") for each in plan.iter("action") if each.get("application") == "bridge"]
    assert bridges == [f"sofia/gateway/{gateway.get('name')}/$1"]


def test_a14_what_was_not_run_says_so() -> None:
    for folder in ("asterisk", "freeswitch", "freepbx"):
        for path in (RECIPES / folder).iterdir():
            assert NOT_RUN in path.read_text(), path
    assert NOT_RUN not in (RECIPES / "kamailio" / "kamailio.cfg").read_text()


def test_a14_kamailio_accepts_its_configuration(tmp_path: Path) -> None:
    kamailio = shutil.which("kamailio")
    if kamailio is None:
        pytest.skip("kamailio is missing: apt-get install kamailio")
    text = (RECIPES / "kamailio" / "kamailio.cfg").read_text()
    gateways = RECIPES / "kamailio" / "dispatcher.list"
    config = tmp_path / "kamailio.cfg"
    config.write_text(text.replace("/etc/kamailio/dispatcher.list", str(gateways)))
    done = subprocess.run([kamailio, "-c", "-f", str(config)], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert all(re.fullmatch(r"1 sip:[\d.]+:\d+", line) for line in gateways.read_text().splitlines() if line[0] != "#")
