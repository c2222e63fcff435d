# SPDX-License-Identifier: GPL-3.0-or-later
"""The language of a leg that is ``auto``: the recogniser's opinion of each utterance, and what follows from it.

As with all that is prepared in the silence behind speech, an utterance is judged before it is sure that it is over:
`plan_for` looks at what would be, `settle` makes it so, once for each final text. An utterance that changes the
language is itself interpreted in the new one; nothing that was spoken before is revised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from gateway.call.minutes import Publish
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.call.turns import TurnRules
from gateway.call.wishes import Wishes
from gateway.speech.jobs import Recognition
from gateway.stream.manner import Talker
from gateway.stream.tongue import Evidence, Tongue, TongueRules, heard_in

log = structlog.get_logger(__name__)


class Identified:
    """Of one talker. ``change`` is told the new language once it is settled."""

    def __init__(
        self,
        talker: Party,
        rules: TurnRules,
        *,
        habits: Talker,
        wishes: Wishes,
        publish: Publish,
        clock: Callable[[], int],
        change: Callable[[str], None],
    ) -> None:
        self._talker = talker
        self._rules = TongueRules(rules.language_agree, round(rules.language_cooldown_s * 1e9))
        self._habits = habits
        self._wishes = wishes
        self._publish = publish
        self._clock = clock
        self._change = change
        self._tongue: Tongue | None = None
        self._changes = 0

    def look_among(self, candidates: tuple[str, ...]) -> None:
        """From the next utterance on find the language out; no candidates: it is the one that the party has now."""
        self._tongue = Tongue(candidates, self._talker.language) if candidates else None

    def asked(self, span: tuple[int, int]) -> Asked | None:
        """What an utterance is to be asked for; None for a language that is pinned."""
        return Asked(self, span, self._tongue.candidates, self._tongue.known) if self._tongue is not None else None

    @property
    def known(self) -> bool:
        """False until the first words of a leg whose language is to be found out."""
        return self._tongue is None or self._tongue.known

    def plan_for(self, plan: DirectionPlan, span: tuple[int, int], heard: Recognition) -> DirectionPlan:
        """The plan under which an utterance stands after what the recogniser thinks of it. Changes nothing."""
        if self._tongue is None or not heard.languages:
            return plan
        then = self._after(self._tongue, span, heard)
        language = then.language if then.known else heard.language
        return plan if language == plan.source else self._wishes.spoken_in(plan, language)

    def as_known(self, plan: DirectionPlan) -> DirectionPlan:
        """Nothing is committed in a language that is only assumed: the first words are interpreted as a whole."""
        return plan if self.known else replace(plan, mode="consecutive")

    def settle(self, span: tuple[int, int], heard: Recognition | None) -> None:
        """An utterance is final."""
        before = self._tongue
        if before is None or heard is None or not heard.languages or not heard.text:
            return
        now = self._tongue = self._after(before, span, heard)
        if now.known is before.known and now.language == before.language:
            return
        self._changes += 1
        told = {"leg": self._talker.side, "language": now.language, "before": before.language if before.known else None}
        self._publish("language", {**told, "share": round(dict(heard.languages).get(now.language, 0.0), 3)})
        log.info("leg_language", leg=self._talker.line, language=now.language, first=not before.known)
        if now.language != self._talker.language:
            self._change(now.language)

    def moved_to(self, language: str) -> None:
        """Somebody has set the language: it is the known one from now on; pinned, where it was no candidate."""
        tongue = self._tongue
        if tongue is None or language == tongue.language:
            return
        among = language in tongue.candidates
        self._tongue = Tongue(tongue.candidates, language, known=True, changed_ns=self._clock()) if among else None

    def _after(self, tongue: Tongue, span: tuple[int, int], heard: Recognition) -> Tongue:
        first, end = self._habits.voiced(*span)
        speech_ms = (end - first) * 1000 // self._talker.rate_hz
        return heard_in(tongue, Evidence(dict(heard.languages), speech_ms), self._rules, self._clock())

    def statistics(self) -> dict[str, Any]:
        """Whether it is known, and how often it changed."""
        return {"auto": self._tongue is not None, "known": self.known, "changes": self._changes}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the recogniser is asked about one utterance, and what follows from its answer."""

    identified: Identified
    span: tuple[int, int]
    candidates: tuple[str, ...]
    known: bool

    def plan_for(self, plan: DirectionPlan, heard: Recognition) -> DirectionPlan:
        """The plan under which the utterance stands after all."""
        return self.identified.plan_for(plan, self.span, heard)
