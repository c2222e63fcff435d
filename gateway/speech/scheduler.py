# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is served next, and what is given up when there is too much: a plain object without clock, loop or worker.

Order of service: the most urgent priority first; inside a priority the legs take turns, one task each, so that a leg
with a hundred tasks delays another leg by one task at most; a leg's own tasks keep the order of their submission.

Bounds: each priority has its own, and the whole queue has one. Where the whole is full, a more urgent task takes the
place of the newest of the least urgent ones, previews first, then prepares. Finals and clauses are never given up:
the bound of the whole must cover both of theirs, hence one of them always finds room while its own bound holds.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gateway.speech.errors import QueueFull
from gateway.speech.jobs import Priority

T = TypeVar("T")

SHEDDABLE = (Priority.PREVIEW, Priority.PREPARE)
"""What may be given up, first to go first: a later preview or the final itself replaces either."""

WINDOW = 256  # tasks behind a percentile or mean: some minutes of one call, and a sort of it is cheap


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many tasks may wait, per priority and in all. ValueError if ``total`` cannot hold all finals and clauses."""

    final: int = 64
    clause: int = 64
    prepare: int = 32
    preview: int = 32
    total: int = 160

    def __post_init__(self) -> None:
        if min(self.final, self.clause, self.prepare, self.preview) < 1:
            raise ValueError("each priority needs a bound of at least one task")
        if self.total < self.final + self.clause:
            raise ValueError(
                f"total {self.total} is under final + clause = {self.final + self.clause}: they could be shed"
            )

    def of(self, priority: Priority) -> int:
        """The bound of one priority."""
        return {
            Priority.FINAL: self.final,
            Priority.CLAUSE: self.clause,
            Priority.PREPARE: self.prepare,
            Priority.PREVIEW: self.preview,
        }[priority]


@dataclass(eq=False, slots=True)
class Entry(Generic[T]):
    """A task in the queue. ``number`` is its rank of acceptance; ``priority`` may rise while it waits."""

    number: int
    leg: str
    priority: Priority
    payload: T
    queued_ns: int


class Scheduler(Generic[T]):
    """The bounded queue. Each accepted entry leaves once: taken, cancelled, shed or drained.

    `requeue` puts a taken entry back (its worker was lost), ahead of its leg's later tasks and whatever the bounds
    say: it was accepted already. The queue can therefore exceed a bound by the number of workers.
    """

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self._numbers = 0
        self._entries: dict[int, Entry[T]] = {}
        self._queues: dict[Priority, OrderedDict[str, deque[Entry[T]]]] = {p: OrderedDict() for p in Priority}
        self._depths = dict.fromkeys(Priority, 0)
        self._accepted = dict.fromkeys(Priority, 0)
        self._refused = dict.fromkeys(Priority, 0)
        self._shed = dict.fromkeys(Priority, 0)
        self._dispatched = self._cancelled = self._promoted = self._requeued = self._drained = 0
        self._deepest = 0
        self._waits_ns: dict[Priority, deque[int]] = {p: deque(maxlen=WINDOW) for p in Priority}

    def __len__(self) -> int:
        return len(self._entries)

    def offer(self, leg: str, priority: Priority, payload: T, now_ns: int) -> tuple[Entry[T], Entry[T] | None]:
        """Accept a task; returns its entry and the entry that was shed for it, if any. Raises QueueFull."""
        victim: Entry[T] | None = None
        try:
            self._check_bound(priority)
            if len(self._entries) >= self.bounds.total:
                victim = self._least_urgent_newest(priority)
                if victim is None and priority in SHEDDABLE:
                    raise QueueFull(f"{self.bounds.total} tasks wait and none is less urgent than {priority.name}")
        except QueueFull:
            self._refused[priority] += 1
            raise
        if victim is not None:
            self._remove(victim)
            self._shed[victim.priority] += 1
        entry = Entry(self._numbers, leg, priority, payload, now_ns)
        self._numbers += 1
        self._accepted[priority] += 1
        self._insert(entry)
        return entry, victim

    def take(self, now_ns: int) -> Entry[T] | None:
        """Remove and return the entry to run next, or None when nothing waits."""
        for priority in Priority:
            queue = self._queues[priority]
            if not queue:
                continue
            leg, waiting = next(iter(queue.items()))
            entry = waiting[0]
            self._remove(entry)
            if leg in queue:
                queue.move_to_end(leg)
            self._dispatched += 1
            self._waits_ns[priority].append(max(0, now_ns - entry.queued_ns))
            return entry
        return None

    def cancel(self, entry: Entry[T]) -> bool:
        """Withdraw an entry; False if it does not wait any more."""
        if not self.waits(entry):
            return False
        self._remove(entry)
        self._cancelled += 1
        return True

    def promote(self, entry: Entry[T], priority: Priority) -> bool:
        """Raise an entry's urgency; False if it does not wait or is as urgent. QueueFull leaves it where it was."""
        if not self.waits(entry) or priority >= entry.priority:
            return False
        self._check_bound(priority)
        self._remove(entry)
        entry.priority = priority
        self._insert(entry)
        self._promoted += 1
        return True

    def requeue(self, entry: Entry[T]) -> None:
        """Put back an entry that was taken and whose run was lost; its leg is served next in its priority."""
        if self.waits(entry):
            raise ValueError(f"entry {entry.number} still waits")
        self._insert(entry)
        self._queues[entry.priority].move_to_end(entry.leg, last=False)
        self._requeued += 1

    def drain(self) -> list[Entry[T]]:
        """Remove and return all that waits, in order of acceptance."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.number)
        for entry in entries:
            self._remove(entry)
        self._drained += len(entries)
        return entries

    def waits(self, entry: Entry[T]) -> bool:
        """Whether the entry is in the queue."""
        return self._entries.get(entry.number) is entry

    def statistics(self) -> dict[str, Any]:
        """Depths and counts by priority (lower-case names), waits in ms over the last `WINDOW` tasks of each."""
        everyone = [wait for waits in self._waits_ns.values() for wait in waits]
        return {
            "queued": _by_name(self._depths),
            "queued_total": len(self._entries),
            "queued_deepest": self._deepest,
            "bound": _by_name({p: self.bounds.of(p) for p in Priority}),
            "bound_total": self.bounds.total,
            "accepted": _by_name(self._accepted),
            "refused": _by_name(self._refused),
            "shed": _by_name(self._shed),
            "dispatched": self._dispatched,
            "cancelled": self._cancelled,
            "promoted": self._promoted,
            "requeued": self._requeued,
            "drained": self._drained,
            "wait_ms": _percentiles_ms(everyone),
            "wait_ms_by_priority": {p.name.lower(): _percentiles_ms(self._waits_ns[p]) for p in Priority},
        }

    def _check_bound(self, priority: Priority) -> None:
        if self._depths[priority] >= self.bounds.of(priority):
            raise QueueFull(f"{self._depths[priority]} tasks of priority {priority.name} wait already")

    def _least_urgent_newest(self, than: Priority) -> Entry[T] | None:
        for priority in SHEDDABLE:
            if priority > than and self._depths[priority]:
                return max((legs[-1] for legs in self._queues[priority].values()), key=lambda entry: entry.number)
        return None

    def _insert(self, entry: Entry[T]) -> None:
        waiting = self._queues[entry.priority].setdefault(entry.leg, deque())
        # A promoted or requeued entry is older than some that wait: it goes before them.
        place = len(waiting)
        while place and waiting[place - 1].number > entry.number:
            place -= 1
        waiting.insert(place, entry)
        self._entries[entry.number] = entry
        self._depths[entry.priority] += 1
        self._deepest = max(self._deepest, len(self._entries))

    def _remove(self, entry: Entry[T]) -> None:
        queue = self._queues[entry.priority]
        waiting = queue[entry.leg]
        waiting.remove(entry)
        if not waiting:
            del queue[entry.leg]
        del self._entries[entry.number]
        self._depths[entry.priority] -= 1


@dataclass(slots=True)
class _KindLoad:
    done: int = 0
    runs_ns: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    with_sound_ns: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=WINDOW))


class LoadMeter:
    """How busy the workers are, for admission: busy time ÷ wall, exponentially weighted.

    Between two changes the busy share is constant, so the weighted mean is exact:
    ``u ← b + (u − b)·exp(−Δt/τ)``. A worker that loads counts as busy, for it takes no task.
    """

    def __init__(self, workers: int, now_ns: int, *, time_constant_s: float = 30.0) -> None:
        if workers < 1 or time_constant_s <= 0:
            raise ValueError("a load meter needs at least one worker and a positive time constant")
        self._workers = workers
        self._tau_ns = time_constant_s * 1e9
        self._at_ns = now_ns
        self._busy = 0
        self._utilisation = 0.0
        self._kinds: dict[str, _KindLoad] = {}

    def set_busy(self, workers: int, now_ns: int) -> None:
        """State how many workers are busy from ``now_ns`` on."""
        self._advance(now_ns)
        self._busy = min(max(workers, 0), self._workers)

    def add_run(self, kind: str, run_ns: int, sound_ns: int = 0) -> None:
        """Count a finished task of a kind; ``sound_ns`` is the sound it consumed or made, 0 if it has none."""
        load = self._kinds.setdefault(kind, _KindLoad())
        load.done += 1
        load.runs_ns.append(run_ns)
        if sound_ns:
            load.with_sound_ns.append((run_ns, sound_ns))

    def utilisation(self, now_ns: int) -> float:
        """Busy worker time ÷ available worker time, 0..1; 1 means no head-room."""
        self._advance(now_ns)
        return self._utilisation

    def statistics(self, now_ns: int) -> dict[str, Any]:
        """``utilisation``; per kind: tasks done, run time in ms over the last `WINDOW`, run time ÷ sound time."""
        return {
            "utilisation": self.utilisation(now_ns),
            "run_ms": {
                kind: {"done": load.done, "mean": _mean_ms(load.runs_ns), **_percentiles_ms(load.runs_ns)}
                for kind, load in self._kinds.items()
            },
            "real_time_factor": {
                kind: sum(run for run, _ in load.with_sound_ns) / sum(sound for _, sound in load.with_sound_ns)
                for kind, load in self._kinds.items()
                if load.with_sound_ns
            },
        }

    def _advance(self, now_ns: int) -> None:
        elapsed_ns = now_ns - self._at_ns
        if elapsed_ns <= 0:
            return
        busy = self._busy / self._workers
        self._utilisation = busy + (self._utilisation - busy) * math.exp(-elapsed_ns / self._tau_ns)
        self._at_ns = now_ns


def _by_name(counts: dict[Priority, int]) -> dict[str, int]:
    return {priority.name.lower(): count for priority, count in counts.items()}


def _mean_ms(values_ns: deque[int]) -> float:
    return sum(values_ns) / len(values_ns) / 1e6 if values_ns else 0.0


def _percentiles_ms(values_ns: Iterable[int]) -> dict[str, float]:
    """Median and 95th percentile by nearest rank, in ms; 0 where there is nothing yet."""
    ranked = sorted(values_ns)
    if not ranked:
        return {"p50": 0.0, "p95": 0.0}
    return {name: ranked[math.ceil(share * len(ranked)) - 1] / 1e6 for name, share in (("p50", 0.5), ("p95", 0.95))}
