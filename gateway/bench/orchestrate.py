# SPDX-License-Identifier: GPL-3.0-or-later
"""Lead two telephones through a scripted conversation over a gateway, and bring home what both heard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.bench.capture import Capture
from gateway.bench.dialogue import VoicedScript, VoicedTurn
from gateway.bench.phone_process import PhoneError, PhoneProcess
from gateway.bench.records import Spoken

_DIRECT_SOUND_NS = 400_000_000
"""The ducked original ends this soon behind the talker; what sounds later is the translation."""

Told = Callable[[str, Mapping[str, Any]], None]
"""Called with a name and its facts as the conversation goes: ``established``, ``spoken``, ``heard``, ``unheard``,
``ended``."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """One conversation. Several can run at once when their ports differ; port 0 takes a free one.

    ``gateway_uri`` is what telephone A dials; the gateway must then dial telephone B at ``sip:b@host:b_port``.
    """

    gateway_uri: str
    b_port: int
    voiced: VoicedScript
    directory: Path
    host: str = "127.0.0.1"
    a_port: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    quiet_ms: int = 700
    """Silence at the listener that ends a translation; above the pause between two clauses."""
    least_sound_ms: int = 200
    """Shorter sounds at the listener are cues, not translations."""
    connect_s: float = 30.0
    opening_s: float = 2.0
    """The least time left to announcements before the first turn; while they sound, it waits longer."""
    opening_limit_s: float = 20.0
    turn_limit_s: float = 20.0
    """How long a translation may take to be over before the conversation goes on without it."""
    closing_s: float = 3.0
    """Behind the last turn of a timed script: the least time until it is quiet and the call is ended."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A finished conversation: what was said, what both heard. ``unheard`` are turns whose translation was not over
    in time."""

    captures: Mapping[str, Capture]
    spoken: tuple[Spoken, ...]
    unheard: tuple[str, ...]
    dialled_ns: int
    established_ns: int
    """When both telephones were in the call."""
    ended_ns: int
    endings: Mapping[str, tuple[int, str]]
    """SIP's last word at each telephone."""


async def run_dialogue(plan: CallPlan, told: Told | None = None) -> CallOutcome:
    """Call, talk, hang up. The telephones are gone when this returns or raises.

    Raises:
        PhoneError: the call did not come about, or ended before the script.
    """
    tell = told or (lambda name, facts: None)
    async with (
        PhoneProcess(user="b", host=plan.host, sip_port=plan.b_port, answer_after_ms=200, quiet_ms=plan.quiet_ms) as b,
        PhoneProcess(user="a", host=plan.host, sip_port=plan.a_port, quiet_ms=plan.quiet_ms) as a,
    ):
        phones = {"a": a, "b": b}
        dialled_ns = time.monotonic_ns()
        a.send("call", uri=plan.gateway_uri, headers=dict(plan.headers))
        stamps = await asyncio.gather(*(_established(phone, plan.connect_s) for phone in phones.values()))
        established_ns = max(stamps)
        tell("established", {"after_ms": (established_ns - dialled_ns) / 1e6})
        await _until_quiet(phones, plan.opening_s, plan.opening_limit_s)
        if plan.voiced.script.pace == "timed":
            spoken, unheard = await _talk_timed(plan, phones, tell)
        else:
            spoken, unheard = await _talk_in_turns(plan, phones, tell)
        a.send("hangup")
        ended = dict(zip(phones, await asyncio.gather(*(_ended(phone) for phone in phones.values())), strict=True))
        tell("ended", {leg: event["code"] for leg, event in ended.items()})
        plan.directory.mkdir(parents=True, exist_ok=True)
        captures = {leg: await phone.capture(plan.directory / f"phone-{leg}.npz") for leg, phone in phones.items()}
        return CallOutcome(
            captures=captures,
            spoken=spoken,
            unheard=unheard,
            dialled_ns=dialled_ns,
            established_ns=established_ns,
            ended_ns=max(event["at_ns"] for event in ended.values()),
            endings={leg: (event["code"], event["phrase"]) for leg, event in ended.items()},
        )


async def run_dialogues(plans: Sequence[CallPlan], told: Told | None = None) -> list[CallOutcome | PhoneError]:
    """Several conversations at once; one that fails does not end the others."""
    outcomes = await asyncio.gather(*(run_dialogue(plan, told) for plan in plans), return_exceptions=True)
    kept: list[CallOutcome | PhoneError] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, PhoneError):
            raise outcome
        kept.append(outcome)
    return kept


async def _talk_in_turns(
    plan: CallPlan, phones: Mapping[str, PhoneProcess], tell: Told
) -> tuple[tuple[Spoken, ...], tuple[str, ...]]:
    """Each turn waits until the translation of the one before has been heard, or for the limit."""
    spoken, unheard = [], []
    for voiced in plan.voiced.turns:
        turn = voiced.turn
        listener = phones["b" if turn.speaker == "a" else "a"]
        await asyncio.sleep(turn.pause_ms / 1000)
        since = listener.position
        said = await _say(phones[turn.speaker], voiced, at_ns=0)
        spoken.append(said)
        tell("spoken", {"turn": turn.turn_id, "text": turn.text})
        translated = _translation_over(said.last_ns + _DIRECT_SOUND_NS, plan.least_sound_ms * 1_000_000)
        try:
            heard = await listener.wait(
                "sound_ended", "ended", timeout_s=plan.turn_limit_s, since=since, such_that=translated
            )
        except PhoneError:
            unheard.append(turn.turn_id)
            tell("unheard", {"turn": turn.turn_id})
            continue
        if heard["event"] == "ended":
            raise PhoneError(f"the call ended with {heard['code']} {heard['phrase']} behind turn {turn.turn_id}")
        tell("heard", {"turn": turn.turn_id, "until_ms": (heard["last_ns"] - said.last_ns) / 1e6})
    return tuple(spoken), tuple(unheard)


async def _talk_timed(
    plan: CallPlan, phones: Mapping[str, PhoneProcess], tell: Told
) -> tuple[tuple[Spoken, ...], tuple[str, ...]]:
    """The script's pauses are kept by the clock, whatever the interpreter does."""
    spoken: list[Spoken] = []
    free_ns = time.monotonic_ns()
    for voiced in plan.voiced.turns:
        spoken.append(await _say(phones[voiced.turn.speaker], voiced, free_ns + voiced.turn.pause_ms * 1_000_000))
        free_ns = spoken[-1].last_ns + 20_000_000  # a packet holds 20 ms from its departure on
        tell("spoken", {"turn": voiced.turn.turn_id, "text": voiced.turn.text})
    await _until_quiet(phones, plan.closing_s, plan.turn_limit_s)
    return tuple(spoken), ()


async def _say(phone: PhoneProcess, voiced: VoicedTurn, at_ns: int) -> Spoken:
    turn = voiced.turn
    since = phone.position
    phone.send("play", file=str(voiced.path), id=turn.turn_id, at_ns=at_ns)
    limit_s = voiced.duration_ms / 1000 + 10 + max(0, at_ns - time.monotonic_ns()) / 1e9
    done = await phone.wait(
        "played",
        "ended",
        timeout_s=limit_s,
        since=since,
        such_that=lambda event: event["event"] == "ended" or event["id"] == turn.turn_id,
    )
    if done["event"] == "ended":
        raise PhoneError(f"the call ended with {done['code']} {done['phrase']} in turn {turn.turn_id}")
    return Spoken(turn.turn_id, turn.speaker, turn.language, turn.text, done["first_ns"], done["last_ns"])


async def _established(phone: PhoneProcess, limit_s: float) -> int:
    event = await phone.wait("established", "ended", timeout_s=limit_s)
    if event["event"] == "ended":
        raise PhoneError(f"the call was refused with {event['code']} {event['phrase']}")
    return int(event["at_ns"])


async def _ended(phone: PhoneProcess) -> Mapping[str, Any]:
    return await phone.wait("ended", timeout_s=10)


async def _until_quiet(phones: Mapping[str, PhoneProcess], least_s: float, most_s: float) -> None:
    """Let ``least_s`` pass, then go on as soon as neither telephone hears anything, or after ``most_s``."""
    begin = time.monotonic()
    while True:
        passed_s = time.monotonic() - begin
        sounding = any(_is_sounding(phone) for phone in phones.values())
        if passed_s >= most_s or (passed_s >= least_s and not sounding):
            return
        await asyncio.sleep(0.05)


def _is_sounding(phone: PhoneProcess) -> bool:
    return len(phone.find("sound_started")) > len(phone.find("sound_ended"))


def _translation_over(behind_ns: int, least_ns: int) -> Callable[[Mapping[str, Any]], bool]:
    def over(event: Mapping[str, Any]) -> bool:
        if event["event"] == "ended":
            return True
        return int(event["last_ns"]) > behind_ns and int(event["last_ns"]) - int(event["first_ns"]) >= least_ns

    return over
