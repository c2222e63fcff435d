# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the interpreter from falling further and further behind a fast talker.

Translated speech is often longer than what was said, and it may only be spoken one clause after the other. What waits
is bounded by four steps, each of which costs the listener more than the one before:

1. **tempo**: speak faster, up to 1.3 times, pitch kept, at most 0.1 more from clause to clause;
2. **pauses**: shorten the pauses between clauses;
3. **merge**: synthesize waiting clauses as one, which saves their final lengthenings and pauses;
4. **drop**: leave out the oldest that wait, and tell the listener so.

The *lag* is how long the newest clause would wait at normal tempo: the rest of what is being played plus all waiting
clauses but the newest. So a single long clause is never dropped for being long, and the newest clause never at all.
What waits in all is at most the hard bound plus one clause.

Tempo and pauses also follow how far *behind* the interpreter is: how long ago the talker finished the clause that is
about to be spoken. A translation that is a little longer than what was said lets no queue grow for a long time, yet
each clause comes later than the one before.

Each step is taken above its limit and given back only when the lag has stayed below a part of that limit for a while:
a voice that changes its tempo from clause to clause is tiring, and falls behind again at once. A tempo between the
slowest and the fastest has the limit at which it is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NORMAL_PERCENT = 100
TEMPO_STEP_PERCENT = 10  # a talker who hurries changes as much from clause to clause
GAP_STEP_PERCENT = 25


@dataclass(frozen=True, slots=True)
class LagBudget:
    """The lags, in ms, above which each step begins, and how far it goes."""

    tempo_ms: int = 700
    pauses_ms: int = 1600
    """Here the tempo wanted is the fastest."""
    merge_ms: int = 5000
    hard_ms: int = 12_000
    """Above this the oldest are dropped, until ``merge_ms`` is met, so that one notice covers one cut."""
    fastest_percent: int = 130
    shortest_gap_percent: int = 25
    merge_clauses: int = 3
    merge_speech_ms: int = 6000
    """How much one synthesis takes at most: a longer one delays its own first sound, and the next decision."""
    release_percent: int = 60
    """Part of a step's limit below which it is given back …"""
    calm_ms: int = 6000
    """… after that long."""
    notice_every_ms: int = 20_000
    """Notices cost time too: of drops close together only the first is told."""

    def __post_init__(self) -> None:
        """Refuse limits that are not in order."""
        if not 0 < self.tempo_ms < self.pauses_ms < self.merge_ms < self.hard_ms:
            raise ValueError("lag limits must rise: tempo_ms < pauses_ms < merge_ms < hard_ms")
        if not NORMAL_PERCENT <= self.fastest_percent <= 200 or not 0 <= self.shortest_gap_percent <= NORMAL_PERCENT:
            raise ValueError("fastest_percent must be 100 to 200 and shortest_gap_percent 0 to 100")
        if self.merge_clauses < 2 or self.merge_speech_ms < 0 or not 0 < self.release_percent < 100 or self.calm_ms < 0:
            raise ValueError("merge_clauses must be 2 or more, release_percent 1 to 99, nothing negative")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A translated clause not heard yet; ``speech_ms`` is its length at normal tempo, known or estimated."""

    clause_id: str
    speech_ms: int


@dataclass(frozen=True, slots=True)
class LagAction:
    """What to do with the clauses that were waiting, in this order: drop, tell, merge, speak with tempo and gap."""

    drop: tuple[str, ...]
    notice: bool
    """Say to the listener that something was left out."""
    merge: tuple[str, ...]
    """The next clauses to synthesize as one; empty: speak the next alone."""
    tempo: float
    """1.0 … 1.3, for the next synthesis."""
    gap_factor: float
    """1.0 … 0.25, for the pause behind it."""


SENTENCES = LagBudget(tempo_ms=1000, pauses_ms=2200)
"""Of consecutive mode: whole sentences often queue for a moment, and each pause of the talk lets them catch up."""


class LagPolicy:
    """Decides, each time a clause is about to be spoken, how to keep the lag bounded. Pure: lengths and stamps in."""

    def __init__(self, budget: LagBudget | None = None) -> None:
        self.budget = budget or LagBudget()
        self._tempo_percent = NORMAL_PERCENT
        self._gap_percent = NORMAL_PERCENT
        self._merging = False
        self._calm_since: dict[str, int] = {}
        self._last_notice_ns: int | None = None
        self._lag_ms = self._longest_lag_ms = self._haste_ms = 0
        self._counts = dict.fromkeys(
            (
                "clauses",
                "tempo_up",
                "tempo_down",
                "gap_shortened",
                "gap_lengthened",
                "merges",
                "merged_clauses",
                "dropped_clauses",
                "dropped_ms",
                "notices",
            ),
            0,
        )

    def next(self, waiting: Sequence[Waiting], now_ns: int, *, playing_ms: int = 0, behind_ms: int = 0) -> LagAction:
        """Call once per synthesis, oldest clause first.

        ``playing_ms`` is what is left of the sound being played, ``behind_ms`` how long ago the talker finished the
        oldest clause that waits.

        ValueError when nothing waits.
        """
        if not waiting:
            raise ValueError("no clause waits: ask when there is one to speak")
        self._observe(playing_ms + sum(each.speech_ms for each in waiting[:-1]))
        dropped = self._drop(waiting)
        kept = waiting[len(dropped) :]
        self._haste_ms = max(self._lag_ms, behind_ms)
        self._set_tempo(now_ns)
        self._set_gap(now_ns)
        merge = self._merge(kept, now_ns)
        self._counts["clauses"] += max(len(merge), 1)
        return LagAction(
            drop=tuple(each.clause_id for each in dropped),
            notice=bool(dropped) and self._tell(now_ns),
            merge=merge,
            tempo=self._tempo_percent / 100,
            gap_factor=self._gap_percent / 100,
        )

    def _observe(self, lag_ms: int) -> None:
        self._lag_ms = lag_ms
        self._longest_lag_ms = max(self._longest_lag_ms, lag_ms)

    # --- the four steps ------------------------------------------------------------------------------------------

    def _drop(self, waiting: Sequence[Waiting]) -> Sequence[Waiting]:
        if self._lag_ms <= self.budget.hard_ms:
            return ()
        count = 0
        while count < len(waiting) - 1 and self._lag_ms > self.budget.merge_ms:
            self._lag_ms -= waiting[count].speech_ms
            self._counts["dropped_ms"] += waiting[count].speech_ms
            count += 1
        self._counts["dropped_clauses"] += count
        return waiting[:count]

    def _tell(self, now_ns: int) -> bool:
        last = self._last_notice_ns
        if last is not None and now_ns - last < self.budget.notice_every_ms * 1_000_000:
            return False
        self._last_notice_ns = now_ns
        self._counts["notices"] += 1
        return True

    def _set_tempo(self, now_ns: int) -> None:
        budget = self.budget
        ramp_ms = budget.pauses_ms - budget.tempo_ms
        over = min(max(self._haste_ms - budget.tempo_ms, 0), ramp_ms)
        room = budget.fastest_percent - NORMAL_PERCENT
        wanted = NORMAL_PERCENT + room * over // ramp_ms
        here_ms = budget.tempo_ms + ramp_ms * (self._tempo_percent - NORMAL_PERCENT) // max(1, room)
        calm = self._calm("tempo", self._haste_ms, here_ms, now_ns)
        if wanted > self._tempo_percent:
            self._tempo_percent = min(wanted, self._tempo_percent + TEMPO_STEP_PERCENT)
            self._counts["tempo_up"] += 1
        elif calm and self._tempo_percent > NORMAL_PERCENT:
            self._tempo_percent = max(NORMAL_PERCENT, self._tempo_percent - TEMPO_STEP_PERCENT)
            self._counts["tempo_down"] += 1

    def _set_gap(self, now_ns: int) -> None:
        calm = self._calm("pauses", self._haste_ms, self.budget.pauses_ms, now_ns)
        if self._haste_ms > self.budget.pauses_ms and self._gap_percent > self.budget.shortest_gap_percent:
            self._gap_percent = max(self.budget.shortest_gap_percent, self._gap_percent - GAP_STEP_PERCENT)
            self._counts["gap_shortened"] += 1
        elif calm and self._gap_percent < NORMAL_PERCENT:
            self._gap_percent = min(NORMAL_PERCENT, self._gap_percent + GAP_STEP_PERCENT)
            self._counts["gap_lengthened"] += 1

    def _merge(self, waiting: Sequence[Waiting], now_ns: int) -> tuple[str, ...]:
        calm = self._calm("merge", self._lag_ms, self.budget.merge_ms, now_ns)
        if self._lag_ms > self.budget.merge_ms:
            self._merging = True
        elif calm:
            self._merging = False
        if not self._merging:
            return ()
        count = speech_ms = 0
        for each in waiting[: self.budget.merge_clauses]:
            speech_ms += each.speech_ms
            if speech_ms > self.budget.merge_speech_ms:
                break
            count += 1
        if count < 2:
            return ()
        merged = tuple(each.clause_id for each in waiting[:count])
        self._counts["merges"] += 1
        self._counts["merged_clauses"] += len(merged)
        return merged

    def _calm(self, step: str, lag_ms: int, limit_ms: int, now_ns: int) -> bool:
        """True when a lag has been below the part of ``limit_ms`` that gives a step back, and for long enough."""
        if lag_ms * 100 >= limit_ms * self.budget.release_percent:
            self._calm_since.pop(step, None)
            return False
        return now_ns - self._calm_since.setdefault(step, now_ns) >= self.budget.calm_ms * 1_000_000

    def statistics(self) -> dict[str, int]:
        """Every step counted, and tempo, gap and lag in force."""
        return {
            **self._counts,
            "tempo_percent": self._tempo_percent,
            "gap_percent": self._gap_percent,
            "lag_ms": self._lag_ms,
            "longest_lag_ms": self._longest_lag_ms,
        }
