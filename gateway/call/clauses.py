# SPDX-License-Identifier: GPL-3.0-or-later
"""Speaks clauses in another language while their talker goes on.

Clauses wait here as long as the listener is still busy with the ones before, and that wait is used: when the neighbour
arrives meanwhile, a clause is translated again in its company. What was spoken is never revised (SPEC B2): a clause
whose predecessor has been spoken is translated together with it, and only if that translation begins with what was
spoken is its rest taken; else the clause's own translation stands.

The lag policy decides how fast to speak, what to join, and, at last, what to leave out; every step is counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog
from rapidfuzz import fuzz

from gateway.call.interpretation import INTERRUPTED, Interpretation, Mouth, Outcome
from gateway.call.plan import DirectionPlan
from gateway.speech.errors import SpeechError
from gateway.speech.jobs import Priority, Translation
from gateway.speech.protocols import SpeechService
from gateway.stream.lag import LagPolicy, Waiting

log = structlog.get_logger(__name__)

LEAD_S = 0.9  # a clause is begun when less than this is left to be heard: time to make the first piece of the next
MS_PER_CHARACTER = 65  # of speech; only the lag policy's estimate for what is not synthesized yet
SAME = 88.0  # rapidfuzz ratio from which the beginning of a translation counts as what was spoken
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class SpokenClause:
    """A clause on its way: its id, its source text, and whether its predecessor belongs to the same sentence."""

    clause_id: str
    text: str
    plan: DirectionPlan
    follows: bool
    """It goes on with the sentence of the clause before."""
    ended_ns: int
    """When its talker had said it."""


class ClauseSpeaker:
    """The clauses of one direction, one after the other. ``on_done`` gets each clause's outcome or its loss."""

    def __init__(
        self,
        *,
        leg: str,
        speech: SpeechService,
        mouth: Mouth,
        pending_s: Callable[[], float],
        on_begin: Callable[[SpokenClause, Outcome], None],
        on_lost: Callable[[str, str], None],
        on_notice: Callable[[], None],
        clock: Callable[[], int],
    ) -> None:
        self._leg = leg
        self._speech = speech
        self._mouth = mouth
        self._pending_s = pending_s
        self._on_begin = on_begin
        self._on_lost = on_lost
        self._on_notice = on_notice
        self._clock = clock
        self._waiting: deque[SpokenClause] = deque()
        self._policy = LagPolicy()
        self._before: tuple[str, str] | None = None
        """Source and target text of the clause spoken last."""
        self._busy = False
        self._speaking: Interpretation | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._counts: Counter[str] = Counter()

    @property
    def idle(self) -> bool:
        """True when nothing waits and nothing is being made."""
        return not self._waiting and not self._busy

    def put(self, clause: SpokenClause) -> None:
        """Queue a clause. The lag policy bounds the queue."""
        self._waiting.append(clause)
        self._counts["clauses"] += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"clauses-{self._leg}")
        self._wake.set()

    def cut(self) -> None:
        """The listener talks: nothing that was said so far is spoken any more."""
        while self._waiting:
            self._on_lost(self._waiting.popleft().clause_id, INTERRUPTED)
        if self._speaking is not None:
            self._speaking.cut()

    async def close(self) -> None:
        """Stop; what waits is lost."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            self._on_lost(self._waiting.popleft().clause_id, "call-ended")
        self._busy = False

    async def _run(self) -> None:
        while True:
            await self._until_needed()
            self._busy = True
            try:
                await self._next()
            finally:
                self._busy = False

    async def _until_needed(self) -> None:
        """Something waits, and the listener will soon have nothing to hear. Until then it may still get better."""
        while not self._waiting or self._pending_s() > LEAD_S:
            self._wake.clear()
            if self._waiting:
                await asyncio.sleep(POLL_S)
            else:
                await self._wake.wait()

    async def _next(self) -> None:
        waiting = [Waiting(one.clause_id, len(one.text) * MS_PER_CHARACTER) for one in self._waiting]
        now_ns = self._clock()
        action = self._policy.next(
            waiting,
            now_ns,
            playing_ms=round(self._pending_s() * 1000),
            behind_ms=max(0, now_ns - self._waiting[0].ended_ns) // 1_000_000,
        )
        for dropped in action.drop:
            self._waiting = deque(one for one in self._waiting if one.clause_id != dropped)
            self._on_lost(dropped, "lag")
        if action.notice:
            self._on_notice()
        clause = self._waiting.popleft()
        for _ in action.merge[1:]:
            clause = self._merged(clause, self._waiting.popleft())
        while self._waiting and self._waiting[0].follows and self._waiting[0].plan is clause.plan:
            # the neighbour is here before this one was spoken: refined together
            clause = self._merged(clause, self._waiting.popleft())
            self._counts["refined"] += 1
            break
        await self._speak(clause, action.tempo * clause.plan.delivery.pace, action.gap_factor)

    def _merged(self, clause: SpokenClause, other: SpokenClause) -> SpokenClause:
        self._on_lost(other.clause_id, f"merged-{clause.clause_id}")
        self._counts["merged"] += 1
        return replace(clause, text=f"{clause.text} {other.text}")

    async def _speak(self, clause: SpokenClause, tempo: float, gap_factor: float) -> None:
        known = await self._continued(clause) if clause.follows and self._before else None
        self._speaking = speaking = Interpretation(
            clause.clause_id,
            clause.text,
            clause.plan,
            leg=self._leg,
            speech=self._speech,
            mouth=self._mouth,
            on_text=lambda name, outcome: None,
            clock=self._clock,
            translation=known,
            tempo=tempo,
            gap_factor=gap_factor,
        )
        self._on_begin(clause, speaking.outcome)
        speaking.start(confirmed=True)
        failure = await speaking.finished()
        if failure is not None:
            self._on_lost(clause.clause_id, failure)
            return
        self._before = (speaking.outcome.source_text, speaking.outcome.target_text)
        if not speaking.outcome.first_audio_ns:
            self._on_lost(clause.clause_id, "nothing-to-say")

    async def _continued(self, clause: SpokenClause) -> str | None:
        """The clause's translation in the company of the one spoken before it; None when they do not agree."""
        assert self._before is not None
        source, spoken = self._before
        plan = clause.plan
        try:
            both, _ = plan.lexicon.idioms.replaced(f"{source} {clause.text}")
            done = await self._speech.submit(self._leg, plan.translating((both,)), Priority.FINAL).result()
        except SpeechError:
            return None
        assert isinstance(done.result, Translation)
        rest = rest_behind(spoken, done.result.texts[0])
        self._counts["continued" if rest else "diverged"] += 1
        return rest

    def statistics(self) -> dict[str, Any]:
        """Counts of every step, and what waits."""
        return {**self._policy.statistics(), **self._counts, "waiting_clauses": len(self._waiting)}


def rest_behind(spoken: str, joint: str) -> str | None:
    """What a translation says behind the part that was spoken already; None when it does not begin with that."""
    said, words = spoken.split(), joint.split()
    if not said or len(words) <= len(said):
        return None
    best = max(
        range(max(1, len(said) - 1), min(len(words), len(said) + 2)),
        key=lambda count: fuzz.ratio(_plain(" ".join(words[:count])), _plain(spoken)),
    )
    if fuzz.ratio(_plain(" ".join(words[:best])), _plain(spoken)) < SAME:
        return None
    return " ".join(words[best:])


def _plain(text: str) -> str:
    return " ".join(word.strip(".,;:!?…").casefold() for word in text.split())
