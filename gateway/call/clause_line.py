# SPDX-License-Identifier: GPL-3.0-or-later
"""From words that will not change any more to clauses that are spoken, in simultaneous mode.

The words of one or several utterances run into a releaser (`stream.clause`), which cuts them where sense allows it. A
pause lets go a clause that is complete by it, a longer one whatever waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.call.clauses import ClauseSpeaker, SpokenClause
from gateway.call.floor import Floor
from gateway.call.gate import Withheld
from gateway.call.interpretation import Outcome
from gateway.call.minutes import Entry, Minutes, Publish
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.stream.clause import Clause, ClauseReleaser, Heard, Reason
from gateway.stream.clause_rules import rules_for
from gateway.stream.clocks import SegmentClocks, Stamp
from gateway.stream.words import Word

FLUSH_MS = 900  # silence after which words that wait for more to come are spoken as they are


class ClauseLine:
    """Of one direction. ``arrival_ns`` tells when a sample of the talker's came."""

    def __init__(
        self,
        call_id: str,
        source: Party,
        *,
        speaker: ClauseSpeaker,
        minutes: Minutes,
        floor: Floor,
        publish: Publish,
        arrival_ns: Callable[[int], int],
        clock: Callable[[], int],
    ) -> None:
        self._call_id = call_id
        self._source = source
        self._speaker = speaker
        self._minutes = minutes
        self._floor = floor
        self._publish = publish
        self._arrival_ns = arrival_ns
        self._clock = clock
        self._releaser: ClauseReleaser | None = None
        self._plan: DirectionPlan | None = None
        """Of the words that were committed last."""
        self._last_word_end = 0
        self._heard = 0
        self._follows = False
        self._minted = 0

    def commit(self, plan: DirectionPlan, words: Iterable[Word], heard: int) -> None:
        """Words that will not change: release the clauses that they complete. Sound is there up to ``heard``."""
        new = [Heard(word) for word in words]
        self._heard = heard
        if not new:
            return
        if self._plan is not None and plan.pair != self._plan.pair:
            self.flush()  # what waits was said in another language
        self._plan = plan
        if self._releaser is None:
            self._releaser = ClauseReleaser(rules_for(plan.source), rate_hz=self._source.rate_hz)
            self._follows = False
        self._last_word_end = new[-1].word.end_sample or heard
        for clause in self._releaser.feed(new):
            self._release(clause)

    def silence(self, heard: int) -> None:
        """The talker says nothing, and sound is there up to ``heard``."""
        if self._releaser is None:
            return
        samples, self._heard = heard - self._last_word_end, heard
        if samples >= FLUSH_MS * self._source.rate_hz // 1000:
            self.flush()
            return
        for clause in self._releaser.silence(samples):
            self._release(clause)

    def flush(self) -> None:
        """Let go whatever waits for more words."""
        releaser, self._releaser = self._releaser, None
        if releaser is not None:
            for clause in releaser.feed((), is_final=True):
                self._release(clause)

    def _release(self, clause: Clause) -> None:
        plan = self._plan
        assert plan is not None
        self._minted += 1
        side = self._source.side
        clause_id = f"{self._call_id}-{side}c{self._minted}"
        now_ns = self._clock()
        clocks = SegmentClocks(clause_id)
        first, end = clause.words[0].first_sample, clause.words[-1].end_sample
        ended_ns = min(now_ns, self._arrival_ns(end - 1) if end else now_ns)
        clocks.mark(Stamp.AUDIO_END, ended_ns)
        clocks.mark(Stamp.FINAL, now_ns)
        span = (first or 0, end or self._heard)
        outcome = Outcome(source_text=clause.text, verdict=self._floor.admit(span, plan, clause.text))
        self._floor.settle(outcome.verdict)
        if outcome.verdict.withheld is Withheld.ECHO:
            self._follows = False
            return
        self._minutes.add(Entry(clause_id, span, plan, outcome, clocks, self._arrival_ns(span[0])))
        told = {"segment_id": clause_id, "leg": side, "text": clause.text, "reason": clause.reason.value}
        self._publish("clause", told)
        if outcome.verdict.withheld is not None:
            self._minutes.lose(clause_id, outcome.verdict.withheld)
            self._follows = False
            return
        self._speaker.put(SpokenClause(clause_id, clause.text, plan, self._follows, ended_ns))
        self._follows = clause.reason not in (Reason.SENTENCE, Reason.FINAL)
