# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench ear``: real calls, measured at the ear, beside a plain pipeline in the same run.

The plain pipeline is the usual one: end of speech after 500 ms of silence, faster-whisper with its defaults (30 s
window, greedy) on the whole utterance, then the same translator, then the same voice on the whole text. It runs in
the same gateway with other settings, so that telephones, SIP, RTP and play-out are the same. The conversation is cut
into blocks; each block is held once with each pipeline before the next one, so that both see the machine in the same
minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gateway.bench.conversation import Conversation, b_ports, converse, route, voice
from gateway.bench.demo import Say
from gateway.bench.dialogue import VoicedScript, load_script
from gateway.bench.ear import Heard
from gateway.bench.gateway_process import GatewayProcess
from gateway.bench.phone_process import PhoneError
from gateway.bench.records import SegmentRecord, Spoken
from gateway.settings import Loaded
from gateway.text.normal import errors

BLOCK_TURNS = 6
OURS: Mapping[str, str] = {"GATEWAY__CALL__DISCLOSURE": "false"}
PLAIN: Mapping[str, str] = {
    **OURS,
    "GATEWAY__ENDPOINT__END_MS": "500",
    "GATEWAY__ENDPOINT__PREPARE_MS": "0",
    "GATEWAY__SPEECH__PREVIEWS": "false",
    "GATEWAY__SPEECH__REPEAT_BELOW": "0",
    "GATEWAY__SPEECH__FIRST_SOUND_MS": "0",
}


def plain_recognizer(recognizer: str) -> str:
    """The same model with the plain engine."""
    return f"faster_whisper:{recognizer.partition(':')[2]}"


@dataclass(slots=True)
class Tally:
    """What one pipeline did, over all its calls."""

    heard: list[Heard] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    """A line for each utterance that was heard, JSON-ready: what was said, and where its time went."""
    unheard: list[str] = field(default_factory=list)
    edits: dict[str, int] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    duplicates: int = 0
    failed_calls: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    audio_s: float = 0.0

    def add(self, held: Conversation) -> None:
        """Take one call in."""
        self.heard += held.ear.heard
        self.lines += utterance_lines(held)
        self.unheard += [f"{one.name}: {one.reason}" for one in held.ear.unheard]
        self.lost += held.ear.lost_segments
        self.duplicates += held.ear.duplicate_segments
        self.audio_s += sum(turn.duration_ms for turn in held.voiced.turns) / 1000
        for said in held.outcome.spoken:
            edits, words = errors(said.text, recognised(said, held.records), said.language)
            self.edits[said.language] = self.edits.get(said.language, 0) + edits
            self.words[said.language] = self.words.get(said.language, 0) + words

    def wer(self, language: str | None = None) -> float | None:
        """Word error rate, of all languages together or of one."""
        chosen = [language] if language else list(self.words)
        words = sum(self.words.get(each, 0) for each in chosen)
        return sum(self.edits.get(each, 0) for each in chosen) / words if words else None

    def figures(self) -> dict[str, Any]:
        """The figures of this pipeline, JSON-ready, in seconds."""
        by_direction = {
            name.replace(">", "-"): _spread([one for one in self.heard if one.direction == name])
            for name in sorted({one.direction for one in self.heard})
        }
        overall = _spread(self.heard)
        return {
            "ear_latency_p50_s": overall["p50_s"],
            "ear_latency_p95_s": overall["p95_s"],
            "ear_latency_sigma_s": overall["sigma_s"],
            "ear_latency_mean_s": overall["mean_s"],
            "utterances": overall["count"],
            "by_direction": by_direction,
            "stages": stage_means(self.heard),
            "wer": _rounded(self.wer()),
            "wer_by_language": {language: _rounded(self.wer(language)) for language in sorted(self.words)},
            "cpu_s_per_audio_s": _rounded(self.cpu_s / self.audio_s) if self.audio_s else None,
            "lost_segments": self.lost,
            "duplicate_segments": self.duplicates,
            "unheard": self.unheard,
            "failed_calls": self.failed_calls,
        }


def recognised(said: Spoken, records: Iterable[SegmentRecord]) -> str:
    """What the gateway understood of one turn: the texts of the segments whose middle lies in it."""
    texts = []
    for record in sorted(records, key=lambda each: each.audio_first_ns):
        middle_ns = (record.audio_first_ns + record.audio_end_ns) // 2
        if record.leg == said.leg and said.first_ns - 500_000_000 <= middle_ns <= said.last_ns + 500_000_000:
            texts.append(record.source_text)
    return " ".join(texts)


def utterance_lines(held: Conversation) -> Iterable[dict[str, Any]]:
    """What a call's utterances said, and where the time went behind each."""
    texts = {record["segment_id"]: record for record in held.utterances}
    for one in held.ear.heard:
        record = texts[one.segment_id]
        yield {
            "call": record["call"],
            "segment_id": one.segment_id,
            "direction": one.direction.replace(">", "-"),
            "ear_latency_s": round(one.ear_ns / 1e9, 4),
            "stages_s": {name: round(ns / 1e9, 4) for name, ns in one.stages_ns.items()},
            "begun_ahead": record["begun_ahead"],
            "masked": one.masked,
            "source_text": record["source_text"],
            "target_text": record["target_text"],
        }


def stage_means(heard: Sequence[Heard]) -> dict[str, float]:
    """Mean of each stage in seconds; they sum to the mean ear latency, because each utterance's own do."""
    names = list(dict.fromkeys(name for one in heard for name in one.stages_ns))
    return {name: round(sum(one.stages_ns.get(name, 0) for one in heard) / len(heard) / 1e9, 4) for name in names}


def _spread(heard: Sequence[Heard]) -> dict[str, Any]:
    seconds = [one.ear_ns / 1e9 for one in heard]
    if not seconds:
        return {"count": 0, "p50_s": None, "p95_s": None, "sigma_s": None, "mean_s": None}
    return {
        "count": len(seconds),
        "p50_s": round(float(np.percentile(seconds, 50)), 3),
        "p95_s": round(float(np.percentile(seconds, 95)), 3),
        "sigma_s": round(statistics.stdev(seconds), 3) if len(seconds) > 1 else 0.0,
        "mean_s": round(statistics.fmean(seconds), 4),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def blocks(voiced: VoicedScript, most_turns: int | None) -> list[VoicedScript]:
    """The script in pieces of `BLOCK_TURNS`, each a conversation of its own."""
    turns = voiced.turns[:most_turns]
    pieces = [turns[at : at + BLOCK_TURNS] for at in range(0, len(turns), BLOCK_TURNS)]
    return [
        VoicedScript(replace(voiced.script, turns=tuple(one.turn for one in piece)), tuple(piece)) for piece in pieces
    ]


async def bench_ear(
    loaded: Loaded,
    out: Path,
    *,
    calls: int,
    script: str,
    turns: int | None,
    plain: bool,
    config: Path | None,
    say: Say,
) -> dict[str, Any]:
    """Hold ``calls`` simultaneous conversations, block by block, with our pipeline and the plain one."""
    chosen = load_script(script)
    voiced = await voice(chosen, loaded, out / "script", say)
    pieces = blocks(voiced, turns)
    ports = b_ports(calls)
    plain_environ = {**PLAIN, "GATEWAY__SPEECH__RECOGNIZER": plain_recognizer(loaded.settings.speech.recognizer)}
    pipelines = {"ours": OURS, **({"plain": plain_environ} if plain else {})}
    routes = [route(chosen, port, _number(index)) for index, port in enumerate(ports)]
    tallies = {name: Tally() for name in pipelines}
    async with contextlib.AsyncExitStack() as stack:
        gateways = {}
        for name, environ in pipelines.items():
            say(f"starting the {name} pipeline")
            gateways[name] = await stack.enter_async_context(
                GatewayProcess(out / name, routes=routes, config=config, environ=environ)
            )
        for index, piece in enumerate(pieces):
            for name, gateway in gateways.items():
                say(f"block {index + 1} of {len(pieces)}, {name}: {calls} call{'s' if calls > 1 else ''}")
                await _block(gateway, piece, out / name / f"block-{index + 1}", ports, tallies[name])
    for name, tally in tallies.items():
        told = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in tally.lines)
        (out / name / "utterances.jsonl").write_text(told, encoding="utf-8")
    report: dict[str, Any] = {"calls": calls, **tallies["ours"].figures()}
    if plain:
        report["plain"] = tallies["plain"].figures()
        report["ratio"] = ratios(report["by_direction"], report["plain"]["by_direction"])
    return report


async def _block(
    gateway: GatewayProcess, piece: VoicedScript, directory: Path, ports: Sequence[int], tally: Tally
) -> None:
    """One block, on all calls at once."""
    cpu_before_s = gateway.cpu_s()
    outcomes = await asyncio.gather(
        *(
            converse(gateway, piece, directory / _number(index), b_port=port, number=_number(index))
            for index, port in enumerate(ports)
        ),
        return_exceptions=True,
    )
    tally.cpu_s += gateway.cpu_s() - cpu_before_s
    for outcome in outcomes:
        if isinstance(outcome, Conversation):
            tally.add(outcome)
        elif isinstance(outcome, PhoneError | TimeoutError):
            tally.failed_calls.append(str(outcome) or type(outcome).__name__)
        else:
            raise outcome


def ratios(ours: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, float]:
    """Median of ours over median of the plain pipeline, by direction."""
    return {
        name: round(ours[name]["p50_s"] / plain[name]["p50_s"], 3)
        for name in ours
        if name in plain and plain[name]["p50_s"]
    }


def _number(index: int) -> str:
    return f"70{index + 1:02d}"
