# SPDX-License-Identifier: GPL-3.0-or-later
"""Between hearing and translating: which texts are not to be translated, and why. Pure; one for each direction.

Whatever is withheld here was heard and stands in the transcript; only nothing is spoken for it.

An utterance is judged as soon as its text is known, perhaps before it is sure that it is over: `judge` changes nothing.
`settle` counts, once for each final text.

A backchannel ("uh-huh") is one only beneath a translation: it begins and ends while that sounds, the translation goes
on for a while behind it, and asks nothing. The same word in silence, or to a question, is an answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.call.breaker import LoopBreaker
from gateway.call.echo_words import MOST_DELAY_NS, Echo, Heard, judge_echo
from gateway.call.spoken import SpokenLog
from gateway.call.turns import TurnRules
from gateway.text.backchannel import is_backchannel

GOES_ON_NS = 400_000_000  # a nod at the very end of a sentence may be the answer to it
_QUESTION_MARKS = "?？؟\u037e"  # Latin and Cyrillic, wide, Arabic, Greek


class Withheld(StrEnum):
    """Why a text is not translated; the word stands in records as the reason."""

    BACKCHANNEL = "backchannel"
    ECHO = "echo"
    LOOP = "loop"
    NOISE = "noise"
    """Nothing but safety words is believed, and it held none."""
    SAME_LANGUAGE = "same-language"


def ending_of(lost: str | None) -> str:
    """How an utterance ended, for counting, by the reason in its record: ``spoken``, ``withheld`` or ``lost``."""
    if lost is None:
        return "spoken"
    return "withheld" if lost in set(Withheld) else "lost"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a text. ``suspicious``: it is translated, but may be an echo."""

    withheld: Withheld | None = None
    suspicious: bool = False


TRANSLATE = Verdict()


class Gate:
    """Of one talker. ``to_talker`` is what they are given to hear."""

    def __init__(self, rules: TurnRules, to_talker: SpokenLog) -> None:
        self._rules = rules
        self._to_talker = to_talker
        self._breaker = LoopBreaker(rules.echo_hits, round(rules.echo_window_s * 1e9), round(rules.echo_pause_s * 1e9))
        self._counts: Counter[str] = Counter()

    def judge(self, heard: Heard, target: str, now_ns: int) -> Verdict:
        """What is to become of a text that is to be translated into ``target``."""
        verdict = TRANSLATE
        echo = self._echo(heard)
        if echo is Echo.YES:
            return Verdict(Withheld.ECHO)
        if heard.language == target:
            verdict = Verdict(Withheld.SAME_LANGUAGE)
        elif self._rules.backchannels and self.nods(heard):
            verdict = Verdict(Withheld.BACKCHANNEL)
        elif self._breaker.is_open(now_ns):
            verdict = Verdict(Withheld.LOOP)
        return Verdict(verdict.withheld, echo is Echo.MAYBE)

    def settle(self, verdict: Verdict, now_ns: int) -> bool:
        """The text is final: count it. True when this is one echo too many, and translation pauses from now on."""
        if verdict.withheld is not None:
            self._counts[f"withheld-{verdict.withheld}"] += 1
        if verdict.suspicious:
            self._counts["echoes-suspected"] += 1
        return (verdict.withheld is Withheld.ECHO or verdict.suspicious) and self._breaker.hit(now_ns)

    def nods(self, heard: Heard) -> bool:
        """Whether somebody only says "go on" to the translation that they listen to."""
        if not is_backchannel(heard.text, heard.language):
            return False
        return any(
            one.began_ns <= heard.first_ns
            and one.until_ns >= heard.end_ns + GOES_ON_NS
            and not one.text.rstrip("»”\"' ").endswith(tuple(_QUESTION_MARKS))
            for one in self._to_talker.during(heard.first_ns, heard.end_ns)
        )

    def _echo(self, heard: Heard) -> Echo:
        if not self._rules.echo_guard:
            return Echo.NO
        return judge_echo(heard, self._to_talker.during(heard.first_ns - 2 * MOST_DELAY_NS, heard.end_ns))

    def statistics(self) -> dict[str, Any]:
        """Counts by reason; no words."""
        return {**self._counts, "loops-broken": self._breaker.opened}
