# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateway says on its own account: disclosures, failures, "please repeat".

Prompts are synthesized once per voice and kept on disk, so that the second start is quick and the first call hears
them at once. Recordings (`prompt_files`) take their place.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import structlog
import yaml

from gateway.audio.resample import resample
from gateway.speech.errors import SpeechError
from gateway.speech.jobs import Priority, Speech, SynthesizeTask
from gateway.speech.protocols import SpeechService

log = structlog.get_logger(__name__)

CALLER_DISCLOSURE = "caller-disclosure"
CALLEE_DISCLOSURE = "callee-disclosure"
PLEASE_REPEAT = "please-repeat"
LEFT_OUT = "left-out"
ON_HOLD = "on-hold"
ECHOING = "echoing"
SAME_LANGUAGE = "same-language"
INTERPRETED = "control-resumed"
ECHO_PAUSE = "echo-pause"
MAKESHIFT = "makeshift"
SAFETY_WORDS = "safety-words"
SAFETY_WORDS_OVER = "safety-words-over"
NEEDED = (CALLER_DISCLOSURE, CALLEE_DISCLOSURE)
_LEG = "prompts"

Int16 = npt.NDArray[np.int16]


class PromptError(ValueError):
    """The prompts file cannot be used, or lacks what a language needs."""


def load_prompt_texts(
    path: Path, languages: Sequence[str], recorded: Collection[tuple[str, str]] = ()
) -> dict[str, dict[str, str]]:
    """Texts by language and name. PromptError when the file is bad or a language lacks its disclosures.

    What is in ``recorded``, (language, name) each, needs no text.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PromptError(f"{path}: cannot be read: {error}") from None
    if not isinstance(document, dict) or not all(
        isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values()) for texts in document.values()
    ):
        raise PromptError(f"{path}: must map languages to prompts, and prompts to texts")
    for language in languages:
        texts = document.get(language, {})
        missing = [name for name in NEEDED if name not in texts and (language, name) not in recorded]
        if missing:
            raise PromptError(f"{path}: language {language!r} lacks {', '.join(missing)}; add it, or set call.prompts")
    return {language: dict(texts) for language, texts in document.items()}


def shipped_prompts() -> Path:
    """The prompts file that comes with the gateway."""
    return Path(__file__).with_name("prompts.yaml")


@dataclass(frozen=True, slots=True)
class PromptLine:
    """One prompt, for a list: ``state`` is ``recorded``, ``synthesized`` or ``absent`` (not made yet)."""

    language: str
    name: str
    state: str
    text: str


class PromptBook:
    """All prompts as sound, by language and name, at one rate."""

    def __init__(
        self,
        texts: Mapping[str, Mapping[str, str]],
        voices: Mapping[str, str],
        *,
        rate_hz: int,
        cache: Path,
        recorded: Mapping[tuple[str, str], Int16] | None = None,
    ) -> None:
        """``voices``: by language, what tells one voice's sound from another's: engine, model and the model's sum."""
        self._texts = texts
        self._voices = voices
        self.rate_hz = rate_hz
        self._cache = cache
        self._recorded = frozenset(recorded or {})
        self._clips: dict[tuple[str, str], Int16] = dict(recorded or {})

    def has(self, language: str, names: Iterable[str]) -> bool:
        """Whether all these prompts can be said now."""
        return all((language, name) in self._clips for name in names)

    def lacks(self, language: str, names: Iterable[str]) -> list[str]:
        """Those of these prompts that can never be said: neither text nor recording is there."""
        texts = self._texts.get(language, {})
        return [name for name in names if name not in texts and (language, name) not in self._clips]

    def clip(self, language: str, name: str) -> Int16:
        """1-D int16 at the book's rate; empty when the language has no such prompt."""
        return self._clips.get((language, name), np.zeros(0, np.int16))

    def lines(self) -> list[PromptLine]:
        """All prompts of the languages that have a voice, in the order of the file."""
        found = []
        for language in self._voices:
            texts = self._texts.get(language, {})
            names = [*texts, *(name for of, name in sorted(self._recorded) if of == language and name not in texts)]
            for name in names:
                made = "synthesized" if (language, name) in self._clips else "absent"
                state = "recorded" if (language, name) in self._recorded else made
                found.append(PromptLine(language, name, state, texts.get(name, "")))
        return found

    def text(self, language: str, name: str) -> str:
        """What a prompt says; empty when it is none, or is a recording whose words nobody wrote down."""
        return self._texts.get(language, {}).get(name, "")

    async def missing(self) -> list[tuple[str, str]]:
        """(language, name) of what is not in the cache yet; what is there is loaded."""
        absent = []
        for language in self._voices:
            for name, text in self._texts.get(language, {}).items():
                if (language, name) in self._clips:
                    continue
                cached = await asyncio.to_thread(_read, self._path(language, text), self.rate_hz)
                if cached is None:
                    absent.append((language, name))
                else:
                    self._clips[language, name] = cached
        return absent

    def _path(self, language: str, text: str) -> Path:
        key = hashlib.sha256(f"{self._voices[language]}|{text}|{self.rate_hz}".encode()).hexdigest()[:32]
        return self._cache / f"{language}-{key}.wav"

    async def load(
        self,
        speech: SpeechService,
        names: Collection[str] | None = None,
        *,
        idle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Read the prompts of all voices from the cache, synthesize the rest; each one after ``idle``, if given.

        SpeechError: a needed one failed.
        """
        absent = [one for one in await self.missing() if names is None or one[1] in names]
        await asyncio.to_thread(self._cache.mkdir, parents=True, exist_ok=True)
        for language, name in absent:
            if idle is not None:
                await idle()
            try:
                self._clips[language, name] = await self._made(speech, language, self._texts[language][name])
            except SpeechError as error:
                if name in NEEDED:
                    raise
                log.warning("prompt_failed", language=language, prompt=name, error=str(error))

    async def _made(self, speech: SpeechService, language: str, text: str) -> Int16:
        done = await speech.submit(_LEG, SynthesizeTask(text, language), Priority.CLAUSE).result()
        spoken = done.result
        assert isinstance(spoken, Speech)
        pcm = resample(np.frombuffer(spoken.pcm, np.int16), spoken.rate_hz, self.rate_hz)
        await asyncio.to_thread(_write, self._path(language, text), pcm, self.rate_hz)
        return pcm


def _read(path: Path, rate_hz: int) -> Int16 | None:
    try:
        pcm, rate = soundfile.read(path, dtype="int16")
    except (OSError, RuntimeError):  # absent, or half written by a process that died: made again
        return None
    return np.ascontiguousarray(pcm) if rate == rate_hz and pcm.ndim == 1 and pcm.size else None


def _write(path: Path, pcm: Int16, rate_hz: int) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".wav", delete=False) as half:
        soundfile.write(half, pcm, rate_hz, format="WAV", subtype="PCM_16")
    Path(half.name).replace(path)
