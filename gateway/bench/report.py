# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTML file that shows a call: the four sound tracks, who said what when, and what the translation cost.

Self-contained: inline SVG and style, no script, nothing fetched. Every text that comes from a call is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from gateway.bench.capture import Capture, Pcm, by_time
from gateway.bench.checks import Check
from gateway.bench.ear import EarReport, Heard, Spread
from gateway.bench.records import SegmentRecord
from gateway.bench.sdp import RATE_HZ
from gateway.bench.tracks import TRACKS

_PX_PER_S = 40
_PEAK_MS = 25  # one peak per pixel
_TRACK_PX = 64
_STAGE_COLOURS = ("#3b6ea5", "#5aa469", "#d08c34", "#a05195", "#c8553d", "#4f9da6", "#8d99ae", "#6c757d")

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --paper: #fff; --faint: #8794a3; --line: #d9dfe6; --a: #2f6f9f;
  --b: #b4632a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --paper: #14191f; --faint: #8794a3; --line: #2c353f;
  --a: #6db3e2; --b: #e7a071; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem;
  border-bottom: 1px solid var(--line); vertical-align: top; } td.n, th.n { text-align: right;
  font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; border: 1px solid var(--line); } .faint { color: var(--faint); }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } .axis { stroke: var(--line); }
.a { fill: var(--a); } .b { fill: var(--b); } .wait { fill: none; stroke: var(--faint); stroke-dasharray: 3 2; }
.bar { display: flex; height: 1rem; } .bar span { display: block; height: 100%; }
.key i { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .9rem; }
"""


def render(
    title: str,
    *,
    captures: Mapping[str, Capture],
    records: Sequence[SegmentRecord],
    ear: EarReport,
    start_ns: int,
    end_ns: int,
    checks: Sequence[Check] = (),
) -> str:
    """The whole page. ``captures`` has the legs ``a`` and ``b``; the time line begins at ``start_ns``."""
    parts = [
        f"<h1>{_text(title)}</h1>",
        _summary(ear),
        "<h2>What was heard when</h2>",
        f'<div class="scroll">{_time_line(captures, records, ear, start_ns, end_ns)}</div>',
        "<h2>Ear latency</h2>",
        _latency_table(ear),
        *([_unheard_table(ear)] if ear.unheard else []),
        *([_checks_table(checks)] if checks else []),
        "<h2>Transcript</h2>",
        _transcript(records, start_ns),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def peaks(pcm: Pcm, window: int) -> list[tuple[int, int]]:
    """Least and greatest sample of each window, the last one filled up with silence."""
    if not len(pcm):
        return []
    padded = np.concatenate([pcm, np.zeros(-len(pcm) % window, np.int16)]).reshape(-1, window)
    return [*zip(padded.min(axis=1).tolist(), padded.max(axis=1).tolist(), strict=True)]


def _summary(ear: EarReport) -> str:
    rates = ", ".join(f"{_text(leg.upper())} {pps:.2f}" for leg, pps in ear.egress_pps.items())
    overall = ear.overall
    figures = _spread_cells(overall) if overall else "<td colspan=5>nothing was heard</td>"
    rows = [f"<tr><td>all</td>{figures}</tr>"]
    rows += [f"<tr><td>{_text(name)}</td>{_spread_cells(one)}</tr>" for name, one in ear.by_direction.items()]
    return (
        "<table><tr><th>direction</th><th class=n>utterances</th><th class=n>p50 ms</th><th class=n>p95 ms</th>"
        f"<th class=n>σ ms</th><th class=n>longest ms</th></tr>{''.join(rows)}</table>"
        f"<p>Packets per second at the telephones: {rates}. Lost {ear.lost_segments}, "
        f"duplicate {ear.duplicate_segments}, not heard {len(ear.unheard)}.</p>"
        '<p class="faint">Ear latency: last sample above −45 dBFS that the talker’s telephone sent, to the first '
        "translated sample above −45 dBFS that the listener’s telephone received.</p>"
    )


def _spread_cells(one: Spread) -> str:
    values = (f"{one.count}", *(f"{ms:.0f}" for ms in (one.p50_ms, one.p95_ms, one.sigma_ms, one.max_ms)))
    return "".join(f"<td class=n>{value}</td>" for value in values)


def _time_line(
    captures: Mapping[str, Capture], records: Sequence[SegmentRecord], ear: EarReport, start_ns: int, end_ns: int
) -> str:
    a, b = captures["a"], captures["b"]
    tracks = (("a", a.sent), ("a", b.received), ("b", b.sent), ("b", a.received))
    width = max(1, round((end_ns - start_ns) / 1e9 * _PX_PER_S))
    row = _TRACK_PX + 34
    body = [
        f'<line class="axis" x1="{second * _PX_PER_S}" y1="0" x2="{second * _PX_PER_S}" y2="{4 * row}"/>'
        f'<text x="{second * _PX_PER_S + 2}" y="{4 * row + 12}">{second} s</text>'
        for second in range(0, width // _PX_PER_S + 1, 5)
    ]
    for index, (name, (leg, track)) in enumerate(zip(TRACKS, tracks, strict=True)):
        top = index * row
        wave = _wave(by_time(track, start_ns, end_ns), top + 16)
        body.append(f'<text x="4" y="{top + 12}">{name}</text><path class="{leg}" d="{wave}"/>')
    heard = {one.segment_id: one for one in ear.heard}
    for record in records:
        body.append(_span(record, heard.get(record.segment_id), row, start_ns))
    return f'<svg width="{width}" height="{4 * row + 20}" role="img" aria-label="sound tracks">{"".join(body)}</svg>'


def _wave(pcm: Pcm, top: int) -> str:
    """A closed outline: the upper edge forth, the lower one back. Stretches of silence cost two points."""
    middle, scale = top + _TRACK_PX / 2, _TRACK_PX / 2 / 32768
    found = peaks(pcm, RATE_HZ * _PEAK_MS // 1000)
    upper = [f"{x},{middle - max(high, 60) * scale:.1f}" for x, (_, high) in enumerate(found)]
    lower = [f"{x},{middle - min(low, -60) * scale:.1f}" for x, (low, _) in enumerate(found)]
    return f"M{' '.join(upper)} {' '.join(reversed(lower))}Z" if found else ""


def _span(record: SegmentRecord, heard: Heard | None, row: int, start_ns: int) -> str:
    """The utterance below its sent track, its translation below the received one, and the wait between them."""
    base = 0 if record.leg == "a" else 2
    first, last = (_x(stamp, start_ns) for stamp in (record.audio_first_ns, record.audio_end_ns))
    low = base * row + _TRACK_PX + 18
    parts = [
        f'<rect class="{_leg_class(record.leg)}" x="{first:.1f}" y="{low}" width="{max(last - first, 1):.1f}" '
        'height="3">'
        f"<title>{_text(record.source_text)}</title></rect>"
    ]
    if heard is not None:
        end, begin = _x(heard.speech_end_ns, start_ns), _x(heard.first_audio_ns, start_ns)
        parts.append(
            f'<path class="wait" d="M{end:.1f},{low} L{begin:.1f},{low + row}"><title>{heard.ear_ns / 1e6:.0f} ms'
            f'</title></path><text x="{begin + 3:.1f}" y="{low + row + 3}">{heard.ear_ns / 1e6:.0f} ms</text>'
        )
    return "".join(parts)


def _latency_table(ear: EarReport) -> str:
    names = [*ear.stages_p50_ms]
    colours = {name: _STAGE_COLOURS[index % len(_STAGE_COLOURS)] for index, name in enumerate(names)}
    key = "".join(f'<i style="background:{colours[name]}"></i>{_text(name)}' for name in names)
    longest = max((one.ear_ns for one in ear.heard), default=1)
    rows = []
    for one in ear.heard:
        bar = "".join(
            f'<span style="width:{100 * max(ns, 0) / max(longest, 1):.2f}%;background:{colours.get(name, "#888")}" '
            f'title="{_text(name)} {ns / 1e6:.0f} ms"></span>'
            for name, ns in one.stages_ns.items()
        )
        cells = "".join(f"<td class=n>{one.stages_ns.get(name, 0) / 1e6:.0f}</td>" for name in names)
        mark = " *" if one.masked else ""
        rows.append(
            f"<tr><td>{_text(one.segment_id)}{mark}</td><td>{_text(one.direction)}</td>"
            f"<td class=n>{one.ear_ns / 1e6:.0f}</td>{cells}"
            f'<td style="min-width:12rem"><div class="bar">{bar}</div></td></tr>'
        )
    medians = "".join(f"<td class=n>{ear.stages_p50_ms[name]:.0f}</td>" for name in names)
    p50 = f"{ear.overall.p50_ms:.0f}" if ear.overall else "–"
    rows.append(f"<tr><th>p50</th><td></td><td class=n>{p50}</td>{medians}<td></td></tr>")
    heads = "".join(f"<th class=n>{_text(name)}</th>" for name in names)
    masked = '<p class="faint">* something else was sounding when the translation began.</p>'
    return (
        f'<p class="key">{key}</p><table><tr><th>segment</th><th>direction</th><th class=n>ear ms</th>{heads}<th></th>'
        f"</tr>{''.join(rows)}</table>{masked if any(one.masked for one in ear.heard) else ''}"
    )


def _unheard_table(ear: EarReport) -> str:
    rows = "".join(
        f"<tr><td>{_text(one.name)}</td><td>{_text(one.leg.upper())}</td><td>{_text(one.reason)}</td></tr>"
        for one in ear.unheard
    )
    return f"<h2>Not heard</h2><table><tr><th>segment or turn</th><th>leg</th><th>reason</th></tr>{rows}</table>"


def _checks_table(checks: Sequence[Check]) -> str:
    rows = "".join(
        f"<tr><td>{_text(check.name)}</td>"
        f"<td>{'passed' if check.passed else _text('; '.join(check.findings))}</td></tr>"
        for check in checks
    )
    return f"<h2>Checks</h2><table>{rows}</table>"


def _transcript(records: Sequence[SegmentRecord], start_ns: int) -> str:
    rows = []
    for record in sorted(records, key=lambda one: one.audio_first_ns):
        said, told = (_text(record.source_text) or "–"), (_text(record.target_text or record.lost or "") or "–")
        left, right = (said, told) if record.leg == "a" else (told, said)
        rows.append(
            f"<tr><td class=n>{max(0, record.audio_first_ns - start_ns) / 1e9:.1f} s</td>"
            f"<td>{_text(record.leg.upper())}</td><td>{left}</td><td>{right}</td></tr>"
        )
    heads = "<tr><th class=n>at</th><th>talker</th><th>A’s language</th><th>B’s language</th></tr>"
    return f"<table>{heads}{''.join(rows)}</table>"


def _x(stamp_ns: int, start_ns: int) -> float:
    return (stamp_ns - start_ns) / 1e9 * _PX_PER_S


def _leg_class(leg: str) -> str:
    return "a" if leg == "a" else "b"


def _text(value: str) -> str:
    return html.escape(value, quote=True)
