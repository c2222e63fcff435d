# SPDX-License-Identifier: GPL-3.0-or-later
"""One scripted conversation through a gateway of its own, from the script to the figures.

The demo shows one of them, the ear bench compares several: this is what both share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gateway.bench.dialogue import PROMPTS, Script, VoicedScript, voice_script
from gateway.bench.ear import EarReport, measure
from gateway.bench.gateway_process import GatewayProcess, free_port
from gateway.bench.orchestrate import CallOutcome, CallPlan, Told, run_dialogue
from gateway.bench.records import SegmentRecord
from gateway.call.party import LEG_RATE_HZ
from gateway.call.prompts import PromptBook
from gateway.runtime import prompt_cache, speech_service
from gateway.settings import Loaded
from gateway.speech.jobs import Speech

NUMBER = "7001"
RECORDS_S = 15.0  # from the last BYE to the gateway's last record
WATCH_S = 0.1
CLOSING_S = 8.0  # a busy machine may take that long to begin the last translation of a timed script

Shown = Callable[[dict[str, Any]], None]
"""Called with each event of the gateway as it happens."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What came of one call."""

    voiced: VoicedScript
    outcome: CallOutcome
    records: tuple[SegmentRecord, ...]
    utterances: tuple[Mapping[str, Any], ...]
    """The gateway's full records, as it published them."""
    ended: Mapping[str, Any]
    """The call's detail record."""
    ear: EarReport


async def voice(script: Script, loaded: Loaded, directory: Path, say: Callable[[str], None]) -> VoicedScript:
    """The script as sound files: recordings where there are some, else the gateway's own voices, kept for next time."""
    texts: dict[str, dict[str, str]] = {}
    for turn in script.turns:
        if turn.prompt is None or not (PROMPTS / f"{turn.prompt}.wav").is_file():
            texts.setdefault(turn.language, {})[turn.turn_id] = turn.text
    voices = dict(loaded.settings.speech.voices)
    book = PromptBook(texts, voices, rate_hz=LEG_RATE_HZ, cache=prompt_cache().parent / "voiced")
    if absent := await book.missing():
        say(f"synthesizing {len(absent)} turns of the script")
        async with speech_service(loaded) as speech:
            await book.load(speech)
    by_text = {(language, text): turn for language, turns in texts.items() for turn, text in turns.items()}

    def spoken(text: str, language: str) -> Speech:
        clip = book.clip(language, by_text[language, text])
        return Speech(np.ascontiguousarray(clip).tobytes(), LEG_RATE_HZ, "")

    return await asyncio.to_thread(voice_script, script, directory, spoken)


def route(script: Script, b_port: int, number: str = NUMBER) -> dict[str, Any]:
    """The dial plan's line that connects telephone A with telephone B in the script's languages."""
    return {
        "number": number,
        "from": script.languages["a"],
        "to": script.languages["b"],
        "destination": f"sip:b@127.0.0.1:{b_port}",
    }


async def converse(
    gateway: GatewayProcess,
    voiced: VoicedScript,
    directory: Path,
    *,
    b_port: int,
    number: str = NUMBER,
    told: Told | None = None,
    shown: Shown | None = None,
) -> Conversation:
    """Hold the conversation over a gateway that runs; PhoneError when the call did not come about or broke off."""
    before = {event["call"] for event in gateway.events if event["kind"] == "call-started"}
    plan = CallPlan(
        gateway_uri=gateway.uri(number), b_port=b_port, voiced=voiced, directory=directory, closing_s=CLOSING_S
    )
    watching = asyncio.create_task(_watch(gateway, shown))
    try:
        outcome = await run_dialogue(plan, told)
        call = await _call_of(gateway, before, outcome)
        ended = await gateway.wait_for("call-ended", timeout_s=RECORDS_S, call=call)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    utterances = tuple(e for e in gateway.events if e["kind"] == "utterance" and e["call"] == call)
    records = tuple(SegmentRecord.from_json(each) for each in utterances)
    references = [turn.turn.text for turn in voiced.turns]
    unclear = [(e["leg"], e["at_ns"]) for e in gateway.events if e["kind"] == "unclear" and e["call"] == call]
    ear = measure(records, outcome.captures, outcome.spoken, references=references, unclear=unclear)
    return Conversation(voiced, outcome, records, utterances, ended, ear)


async def _call_of(gateway: GatewayProcess, before: set[str], outcome: CallOutcome) -> str:
    """Which of the gateway's calls this was: calls run side by side are told apart by when they began."""
    gateway.read_events()
    started = [e for e in gateway.events if e["kind"] == "call-started" and e["call"] not in before]
    mine = min(started, key=lambda event: abs(event["at_ns"] - outcome.dialled_ns))
    return str(mine["call"])


async def _watch(gateway: GatewayProcess, shown: Shown | None) -> None:
    seen = len(gateway.events)
    while True:
        gateway.read_events()
        for event in gateway.events[seen:]:
            if shown is not None:
                shown(event)
        seen = len(gateway.events)
        await asyncio.sleep(WATCH_S)


def b_ports(count: int) -> list[int]:
    """Free ports for the called telephones."""
    ports: list[int] = []
    while len(ports) < count:
        port = free_port()
        if port not in ports:
            ports.append(port)
    return ports
