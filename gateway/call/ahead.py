# SPDX-License-Identifier: GPL-3.0-or-later
"""The beginning of a translation, made while its talker is still speaking.

In consecutive mode nothing is spoken before the sentence is over. But its first words are known long before that, and
their translation often begins as the whole sentence's does. So the first piece of it is synthesized on suspicion. When
the final translation begins with just these words, sound is there at once; if not, nobody heard of the guess. A comma
more or less in between is no other word.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence

from gateway.call.pieces import beginning
from gateway.call.plan import DirectionPlan
from gateway.call.rendering import Route
from gateway.speech.errors import SpeechError
from gateway.speech.jobs import Priority, Speech, Translation
from gateway.speech.protocols import SpeechService
from gateway.stream.words import Word, written

PAUSES = tuple(",;:.!?…–—，、；：。！？،؛؟।")
ENDS = tuple(".!?…。！？؟।")
_WORDS = re.compile(r"\S+")
LEAST_WORDS = 3  # of the source: fewer say too little about how the translation begins
MOST_CHARS = 16  # a second of speech. Of 43 sentences, 25 really began so; with 22 characters 22 did, with 32 only 16
QUICK_CHARS = 48  # a voice that makes so much in the time of a first piece gains little by a guess
MOST_TRIES = 3  # pieces made per utterance; another one when more text has changed the beginning


class Ahead:
    """One utterance's guess. Work has the priority of prepared work: it is shed under load."""

    def __init__(
        self, plan: DirectionPlan, speech: SpeechService, leg: str, counts: Counter[str], *, wanted: bool = True
    ) -> None:
        self._plan = plan
        self._speech = speech
        self._leg = leg
        self._counts = counts
        self._seen = ""
        self._pieces: dict[str, Speech] = {}
        self._making: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = wanted
        self._stopped = not wanted

    def consider(self, words: Sequence[Word]) -> None:
        """So much of the utterance is known: look whether its translation has a beginning worth making."""
        known, _ = self._plan.lexicon.rules.replaced(written(words))
        plan = self._plan
        idle = (self._task is None or self._task.done()) and plan.source != plan.target and not plan.safety
        if self._stopped or not plan.first_chars or not idle or len(self._pieces) >= MOST_TRIES:
            return
        if known != self._seen and len(words) >= LEAST_WORDS:
            self._seen = known
            self._task = asyncio.create_task(self._make(known), name=f"ahead-{self._leg}")

    async def take(self, translation: str) -> tuple[str, Speech] | None:
        """What of the translation's beginning is made, and its sound; waits for one that is being made."""
        self._stopped = True
        if self._making is not None and self._task is not None and beginning_said(translation, self._making):
            await asyncio.wait({self._task})
        for piece in sorted(self._pieces, key=len, reverse=True):
            said = beginning_said(translation, piece)
            if said:
                self._counts["ahead_taken"] += 1
                return said, self._pieces[piece]
        self._counts["ahead_missed"] += bool(self._pieces)
        return None

    def hold(self) -> None:
        """The talker pauses, and the whole utterance is being prepared: a new guess would only be in its way."""
        self._stopped = True

    def go_on(self) -> None:
        """It was a pause only, and the talker goes on: guess again, as far as there are tries left."""
        self._stopped = not self._wanted

    def stop(self) -> None:
        """Nobody will ask any more."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _make(self, known: str) -> None:
        plan = self._plan
        try:
            known, _ = plan.lexicon.idioms.replaced(known)
            plain = await Route(plan.source, plan.target, self._translated).whole(known)
            text = plan.lexicon.terms.apply(known, plain.text).text
            piece = beginning(text, plan.target, min(plan.first_chars, MOST_CHARS))
            if piece is None or self._stopped or any(beginning_said(text, made) for made in self._pieces):
                return
            if plan.first_chars > QUICK_CHARS and not piece.endswith(PAUSES):
                return  # not worth a cut where nobody would pause
            self._making = piece
            work = plan.saying(piece, plan.delivery.tempo)
            spoken = (await self._speech.submit(self._leg, work, Priority.PREPARE).result()).result
            assert isinstance(spoken, Speech)
            self._pieces[piece] = spoken
            self._counts["ahead_made"] += 1
        except SpeechError:  # shed or failed: it was only a guess
            self._counts["ahead_failed"] += 1
        finally:
            self._making = None

    async def _translated(self, texts: Sequence[str]) -> Sequence[str]:
        task = self._plan.translating(texts)
        done = await self._speech.submit(self._leg, task, Priority.PREPARE).result()
        assert isinstance(done.result, Translation)
        return done.result.texts


def beginning_said(text: str, piece: str) -> str:
    """The beginning of the text that a piece says: the same words, whatever commas stand between them; "" for none.

    A piece that ends like a sentence is none where the text goes on: one hears that it is over.
    """
    if text == piece:
        return text
    words, own = list(_WORDS.finditer(text)), piece.split()
    if not own or len(own) > len(words):
        return ""
    same = all(_bare(match[0]) == _bare(word) for match, word in zip(words, own, strict=False))
    last = words[len(own) - 1]
    over = own[-1].endswith(ENDS) and not last[0].endswith(ENDS)
    return text[: last.end()] if same and not over else ""


def _bare(word: str) -> str:
    return word.rstrip("".join(PAUSES)) or word
