# SPDX-License-Identifier: GPL-3.0-or-later
"""Does what is sent stay in step with what came in?

For each chunk: offset = source position / source rate - sent position / target rate. A constant offset is a delay;
an offset that grows is a wrong rate, lost samples or a second clock, and no buffer will hold it (S0.10).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

# Less movement than one 20 ms frame cannot be told from where the frames' borders happened to fall. A rate that is
# wrong (44.1 for 48 kHz: 81,000 ppm) passes this within a second, two sound cards 100 ppm apart in 200 s.
DRIFT_MS = 20.0
# A slope is believed when it moved the offset by four times what is left around the fitted line: jitter is no drift.
DRIFT_OVER_RESIDUE = 4.0
ROWS_KEPT = 1024


@dataclass(frozen=True, slots=True)
class DriftRow:
    """One chunk: positions in samples (index of the first sample behind it), offset in ms."""

    chunk: int
    source_sample: int
    sent_sample: int
    offset_ms: float


@dataclass(frozen=True, slots=True)
class DriftVerdict:
    """'constant' or 'drifting', with the fitted slope, what it amounts to over the span seen, and the reason."""

    verdict: Literal["constant", "drifting"]
    slope_ppm: float
    moved_ms: float
    spread_ms: float
    reason: str


class DriftLedger:
    """The offset table of one line. Bounded: when full, every second row goes, and half as many come in."""

    def __init__(self, source_hz: int, target_hz: int, rows_kept: int = ROWS_KEPT) -> None:
        if source_hz <= 0 or target_hz <= 0 or rows_kept < 4:
            raise ValueError("the ledger needs two rates and room for at least four rows")
        self.source_hz = source_hz
        self.target_hz = target_hz
        self._rows_kept = rows_kept
        self._rows: list[DriftRow] = []
        self._stride = 1
        self._chunks = 0
        self._last: DriftRow | None = None

    def note(self, source_sample: int, sent_sample: int) -> float:
        """Enters the next chunk; gives its offset in ms. Exact: whole samples, divided once."""
        seconds = Fraction(source_sample, self.source_hz) - Fraction(sent_sample, self.target_hz)
        row = DriftRow(self._chunks, source_sample, sent_sample, float(seconds * 1000))
        if self._chunks % self._stride == 0:
            self._rows.append(row)
            if len(self._rows) >= self._rows_kept:
                self._rows = self._rows[::2]
                self._stride *= 2
        self._chunks += 1
        self._last = row
        return row.offset_ms

    @property
    def rows(self) -> list[DriftRow]:
        """The rows kept, in order; the newest chunk is always the last."""
        if self._last is not None and self._rows[-1] is not self._last:
            return [*self._rows, self._last]
        return list(self._rows)

    def verdict(self) -> DriftVerdict:
        """Least-squares slope of the offset over source time; drifting when it passes both limits above."""
        rows = self.rows
        offsets = [row.offset_ms for row in rows]
        times = [row.source_sample / self.source_hz for row in rows]
        spread = max(offsets) - min(offsets) if rows else 0.0
        mean_time = sum(times) / len(times) if rows else 0.0
        variance = sum((time - mean_time) ** 2 for time in times)
        if variance == 0.0:
            return DriftVerdict("constant", 0.0, 0.0, spread, "fewer than two positions were seen")
        mean_offset = sum(offsets) / len(offsets)
        covariance = sum((t - mean_time) * (o - mean_offset) for t, o in zip(times, offsets, strict=True))
        slope_ms_per_s = covariance / variance
        moved = slope_ms_per_s * (times[-1] - times[0])
        slope_ppm = slope_ms_per_s * 1000.0
        residues = (o - mean_offset - slope_ms_per_s * (t - mean_time) for t, o in zip(times, offsets, strict=True))
        residue = math.sqrt(sum(value * value for value in residues) / len(rows))
        found = f"{slope_ppm:+.1f} ppm moved the offset by {moved:+.1f} ms, {residue:.1f} ms rms around the line"
        if abs(moved) > DRIFT_MS and abs(moved) > DRIFT_OVER_RESIDUE * residue:
            reason = f"{found}: more than {DRIFT_MS:.0f} ms and {DRIFT_OVER_RESIDUE:.0f} times the residue"
            return DriftVerdict("drifting", slope_ppm, moved, spread, reason)
        reason = f"{found}: within {DRIFT_MS:.0f} ms, or not clear of the jitter"
        return DriftVerdict("constant", slope_ppm, moved, spread, reason)

    def table(self) -> str:
        """The rows and the verdict as text for people."""
        lines = [f"{'chunk':>8} {'source':>12} {'sent':>12} {'offset ms':>12}"]
        lines += [f"{r.chunk:>8} {r.source_sample:>12} {r.sent_sample:>12} {r.offset_ms:>12.3f}" for r in self.rows]
        verdict = self.verdict()
        return "\n".join([*lines, f"{verdict.verdict}: {verdict.reason}"])

    def to_json(self) -> str:
        """Rates, rows and verdict as JSON."""
        verdict = self.verdict()
        return json.dumps(
            {
                "source_hz": self.source_hz,
                "target_hz": self.target_hz,
                "chunks": self._chunks,
                "verdict": verdict.verdict,
                "slope_ppm": verdict.slope_ppm,
                "moved_ms": verdict.moved_ms,
                "spread_ms": verdict.spread_ms,
                "reason": verdict.reason,
                "rows": [[r.chunk, r.source_sample, r.sent_sample, r.offset_ms] for r in self.rows],
            }
        )

    def statistics(self) -> dict[str, int | float]:
        """Chunks seen, rows kept, the newest offset."""
        newest = 0.0 if self._last is None else self._last.offset_ms
        return {"chunks": self._chunks, "rows": len(self._rows), "offset_ms": newest}
