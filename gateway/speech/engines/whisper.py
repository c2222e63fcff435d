# SPDX-License-Identifier: GPL-3.0-or-later
"""Whisper on CTranslate2 with a decode loop made for short telephone utterances.

The stock loop pads every utterance to 30 s and spends most of its time on that silence. Here the encoder sees the
utterance padded to ``max(1000, n + 300)`` feature frames of 10 ms, the padding being the features' own minimum; that
is 2.9 times faster at no cost in words. Shorter padding makes the decoder loop. When the text of the short window
looks wrong (it compresses too well, or its mean log-probability is low), the 30 s window is tried, once.

Decoding is greedy and without timestamps: one pass, no temperature ladder, the same sound gives the same text.
Features and tokenizer are faster-whisper's; the guards are in `whisper_guard`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import structlog
import tokenizers
from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer

from gateway.speech.engines import whisper_guard as guard
from gateway.speech.engines.prose import has_words, joiner
from gateway.speech.engines.whisper_words import word_times
from gateway.speech.jobs import MODEL_RATE_HZ, HeardWord, Recognition
from gateway.speech.protocols import RecognizerCapabilities
from gateway.text.hotwords import likely_hotwords
from gateway.text.tags import base_language

log = structlog.get_logger(__name__)

FRAMES_PER_S = 100  # hop of 160 samples at 16 kHz
FULL_WINDOW_FRAMES = 3000
LEAST_WINDOW_FRAMES = 1000  # below a window of 10 s the decoder starts to loop
WINDOW_MARGIN_FRAMES = 300
LONGEST_PIECE_S = 26.0  # leaves the margin inside the 30 s window
SHORTEST_S = 0.1
TOKENS_PER_S = 9.0
SPARE_TOKENS = 16
MOST_HOTWORD_TOKENS = 96
MOST_CONTEXT_TOKENS = 64
FALLBACK_COMPRESSION = 2.2
FALLBACK_LOGPROB = -0.9
SURE_LOGPROB = -0.16  # a confidence of 0.85
MOST_LIKELY = 6  # hotwords in a prompt; more of them begin to disturb each other
SURER = 0.03  # mean log-probability by which a hotword must make a text surer
LEAST_ALIKE = 55.0  # rapidfuzz ratio of two decodings of one utterance that differ in a name


@dataclass(frozen=True, slots=True)
class _Decoded:
    text: str
    logprob: float
    no_speech: float
    suspicious: bool
    """It loops, ran into the token limit, or its log-probability is low: the 30 s window may do better."""
    tokens: tuple[int, ...] = ()


class WhisperRecognizer:
    """A Whisper model in CTranslate2 format: ``model.bin``, ``config.json``, ``tokenizer.json``, ``vocabulary.*``."""

    def __init__(self, model_dir: Path, *, threads: int = 1) -> None:
        self._model = ctranslate2.models.Whisper(
            str(model_dir), device="cpu", compute_type="int8", intra_threads=threads, inter_threads=1
        )
        self._words = tokenizers.Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self._features = FeatureExtractor(feature_size=self._model.n_mels)
        self._tokenizers: dict[str, Any] = {}
        languages = frozenset(_languages(self._words)) if self._model.is_multilingual else frozenset({"en"})
        self.capabilities = RecognizerCapabilities(
            languages=languages,
            identifies_language=bool(self._model.is_multilingual),
            hotwords=True,
            longest_s=math.inf,  # longer sound is cut at its quietest points
        )

    def recognize(
        self,
        pcm: bytes,
        *,
        language: str | None,
        hotwords: Sequence[str] = (),
        context: str = "",
        words: bool = False,
        candidates: Sequence[str] = (),
    ) -> Recognition:
        """Recognise s16le 16 kHz mono; an unknown language is identified. Silence and noise give empty text."""
        samples = np.frombuffer(pcm[: len(pcm) // 2 * 2], dtype="<i2").astype(np.float32) / 32768.0
        wanted = base_language(language) if language else None
        if wanted not in self.capabilities.languages:
            wanted = None
        parts: list[tuple[float, Recognition]] = []
        for piece in _pieces(samples):
            asked = () if parts else tuple(candidates)
            heard = self._recognize_piece(piece, wanted, tuple(hotwords), context, words=words, candidates=asked)
            wanted = wanted or (heard.language if heard.text else None)
            parts.append((len(piece) / MODEL_RATE_HZ, heard))
        return _joined(parts, wanted or "")

    def _recognize_piece(
        self,
        samples: guard.Samples,
        language: str | None,
        hotwords: tuple[str, ...],
        context: str,
        *,
        words: bool,
        candidates: tuple[str, ...],
    ) -> Recognition:
        if len(samples) < SHORTEST_S * MODEL_RATE_HZ:
            return Recognition("", language or "", 0.0, no_speech=1.0)
        samples = samples - samples.mean()  # some lines carry a DC offset, which spoils levels and features
        sound = guard.portrait(samples, MODEL_RATE_HZ)
        if sound.speechless:
            return Recognition("", language or "", 0.0, no_speech=1.0, rejected="no-speech")
        features = self._features(samples)[..., :FULL_WINDOW_FRAMES]
        frames = features.shape[-1]
        encoded = self._encode(features, max(LEAST_WINDOW_FRAMES, frames + WINDOW_MARGIN_FRAMES))
        shares = self._shares(encoded, candidates)
        if language is None:
            language = max(shares, key=lambda one: one[1])[0] if shares else self._identify(encoded)
        plain = self._prompt(language, (), "")
        prompt = self._prompt(language, (), context) if context else plain
        most_tokens = int(TOKENS_PER_S * sound.duration_s) + SPARE_TOKENS
        decoded = self._decode(encoded, prompt, language, most_tokens)
        if context and (decoded.no_speech > 0.3 or decoded.suspicious or decoded.logprob < SURE_LOGPROB):
            # a prompt leaks into sound without words, and spoils others; then the bare decoding is the surer one
            bare = self._decode(encoded, plain, language, most_tokens)
            if not bare.text or decoded.suspicious or bare.logprob > decoded.logprob:
                decoded = bare
        fallback = decoded.suspicious
        if fallback:
            wide = self._encode(features, FULL_WINDOW_FRAMES)
            full = self._decode(wide, plain, language, most_tokens)
            if not full.suspicious or full.logprob > decoded.logprob:
                decoded, encoded = full, wide
        decoded = self._second_look(decoded, encoded, sound, language, hotwords)
        heard = replace(self._judged(decoded, sound, language, fallback), languages=shares)
        if not words or not heard.text or heard.rejected:
            return heard
        times = word_times(self._model, encoded, self._tokenizer(language), decoded.tokens, frames)
        return replace(heard, words=times)

    def _second_look(
        self, first: _Decoded, encoded: Any, sound: guard.SoundPortrait, language: str, hotwords: tuple[str, ...]
    ) -> _Decoded:
        """Decode again with the few hotwords that the text may have misheard; the surer text is kept.

        All hotwords in each prompt would leak into silence, and spoil words when none of them was said ("please press
        one" → "Police Press 1"). So the first decoding has none, and a sure text is left alone.
        """
        if not hotwords or guard.rejection(first.text, sound, first.no_speech, first.logprob) is not None:
            return first
        likely = likely_hotwords(first.text, hotwords, math.exp(min(first.logprob, 0.0)), MOST_LIKELY)
        if not likely:
            return first
        most_tokens = int(TOKENS_PER_S * sound.duration_s) + SPARE_TOKENS
        second = self._decode(encoded, self._prompt(language, likely, ""), language, most_tokens)
        alike = guard.similarity(first.text, second.text) >= LEAST_ALIKE
        found = guard.mentions(second.text, likely) and not second.suspicious and alike
        return second if found and second.logprob > first.logprob + SURER else first

    def _judged(self, decoded: _Decoded, sound: guard.SoundPortrait, language: str, fallback: bool) -> Recognition:
        text, looped = guard.cut_loop(decoded.text, language)
        rejected = "loop" if looped else None
        if text:
            reason = guard.rejection(text, sound, decoded.no_speech, decoded.logprob, looped=looped)
            if reason is None and guard.too_fast(text, language, sound.active_s):
                reason = "speech-rate"
            if reason is not None:
                text, rejected = "", reason
        if rejected:
            log.info("recognition_rejected", reason=rejected, logprob=round(decoded.logprob, 2))
        confidence = math.exp(min(decoded.logprob, 0.0)) if text else 0.0
        return Recognition(text, language, confidence, decoded.no_speech, fallback, rejected)

    def _encode(self, features: Any, window_frames: int) -> Any:
        window = min(window_frames, FULL_WINDOW_FRAMES)
        missing = window - features.shape[-1]
        padded = np.pad(features, ((0, 0), (0, missing)), constant_values=features.min()) if missing > 0 else features
        return self._model.encode(
            ctranslate2.StorageView.from_array(np.ascontiguousarray(padded[None], dtype=np.float32))
        )

    def _identify(self, encoded: Any) -> str:
        if not self._model.is_multilingual:
            return "en"
        return str(self._model.detect_language(encoded)[0][0][0])[2:-2]

    def _shares(self, encoded: Any, candidates: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
        """Each candidate's share of the probability that all of them have; none where the model knows one language."""
        if not candidates or not self._model.is_multilingual:
            return ()
        known = {str(token)[2:-2]: share for token, share in self._model.detect_language(encoded)[0]}
        found = {one: float(known.get(base_language(one), 0.0)) for one in candidates}
        total = sum(found.values())
        return tuple((one, share / total) for one, share in found.items()) if total else ()

    def _tokenizer(self, language: str) -> Any:
        if language not in self._tokenizers:
            self._tokenizers[language] = Tokenizer(
                self._words, self._model.is_multilingual, task="transcribe", language=language
            )
        return self._tokenizers[language]

    def _prompt(self, language: str, hotwords: tuple[str, ...], context: str) -> list[int]:
        """Hotwords and context as "previous text", which biases the decoder; then the start tokens."""
        tokenizer = self._tokenizer(language)
        previous: list[int] = []
        for hotword in hotwords:
            tokens = tokenizer.encode((", " if previous else " ") + hotword.strip())
            if len(previous) + len(tokens) > MOST_HOTWORD_TOKENS:
                break  # whole terms only: half a name is worse than none
            previous += tokens
        if context.strip():
            previous += tokenizer.encode((". " if previous else " ") + context.strip())[-MOST_CONTEXT_TOKENS:]
        start = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
        return [tokenizer.sot_prev, *previous, *start] if previous else start

    def _decode(self, encoded: Any, prompt: list[int], language: str, most_tokens: int) -> _Decoded:
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=1,
            max_length=min(len(prompt) + most_tokens, 448),
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        tokens = result.sequences_ids[0]
        text = self._tokenizer(language).decode(tokens).strip()
        # the score is the mean over the tokens; the end token counts as one more
        logprob = result.scores[0] * len(tokens) / (len(tokens) + 1)
        suspicious = (
            len(tokens) >= most_tokens
            or logprob < FALLBACK_LOGPROB
            or guard.compression_ratio(text) > FALLBACK_COMPRESSION
            or guard.repeats_phrase(text, language)
        )
        return _Decoded(
            text if has_words(text) else "", float(logprob), float(result.no_speech_prob), suspicious, tuple(tokens)
        )


def _languages(words: Any) -> list[str]:
    """Language codes among the special tokens: they stand between start-of-transcript and the task tokens."""
    first = words.token_to_id("<|startoftranscript|>") + 1
    last = words.token_to_id("<|translate|>")
    return [words.id_to_token(number)[2:-2] for number in range(first, last)]


def _pieces(samples: guard.Samples) -> list[guard.Samples]:
    """Cut sound above the window at the quietest 100 ms of each window's last 40 %."""
    longest = int(LONGEST_PIECE_S * MODEL_RATE_HZ)
    step = MODEL_RATE_HZ // 10
    parts = []
    while len(samples) > longest:
        first = longest * 6 // 10
        zone = samples[first:longest]
        blocks = np.square(zone[: len(zone) // step * step].reshape(-1, step), dtype=np.float64).mean(axis=1)
        cut = first + int(blocks.argmin()) * step + step // 2
        parts.append(samples[:cut])
        samples = samples[cut:]
    parts.append(samples)
    return parts


def _joined(parts: list[tuple[float, Recognition]], language: str) -> Recognition:
    if len(parts) == 1:
        return parts[0][1]
    spoken = [(seconds, heard) for seconds, heard in parts if heard.text]
    total = sum(seconds for seconds, _ in spoken)
    return Recognition(
        text=joiner(language).join(heard.text for _, heard in spoken),
        language=language,
        confidence=sum(seconds * heard.confidence for seconds, heard in spoken) / total if total else 0.0,
        no_speech=min(heard.no_speech for _, heard in parts),
        window_fallback=any(heard.window_fallback for _, heard in parts),
        rejected=next((heard.rejected for _, heard in parts if heard.rejected), None),
        languages=next((heard.languages for _, heard in parts if heard.languages), ()),
        words=_laid_end_to_end(parts),
    )


def _laid_end_to_end(parts: list[tuple[float, Recognition]]) -> tuple[HeardWord, ...]:
    """The pieces' words on the time line of the whole; none unless every piece with text has them."""
    if any(heard.text and not heard.words for _, heard in parts):
        return ()
    words: list[HeardWord] = []
    behind = 0
    for seconds, heard in parts:
        words += [
            replace(word, first_sample=word.first_sample + behind, end_sample=word.end_sample + behind)
            for word in heard.words
        ]
        behind += round(seconds * MODEL_RATE_HZ)
    return tuple(words)
