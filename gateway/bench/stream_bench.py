# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench stream``: a continuous dialogue of human telephone speech through the call's own pipeline.

The pauses are pseudo-random with a fixed seed, the words are known, and audio_end is read off the recordings. The
plain pipeline hears each utterance on its own, cut by hand: its word error rate is what end-pointing costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gateway.bench.corpus import Line, Placed, human_prompts, lay
from gateway.bench.demo import Say
from gateway.bench.plain_hearing import beside_plain, plain_groups, plain_recognizer
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import load_average
from gateway.bench.stream_figures import (
    Group,
    Segment,
    final_delays_s,
    grouped,
    repeated_at_joins,
    rounded,
    spread,
    stream_laal_s,
    word_figures,
)
from gateway.bench.talk import SIDES, Talk, hold, in_real_time, in_virtual_time
from gateway.call.desk import Booth
from gateway.settings import Loaded
from gateway.text.normal import normal_words

PAUSE_MS = (600, 4000)
SEED = 20_240
PREVIEW = "preview"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What is spoken, and in which time. ``real`` paces it at the speed of speech with real workers."""

    language: str
    target: str
    mode: str = "consecutive"
    seconds: float = 240.0
    legs: int = 1
    real: bool = False
    plain: bool = True
    seed: int = SEED
    sounds: Path | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """Words of the translation that came at once: when their text was there, and when their sound was heard."""

    first_sample: int
    end_sample: int
    words: int
    text_s: float | None
    heard_s: float | None
    ended_s: float
    """When its source had been said; of clauses that were joined, the first one's."""


def bench_stream(loaded: Loaded, options: StreamOptions, *, say: Say, events: Path | None = None) -> dict[str, Any]:
    """Hold the dialogue and measure it. CorpusMissing, TalkFailed or a room's own error when that cannot be."""
    prompts = human_prompts(options.language, **({"sounds": options.sounds} if options.sounds else {}))
    lines = lay(prompts, seconds=options.seconds, pause_ms=PAUSE_MS, seed=options.seed, legs=options.legs)
    say(f"{sum(len(line.placed) for line in lines)} utterances on {len(lines)} leg(s), {lines[0].seconds:.0f} s")
    before = load_average()

    async def act(desk: Booth) -> Talk:
        return await hold(desk, lines, (options.language, options.target), options.mode, say=say)

    talk, cpu_s = in_real_time(loaded, act) if options.real else in_virtual_time(loaded, act)
    talk.cpu_s = cpu_s
    if events is not None:
        write_events(events, talk)
    report = {**asdict(options), "sounds": None, "clock": "real" if options.real else "virtual"}
    report |= figures(lines, talk, options.language, options.target)
    if options.plain:
        say("the plain pipeline hears the same utterances")
        plain = plain_groups(lines, options.language, lambda: plain_recognizer(loaded), say)
        report["plain"] = beside_plain(groups_of(lines, talk), plain, options.language)
    return report | {"load_average": [before, load_average()]}


# --- what the talk tells ------------------------------------------------------------------------------------------


def segments_of(talk: Talk, side: str) -> list[Segment]:
    """The recognised segments of a side, by place."""
    found: dict[str, Segment] = {}
    for told in talk.of("heard", side):
        name, (first, end) = told.data["segment_id"], told.data["source_span"]
        found.setdefault(name, Segment(name, first, end, told.data["text"], told.at_s))
    return sorted(found.values(), key=lambda segment: segment.first_sample)


def emissions_of(talk: Talk, side: str) -> list[Emission]:
    """What was said for a side's words, by its records: a clause each in simultaneous mode, else a segment."""
    found = []
    for told in talk.of("utterance", side):
        data, clocks = told.data, told.data.get("clocks_ns", {})
        words = len(normal_words(data.get("target_text", ""), data.get("target_lang", "")))
        text_ns, heard_ns = clocks.get("mt"), clocks.get("played") or data.get("played_ns")
        if words and data["source_span"][1]:
            first, end = data["source_span"]
            found.append(
                Emission(
                    first,
                    end,
                    words,
                    talk.seconds(text_ns) if text_ns else None,
                    talk.seconds(heard_ns) if heard_ns else None,
                    talk.seconds(clocks["audio_end"]) if clocks.get("audio_end") else end / RATE_HZ,
                )
            )
    return found


def groups_of(lines: Sequence[Line], talk: Talk) -> list[list[Group]]:
    """Of each line, its utterances and the segments that were recognised of them."""
    return [grouped(line.placed, segments_of(talk, side)) for side, line in zip(SIDES, lines, strict=False)]


def figures(lines: Sequence[Line], talk: Talk, language: str, target: str) -> dict[str, Any]:
    """Every figure of the talk, JSON-ready."""
    by_side = dict(zip(SIDES, lines, strict=False))
    groups = groups_of(lines, talk)
    everything = [group for each in groups for group in each]
    finals = [told.data["segment_id"] for told in talk.of("heard")]
    records = [told.data["segment_id"] for told in talk.of("utterance")]
    lost = [told.data for told in talk.told if told.kind == "lost" or told.data.get("lost")]
    stops = [talk.statistics[side]["stop_to_terminal_ns"] for side in by_side]
    speech_s = sum(line.speech_s for line in lines)
    return {
        "line_s": round(lines[0].seconds, 2),
        "speech_s": round(speech_s, 2),
        "utterances": sum(len(line.placed) for line in lines),
        "segments": len(finals),
        "merged_groups": sum(len(group.placed) > 1 for group in everything),
        "split_utterances": sum(len(group.segments) > len(group.placed) for group in everything if group.placed),
        "audio_end_to_final": spread(final_delays_s(everything)),
        "first_preview": spread(first_previews_s(talk, by_side)),
        "previews": len(talk.of(PREVIEW)),
        "audio_end_to_heard": spread(heard_delays_s(talk, by_side)),
        "stop_to_terminal_s": [None if ns is None else round(ns / 1e9, 3) for ns in stops],
        **word_figures(everything, language),
        "asked_to_repeat": len(talk.of("unclear")),
        "duplicates": {
            "segment_ids": len(finals) - len(set(finals)) + len(records) - len(set(records)),
            "joins": sum(repeated_at_joins(each, language) for each in groups),
        },
        "lost": len(lost),
        "lost_reasons": _counted(data.get("lost") or data.get("reason") for data in lost),
        "cpu_s_per_audio_s": rounded(talk.cpu_s / speech_s),
        "cpu_s_per_line_s": rounded(talk.cpu_s / lines[0].seconds),
        **translation_figures(talk, by_side),
        "speech_service": talk.speech,
    }


def translation_figures(talk: Talk, by_side: dict[str, Line]) -> dict[str, Any]:
    """StreamLAAL of the translation's text and of its sound, and how late each piece was heard after its source."""
    lags = [lag_s for side in by_side for _, lag_s in clause_lags_s(emissions_of(talk, side))]
    return {**laal_figures(talk, by_side), "lag": spread(lags)}


def laal_figures(talk: Talk, by_side: dict[str, Line]) -> dict[str, Any]:
    """StreamLAAL of the translation's text and of its sound, in seconds: the mean over the utterances."""
    text: list[float] = []
    sound: list[float] = []
    for side, line in by_side.items():
        emitted = emissions_of(talk, side)
        for placed in line.placed:
            mine = [one for one in emitted if _belongs(one, placed)]
            for kind, into in (("text_s", text), ("heard_s", sound)):
                delays = [
                    at - placed.first_s
                    for one in mine
                    if (at := getattr(one, kind)) is not None
                    for _ in range(one.words)
                ]
                lagging = stream_laal_s(sorted(delays), placed.end_s - placed.first_s)
                if lagging is not None:
                    into.append(lagging)
    return {
        "stream_laal_text_s": rounded(_mean(text)),
        "stream_laal_sound_s": rounded(_mean(sound)),
        "stream_laal_utterances": len(text),
    }


def clause_lags_s(emitted: Sequence[Emission]) -> list[tuple[float, float]]:
    """(when it was heard, how long its source had ended by then) of each piece; of joined ones the first's end."""
    return [(one.heard_s, one.heard_s - one.ended_s) for one in emitted if one.heard_s is not None]


def first_previews_s(talk: Talk, by_side: dict[str, Line]) -> list[float]:
    """From an utterance's first loud sample to the first preview while it is the latest one begun."""
    delays = []
    for side, line in by_side.items():
        shown = [_preview_s(talk, one.at_s, one.data) for one in talk.of(PREVIEW, side) if one.data.get("text")]
        begins = [placed.first_s for placed in line.placed]
        for begin, until in zip(begins, [*begins[1:], float("inf")], strict=True):
            first = min((at for at in shown if begin <= at < until), default=None)
            if first is not None:
                delays.append(first - begin)
    return delays


def heard_delays_s(talk: Talk, by_side: dict[str, Line]) -> list[float]:
    """audio_end of an utterance → first sound of its translation's last piece, as the gateway itself stamps it."""
    delays = []
    for side, line in by_side.items():
        emitted = emissions_of(talk, side)
        for placed in line.placed:
            heard = [one.heard_s for one in emitted if one.heard_s is not None and _belongs(one, placed)]
            if heard:
                delays.append(max(heard) - placed.end_s)
    return delays


def event_lines(talk: Talk) -> list[dict[str, Any]]:
    """The event log: previews, finals and the end, each ``{"t", "kind", "text"}``, by time."""
    lines = [
        *(("partial", _preview_s(talk, one.at_s, one.data), one.data.get("text", "")) for one in talk.of(PREVIEW)),
        *(("final", one.at_s, one.data["text"]) for one in talk.of("heard")),
    ]
    lines.append(("end", max([at for _, at, _ in lines], default=0.0), ""))
    ranked = sorted(lines, key=lambda line: line[1])  # stable: the end stays last
    return [{"t": round(at, 3), "kind": kind, "text": text} for kind, at, text in ranked]


def write_events(path: Path, talk: Talk) -> None:
    """Write the event log as JSON lines. It holds what was said."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in event_lines(talk))


# --- small parts --------------------------------------------------------------------------------------------------


def _preview_s(talk: Talk, told_s: float, data: dict[str, Any]) -> float:
    return talk.seconds(data["at_ns"]) if data.get("at_ns") else told_s


def _belongs(one: Emission, placed: Placed) -> bool:
    """The middle of the source span lies in the utterance, or in the half second that is kept behind it."""
    middle = (one.first_sample + one.end_sample) // 2
    return placed.first_sample <= middle <= placed.last_sample + RATE_HZ // 2


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _counted(reasons: Iterable[str | None]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reason in reasons:
        if reason:
            counts[reason] = counts.get(reason, 0) + 1
    return counts
