# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of one direction from the next utterance on: languages, voice, mode, and the terms of the moment."""

from __future__ import annotations

from dataclasses import replace

from gateway.call.desk import Booth
from gateway.call.plan import DirectionPlan
from gateway.stream.plan import Mode


class Wishes:
    """Collects changes between utterances; `next` makes the plan of them."""

    def __init__(self, plan: DirectionPlan, booth: Booth) -> None:
        self._wanted = plan
        self._booth = booth

    def set_mode(self, mode: str) -> None:
        """ValueError for an unknown mode."""
        self._wanted = replace(self._wanted, mode=Mode(mode).value)

    def set_safety(self, on: bool) -> None:
        """Listen for safety words alone, or for everything."""
        self._wanted = replace(self._wanted, safety=on)

    def set_languages(self, source: str, target: str, voice: str | None) -> None:
        """Another pair of languages, and the voice for the target; None: its usual one."""
        self._wanted = replace(
            self._wanted,
            source=source,
            target=target,
            voice=voice,
            delivery=self._booth.delivery(target),
            first_chars=self._booth.first_chars(target),
        )

    def spoken_in(self, plan: DirectionPlan, language: str) -> DirectionPlan:
        """The plan behind this one, for an utterance that turned out to be in another language."""
        moved = replace(plan, version=plan.version + 1, source=language)
        return moved.with_glossary(self._booth.glossary())

    def next(self, plan: DirectionPlan) -> DirectionPlan:
        """The plan behind this one; the same when nothing has changed."""
        glossary = self._booth.glossary()
        wanted = replace(self._wanted, version=plan.version, lexicon=plan.lexicon, glossary_version=glossary.version)
        if wanted.safety:  # a clause of what is not believed would be spoken before it is looked through
            wanted = replace(wanted, mode=Mode.CONSECUTIVE.value)
        if wanted == plan:
            return plan
        return replace(wanted, version=plan.version + 1).with_glossary(glossary)
