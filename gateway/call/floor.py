# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has the floor: one talker's turns against what they are given to hear at the same time.

A telephone call is full duplex: both may speak at once, both are heard and recognised, and both transcripts are
complete. Three questions are left. Is what the talker said to be translated (`gate`)? Do they interrupt the translation
that they hear? And does their telephone send it back (`echo`)?

The talker *interrupts* when they have talked over a translation for longer than a nod (`talkover`), when that has
sounded for a while already, when what it translates was said a while ago, and when what is known of their words is
neither a backchannel nor the translation itself. Then the rest of it is stale: it fades, and the record says how much
was heard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

from gateway.call.echo import EchoWatch
from gateway.call.echo_words import SHORT_LETTERS, SURE, Heard
from gateway.call.gate import Gate, Verdict, Withheld
from gateway.call.minutes import Publish
from gateway.call.party import Party
from gateway.call.plan import DirectionPlan
from gateway.call.prompts import ECHO_PAUSE, ECHOING, PromptBook
from gateway.call.talkover import TalkOver
from gateway.call.turns import TurnRules
from gateway.stream.events import VoiceFrame
from gateway.stream.manner import Talker
from gateway.text.alike import find_alike, plain
from gateway.text.backchannel import is_backchannel

log = structlog.get_logger(__name__)


class Floor:
    """Of one direction. ``arrival_ns`` tells when a sample of the talker's came. Belongs to the event loop."""

    def __init__(
        self,
        rules: TurnRules,
        source: Party,
        target: Party,
        *,
        talker: Talker,
        arrival_ns: Callable[[int], int],
        prompts: PromptBook,
        publish: Publish,
        clock: Callable[[], int],
    ) -> None:
        self._rules = rules
        self._source = source
        self._target = target
        self._talker = talker
        self._arrival_ns = arrival_ns
        self._prompts = prompts
        self._publish = publish
        self._clock = clock
        self._gate = Gate(rules, source.spoken)
        self._echo = EchoWatch(source.playout)
        self._talk_over = TalkOver(rules.barge_in_ms, source.rate_hz, source.playout, self._echo)
        self._counts: Counter[str] = Counter()

    def feed(self, verdict: VoiceFrame) -> None:
        """The next verdict on what the talker says."""
        self._echo.feed(verdict)
        self._talk_over.feed(verdict)

    def echoes(self, first_sample: int, end_sample: int) -> bool:
        """Whether a span sounds like what the talker's telephone was given to play."""
        return self._rules.echo_guard and self._echo.is_echo(first_sample, end_sample)

    def interrupts(self, language: str, known: str) -> bool:
        """Whether the talker interrupts what they hear, since the last look; ``known`` of their words so far."""
        if not self._talk_over.take():
            return False
        now_ns, rules = self._clock(), self._rules
        heard = self._source.spoken.sounding(now_ns)
        if heard is None:
            return False
        if now_ns - heard.began_ns < rules.barge_in_grace_s * 1e9 or now_ns - heard.said_ns < rules.stale_s * 1e9:
            self._counts["too-early"] += 1
            return False
        if rules.backchannels and is_backchannel(known, language):
            self._counts["nods"] += 1
            return False
        long = len(plain(known)) >= SHORT_LETTERS
        if rules.echo_guard and long and find_alike(known, heard.text).likeness >= SURE:
            self._counts["echoes"] += 1
            return False
        self._counts["interruptions"] += 1
        return True

    def admit(self, span: tuple[int, int], plan: DirectionPlan, text: str) -> Verdict:
        """Whether a text that was said in ``span`` is to be translated under a plan. Changes nothing."""
        first, end = self._talker.voiced(*span)
        said = Heard(text, plan.source, self._arrival_ns(first), self._arrival_ns(end - 1))
        return self._gate.judge(said, plan.target, self._clock())

    def settle(self, verdict: Verdict) -> None:
        """A text is final. After too many echoes both parties are told that the translation pauses for a moment."""
        if verdict.withheld is Withheld.ECHO:
            self._publish("echo", {"leg": self._source.side})
        if not self._gate.settle(verdict, self._clock()):
            return
        self._publish("loop-broken", {"leg": self._source.side, "pause_s": self._rules.echo_pause_s})
        log.warning("echo_loop_broken", leg=self._source.line)
        for party, name in ((self._source, ECHOING), (self._target, ECHO_PAUSE)):
            party.prompt(name, self._prompts.clip(party.language, name))

    def statistics(self) -> dict[str, Any]:
        """Counts by reason; no words."""
        return {**self._gate.statistics(), **self._counts, "sounds-echoed": self._echo.found}
