# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of the sound given to a listener, told to those who keep account of it.

A translation that is cut off is told with how much of it was heard (``cut``), because its record was published when it
began to sound.
"""

from __future__ import annotations

from gateway.audio.playout import ClipKind
from gateway.call.minutes import Minutes, Publish
from gateway.call.party import Party
from gateway.call.prompts import PromptBook
from gateway.stream.clocks import Stamp


class Played:
    """Of one listener: reads the play-out's events and passes them on."""

    def __init__(self, talker_side: str, listener: Party, minutes: Minutes, prompts: PromptBook, tell: Publish) -> None:
        self._talker_side = talker_side
        self._listener = listener
        self._minutes = minutes
        self._prompts = prompts
        self._tell = tell

    def tick(self) -> None:
        """Note what has happened since the last look."""
        listener = self._listener
        for event in listener.playout.events():
            entry = self._minutes.get(event.clip_id)
            text, language, said_ns = self._prompts.text(listener.language, event.clip_id), listener.language, 0
            if entry is not None:
                text, language = entry.outcome.target_text, entry.plan.target
                said_ns = entry.clocks.get(Stamp.AUDIO_END) or 0
            cut = listener.spoken.note(event, text, language, said_ns)
            self._minutes.note(event)
            listener.last_words.note(event)
            if cut is not None and cut.kind is ClipKind.TRANSLATION:
                heard_ms = cut.cut_ns // 1_000_000
                self._tell("cut", {"segment_id": cut.name, "leg": self._talker_side, "heard_ms": heard_ms})
