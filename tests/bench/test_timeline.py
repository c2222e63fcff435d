# SPDX-License-Identifier: GPL-3.0-or-later
"""S4.7: the uncommitted interval can be drawn per segment."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.bench.timeline import as_svg, as_text, read_rows, rows_of
from gateway.cli.app import app

pytestmark = pytest.mark.unit

EVENT = {
    "kind": "utterance",
    "segment_id": "c-<a1>",
    "leg": "a",
    "speculative": True,
    "clocks_ns": {
        "audio_end": 10**9,
        "submit": 10**9 + 160_000_000,
        "vad_end": 10**9 + 400_000_000,
        "final": 10**9 + 410_000_000,
        "played": 10**9 + 900_000_000,
        "preview": 10**9 - 1_000_000_000,
    },
}


def test_s4_7_stamps_stand_where_they_happened() -> None:
    (row,) = rows_of([EVENT, {"kind": "heard"}, {"kind": "utterance", "clocks_ns": {}}])
    line = as_text([row]).splitlines()[1].split(maxsplit=1)[1]
    zero = line.index("|")
    assert line.index("s") - zero == 8 and line.index("e") - zero == 20  # 160 and 400 ms at 20 ms a column
    assert line.index("p") < zero < line.index("P")


def test_s4_7_the_drawing_is_whole_and_escaped() -> None:
    drawing = as_svg(rows_of([EVENT]))
    root = ElementTree.fromstring(drawing)
    assert len(root.findall("{*}circle")) == 5
    assert "<a1>" not in drawing


def test_the_command_reads_an_event_file(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(json.dumps(EVENT) + "\n", encoding="utf-8")
    assert len(read_rows(events)) == 1
    done = CliRunner().invoke(app, ["timeline", str(events), "--svg", str(tmp_path / "t.svg")])
    assert done.exit_code == 0 and (tmp_path / "t.svg").exists()
    told = json.loads(CliRunner().invoke(app, ["timeline", str(events), "--json"]).output)
    assert [one["segment_id"] for one in told["segments"]] == [EVENT["segment_id"]]


@pytest.mark.parametrize("content", ["", "{", "[]\n", '{"kind": "heard"}\n'])
def test_a_file_without_utterances_is_a_clear_error(tmp_path: Path, content: str) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(content, encoding="utf-8")
    done = CliRunner().invoke(app, ["timeline", str(events)])
    assert done.exit_code == 1 and "events.jsonl" in done.output and "Traceback" not in done.output
