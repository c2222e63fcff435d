# SPDX-License-Identifier: GPL-3.0-or-later
"""A text in which pieces were replaced, that still knows where each of its characters came from."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """``source[start:end]`` becomes ``text``. ``sure`` is False when it may have been no number at all."""

    start: int
    end: int
    text: str
    sure: bool = True
    ordinal: bool = False
    digits: bool = False
    """Said digit by digit."""
    shape: str = ""
    """How digits were grouped."""


class Aligned:
    """``text`` is ``source`` after the edits, which are in order and do not overlap."""

    def __init__(self, source: str, edits: list[Edit]) -> None:
        self.source = source
        self._places: list[tuple[int, int, Edit]] = []
        parts: list[str] = []
        at = behind = 0
        for edit in edits:
            parts += [source[behind : edit.start], edit.text]
            at += edit.start - behind
            self._places.append((at, at + len(edit.text), edit))
            at += len(edit.text)
            behind = edit.end
        self.text = "".join([*parts, source[behind:]])

    def edits_in(self, start: int, end: int) -> list[Edit]:
        """The edits that have a part in ``text[start:end]``."""
        found = []
        for at in range(bisect_right(self._places, start, key=lambda place: place[1]), len(self._places)):
            if self._places[at][0] >= end:
                break
            found.append(self._places[at][2])
        return found

    def covers(self, edit: Edit, start: int, end: int) -> bool:
        """Whether ``text[start:end]`` is an edit's text and nothing else."""
        return (start, end, edit) in self._places

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Where ``text[start:end]`` came from in the source."""
        return self._origin(start, ends=False), self._origin(end, ends=True)

    def _origin(self, at: int, *, ends: bool) -> int:
        shift = 0
        for first, last, edit in self._places:
            if at < first or (ends and at == first):
                break
            if at < last or (ends and at == last):
                return edit.end if ends else edit.start
            shift = edit.end - last
        return at + shift
