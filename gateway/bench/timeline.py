# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the time went between a talker's last sound and the listener's first: one line per segment (SPEC S4.7).

A model that answers in a tenth of a second does not help while its sound lies uncommitted. So the line shows, from the
event file of ``gateway serve --events``, when a candidate was submitted, when the end was confirmed, when the text was
final, and what came after.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMN_MS = 20  # one character of the text, four pixels of the drawing
MARKS: Mapping[str, tuple[str, str]] = {
    "submit": ("s", "submitted to the recogniser"),
    "vad_end": ("e", "end of speech confirmed"),
    "preview": ("p", "first preview"),
    "final": ("F", "text final"),
    "mt": ("t", "translated"),
    "first_audio": ("a", "first sound synthesized"),
    "played": ("P", "heard by the other party"),
}
_COLOURS = {
    "submit": "#3b6ea5",
    "vad_end": "#c8553d",
    "preview": "#8d99ae",
    "final": "#5aa469",
    "mt": "#a05195",
    "first_audio": "#d08c34",
    "played": "#1d2733",
}
_ROW_PX, _LEFT_PX, _PX_PER_MS = 26, 150, 0.2


@dataclass(frozen=True, slots=True)
class Row:
    """One segment: stamps in ms from its last voiced sample; those before it are negative."""

    segment_id: str
    leg: str
    speculative: bool
    stamps_ms: Mapping[str, float]


def rows_of(events: Iterable[Mapping[str, object]]) -> list[Row]:
    """A row for each ``utterance`` event that has its stamps."""
    rows = []
    for event in events:
        clocks = event.get("clocks_ns")
        if event.get("kind") != "utterance" or not isinstance(clocks, dict) or "audio_end" not in clocks:
            continue
        start_ns = clocks["audio_end"]
        stamps = {name: (clocks[name] - start_ns) / 1e6 for name in MARKS if name in clocks}
        rows.append(Row(str(event["segment_id"]), str(event["leg"]), bool(event.get("speculative")), stamps))
    return rows


def read_rows(path: Path) -> list[Row]:
    """The rows of an event file. ValueError names a line that is not an event."""
    events = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            event = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{number}: not a JSON event: {error}") from None
        if not isinstance(event, dict):
            raise ValueError(f"{path}:{number}: not a JSON event")
        events.append(event)
    return rows_of(events)


def as_text(rows: Sequence[Row]) -> str:
    """The rows as text; each column is 20 ms, ``|`` is the last voiced sample."""
    lines = [f"| last sound   {'   '.join(f'{mark} {what}' for mark, what in MARKS.values())}"]
    for row in rows:
        first = min(0.0, *row.stamps_ms.values(), 0.0)
        width = round((max(0.0, *row.stamps_ms.values(), 0.0) - first) / COLUMN_MS) + 1
        cells = ["·"] * width
        cells[round(-first / COLUMN_MS)] = "|"
        for name, at_ms in sorted(row.stamps_ms.items(), key=lambda item: item[1]):
            column = round((at_ms - first) / COLUMN_MS)
            while column < len(cells) - 1 and cells[column] != "·":
                column += 1  # two stamps in one column stand side by side
            cells[column] = MARKS[name][0]
        times = " ".join(f"{name} {at_ms:+.0f}" for name, at_ms in row.stamps_ms.items())
        lines += [f"{row.segment_id:<18} {''.join(cells)}", f"{'':<18} {times} ms"]
    return "\n".join(lines)


def as_svg(rows: Sequence[Row]) -> str:
    """The rows as a drawing: one SVG, nothing fetched, texts escaped."""
    first = min((min(0.0, *row.stamps_ms.values(), 0.0) for row in rows), default=0.0)
    last = max((max(0.0, *row.stamps_ms.values(), 0.0) for row in rows), default=1000.0)

    def x(at_ms: float) -> float:
        return _LEFT_PX + (at_ms - first) * _PX_PER_MS

    width, height = round(x(last) + 40), _ROW_PX * (len(rows) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="11">'
    ]
    for index, (name, (_, what)) in enumerate(MARKS.items()):
        parts.append(f'<text x="{10 + index * 170}" y="14" fill="{_COLOURS[name]}">● {html.escape(what)}</text>')
    for number, row in enumerate(rows):
        y = _ROW_PX * (number + 2) - 8
        parts.append(f'<text x="4" y="{y + 4}">{html.escape(row.segment_id)}</text>')
        parts.append(f'<line x1="{x(first):.1f}" y1="{y}" x2="{x(last):.1f}" y2="{y}" stroke="#d9dfe6"/>')
        end_ms = row.stamps_ms.get("vad_end")
        if end_ms is not None:
            waited = max(0.0, end_ms) * _PX_PER_MS
            parts.append(
                f'<rect x="{x(0):.1f}" y="{y - 4}" width="{waited:.1f}" height="8" fill="#f3d3cb">'
                "<title>uncommitted</title></rect>"
            )
        for name, at_ms in row.stamps_ms.items():
            title = f"{MARKS[name][1]}: {at_ms:+.0f} ms"
            parts.append(
                f'<circle cx="{x(at_ms):.1f}" cy="{y}" r="4" fill="{_COLOURS[name]}">'
                f"<title>{html.escape(title)}</title></circle>"
            )
    return "\n".join([*parts, "</svg>"])
