# SPDX-License-Identifier: GPL-3.0-or-later
"""What a party was given to hear, with its words and the time at which it sounded. Pure.

This is how the call knows what comes back by a loudspeaker, and what somebody listens to while they say "uh-huh".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.audio.playout import ClipKind, PlayEvent

KEPT = 64  # more than a party is given to hear in a minute


@dataclass(slots=True)
class Spoken:
    """An utterance, or a prompt, on its way to an ear. Stamps are monotonic ns."""

    name: str
    kind: ClipKind
    length_ns: int
    """Of the pieces that were queued so far."""
    text: str = ""
    language: str = ""
    said_ns: int = 0
    """When the talker had said what it translates; 0 for prompts."""
    began_ns: int = 0
    """0: not yet."""
    ended_ns: int = 0
    """When the last piece ended that did; 0 while one sounds."""
    sounding: int = 0
    """Pieces that sound now: two where one fades into the next."""
    cut_ns: int = 0
    """How much had been heard of it when it was cut off; 0: it was not."""

    @property
    def until_ns(self) -> int:
        """When it ended, or will end as far as it is known."""
        return self.ended_ns or self.began_ns + self.length_ns


class SpokenLog:
    """The last of what one party was given to hear. Sound is queued first and noted when it begins and ends."""

    def __init__(self) -> None:
        self._kept: deque[Spoken] = deque(maxlen=KEPT)

    def queue(self, name: str, kind: ClipKind, length_ns: int) -> None:
        """A piece of sound of this length was queued; pieces of one name are one translation."""
        last = self._kept[-1] if self._kept else None
        if last is not None and last.name == name and kind is ClipKind.TRANSLATION:
            last.length_ns += length_ns
        else:
            self._kept.append(Spoken(name, kind, length_ns))

    def note(self, event: PlayEvent, text: str, language: str, said_ns: int = 0) -> Spoken | None:
        """Something became of a clip; what it says is taken when it begins. The utterance, when this cuts it off."""
        named = [one for one in self._kept if one.name == event.clip_id]
        if event.what == "started" and named:
            one = next((one for one in named if not one.began_ns), named[-1])
            if text and not one.text:
                one.text, one.language, one.said_ns = text, language, said_ns
            one.began_ns, one.ended_ns = one.began_ns or event.at_ns, 0
            one.sounding += 1
            return None
        sounded = next((one for one in reversed(named) if one.began_ns and not one.cut_ns), None)
        if sounded is None:
            return None
        sounded.sounding -= 1
        if event.what == "ended":
            sounded.ended_ns = 0 if sounded.sounding else event.at_ns
            return None
        sounded.ended_ns = sounded.ended_ns or event.at_ns
        sounded.cut_ns = max(1, sounded.ended_ns - sounded.began_ns)
        return sounded

    def sounding(self, now_ns: int) -> Spoken | None:
        """The translation that sounds now, if one does."""
        for one in reversed(self._kept):
            if one.kind is ClipKind.TRANSLATION and 0 < one.began_ns <= now_ns < one.until_ns:
                return one
        return None

    def statistics(self) -> dict[str, int]:
        """How much is kept, and how much of it was cut off."""
        return {"kept": len(self._kept), "cut": sum(one.cut_ns > 0 for one in self._kept)}

    def during(self, first_ns: int, end_ns: int) -> Sequence[Spoken]:
        """What sounded at any time between the two, oldest first."""
        return [one for one in self._kept if 0 < one.began_ns <= end_ns and one.until_ns >= first_ns]
