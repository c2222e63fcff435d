# SPDX-License-Identifier: GPL-3.0-or-later
"""The menu at a telephone: says what the machine says, and tells it which keys came and when all was heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.audio.playout import ClipKind
from gateway.call.menu import Action, Connect, GiveUp, Hush, Key, Menu, MenuEvent, Quiet, Say, Tick
from gateway.call.menu_plan import MenuPlan
from gateway.call.party import Party
from gateway.call.prompts import PromptBook

GAP_MS = 120  # between what is said in one go: a number that is read back is compared digit by digit


class Reception:
    """One caller in the menu. Give it the keys, call `tick` some times a second; at the end it is `over`."""

    def __init__(self, plan: MenuPlan, caller: Party, prompts: PromptBook, clock: Callable[[], int]) -> None:
        self._menu = Menu(plan)
        self._caller = caller
        self._prompts = prompts
        self._clock = clock
        self._talking = False
        self._leaving = False
        self.connect: Connect | None = None
        """What the caller has chosen, once it is confirmed."""

    @property
    def over(self) -> bool:
        """The caller has chosen, or has been told goodbye."""
        return self.connect is not None or (self._leaving and not self._talking)

    def begin(self) -> None:
        """The caller is there: say the first words."""
        self._do(self._menu.start(self._clock()))

    def press(self, key: str) -> None:
        """A key was pressed."""
        self._feed(Key(key))

    def tick(self) -> None:
        """Look at the clock, and whether the caller has heard everything."""
        if self._talking and self._caller.playout.is_idle():
            self._talking = False
            self._feed(Quiet())
        self._feed(Tick())

    def _feed(self, event: MenuEvent) -> None:
        self._do(self._menu.feed(event, self._clock()))

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Say(lines):
                    for language, name in lines:
                        self._caller.prompt(name, self._prompts.clip(language, name), gap_ms=GAP_MS)
                    self._talking = True
                case Hush():
                    self._caller.playout.flush(ClipKind.PROMPT)
                case Connect():
                    self.connect = action
                case GiveUp():
                    self._leaving = True
