# SPDX-License-Identifier: GPL-3.0-or-later
"""The menu at a telephone: says what the machine says, and tells it which answers came and when all was heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.audio.frames import Frame
from gateway.audio.playout import ClipKind
from gateway.call.desk import Booth
from gateway.call.menu import Action, Connect, GiveUp, Hush, Key, Menu, MenuEvent, Named, Quiet, Say, Tick
from gateway.call.menu_plan import MenuPlan
from gateway.call.party import Party
from gateway.call.spoken_choice import SpokenChoice

GAP_MS = 120  # between what is said in one go: a number that is read back is compared digit by digit


class Reception:
    """One caller in the menu. Give it the keys, call `hear` as sound comes and `tick` some times a second.

    ``said`` sees every frame of the caller's (the recorder).
    """

    def __init__(self, plan: MenuPlan, caller: Party, booth: Booth, said: Callable[[Frame], None] | None) -> None:
        self._menu = Menu(plan)
        self._caller = caller
        self._prompts = booth.prompts
        self._clock = booth.clock
        self._said = said
        self._choice = SpokenChoice(caller.leg, booth, lambda language: self._feed(Named(language)))
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

    def hear(self) -> None:
        """Take what has arrived from the caller: it is for the menu, and for nobody else."""
        for frame in self._caller.ring.drain():
            if self._said is not None:
                self._said(frame)
            self._choice.hear(frame, self._menu.names_wanted, silent=not self._talking)

    def close(self) -> None:
        """The caller has left the menu."""
        self._choice.close()

    def tick(self) -> None:
        """Look at the clock, and whether the caller has heard everything."""
        if self._talking and self._caller.playout.is_idle():
            self._talking = False
            self._feed(Quiet())
        if not self._choice.busy:
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
