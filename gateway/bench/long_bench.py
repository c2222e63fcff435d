# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench long``: a monologue with hardly a pause, and whether the interpreter keeps up with it.

The *lag* of a clause (a segment in consecutive mode) is the time from the end of its source to the first sound of its
translation: the ear latency, clause by clause. What matters most is its slope over the whole talk, by least squares.

*Behind* at a moment is how far the listener will be behind the talker when all that waits has been heard: the source
sound that no translation was given for yet, plus the speech that is queued or sounding. It saws up and down with every
clause, by the clause's own length.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from gateway.bench.corpus import Line, human_prompts, lay
from gateway.bench.demo import Say
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import VirtualLoop, VirtualSpeech, load_average
from gateway.bench.stream_bench import clause_lags_s, emissions_of, heard_delays_s, laal_figures, segments_of
from gateway.bench.stream_figures import grouped, share, slope_per_min, spread, word_errors
from gateway.bench.talk import Look, Talk, hold, in_virtual_time
from gateway.call.desk import Booth
from gateway.settings import Loaded

PAUSE_MS = (150, 500)
REST_S = 20.0  # behind the last word; an interpreter that needs longer has not kept up, and the rest shows it no better
MOST_OBJECTS = 2_000_000  # a pipeline has some thousands; more means that the walk has left it
_OUTSIDE = (type, ModuleType, FunctionType, BuiltinFunctionType, VirtualLoop, VirtualSpeech)


@dataclass(frozen=True, slots=True)
class Handed:
    """From ``at_s`` on, translations of the source sound before ``source_s`` had been given to the play-out."""

    at_s: float
    source_s: float


def bench_long(
    loaded: Loaded, *, minutes: float, language: str, target: str, mode: str, seed: int, say: Say
) -> dict[str, Any]:
    """Hold the monologue in virtual time and measure how it went."""
    (line,) = lay(human_prompts(language), seconds=minutes * 60, pause_ms=PAUSE_MS, seed=seed)
    say(f"a monologue of {line.seconds:.0f} s, {len(line.placed)} sentences")
    before = load_average()
    sizes: list[tuple[float, float]] = []

    def minutely(at_s: float, roots: Sequence[object]) -> None:
        sizes.append((at_s, object_bytes(roots) / 2**20))

    async def act(desk: Booth) -> Talk:
        return await hold(
            desk, [line], (language, target), mode, say=say, minutely=minutely, rest_s=REST_S, must_rest=False
        )

    talk, cpu_s = in_virtual_time(loaded, act)
    return {
        "mode": mode,
        "language": language,
        "target": target,
        "line_s": round(line.seconds, 1),
        "sentences": len(line.placed),
        **long_figures(line, talk, language),
        "memory": memory_figures(sizes),
        "cpu_s_per_audio_s": round(cpu_s / line.seconds, 3),
        "speech_service": talk.speech,
        "load_average": [before, load_average()],
    }


def long_figures(line: Line, talk: Talk, language: str) -> dict[str, Any]:
    """Lag, cuts, buffers and words of a monologue on leg a."""
    segments = segments_of(talk, "a")
    groups = grouped(line.placed, segments)
    edits, words = word_errors(groups, language)
    behind = behind_s(talk.looks, handed(talk), line.seconds)
    lags = clause_lags_s(emissions_of(talk, "a"))
    lost = [one.data for one in talk.told if one.kind == "lost" or one.data.get("lost")]
    counters = talk.statistics["a"]
    return {
        "lag": spread([lag for _, lag in lags]),
        "lag_slope_s_per_min": _rounded(slope_per_min(lags)),
        "lag_by_minute_s": by_minute(lags),
        "behind": spread([each for _, each in behind]),
        "behind_slope_s_per_min": _rounded(slope_per_min(behind)),
        **laal_figures(talk, {"a": line}),
        "waiting_slope_s_per_min": _rounded(slope_per_min([(each.at_s, each.waiting_s) for each in talk.looks])),
        "longest_waiting_s": round(max((each.waiting_s for each in talk.looks), default=0.0), 2),
        "longest_segment_s": round(
            max(((each.end_sample - each.first_sample) / RATE_HZ for each in segments), default=0.0), 2
        ),
        "audio_end_to_heard": spread(heard_delays_s(talk, {"a": line})),
        "segments": len(segments),
        "records": len(talk.of("utterance")),
        "forced_cuts": counters["endpoint"]["cuts"],
        "came_to_rest": talk.came_to_rest,
        "lost": len(lost),
        "lost_reasons": dict(Counter(data.get("lost") or data.get("reason") for data in lost)),
        "wer": share(edits, words),
        "queue_deepest": talk.speech.get("queued_deepest"),
        "statistics": counters,
    }


def handed(talk: Talk) -> list[Handed]:
    """When the play-out got the translation of what source sound, by the records' first_audio stamps; non-decreasing.

    What was left out for good counts as given at the moment of its record: nobody waits for it any more.
    """
    steps = []
    for told in talk.of("utterance", "a"):
        at_ns = told.data["clocks_ns"].get("first_audio")
        steps.append((talk.seconds(at_ns) if at_ns else told.at_s, told.data["source_span"][1] / RATE_HZ))
    result: list[Handed] = []
    for at_s, source_s in sorted(steps):
        result.append(Handed(at_s, max(source_s, result[-1].source_s if result else 0.0)))
    return result


def behind_s(looks: Sequence[Look], steps: Sequence[Handed], until_s: float) -> list[tuple[float, float]]:
    """How far behind at each look at leg a while the talk goes on."""
    points, reached, at = [], 0.0, 0
    for look in looks:
        while at < len(steps) and steps[at].at_s <= look.at_s:
            reached = steps[at].source_s
            at += 1
        if look.side == "a" and look.at_s <= until_s:
            points.append((look.at_s, max(0.0, look.at_s - reached) + look.waiting_s))
    return points


def by_minute(points: Sequence[tuple[float, float]]) -> list[float]:
    """Mean of the values in each minute."""
    minutes: dict[int, list[float]] = {}
    for at_s, value in points:
        minutes.setdefault(int(at_s // 60), []).append(value)
    return [round(sum(values) / len(values), 2) for _, values in sorted(minutes.items())]


def memory_figures(sizes: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Size of the pipeline's objects in MB (2**20 bytes): first and last look, most, and slope."""
    values = [size for _, size in sizes]
    return {
        "first_mb": round(values[0], 3) if values else None,
        "last_mb": round(values[-1], 3) if values else None,
        "most_mb": round(max(values), 3) if values else None,
        "slope_mb_per_min": _rounded(slope_per_min(sizes)),
    }


def object_bytes(roots: Sequence[object]) -> int:
    """Bytes of all objects that can be reached from ``roots``, each once, without classes, modules, functions, the
    speech service and the loop. Arrays count with their data. RuntimeError when the walk gets lost."""
    seen: set[int] = set()
    waiting: list[object] = list(roots)
    total = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _OUTSIDE):
            continue
        seen.add(id(one))
        if len(seen) > MOST_OBJECTS:
            raise RuntimeError("the walk over the pipeline's objects has left the pipeline")
        # an array that owns its data reports it; a view's owner is among its referents
        total += sys.getsizeof(one)
        waiting += gc.get_referents(one)
        if isinstance(one, np.ndarray) and one.base is not None:
            waiting.append(one.base)
    return total


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
