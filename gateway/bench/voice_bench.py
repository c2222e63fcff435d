# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench voice``: how soon, how fast, how loud and how intelligible every voice of the settings speaks.

Intelligible is what the settings' own recogniser reads back, once from the voice's full band and once as a telephone
hears it (8 kHz, G.711): the difference is what the last metre costs.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

from gateway.audio.loudness import active_level
from gateway.audio.original import Ducking
from gateway.audio.pcm import Int16, to_float32
from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.audio.resample import resample
from gateway.bench import g711
from gateway.bench.burst_replay import FRAME, Arrival, bursty_clauses, replay
from gateway.bench.demo import Say
from gateway.bench.dialogue import SCRIPTS, load_script
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import load_average, local_recognizer
from gateway.call.desk import CHARS_PER_S, FEWEST_CHARS
from gateway.call.pieces import speech_pieces
from gateway.call.prompts import load_prompt_texts, shipped_prompts
from gateway.runtime import model_store, worker_threads
from gateway.settings import Loaded
from gateway.speech.engines.registry import SYNTHESIZERS, build
from gateway.speech.jobs import MODEL_RATE_HZ, Speech
from gateway.speech.protocols import Recognizer, Synthesizer
from gateway.text.normal import corpus_wer

AROUND_S = 0.3  # of silence on either side, as the pre-roll and the kept tail give
SWEEP_FROM_HZ = 4100  # the transition of the filter ends here
SWEEP_STEP_HZ = 350
CLAUSES = 50
SEED = 7
AB_TEMPOS = (0.8, 1.3)
_SHORTEST, _LONGEST = 12, 120  # characters of a text: one word says little, a long one is read in pieces anyway


def texts_for(language: str, count: int) -> list[str]:
    """Sentences of the language that ship with the gateway: its own prompts, and turns of the bundled dialogues."""
    prompts = load_prompt_texts(shipped_prompts(), [])
    turns = [turn.text for script in SCRIPTS for turn in load_script(script).turns if turn.language == language]
    own = [*prompts.get(language, {}).values(), *turns]
    fitting = [text for text in dict.fromkeys(own) if _SHORTEST <= len(text) <= _LONGEST and not _has_digits(text)]
    if not fitting:
        raise ValueError(f"no sentence of language {language!r} ships with the gateway: add prompts for it")
    return fitting[:: max(1, len(fitting) // count)][:count]


def _has_digits(text: str) -> bool:
    return any(character.isdigit() for character in text)  # "1" or "one" is a matter of spelling


def bench_voices(loaded: Loaded, *, texts: int, out: Path | None, say: Say) -> dict[str, Any]:
    """Every voice of the settings; WAV files to compare by ear go to ``out``. ValueError without texts to speak."""
    settings, store, threads = loaded.settings, model_store(loaded), worker_threads(loaded.settings)
    wanted = {language: texts_for(language, texts) for language in settings.speech.voices}
    recognizer = local_recognizer(loaded)
    voices = []
    for language, line in settings.speech.voices.items():
        say(f"{language}: {line}, {len(wanted[language])} sentences")
        synthesizer: Synthesizer = build(line, SYNTHESIZERS, store.ensure_verified, threads)
        first_sound_s = settings.speech.first_sound_ms / 1000
        voices.append(measure_voice(synthesizer, line, language, wanted[language], recognizer, first_sound_s, out))
    return {
        "voices": voices,
        "replay": bursty_clauses(CLAUSES, SEED).as_json(),
        "threads": threads,
        "load_average": load_average(),
    }


def measure_voice(
    synthesizer: Synthesizer,
    line: str,
    language: str,
    texts: Sequence[str],
    recognizer: Recognizer,
    first_sound_s: float,
    out: Path | None,
) -> dict[str, Any]:
    """One voice's row of the report; ``first_sound_s`` is how long a first piece may take, 0 for texts in one piece."""
    synthesizer.synthesize(texts[0], language=language)  # pages and kernels are set
    whole, seconds = _timed(synthesizer, texts, language)
    sound_s = sum(_seconds(speech) for speech in whole)
    speed = seconds / sound_s
    first_chars = max(FEWEST_CHARS, round(first_sound_s / speed * CHARS_PER_S)) if first_sound_s else 0
    firsts, gaps = _as_in_a_call(synthesizer, texts, language, first_chars)
    wide = [_pcm(speech) for speech in whole]
    rate_hz = whole[0].rate_hz
    phone = [over_the_phone(pcm, rate_hz) for pcm in wide]
    levels = [active_level(to_float32(pcm), RATE_HZ) for pcm in phone]
    if out is not None:
        _write_examples(out, f"{language}-{whole[0].voice}", wide, rate_hz)
    return {
        "engine": line.partition(":")[0],
        "voice": whole[0].voice,
        "language": language,
        "rate_hz": rate_hz,
        "first_audio_s": round(statistics.median(firsts), 3),
        "rtf": round(speed, 3),
        "readback_wer_8k": _read_back(recognizer, texts, phone, RATE_HZ, language),
        "readback_wer_16k": _read_back(recognizer, texts, wide, rate_hz, language),
        "loudness_db": round(statistics.fmean(levels), 1),
        "loudness_low_db": round(min(levels), 1),
        "loudness_high_db": round(max(levels), 1),
        "alias_db": round(alias_db(rate_hz), 1),
        "gaps": gaps,
        "respoken": sum(speech.respoken for speech in whole),
        "sentences": len(texts),
    }


def _timed(synthesizer: Synthesizer, texts: Sequence[str], language: str) -> tuple[list[Speech], float]:
    began = time.perf_counter()
    spoken = [synthesizer.synthesize(text, language=language) for text in texts]
    return spoken, time.perf_counter() - began


def _as_in_a_call(
    synthesizer: Synthesizer, texts: Sequence[str], language: str, first_chars: int
) -> tuple[list[float], int]:
    """Each text in the pieces of a call: the seconds to its first sound, and how often the listener waited in it."""
    firsts, gaps = [], 0
    for text in texts:
        arrivals, at_s = [], 0.0
        cuts = speech_pieces(text, language, first_chars)
        for number, piece in enumerate(cuts):
            (speech,), seconds = _timed(synthesizer, [piece], language)
            at_s += seconds
            pcm = resample(_pcm(speech), speech.rate_hz, RATE_HZ)
            arrivals.append(Arrival(at_s, pcm, more_follows=number + 1 < len(cuts)))
        firsts.append(arrivals[0].at_s)
        gaps += replay(arrivals).starved
    return firsts, gaps


def _read_back(
    recognizer: Recognizer, texts: Sequence[str], sounds: Sequence[Int16], rate_hz: int, language: str
) -> float:
    around = np.zeros(round(AROUND_S * MODEL_RATE_HZ), np.int16)
    pairs = []
    for text, pcm in zip(texts, sounds, strict=True):
        heard = np.concatenate([around, resample(pcm, rate_hz, MODEL_RATE_HZ), around])
        pairs.append((text, recognizer.recognize(heard.tobytes(), language=language).text))
    return round(corpus_wer(pairs, language), 4)


def over_the_phone(pcm: Int16, rate_hz: int) -> Int16:
    """A voice's sound as it leaves the telephone: band-limited, 8 kHz, through G.711 mu-law."""
    return g711.decode("PCMU", g711.encode("PCMU", resample(pcm, rate_hz, RATE_HZ)))


def alias_db(rate_hz: int) -> float:
    """The loudest that any tone above the telephone's band comes out at 8 kHz, against its own level, in dB."""
    at = np.arange(rate_hz) / rate_hz
    worst = -math.inf
    for hz in range(SWEEP_FROM_HZ, rate_hz // 2 - 100, SWEEP_STEP_HZ):
        tone = np.round(10_000 * np.sin(2 * np.pi * hz * at)).astype(np.int16)
        heard = resample(tone, rate_hz, RATE_HZ)[RATE_HZ // 10 : -RATE_HZ // 10].astype(np.float64)
        worst = max(worst, 10 * math.log10((np.mean(heard**2) + 1e-3) / np.mean(tone.astype(np.float64) ** 2)))
    return worst


def _seconds(speech: Speech) -> float:
    return len(speech.pcm) / 2 / speech.rate_hz


def _pcm(speech: Speech) -> npt.NDArray[np.int16]:
    return np.frombuffer(speech.pcm, np.int16)


# --- to compare by ear ----------------------------------------------------------------------------------------------


def _write_examples(out: Path, name: str, sounds: Sequence[Int16], rate_hz: int) -> None:
    """The same sentences in full band, over the phone, slower, faster, and with an original voice under them."""
    out.mkdir(parents=True, exist_ok=True)
    some = np.concatenate([part for pcm in sounds[:4] for part in (pcm, np.zeros(rate_hz // 3, np.int16))])
    narrow = resample(some, rate_hz, RATE_HZ)
    soundfile.write(out / f"{name}-full-band.wav", some, rate_hz)
    soundfile.write(out / f"{name}-phone.wav", over_the_phone(some, rate_hz), RATE_HZ)
    for ratio in AB_TEMPOS:
        soundfile.write(out / f"{name}-tempo-{ratio}.wav", _heard(narrow, tempo=ratio), RATE_HZ)
    said = resample(sounds[-1], rate_hz, RATE_HZ)
    soundfile.write(out / f"{name}-over-original.wav", _heard(narrow, original=np.tile(said, 20)), RATE_HZ)


def _heard(pcm: Int16, *, tempo: float = 1.0, original: Int16 | None = None) -> Int16:
    """What a telephone is given when this is spoken to it, with 2 s of the original alone before it."""
    line = PlayOut(RATE_HZ, FRAME, now_ns=lambda: 0, ducking=Ducking(on=original is not None))
    line.set_tempo(tempo)
    frames = []
    lead = 0 if original is None else 2 * RATE_HZ // FRAME
    for number in range(lead + round(pcm.size / tempo) // FRAME + 10):
        if original is not None:
            line.hear_original(original[number * FRAME : (number + 1) * FRAME].tobytes())
        if number == lead:
            line.enqueue(Clip("example", ClipKind.TRANSLATION, pcm))
        frames.append(line.next_frame())
    return np.frombuffer(b"".join(frames), "<i2")
