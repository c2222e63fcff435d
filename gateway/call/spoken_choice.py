# SPDX-License-Identifier: GPL-3.0-or-later
"""A language that is named aloud in the menu, instead of a key (SPEC A2).

What is said while the menu is silent is recognised in each language that is offered, with the names that the menu says
as hotwords: a single short word is what recognisers mishear most ("por tu gás" for "Português"). It counts when the
recognitions name one language, and no two: a wrong language costs the caller more than a second question. What is said
into the menu's own voice is not heard, because a telephone that echoes would choose by itself.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog
import yaml
from rapidfuzz import fuzz

from gateway.audio.frames import Frame
from gateway.call.desk import Booth
from gateway.call.ear import Ear
from gateway.speech.errors import SpeechError
from gateway.speech.jobs import Priority, Recognition, RecognizeTask
from gateway.stream.endpoint import Endpointer
from gateway.stream.events import Span, SpeechEnded, SpeechStarted
from gateway.stream.plan import Mode
from gateway.text.normal import normal_words

log = structlog.get_logger(__name__)

SAME = 85.0  # rapidfuzz ratio: one letter of seven may be wrong
LONGEST_S = 4.0  # "Portuguese, please": who talks longer tells something else


def _plain(text: str) -> str:
    """Without accents and case: recognisers leave them out as it comes."""
    return "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char))


def _shipped_names() -> dict[str, tuple[str, ...]]:
    document = yaml.safe_load(Path(__file__).with_name("language_names.yaml").read_text(encoding="utf-8"))
    return {str(language): tuple(map(str, names)) for language, names in document.items()}


SPELLED = _shipped_names()
"""By language: what it is called, in several languages."""
NAMES = {language: tuple(map(_plain, names)) for language, names in SPELLED.items()}
"""The same, plain."""


def named_language(text: str, offered: Sequence[str], names: Mapping[str, Sequence[str]] = NAMES) -> str | None:
    """The one language of ``offered`` that a text names, or whose key it says; None for none and for several."""
    words = [_plain(word) for word in normal_words(text)]
    found = {
        language
        for language in offered
        for name in names.get(language, ())
        if any(fuzz.ratio(word, name) >= SAME for word in words)
    }
    if not found and len(words) == 1 and words[0].isdecimal() and 1 <= int(words[0]) <= len(offered):
        found = {offered[int(words[0]) - 1]}
    return found.pop() if len(found) == 1 else None


class SpokenChoice:
    """Hears a caller in the menu and says which language was named. Belongs to the event loop."""

    def __init__(self, leg: str, booth: Booth, on_named: Callable[[str], None]) -> None:
        endpoint = booth.endpoint_for(Mode.CONSECUTIVE)
        self._leg = leg
        self._booth = booth
        self._on_named = on_named
        self._rate_hz = endpoint.rate_hz
        self._ear = Ear(endpoint.rate_hz, endpoint.frame_ms, booth.vad_aggressiveness)
        self._endpointer = Endpointer(endpoint)
        self._counts = False
        """What is being said was begun in silence, and is an answer."""
        self._recognising: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Somebody speaks, or it is being found out what was said: no answer is not late yet."""
        return (self._counts and self._endpointer.speaking) or self._recognising is not None

    def hear(self, frame: Frame, offered: tuple[str, ...], *, silent: bool) -> None:
        """Take a frame of the caller's; ``offered`` may be named now, ``silent``: the menu says nothing itself."""
        for verdict in self._ear.feed(frame):
            for event in self._endpointer.feed(verdict):
                if isinstance(event, SpeechStarted):
                    self._counts = silent
                elif isinstance(event, SpeechEnded):
                    self._ended(event, offered)

    def close(self) -> None:
        """The menu is over."""
        if self._recognising is not None:
            self._recognising.cancel()

    def _ended(self, event: SpeechEnded, offered: tuple[str, ...]) -> None:
        long = event.speech_end - event.first_sample > LONGEST_S * self._rate_hz
        if not offered or not self._counts or long or self._recognising is not None:
            return
        pcm = self._ear.cut(Span(event.first_sample, event.end_sample, 1))
        self._recognising = asyncio.create_task(self._recognise(pcm, offered), name=f"choice-{self._leg}")

    async def _recognise(self, pcm: bytes, offered: tuple[str, ...]) -> None:
        names = tuple(SPELLED[language][0] for language in offered if language in SPELLED)  # as the menu says them
        try:
            tickets = [
                self._booth.speech.submit(self._leg, RecognizeTask(pcm, language, names), Priority.FINAL)
                for language in offered
            ]
            results = [(await ticket.result()).result for ticket in tickets]
        except SpeechError as error:
            log.warning("choice_not_recognised", leg=self._leg, error=type(error).__name__)
            return
        finally:
            self._recognising = None
        named = {named_language(heard.text, offered) for heard in results if isinstance(heard, Recognition)} - {None}
        if len(named) == 1:
            self._on_named(str(named.pop()))
