# SPDX-License-Identifier: GPL-3.0-or-later
"""The menu that answers a caller: which language, which number, is that right?, and then it rings there (SPEC A2).

    language → number → [the other party's language] → confirmation → connect
        any step: three wrong or missing answers, or three minutes in all → goodbye

A pure machine: events and the clock go in, actions come out. It hears of three things: a key, a language that was
named aloud, and that all it had said was heard, from which moment it waits for an answer. What was not asked for is
never guessed: a number is read back and confirmed before it is dialled, and only what the plan allows is dialled at
all. A key stops what is being said, so that who knows the way need not listen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.call.menu_plan import MOST_DIGITS, DialRule, MenuPlan

ASK_LANGUAGE = "menu-language"
ASK_OTHER = "menu-other"
ASK_NUMBER = "menu-number"
ENTERED = "menu-entered"
CONFIRM = "menu-confirm"
WRONG_KEY = "menu-wrong"
NOT_ALLOWED = "menu-not-allowed"
GOODBYE = "menu-goodbye"
DIGITS = tuple(f"digit-{digit}" for digit in range(10))
MENU_PROMPTS = (ASK_LANGUAGE, ASK_OTHER, ASK_NUMBER, ENTERED, CONFIRM, WRONG_KEY, NOT_ALLOWED, GOODBYE, *DIGITS)
"""What a language needs to be offered."""

MOST_FAILURES = 3
LONGEST_NS = 180_000_000_000  # nobody who means to call anybody needs longer; a line that is left open costs a leg
YES_KEY, CHANGE_KEY, END_KEY = "1", "*", "#"


class Step(StrEnum):
    """Which question is open."""

    LANGUAGE = "language"
    NUMBER = "number"
    OTHER = "other"
    CONFIRM = "confirm"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the telephone was pressed."""

    key: str


@dataclass(frozen=True, slots=True)
class Named:
    """A language was named aloud, and understood."""

    language: str


@dataclass(frozen=True, slots=True)
class Quiet:
    """Everything that was to be said has been heard."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


MenuEvent = Key | Named | Quiet | Tick


@dataclass(frozen=True, slots=True)
class Say:
    """Say prompts one after the other: (language, name) each."""

    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Hush:
    """Stop talking: the caller knows the way."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Call this destination, and interpret between these languages."""

    source: str
    target: str
    destination: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Hang up as soon as the goodbye was heard."""


Action = Say | Hush | Connect | GiveUp


class Menu:
    """One caller's way through a menu. `start` once, then `feed`; after `Connect` or `GiveUp` nothing more comes."""

    def __init__(self, plan: MenuPlan) -> None:
        self._plan = plan
        self.step = Step.LANGUAGE
        self.language = ""
        """The caller's, when it is known."""
        self._other = ""
        self._number = ""
        self._rule: DialRule | None = None
        self._failures = 0
        self._began_ns = 0
        self._due_ns: int | None = None

    @property
    def names_wanted(self) -> tuple[str, ...]:
        """The languages that may be named aloud now instead of a key."""
        return self._offered() if self.step in (Step.LANGUAGE, Step.OTHER) else ()

    def start(self, now_ns: int) -> list[Action]:
        """The first words."""
        self._began_ns = now_ns
        return [Say(self._question())]

    def feed(self, event: MenuEvent, now_ns: int) -> list[Action]:
        """What to do about an event."""
        if self.step is Step.OVER:
            return []
        if now_ns - self._began_ns >= LONGEST_NS:
            return [Hush(), *self._goodbye()]
        match event:
            case Quiet():
                self._wait(now_ns)
                return []
            case Tick():
                return self._late() if self._due_ns is not None and now_ns >= self._due_ns else []
            case Named(language):
                return [Hush(), *self._chosen(language)] if language in self.names_wanted else []
            case Key(key):
                self._due_ns = None
                return [Hush(), *self._pressed(key, now_ns)]

    # --- answers ----------------------------------------------------------------------------------------------------

    def _pressed(self, key: str, now_ns: int) -> list[Action]:
        if self.step is Step.NUMBER:
            return self._dialled(key, now_ns)
        if self.step is Step.CONFIRM:
            if key == YES_KEY:
                return self._connect()
            if key == CHANGE_KEY:
                return self._ask(Step.NUMBER)
            return self._failed(WRONG_KEY)
        offered = self._offered()
        position = "123456789".find(key)
        return self._chosen(offered[position]) if 0 <= position < len(offered) else self._failed(WRONG_KEY)

    def _chosen(self, language: str) -> list[Action]:
        if self.step is Step.LANGUAGE:
            self.language = language
            return self._ask(Step.NUMBER)
        self._other = language
        return self._ask(Step.CONFIRM)

    def _dialled(self, key: str, now_ns: int) -> list[Action]:
        if key == CHANGE_KEY:
            return self._ask(Step.NUMBER)
        if key == END_KEY:
            return self._entered()
        if not key.isdecimal() or len(self._number) >= MOST_DIGITS:
            return self._failed(WRONG_KEY)
        self._number += key
        self._wait(now_ns)  # the caller has stopped our words: nothing will be `Quiet` again
        return []

    def _entered(self) -> list[Action]:
        rule = self._plan.rule_for(self._number)
        if rule is None or rule.target == self.language:
            return self._failed(NOT_ALLOWED if self._number else WRONG_KEY)
        self._rule = rule
        others = self._offered_besides()
        self._other = rule.target or (others[0] if len(others) == 1 else "")
        return self._ask(Step.CONFIRM if self._other else Step.OTHER)

    def _late(self) -> list[Action]:
        self._due_ns = None
        if self.step is Step.NUMBER and self._number:
            return self._entered()
        return self._failed(None)

    # --- questions --------------------------------------------------------------------------------------------------

    def _ask(self, step: Step) -> list[Action]:
        self.step = step
        self._failures = 0
        if step is Step.NUMBER:
            self._number = ""
        return [Say(self._question())]

    def _failed(self, why: str | None) -> list[Action]:
        """A wrong answer, or none: say so and ask again, or say goodbye."""
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            return self._goodbye()
        if self.step is Step.NUMBER:
            self._number = ""
        # before a language is chosen there is none to complain in: the question itself is the answer
        excuse = ((self.language, why),) if why is not None and self.language else ()
        return [Say((*excuse, *self._question()))]

    def _question(self) -> tuple[tuple[str, str], ...]:
        mine = self.language
        if self.step is Step.NUMBER:
            return ((mine, ASK_NUMBER),)
        if self.step is Step.CONFIRM:
            return ((mine, ENTERED), *((mine, DIGITS[int(digit)]) for digit in self._number), (mine, CONFIRM))
        asked = ((mine, ASK_OTHER),) if self.step is Step.OTHER else ()
        offers = [
            line
            for key, language in enumerate(self._offered(), 1)
            for line in ((language, ASK_LANGUAGE), (language, DIGITS[key]))
        ]
        return (*asked, *offers)

    def _offered(self) -> tuple[str, ...]:
        return self._offered_besides() if self.step is Step.OTHER else self._plan.languages

    def _offered_besides(self) -> tuple[str, ...]:
        return tuple(language for language in self._plan.languages if language != self.language)

    def _connect(self) -> list[Action]:
        assert self._rule is not None
        self.step = Step.OVER
        return [Connect(self.language, self._other, self._rule.uri(self._number))]

    def _goodbye(self) -> list[Action]:
        self.step = Step.OVER
        languages = (self.language,) if self.language else self._plan.languages
        return [Say(tuple((language, GOODBYE) for language in languages)), GiveUp()]

    def _wait(self, now_ns: int) -> None:
        in_entry = self.step is Step.NUMBER and self._number
        wait_s = self._plan.entry_pause_s if in_entry else self._plan.answer_s
        self._due_ns = now_ns + round(wait_s * 1e9)
