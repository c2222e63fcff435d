# SPDX-License-Identifier: GPL-3.0-or-later
"""Both directions of a call with scripted engines, fed by hand: both parties may talk at once."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np

from gateway.audio.frames import Frame
from gateway.call.desk import Booth
from gateway.call.direction import Direction
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import PromptBook
from gateway.call.turns import TurnRules
from gateway.speech.jobs import Recognition, RecognizeTask, Result, Speech, SynthesizeTask, Task, Translation
from gateway.stream.plan import EndpointPlan
from tests.call.scripted import ScriptedSpeech, settle
from tests.call.test_direction import voice

FRAME = 160
MS_PER_CHARACTER = 60
ECHO_FRAMES = 8  # 160 ms
Sound = np.ndarray[Any, np.dtype[np.int16]]


def babble(length_ms: int, text: str) -> Sound:
    """A voice that says something: syllables of uneven loudness and pauses, the same for the same text."""
    chance = np.random.default_rng(len(text))
    sound = voice(length_ms / 1000)
    levels = np.repeat(
        chance.choice([0.03, 0.5, 1.0], length_ms // 120 + 1, p=[0.2, 0.3, 0.5]), LEG_RATE_HZ * 120 // 1000
    )
    return (sound * levels[: sound.size]).astype(np.int16)


class Duplex:
    """A speaks en, B speaks pt. ``script`` gives by language what the recogniser hears next; the last stays."""

    def __init__(self, script: dict[str, list[str]], rules: TurnRules | None = None, mode: str = "consecutive") -> None:
        self.now_ns = 1_000_000_000
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.script = script
        self.translations: dict[str, str] = {}
        self.confidence = 0.9
        self.speech = ScriptedSpeech(self.answer)
        self.a = Party("a", "leg-a", "en", lambda: None)
        self.b = Party("b", "leg-b", "pt", lambda: None)
        clip = np.full(800, 900, np.int16)
        names = ("please-repeat", "echoing", "echo-pause")
        book = PromptBook(
            {language: {name: f"{name} in {language}" for name in names} for language in ("en", "pt")},
            {},
            rate_hz=LEG_RATE_HZ,
            cache=Path("/nonexistent"),
            recorded={(language, name): clip for language in ("en", "pt") for name in names},
        )
        for party in (self.a, self.b):
            party.playout._now_ns = lambda: self.now_ns
        booth = Booth(
            speech=self.speech,
            prompts=book,
            endpoint=EndpointPlan(prepare_ms=160),  # longer than the gaps of `babble`: nothing is prepared twice
            previews=mode == "simultaneous",
            repeat_below=0.2,
            turns=rules or TurnRules(),
            clock=lambda: self.now_ns,
        )
        self.a_to_b, self.b_to_a = (
            Direction(
                "call",
                source,
                target,
                booth.plan(source.language, target.language, mode=mode),
                booth=booth,
                publish=lambda kind, data: self.events.append((kind, data)),
            )
            for source, target in ((self.a, self.b), (self.b, self.a))
        )
        for direction in (self.a_to_b, self.b_to_a):
            direction.listen()
        self._at = 0
        self.loudspeaker_db: float | None = None
        """B's telephone sends back what it plays, so much louder; None: it does not."""
        self._air = deque([np.zeros(FRAME, np.int16)] * ECHO_FRAMES, maxlen=ECHO_FRAMES)

    def answer(self, task: Task) -> Result:
        if isinstance(task, RecognizeTask):
            return Recognition(self.script[task.language or "en"][0], task.language or "en", self.confidence)
        if isinstance(task, SynthesizeTask):
            return Speech(babble(MS_PER_CHARACTER * len(task.text), task.text).tobytes(), LEG_RATE_HZ, "v")
        texts = (self.translations.get(text, f"({task.target}) {text}") for text in task.texts)
        return Translation(tuple(texts), (task.source, task.target))

    async def run(self, a: Sound | float, b: Sound | float = 0.0) -> None:
        """Both telephones send, and play; a number is that many seconds of silence."""
        sounds = [np.zeros(round(s * LEG_RATE_HZ), np.int16) if isinstance(s, float) else s for s in (a, b)]
        length = max(sound.size for sound in sounds)
        sounds = [np.concatenate([sound, np.zeros(length - sound.size, np.int16)]) for sound in sounds]
        for first in range(0, length - FRAME + 1, FRAME):
            echo = self._air[0] * (0.0 if self.loudspeaker_db is None else 10 ** (self.loudspeaker_db / 20))
            for party, sound, back in zip((self.a, self.b), sounds, (0.0, echo), strict=True):
                pcm = (sound[first : first + FRAME] + back).astype(np.int16).tobytes()
                party.ring.put(Frame(party.leg, self._at, LEG_RATE_HZ, pcm, self.now_ns))
            self._at += FRAME
            self.now_ns += 20_000_000
            for direction, other in ((self.a_to_b, self.b_to_a), (self.b_to_a, self.a_to_b)):
                direction.hear()
                if direction.interrupts():
                    other.cut()
            await settle(6)
            self.a.playout.next_frame()
            self._air.append(np.frombuffer(self.b.playout.next_frame(), np.int16))
            if self._at % (5 * FRAME) == 0:
                self.a_to_b.tick()
                self.b_to_a.tick()

    async def heard_by_b(self, a: Sound) -> AsyncIterator[Sound]:
        """A says something; what B's telephone plays meanwhile, frame by frame."""
        for first in range(0, a.size - FRAME + 1, FRAME):
            await self.run(a[first : first + FRAME])
            yield self._air[-1]

    async def close(self) -> None:
        """The call is over."""
        for direction in (self.a_to_b, self.b_to_a):
            direction.stop()
            await direction.close()

    def of(self, kind: str, leg: str | None = None) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == kind and leg in (None, data.get("leg"))]

    def lost(self, leg: str) -> list[str | None]:
        """The reasons in the records of a leg's utterances, in the order of their ends."""
        return [data["lost"] for data in self.of("utterance", leg)]
