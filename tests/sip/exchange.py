# SPDX-License-Identifier: GPL-3.0-or-later
"""Real calls between two real legs, with speech engines that are scripted: what signalling does to a call.

Run as ``python -m tests.sip.exchange JSON`` and driven like agent.py. Every utterance is understood as one greeting of
its language, and its translation is a second of a tone whose pitch tells the language: so a test hears which leg was
spoken to. With ``prompts`` the gateway's own words are short tones of another pitch for each language.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from gateway.call.desk import Booth, CallLimits, Desk
from gateway.call.dialplan import DialPlan, Route
from gateway.call.events import EventBus
from gateway.call.glossary import Glossaries
from gateway.call.menu_plan import parse_menu
from gateway.call.prompts import PromptBook, load_prompt_texts, shipped_prompts
from gateway.call.switchboard import Switchboard
from gateway.call.transfer import Wanted
from gateway.sip.access import Trunk
from gateway.sip.agent import SipUserAgent
from gateway.sip.events import SipEvent
from gateway.sip.registration import Registration
from gateway.sip.settings import SipSettings
from gateway.speech.jobs import Recognition, RecognizeTask, Result, Speech, SynthesizeTask, Task
from gateway.stream.plan import EndpointPlan
from tests.call.scripted import ScriptedSpeech, say_what_was_asked

SAID = {"en": "good morning", "pt": "uma boa tarde"}
SPOKEN_HZ = {"en": 700, "pt": 1100}
PROMPT_HZ = {"en": 500, "pt": 1500}
PROMPT_S = 0.3
RATE_HZ = 8000


def tone(hz: float, seconds: float) -> NDArray[np.int16]:
    return (np.sin(2 * np.pi * hz * np.arange(round(RATE_HZ * seconds)) / RATE_HZ) * 8000).astype(np.int16)


def answer(task: Task) -> Result:
    if isinstance(task, RecognizeTask):
        return Recognition(SAID[task.language or "en"], task.language or "en", 0.9)
    if not isinstance(task, SynthesizeTask):
        return say_what_was_asked(task)
    return Speech(tone(SPOKEN_HZ[task.language], 1.0).tobytes(), RATE_HZ, "tone")


def tones() -> dict[tuple[str, str], NDArray[np.int16]]:
    """All that the gateway says itself, as tones."""
    names = load_prompt_texts(shipped_prompts(), ())
    return {(each, name): tone(hz, PROMPT_S) for each, hz in PROMPT_HZ.items() for name in names[each]}


def route(given: dict[str, Any]) -> Route:
    menu = given.pop("menu", None)
    return Route(**given, menu=parse_menu(menu, "menu", []) if menu else None)


@dataclass(frozen=True)
class Nothing:
    """Terms that were never set."""

    version: int = 0
    data: dict[str, Any] = field(default_factory=dict)


class Nowhere:
    """A register and a source of terms that keep nothing."""

    def put_call(self, call_id: str, record: Any) -> None:
        return None

    def end_call(self, call_id: str) -> None:
        return None

    def terms(self, scope: str) -> Nothing:
        return Nothing()


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()


async def main() -> int:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    options = json.loads(sys.argv[1])
    given = options.get("settings", {})
    given["trunks"] = tuple(
        Trunk(**trunk | {key: tuple(trunk.get(key, ())) for key in ("networks", "addresses")})
        for trunk in given.get("trunks", [])
    )
    for key in ("codecs", "transports"):
        if key in given:
            given[key] = tuple(given[key])
    given["registrations"] = tuple(
        Registration(**each | {"registrars": tuple(each["registrars"])}) for each in given.get("registrations", [])
    )
    plan = DialPlan(tuple(route(each) for each in options["routes"]))
    board = Switchboard(plan)
    loop = asyncio.get_running_loop()

    def from_sip(event: SipEvent) -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(board.on_sip, event)

    agent = SipUserAgent(SipSettings(**given), from_sip)
    await asyncio.to_thread(agent.start)
    board.connect(agent)
    rate_hz = given.get("media_rate_hz", 8000)
    bus, nowhere = EventBus(), Nowhere()
    speech = ScriptedSpeech(answer)
    desk = Desk(
        booth=Booth(
            speech=speech,
            prompts=PromptBook(
                {},
                {},
                rate_hz=rate_hz,
                cache=Path("/nonexistent"),
                recorded=tones() if options.get("prompts") else None,
            ),
            endpoint=EndpointPlan(rate_hz=rate_hz),
            previews=False,
        ),
        user_agent=agent,
        register=nowhere,
        bus=bus,
        glossaries=Glossaries(nowhere),
        limits=CallLimits(**options.get("limits", {})),
        leads_to=plan.leads_to,
        controls=frozenset(options.get("controls", "")),
        pass_digits=options.get("pass_digits", False),
        disclosure=False,
    )
    board.open(desk, frozenset({("en", "pt"), ("pt", "en")}))
    events = bus.subscribe()

    async def tell() -> None:
        async for event in events:
            say(event=event.kind, **{"call": event.call, **event.data})

    telling = asyncio.create_task(tell())
    say(ready=agent.bound_port)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        if command["do"] == "stop":
            break
        if command["do"] == "transfer":  # as the control API does
            call = board.live(command["call"])
            assert call is not None
            stays = call.a if command["party"] == "a" else call.b
            if command["interpreted"]:
                leaves = call.other(stays)
                board.transfer(call, leaves, Wanted(command["to"], command.get("language", leaves.language)))
            else:
                call.handovers.begin(stays, command["to"])
        if command["do"] == "statistics":
            say(statistics=agent.statistics() | {"switchboard": board.statistics()})
    await board.stop()
    await asyncio.to_thread(agent.stop)
    telling.cancel()
    say(stopped=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
