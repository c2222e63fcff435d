# SPDX-License-Identifier: GPL-3.0-or-later
"""What a menu route of the dial plan offers: languages by key, and the numbers that may be dialled from it.

Nothing but what a menu's own ``dial`` list allows can be called from it: whoever reaches the menu from outside must not
reach the world at the owner's expense (toll fraud), so there is no rule by default and none that takes everything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

LANGUAGE = re.compile(r"^[a-z]{2,3}$")
DESTINATION = re.compile(r"^sips?:[^\s@<>\"]+(@[^\s@<>\"]+)?$")
MOST_LANGUAGES = 9  # one key each, 1 to 9
MOST_DIGITS = 20  # E.164 has 15, and an exchange may want some before them
ANSWER_S = 6.0
ENTRY_PAUSE_S = 4.0
LONGEST_WAIT_S = 60.0

_DIGITS = re.compile(r"^[0-9]{1,20}$")
_MENU_KEYS = {"languages", "dial", "answer_s", "entry_pause_s"}
_RULE_KEYS = {"number", "prefix", "to", "destination"}


@dataclass(frozen=True, slots=True)
class DialRule:
    """One number, or one prefix, that may be called; ``target`` None: the caller says what is spoken there."""

    destination: str
    number: str | None = None
    prefix: str | None = None
    target: str | None = None

    def takes(self, dialled: str) -> bool:
        """Whether this rule is about a number; a prefix wants at least one digit behind it."""
        if self.number is not None:
            return dialled == self.number
        return self.prefix is not None and dialled.startswith(self.prefix) and dialled != self.prefix

    def uri(self, dialled: str) -> str:
        """Where the number leads."""
        rest = dialled[len(self.prefix or "") :]
        return self.destination.replace("{rest}", rest).replace("{number}", dialled)


@dataclass(frozen=True, slots=True)
class MenuPlan:
    """The languages in the order of their keys, what may be dialled, and how long the menu waits for a key."""

    languages: tuple[str, ...]
    rules: tuple[DialRule, ...]
    answer_s: float = ANSWER_S
    """Silence after a question until it counts as not answered."""
    entry_pause_s: float = ENTRY_PAUSE_S
    """Silence behind a digit that ends a number, as the pound key does."""

    def rule_for(self, dialled: str) -> DialRule | None:
        """The rule for a number: an exact one before prefixes, the longest prefix first. None: it may not be called."""
        if not _DIGITS.match(dialled):
            return None
        taking = [rule for rule in self.rules if rule.takes(dialled)]
        return max(taking, key=lambda rule: (rule.number is not None, len(rule.prefix or "")), default=None)

    def pairs(self) -> set[tuple[str, str]]:
        """(caller's language, called party's language) that a call from this menu may need."""
        targets = {rule.target for rule in self.rules if rule.target} | set(self.languages)
        return {(source, target) for source in self.languages for target in targets if source != target}


def parse_menu(entry: Any, where: str, faults: list[str]) -> MenuPlan | None:
    """The menu of a route; None, and what is wrong in ``faults``, when it cannot be used."""
    if not isinstance(entry, dict):
        faults.append(f"{where}: must be a mapping with 'languages' and 'dial'")
        return None
    before = len(faults)
    faults += [f"{where}: unknown key {key!r}" for key in set(entry) - _MENU_KEYS]
    languages = entry.get("languages")
    if (
        not isinstance(languages, list)
        or not 2 <= len(languages) <= MOST_LANGUAGES
        or not all(isinstance(each, str) and LANGUAGE.match(each) for each in languages)
        or len(set(languages)) < len(languages)
    ):
        faults.append(f"{where}: languages must be a list of 2 to {MOST_LANGUAGES} different codes such as [en, pt]")
    dial = entry.get("dial")
    if not isinstance(dial, list) or not dial:
        faults.append(f"{where}: dial must list the numbers or prefixes that may be called; nothing else can be")
        dial = []
    rules = [rule for n, each in enumerate(dial, 1) if (rule := _rule(each, f"{where}, dial {n}", faults))]
    waits = {}
    for key, default in (("answer_s", ANSWER_S), ("entry_pause_s", ENTRY_PAUSE_S)):
        waits[key] = entry.get(key, default)
        if (
            isinstance(waits[key], bool)
            or not isinstance(waits[key], (int, float))
            or not 0 < waits[key] <= LONGEST_WAIT_S
        ):
            faults.append(f"{where}: {key} must be a number of seconds, at most {LONGEST_WAIT_S:g}")
    if len(faults) > before or not isinstance(languages, list):
        return None
    return MenuPlan(tuple(languages), tuple(rules), **waits)


def _rule(entry: Any, where: str, faults: list[str]) -> DialRule | None:
    if not isinstance(entry, dict):
        faults.append(f"{where}: must be a mapping")
        return None
    before = len(faults)
    faults += [f"{where}: unknown key {key!r}" for key in set(entry) - _RULE_KEYS]
    if ("number" in entry) == ("prefix" in entry):
        faults.append(f"{where}: needs either 'number' or 'prefix'")
    for key in ("number", "prefix"):
        if key in entry and not (isinstance(entry[key], str) and _DIGITS.match(entry[key])):
            faults.append(f'{where}: {key} must be a quoted string of digits, such as "200"')
    target, destination = entry.get("to"), entry.get("destination")
    if target is not None and not (isinstance(target, str) and LANGUAGE.match(target)):
        faults.append(f"{where}: to must be a language code such as en")
    sample = str(destination).replace("{rest}", "0").replace("{number}", "0")
    if not isinstance(destination, str) or not DESTINATION.match(sample):
        faults.append(f"{where}: destination must be a SIP URI such as sip:{{number}}@192.0.2.10:5060")
    if len(faults) > before:
        return None
    return DialRule(str(destination), entry.get("number"), entry.get("prefix"), target)
