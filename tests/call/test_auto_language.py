# SPDX-License-Identifier: GPL-3.0-or-later
"""B3: a leg whose language is found out; what follows for both directions, the prompts and the events."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.call.auto import with_candidates
from gateway.call.dialplan import AUTO, DialPlan, DialPlanError, Match, Route, load_dialplan
from gateway.call.turns import TurnRules
from gateway.sip.events import Answered
from gateway.speech.jobs import Recognition, RecognizeTask, Result, SynthesizeTask, Task
from tests.call.duplex import Duplex
from tests.call.scripted_exchange import Exchange
from tests.call.test_direction import voice
from tests.call.test_keys_in_a_call import end

pytestmark = pytest.mark.unit

EN_PT = frozenset({("en", "pt"), ("pt", "en")})
THREE = EN_PT | {("en", "es"), ("es", "en"), ("es", "pt")}


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def route(source: str, target: str, *languages: str) -> Match:
    return Match(Route("r", source, target, "sip:b@host", languages=languages), "sip:b@host")


@pytest.mark.parametrize(
    ("match", "pairs", "languages", "candidates"),
    [
        (route("en", "pt"), EN_PT, ("en", "pt"), ((), ())),
        (route(AUTO, "pt"), EN_PT, ("en", "pt"), (("en", "pt"), ())),
        (route("pt", AUTO), EN_PT, ("pt", "en"), ((), ("en", "pt"))),
        (route(AUTO, AUTO), EN_PT, ("en", "pt"), (("en", "pt"), ("en", "pt"))),
        (route(AUTO, AUTO, "pt", "en"), EN_PT, ("pt", "en"), (("pt", "en"), ("pt", "en"))),
        (route(AUTO, "pt"), THREE, ("en", "pt"), (("en", "pt"), ())),  # es→pt leads nowhere back
        (route(AUTO, "en"), THREE, ("es", "en"), (("en", "es", "pt"), ())),
        (route(AUTO, "en", "pt", "es"), THREE, ("pt", "en"), (("pt", "es"), ())),
        (route(AUTO, "de"), EN_PT, (AUTO, "de"), ((), ())),  # nothing to choose among: refused as not served
        (route(AUTO, AUTO), frozenset(), (AUTO, AUTO), ((), ())),
    ],
)
def test_b3_what_an_auto_leg_can_be(
    match: Match, pairs: frozenset[tuple[str, str]], languages: tuple[str, str], candidates: tuple[Any, Any]
) -> None:
    found = with_candidates(match, pairs)
    assert (found.route.source, found.route.target) == languages
    assert found.candidates == candidates


def test_b3_a_dial_plan_may_say_auto_and_what_it_may_be(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    base = "routes:\n  - {number: '1', destination: 'sip:a@b', "
    file.write_text(base + "from: auto, to: pt, languages: [es, en]}", encoding="utf-8")
    match = load_dialplan(file).match("1", {"x-translate": "pt-auto"}, trusted=True)
    assert match is not None and (match.route.source, match.route.target) == ("pt", AUTO)
    assert match.route.languages == ("es", "en")
    for bad, fault in (("languages: en", "list of codes"), ("languages: [en]", "auto party")):
        file.write_text(base + f"from: en, to: pt, {bad}}}", encoding="utf-8")
        with pytest.raises(DialPlanError, match=fault):
            load_dialplan(file)


class Talk(Duplex):
    """A's recogniser says which language each utterance was in."""

    def __init__(self, mode: str = "consecutive", **rules: Any) -> None:
        super().__init__({"en": ["hello there"], "pt": ["bom dia"]}, TurnRules(**rules), mode)
        self.spoken = "pt"
        self.share = 0.95
        self.asked: list[RecognizeTask] = []
        self.changed: list[str] = []
        self.a_to_b._identified._change = self._change
        self.a_to_b.identify(("en", "pt"))

    def _change(self, language: str) -> None:
        self.changed.append(language)
        self.a.language = language
        for direction in (self.a_to_b, self.b_to_a):
            direction.set_languages(None)

    def answer(self, task: Task) -> Result:
        if not isinstance(task, RecognizeTask):
            return super().answer(task)
        self.asked.append(task)
        language = task.language or self.spoken
        other = {"en": "pt", "pt": "en"}[self.spoken]
        shares = ((self.spoken, self.share), (other, 1 - self.share)) if task.candidates else ()
        return Recognition(self.script[language][0], language, 0.9, languages=shares)

    async def says(self, language: str, share: float = 0.95) -> None:
        self.spoken, self.share = language, share
        await self.run(voice(1.3))
        await self.run(1.2)


def test_b3_the_first_words_decide_and_stand_in_their_own_language() -> None:
    async def work() -> None:
        call = Talk()
        call.b.language = "en"
        for direction in (call.a_to_b, call.b_to_a):
            direction.set_languages(None)
        await call.run(0.4)
        await call.says("pt")
        assert call.asked[0].language is None and call.asked[0].candidates == ("en", "pt")
        (heard,) = call.of("heard", "a")
        assert (heard["text"], heard["language"]) == ("bom dia", "pt")
        (record,) = call.of("utterance", "a")
        assert (record["source_lang"], record["target_lang"], record["lost"]) == ("pt", "en", None)
        assert call.of("language") == [{"leg": "a", "language": "pt", "before": None, "share": 0.95}]
        assert call.changed == ["pt"] and call.b_to_a.wanted().target == "pt", "the other direction follows"
        assert len([task for task in call.asked if task.language is None]) == 1
        await call.close()

    run(work())


def test_b3_it_changes_with_the_second_agreeing_utterance_which_is_interpreted_in_the_new_language() -> None:
    async def work() -> None:
        call = Talk(language_cooldown_s=3)
        call.b.language = "es"
        for direction in (call.a_to_b, call.b_to_a):
            direction.set_languages(None)
        await call.run(0.4)
        await call.says("en")
        await call.says("pt")
        await call.says("en")
        await call.says("pt")
        assert call.changed == [], "one foreign sentence at a time changes nothing"
        await call.says("pt")
        assert call.changed == ["pt"]
        records = [(record["source_lang"], record["source_text"]) for record in call.of("utterance", "a")]
        assert records == [("en", "hello there")] * 4 + [("pt", "bom dia")]
        assert [task.language for task in call.asked[-2:]] == ["en", "pt"], "it is recognised once more"
        assert [told["before"] for told in call.of("language")] == [None, "en"]
        assert call.a_to_b.statistics()["language"] == {"auto": True, "known": True, "changes": 2}
        await call.close()

    run(work())


def test_b3_an_unclear_beginning_is_interpreted_in_the_likelier_language_and_decides_nothing() -> None:
    async def work() -> None:
        call = Talk()
        call.b.language = "es"
        for direction in (call.a_to_b, call.b_to_a):
            direction.set_languages(None)
        await call.run(0.4)
        await call.says("pt", 0.55)
        assert call.of("heard", "a")[0]["language"] == "pt" and not call.of("language")
        assert not call.a_to_b.statistics()["language"]["known"]
        await call.close()

    run(work())


def test_b3_b4_a_leg_that_turns_out_to_speak_the_others_language_is_passed_through() -> None:
    async def work() -> None:
        call = Talk()
        await call.run(0.4)
        call.spoken, call.share = "pt", 0.95
        await call.run(voice(1.3))
        told = [frame async for frame in call.heard_by_b(np.zeros(20_000, np.int16))]
        assert np.abs(np.concatenate(told)).max() > 3000, "the words by which it turned out are handed on"
        assert call.lost("a") == ["same-language"]
        again = [frame async for frame in call.heard_by_b(voice(1.3))]
        assert np.abs(np.concatenate(again)).max() > 3000, "the next ones are heard as they come"
        later = [frame async for frame in call.heard_by_b(np.zeros(20_000, np.int16))][5:]
        assert not np.concatenate(later).any(), "and not twice"
        assert call.b.playout.statistics()["original"]["on"], "B hears A from now on"
        assert not call.speech.of(SynthesizeTask)
        await call.close()

    run(work())


def test_b3_the_first_words_are_not_committed_in_simultaneous_mode() -> None:
    async def work() -> None:
        call = Talk("simultaneous")
        await call.run(0.4)
        await call.says("en")
        assert not call.of("clause") and [r["source_lang"] for r in call.of("utterance", "a")] == ["en"]
        await call.says("en")
        assert call.of("clause"), "from then on it is interpreted as it is spoken"
        assert call.a_to_b.wanted().mode == "simultaneous"
        await call.close()

    run(work())


def test_b3_a_language_that_somebody_sets_is_known_and_one_that_is_no_candidate_is_pinned() -> None:
    async def work() -> None:
        call = Talk()
        call.a.language = "pt"
        call.a_to_b.set_languages(None)
        assert call.a_to_b.statistics()["language"]["known"]
        call.a.language = "es"
        call.a_to_b.set_languages(None)
        assert not call.a_to_b.statistics()["language"]["auto"]
        await call.close()

    run(work())


def test_b3_in_a_call_of_the_dial_plan_the_leg_is_asked_and_prompts_follow() -> None:
    async def work() -> None:
        site = Exchange(dialplan=DialPlan((Route("auto", AUTO, "yy", "sip:b@host", number="1"),)))
        call = await site.take("1")
        assert (call.a.language, call.b.language) == ("xx", "yy")
        assert call.a_to_b.statistics()["language"] == {"auto": True, "known": False, "changes": 0}
        assert not call.b_to_a.statistics()["language"]["auto"]
        await site.hear(Answered(call.a.leg))
        await site.hear(Answered(call.b.leg))
        call._speaks("a", "yy")
        assert call.a.language == "yy" and call.b_to_a.wanted().target == "yy"
        assert call.record()["languages"] == ["yy", "yy"]
        await end(site, call)

    run(work())


def test_b3_a_route_that_can_be_nothing_is_refused() -> None:
    async def work() -> None:
        site = Exchange(dialplan=DialPlan((Route("auto", AUTO, "zz", "sip:b@host", number="1"),)))
        with pytest.raises(ValueError, match="not enough values"):
            await site.take("1")
        assert site.board.statistics()["refused-language-pair-not-served"] == 1
        await site.board.stop()

    run(work())
