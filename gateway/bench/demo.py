# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo: one interpreted call between two simulated telephones, and everything it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gateway.bench.capture import Capture
from gateway.bench.checks import Check
from gateway.bench.conversation import Conversation, b_ports, converse, route, voice
from gateway.bench.dialogue import load_script
from gateway.bench.ear import Heard
from gateway.bench.gateway_process import GatewayProcess
from gateway.bench.records import SegmentRecord
from gateway.bench.report import render
from gateway.bench.tracks import write_tracks
from gateway.call.captions import cues, webvtt
from gateway.settings import Loaded

Say = Callable[[str], None]
Shown = Callable[[dict[str, Any]], None]


async def run_demo(
    loaded: Loaded, out: Path, *, script: str = "demo", config: Path | None, say: Say, shown: Shown
) -> dict[str, Any]:
    """Run the demo and write its artifacts into ``out``; the answer is the JSON object of ``gateway demo --json``."""
    chosen = load_script(script)
    voiced = await voice(chosen, loaded, out / "script", say)
    (b_port,) = b_ports(1)
    say("starting the gateway: embedded Redis, speech workers, SIP")
    async with GatewayProcess(out / "gateway", routes=[route(chosen, b_port)], config=config) as gateway:
        say(f"two telephones are talking, about {3 * voiced.speech_s:.0f} s")
        held = await converse(gateway, voiced, out / "phones", b_port=b_port, shown=shown)
    artifacts = write_artifacts(held, out, title=f"Interpreted call: {chosen.name}")
    return {**figures(held), "artifacts": artifacts}


def figures(held: Conversation) -> dict[str, Any]:
    """Utterances and figures; times in seconds since telephone A dialled."""
    start_ns = held.outcome.dialled_ns
    heard = {one.segment_id: one for one in held.ear.heard}
    overall = held.ear.overall
    directions = held.ended["directions"]
    return {
        "utterances": [_utterance(record, heard.get(record.segment_id), start_ns) for record in held.records],
        "unheard": [{"name": one.name, "leg": one.leg, "reason": one.reason} for one in held.ear.unheard],
        "ear_latency_p50_s": round(overall.p50_ms / 1000, 3) if overall else None,
        "ear_latency_p95_s": round(overall.p95_ms / 1000, 3) if overall else None,
        "ear_latency_sigma_s": round(overall.sigma_ms / 1000, 3) if overall else None,
        "by_direction": {
            name.replace(">", "-"): {"p50_s": round(one.p50_ms / 1000, 3), "p95_s": round(one.p95_ms / 1000, 3)}
            for name, one in held.ear.by_direction.items()
        },
        "lost_segments": held.ear.lost_segments,
        "duplicate_segments": held.ear.duplicate_segments,
        "egress_pps": {leg: round(pps, 3) for leg, pps in held.ear.egress_pps.items()},
        "drift": {name: each["ear"]["drift"] for name, each in directions.items()},
        "result": held.ended["result"],
        "reason": held.ended["reason"],
    }


def _utterance(record: SegmentRecord, heard: Heard | None, start_ns: int) -> dict[str, Any]:
    return {
        "segment_id": record.segment_id,
        "leg": record.leg,
        "source_lang": record.source_lang,
        "target_lang": record.target_lang,
        "source_text": record.source_text,
        "target_text": record.target_text,
        "speech_end_s": _seconds(heard.speech_end_ns - start_ns) if heard else None,
        "first_audio_s": _seconds(heard.first_audio_ns - start_ns) if heard else None,
        "ear_latency_s": _seconds(heard.ear_ns) if heard else None,
        "stages": {name: _seconds(ns) for name, ns in heard.stages_ns.items()} if heard else {},
        "lost": record.lost,
    }


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 4)


def write_artifacts(held: Conversation, out: Path, *, title: str, checks: tuple[Check, ...] = ()) -> dict[str, str]:
    """Tracks, transcripts, latency table and report; the paths by name."""
    start_ns, end_ns = held.outcome.dialled_ns, held.outcome.ended_ns
    captures: Mapping[str, Capture] = held.outcome.captures
    files = {"tracks": out / "tracks.wav", "report": out / "report.html", "latency": out / "latency.json"}
    write_tracks(files["tracks"], captures, start_ns, end_ns)
    for language in held.voiced.script.languages.values():
        files[f"transcript_{language}"] = out / f"transcript.{language}.vtt"
        text = webvtt(cues(held.records, language, start_ns), language=language)
        files[f"transcript_{language}"].write_text(text, encoding="utf-8")
    files["latency"].write_text(json.dumps(held.ear.as_json(), indent=1), encoding="utf-8")
    page = render(
        title,
        captures=captures,
        records=held.records,
        ear=held.ear,
        start_ns=start_ns,
        end_ns=end_ns,
        checks=checks,
    )
    files["report"].write_text(page, encoding="utf-8")
    return {name: str(path) for name, path in files.items()}
