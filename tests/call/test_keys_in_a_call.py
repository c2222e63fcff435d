# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys in a whole call: the menu leads to the right leg, and controls act on both directions (SPEC A2, A6, S1.18)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.audio.frames import Frame
from gateway.audio.original import Ducking
from gateway.call import termination
from gateway.call.bridge import Call
from gateway.call.dialplan import DialPlan, Route
from gateway.call.menu import MENU_PROMPTS
from gateway.call.menu_plan import DialRule, MenuPlan
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import PromptBook
from gateway.call.states import CallPhase, LegState
from gateway.sip.events import Answered, Digit, Ended
from gateway.speech.jobs import Speech
from tests.call.scripted import settle, until
from tests.call.scripted_exchange import Exchange

pytestmark = pytest.mark.unit

CONTROL_PROMPTS = (
    "control-help",
    "control-paused",
    "control-resumed",
    "control-original-on",
    "control-original-off",
    "control-slower",
    "control-faster",
    "control-normal",
    "control-swapped",
    "control-unknown",
    "control-nothing",
)
MENU = MenuPlan(("xx", "yy"), (DialRule("sip:{number}@host", prefix="2"),))
PLAN = DialPlan(
    (
        Route("direct", "xx", "yy", "sip:b@host", number="1"),
        Route("menu", "xx", "yy", "", number="0", menu=MENU),
    )
)


def book() -> PromptBook:
    """Prompts of 40 ms each, so that play-out is soon done."""
    clip = np.full(320, 3000, np.int16)
    spoken = {(language, name): clip for language in ("xx", "yy") for name in (*MENU_PROMPTS, *CONTROL_PROMPTS)}
    return PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent"), recorded=spoken)


def exchange(**choices: Any) -> Exchange:
    choices = {"controls": frozenset("ab"), "ducking": Ducking(on=False), **choices}
    return Exchange(dialplan=PLAN, prompts=book(), **choices)


async def listen(party: Party, frames: int = 60) -> list[str]:
    """The party hears what waits for them; the names of what began to sound."""
    for _ in range(frames):
        party.playout.next_frame()
    return [event.clip_id for event in party.playout.events() if event.what == "started"]


async def press(site: Exchange, leg: str, keys: str) -> None:
    await site.hear(*(Digit(leg, key) for key in keys))


async def bridged(site: Exchange) -> Call:
    call = await site.take("1")
    await site.hear(Answered(call.a.leg))
    await site.hear(Answered(call.b.leg))
    assert call.phase is CallPhase.BRIDGED
    return call


def heard_frames(call: Call) -> int:
    return int(call.a_to_b.statistics()["ear"]["reframe"]["frames_in"])


def paused(call: Call) -> list[bool]:
    return [direction.statistics()["paused"] for direction in (call.a_to_b, call.b_to_a)]


async def end(site: Exchange, call: Call) -> None:
    await site.hear(*(Ended(leg, 200, "OK", by_remote=True) for leg in call.legs()))
    await site.board.stop()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_a2_the_menu_leads_to_the_number_that_was_confirmed() -> None:
    async def work() -> None:
        site = exchange()
        call = await site.take("0")
        a, b = call.legs()
        await site.hear(Answered(a))
        assert (await listen(call.a))[:2] == ["menu-language", "digit-1"]
        await press(site, a, "2200#")
        assert call.b.machine.state is LegState.IDLE, "nobody is rung before it is confirmed"
        assert "digit-0" in await listen(call.a)
        await press(site, a, "1")
        await settle(40)
        assert site.phones.done[-1] == ("dial", b) and call.match.destination == "sip:200@host"
        assert call.record()["languages"] == ["yy", "xx"]
        await site.hear(Answered(b))
        assert call.phase is CallPhase.BRIDGED
        await end(site, call)
        assert call.ending is termination.CALLER_HUNG_UP

    run(work())


def test_a2_what_is_said_in_the_menu_is_not_interpreted() -> None:
    async def work() -> None:
        site = exchange()
        call = await site.take("0")
        await site.hear(Answered(call.a.leg))
        call.a.ring.put(Frame(call.a.leg, 0, LEG_RATE_HZ, bytes(320), 0))
        call.a_to_b.hear()
        assert not heard_frames(call)
        await press(site, call.a.leg, "1200#1")
        await settle(40)
        call.a.ring.put(Frame(call.a.leg, 160, LEG_RATE_HZ, bytes(320), 0))
        call.a_to_b.hear()
        assert heard_frames(call)
        await end(site, call)

    run(work())


def test_a2_who_gives_no_answer_is_told_goodbye_and_hung_up_on() -> None:
    async def work() -> None:
        site = exchange()
        call = await site.take("0")
        a = call.a.leg
        await site.hear(Answered(a))
        await press(site, a, "999")
        assert ("hangup", a) not in site.phones.done
        assert (await listen(call.a))[-1] == "menu-goodbye"
        await until(lambda: ("hangup", a) in site.phones.done)
        await site.hear(Ended(a, 200, "OK", by_remote=False))
        assert call.ending is termination.NO_CHOICE
        await site.board.stop()

    run(work())


def test_a2_hanging_up_in_the_menu_ends_the_call() -> None:
    async def work() -> None:
        site = exchange()
        call = await site.take("0")
        await site.hear(Answered(call.a.leg))
        await press(site, call.a.leg, "12")
        await site.hear(Ended(call.a.leg, 200, "OK", by_remote=True))
        await settle(40)
        assert call.ending is termination.CALLER_GAVE_UP and call.phase is CallPhase.ENDED
        await site.board.stop()

    run(work())


def test_c9_a_menu_whose_prompts_are_not_made_yet_is_not_answered() -> None:
    async def work() -> None:
        site = Exchange(dialplan=PLAN)
        with pytest.raises(ValueError, match="not enough values"):
            await site.take("0")
        assert site.phones.done == [("hangup", "leg-a")]
        assert site.board.statistics()["refused-models-loading"] == 1
        await site.board.stop()

    run(work())


def test_a6_pause_and_resume_are_told_to_the_presser_alone() -> None:
    async def work() -> None:
        site = exchange()
        call = await bridged(site)
        await press(site, call.a.leg, "*1")
        assert paused(call) == [True, True]
        assert await listen(call.a) == ["control-paused"] and await listen(call.b) == []
        assert call.a.playout.statistics()["original"]["on"], "meanwhile the parties hear each other"
        await press(site, call.b.leg, "*1")
        assert paused(call) == [False, False]
        assert await listen(call.b) == ["control-resumed"] and await listen(call.a) == []
        assert not call.a.playout.statistics()["original"]["on"]
        await end(site, call)

    run(work())


def test_a6_the_last_translation_is_repeated_to_who_asks() -> None:
    async def work() -> None:
        site = exchange()
        call = await bridged(site)
        await press(site, call.b.leg, "*2")
        assert await listen(call.b) == ["control-nothing"]
        call.b.say("s1", Speech(np.full(800, 500, np.int16).tobytes(), LEG_RATE_HZ, "v"), more_follows=False)
        call.b.playout.next_frame()
        call.a_to_b.tick()
        await press(site, call.b.leg, "*2")
        assert await listen(call.b) == ["repeated"] and await listen(call.a) == []
        await end(site, call)

    run(work())


def test_a6_original_voice_and_speed_are_the_pressers_own() -> None:
    async def work() -> None:
        site = exchange()
        call = await bridged(site)
        a, b = call.a.playout, call.b.playout
        await press(site, call.a.leg, "*3")
        assert await listen(call.a) == ["control-original-on"]
        await press(site, call.a.leg, "*4")
        assert a.statistics()["original"]["on"] and not b.statistics()["original"]["on"]
        assert a.statistics()["tempo"] < 1.0 == b.statistics()["tempo"]
        await press(site, call.a.leg, "*3*4")
        assert not a.statistics()["original"]["on"] and a.statistics()["tempo"] > 1.0
        await press(site, call.a.leg, "*4")
        assert a.statistics()["tempo"] == 1.0
        assert await listen(call.a, 200) == ["control-normal"], "the next key cuts the last answer off"
        await end(site, call)

    run(work())


def test_s1_18_the_languages_are_swapped_and_the_presser_is_told_in_the_new_one() -> None:
    async def work() -> None:
        site = exchange()
        call = await bridged(site)
        await press(site, call.b.leg, "*5")
        there, back = call.a_to_b.wanted(), call.b_to_a.wanted()
        assert (there.source, there.target, back.source, back.target) == ("yy", "xx", "xx", "yy")
        assert call.b.language == "xx" and await listen(call.b) == ["control-swapped"]
        await end(site, call)

    run(work())


def test_a6_help_and_keys_without_meaning() -> None:
    async def work() -> None:
        site = exchange()
        call = await bridged(site)
        await press(site, call.a.leg, "*0")
        assert await listen(call.a) == ["control-help"]
        await press(site, call.a.leg, "*9")
        assert await listen(call.a) == ["control-unknown"]
        await press(site, call.a.leg, "5#")
        assert await listen(call.a) == [] and await listen(call.b) == []
        await end(site, call)
        assert call.record()["controls"] == {"help": 1}

    run(work())


def test_a6_keys_go_on_to_the_other_party_only_where_that_is_wanted() -> None:
    async def work(*, passed: bool) -> None:
        site = exchange(pass_digits=passed)
        call = await bridged(site)
        b = call.b.leg
        await press(site, call.a.leg, "4*91*1")
        sent = [what for what, leg in site.phones.done if leg == b and what.startswith("digits")]
        assert sent == (["digits-4", "digits-*9", "digits-1"] if passed else [])
        assert paused(call) == [True, True], "a control is a control"
        await end(site, call)

    run(work(passed=True))
    run(work(passed=False))


@pytest.mark.parametrize(("allowed", "obeyed"), [("ab", "ab"), ("a", "a"), ("", "")])
def test_a6_who_may_control_is_a_choice(allowed: str, obeyed: str) -> None:
    async def work() -> None:
        site = exchange(controls=frozenset(allowed))
        call = await bridged(site)
        for party in (call.a, call.b):
            await press(site, party.leg, "*0")
            assert await listen(party) == (["control-help"] if party.side in obeyed else [])
        await end(site, call)

    run(work())


def test_k07_events_name_the_control_and_never_the_keys() -> None:
    async def work() -> None:
        site = exchange()
        subscription = site.bus.subscribe()
        call = await site.take("0")
        await site.hear(Answered(call.a.leg))
        await press(site, call.a.leg, "1200877#")
        await press(site, call.a.leg, "1")
        await site.hear(Answered(call.b.leg))
        await press(site, call.a.leg, "4711*1")
        await end(site, call)
        site.bus.close()
        events = [event.as_json() | {"call": "", "at_ns": 0} async for event in subscription]  # ids hold any digits
        assert [event["control"] for event in events if event["kind"] == "control"] == ["pause"]
        assert not [event for event in events if "200877" in str(event) or "4711" in str(event)]

    run(work())
