# SPDX-License-Identifier: GPL-3.0-or-later
"""S1.26: in noise only safety words of a party are recognised and spoken, the rest is muted, and both are told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.audio.original import Ducking
from gateway.call.bridge import TICK_S
from gateway.call.dialplan import DialPlan, Route
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import PromptBook
from gateway.call.safety_mode import NoiseRule, SafetyMode, SafetyWish
from gateway.call.turns import TurnRules
from gateway.sip.events import Answered, Digit
from gateway.speech.jobs import RecognizeTask, SynthesizeTask, TranslateTask
from tests.call.duplex import Duplex
from tests.call.scripted_exchange import Exchange
from tests.call.test_direction import voice
from tests.call.test_keys_in_a_call import end, listen

pytestmark = pytest.mark.unit

ON, OVER = "safety-words", "safety-words-over"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def verdicts(ratios: Iterable[float | None], rule: NoiseRule | None = None) -> str:
    """A letter for each second: N is noisy."""
    rule = rule or NoiseRule(10.0, 5.0)
    return "".join("N" if rule.feed(ratio, 1.0) else "." for ratio in ratios)


def test_it_takes_five_seconds_below_ten_db_and_five_above_thirteen() -> None:
    assert verdicts([9.9] * 7) == "....NNN"
    assert verdicts([3.0] * 5 + [13.0] * 6) == "....N" + "NNNN.."
    assert verdicts([3.0] * 5 + [12.9] * 20) == "....N" + "N" * 20, "between the two nothing changes"
    assert verdicts([10.0] * 30) == "." * 30


def test_it_does_not_flap() -> None:
    assert verdicts([8.0, 8.0, 8.0, 8.0, 11.0] * 10) == "." * 50, "a moment's quiet begins the count anew"
    assert verdicts([5.0] * 5 + [14.0, 14.0, 14.0, 14.0, 9.0] * 10) == "....N" + "N" * 50


def test_what_is_unknown_neither_begins_nor_ends_it() -> None:
    assert verdicts([None] * 60) == "." * 60
    assert verdicts([5.0] * 4 + [None] + [5.0] * 4) == "." * 9
    assert verdicts([5.0] * 5 + [None] * 60) == "....N" + "N" * 60


def test_zero_switches_it_off() -> None:
    assert verdicts([-5.0] * 60, NoiseRule(0.0, 5.0)) == "." * 60


class Line:
    """A direction whose noise the test makes."""

    def __init__(self, source: Party, target: Party) -> None:
        self.source, self.target = source, target
        self.snr_db: float | None = None
        self.heard = 0
        self.safety: list[bool] = []

    def set_safety_words(self, on: bool) -> None:
        self.safety.append(on)


class Noise:
    """Both directions of a call with the mode, second by second."""

    def __init__(self, languages: tuple[str, str] = ("en", "pt"), **rules: Any) -> None:
        a, b = (
            Party(side, f"leg-{side}", language, lambda: None) for side, language in zip("ab", languages, strict=True)
        )
        self.ab, self.ba = Line(a, b), Line(b, a)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.mode = SafetyMode(
            (self.ab, self.ba),
            TurnRules(**rules),
            prompts=book(languages),
            tell=lambda kind, data: self.told.append((kind, data)),
        )

    def go_on(self, seconds: int, ab_db: float | None = 30.0, ba_db: float | None = 30.0) -> None:
        self.ab.snr_db, self.ba.snr_db = ab_db, ba_db
        for _ in range(10 * seconds):  # a tick each 0.1 s
            for line in (self.ab, self.ba):
                line.heard += LEG_RATE_HZ // 10
            self.mode.tick()

    def prompts(self) -> list[list[str]]:
        return [list(names(line.source)) for line in (self.ab, self.ba)]


def book(languages: Iterable[str]) -> PromptBook:
    clip = np.full(320, 3000, np.int16)
    spoken = {(language, name): clip for language in languages for name in (ON, OVER, "control-unknown")}
    return PromptBook({}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent"), recorded=spoken)


def names(party: Party) -> Iterable[str]:
    for _ in range(40):
        party.playout.next_frame()
    return [event.clip_id for event in party.playout.events() if event.what == "started"]


def test_both_are_told_once_when_it_begins_and_once_when_it_ends() -> None:
    noise = Noise()
    noise.go_on(5, None, None)
    noise.go_on(20)
    assert noise.prompts() == [[], []] and noise.mode.on == [False, False]
    noise.go_on(5, 6.0)
    assert noise.mode.on == [True, False] and noise.ab.safety == [True] and noise.ba.safety == []
    assert noise.prompts() == [[ON], [ON]]
    noise.go_on(20, 6.0, 4.0)
    assert noise.mode.on == [True, True] and noise.prompts() == [[], []], "they know already"
    noise.go_on(6, 25.0, 4.0)
    assert noise.mode.on == [False, True] and noise.prompts() == [[], []]
    noise.go_on(6, 25.0, 25.0)
    assert noise.prompts() == [[OVER], [OVER]]
    assert [(data["leg"], data["on"], data["by"]) for kind, data in noise.told if kind == "safety-mode"] == [
        ("a", True, "noise"),
        ("b", True, "noise"),
        ("a", False, "noise"),
        ("b", False, "noise"),
    ]
    assert noise.mode.statistics() == {"wish": "auto", "on": [False, False], "begun": 2}


def test_what_was_not_listened_to_does_not_count() -> None:
    noise = Noise()
    noise.go_on(3, 6.0)
    for _ in range(600):  # on hold: a minute of ticks, and no sound
        noise.mode.tick()
    assert noise.mode.on == [False, False]
    noise.ab.heard += 600 * LEG_RATE_HZ  # the stream goes on ten minutes later
    noise.mode.tick()
    assert noise.mode.on == [False, False], "the hole is not ten minutes of noise"
    noise.go_on(2, 6.0)
    assert noise.mode.on == [True, False]


def test_it_can_be_switched_by_hand_and_then_the_noise_is_not_asked() -> None:
    noise = Noise()
    noise.mode.set(SafetyWish.ON)
    assert noise.mode.on == [True, True] and noise.prompts() == [[ON], [ON]]
    noise.go_on(30)
    assert noise.mode.on == [True, True]
    assert noise.mode.switch() is False
    noise.go_on(30, 3.0, 3.0)
    assert noise.mode.on == [False, False] and noise.prompts() == [[OVER], [OVER]]
    noise.mode.set(SafetyWish.AUTO)
    assert noise.mode.on == [True, True], "it has been noisy all the while"
    assert [data["by"] for _, data in noise.told] == ["hand"] * 4 + ["noise"] * 2


@pytest.mark.parametrize("languages", [("en", "xx"), ("en", "en")])
def test_where_there_are_no_safety_words_everything_is_translated(languages: tuple[str, str]) -> None:
    noise = Noise(languages)
    noise.go_on(20, 3.0, 3.0)
    noise.mode.set(SafetyWish.ON)
    assert noise.mode.on == [False, False] and not noise.mode.possible and noise.prompts() == [[], []]


@pytest.mark.parametrize("mode", ["consecutive", "simultaneous"])
def test_only_safety_words_are_recognised_and_spoken_and_the_rest_is_muted(mode: str) -> None:
    async def work() -> None:
        call = Duplex({"en": ["so then we went, help, there is a fire"], "pt": [""]}, mode=mode)
        call.b.playout.set_original(True)
        call.a_to_b.set_safety_words(True)
        await call.run(0.4)
        ear = np.concatenate([frame async for frame in call.heard_by_b(voice(1.2))])
        assert np.abs(ear).max() == 0, "the talker's own voice is muted too"
        await call.run(2.0)
        hearings = [ticket.task for ticket in call.speech.of(RecognizeTask)]
        assert all(isinstance(task, RecognizeTask) and "help" in task.hotwords for task in hearings)
        assert not call.speech.of(TranslateTask), "nothing is left to a translator"
        assert [ticket.task.text for ticket in call.speech.of(SynthesizeTask)] == ["socorro, fogo"]
        (record,) = call.of("utterance", "a")
        assert (record["source_text"], record["target_text"], record["lost"]) == ("help, fire", "socorro, fogo", None)
        assert call.of("preview", "a") == []
        call.script["en"] = ["and the weather was so nice"]
        await call.run(voice(1.2))
        await call.run(1.0)
        assert call.lost("a") == [None, "noise"] and call.of("utterance", "a")[1]["outcome"] == "withheld"
        assert len(call.speech.of(SynthesizeTask)) == 1
        call.a_to_b.set_safety_words(False)
        await call.run(voice(1.2))
        await call.run(2.0)
        assert call.speech.of(TranslateTask) and call.lost("a") == [None, "noise", None]
        assert call.a_to_b.wanted().mode == mode
        await call.close()

    run(work())


@pytest.mark.parametrize(("confidence", "spoken"), [(0.5, ["socorro"]), (0.1, ["talvez, socorro"]), (0.02, [])])
def test_an_unsure_safety_word_is_spoken_as_one_and_a_hopeless_one_not_at_all(
    confidence: float, spoken: list[str]
) -> None:
    async def work() -> None:
        call = Duplex({"en": ["help"], "pt": [""]})
        call.confidence = confidence
        call.a_to_b.set_safety_words(True)
        await call.run(voice(1.2))
        await call.run(1.0)
        assert [ticket.task.text for ticket in call.speech.of(SynthesizeTask)] == spoken
        call.script["en"] = ["some nonsense"]
        await call.run(voice(1.2))
        await call.run(1.0)
        assert call.of("unclear", "a") == [], "nobody is asked to repeat what the noise has swallowed"
        assert call.lost("a")[-1] == "noise" and len(call.speech.of(SynthesizeTask)) == len(spoken)
        await call.close()

    run(work())


def test_star_six_and_the_record_of_the_call() -> None:
    async def work() -> None:
        plan = DialPlan((Route("r", "xx", "yy", "sip:b@host", number="1"),))
        choices = {"controls": frozenset("ab"), "ducking": Ducking(on=False)}
        site = Exchange(dialplan=plan, prompts=book(("en", "pt")), **choices)
        subscription = site.bus.subscribe()
        call = await site.take("1")
        await site.hear(Answered(call.a.leg))
        await site.hear(Answered(call.b.leg))
        for side, language in (("a", "en"), ("b", "pt")):
            call.set_language(side, language)
        await asyncio.sleep(2.5 * TICK_S)
        await site.hear(Digit(call.b.leg, "*"), Digit(call.b.leg, "6"))
        for party in (call.a, call.b):
            assert await listen(party) == [ON]
        record = call.record()
        assert record["safety_words"] == [True, True] and record["snr_db"] == [None, None]
        assert record["safety_mode"]["wish"] == "on" and call.a_to_b.wanted().as_echo()["safety_words"]
        await site.hear(Digit(call.a.leg, "*"), Digit(call.a.leg, "6"))
        for party in (call.a, call.b):
            assert await listen(party) == [OVER]
        call.set_language("b", "zz")
        await site.hear(Digit(call.a.leg, "*"), Digit(call.a.leg, "6"))
        assert await listen(call.a) == ["control-unknown"], "no safety words into that language"
        await end(site, call)
        site.bus.close()
        told = [event.data async for event in subscription]
        assert [data["on"] for data in told if data.get("control") == "safety-words"] == [True, False, False]

    run(work())
