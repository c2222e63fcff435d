# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench noise``: what noise costs in words, and what else than speech makes the gateway speak (SPEC A7, S1.5, S1.21).

Both halves go the way of a call: voice detector, end-pointer, segments, the real recogniser with its guard. Only time
is virtual, and translation and voice are stand-ins, so that ten minutes of ring-back cost seconds.

* **Words**: recorded prompts on a continuous line, through G.711, under one kind of noise at one ratio. The ratio is
  between the power of the samples above the level of speech and that of the noise over the whole line.
* **False triggers**: sounds that nobody said. Of each the report says what the detector opened, how many decodings that
  cost, what the guard let through, what would have been spoken to the other party, and how often the talker was asked
  to say it again. What was spoken must be 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from gateway.audio.resample import resample
from gateway.audio.vad import VoiceDetector
from gateway.bench import g711
from gateway.bench.capture import SPEECH_DBFS, Pcm, threshold_amplitude
from gateway.bench.corpus import LINE_NOISE_DBFS, Line, Placed, Prompt, human_prompts, lay
from gateway.bench.demo import Say
from gateway.bench.noises import NOT_SPEECH, UNDER_SPEECH, Make, as_pcm, at_level, babble, in_steps, white_noise
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import VirtualSpeech, load_average, local_recognizer
from gateway.bench.stream_bench import segments_of
from gateway.bench.stream_figures import grouped, recall_of, recalled, share, word_errors
from gateway.bench.tail_bench import HearingEngines
from gateway.bench.talk import Talk, hold, in_virtual_time
from gateway.call.desk import Booth
from gateway.call.party import LEG_RATE_HZ
from gateway.runtime import endpoint_plan, worker_threads
from gateway.settings import Loaded
from gateway.stream.endpoint import Endpointer
from gateway.stream.events import Span, SpeechEnded

SNRS_DB = (20.0, 15.0, 10.0, 5.0, 0.0)
QUICK_SNRS_DB = (10.0,)
PAUSE_MS = (600, 2000)
CLIPPED_SAMPLES = RATE_HZ // 10  # 100 ms: with more a first consonant is gone
VOICES_EVERY = 7  # of the prompts babble: enough voices, and seldom the one that speaks


@dataclass(frozen=True, slots=True)
class NoiseOptions:
    """What is measured. ``sounds`` are recordings without speech, such as a company's own hold music."""

    language: str
    target: str
    seed: int
    utterances: int = 24
    minutes: float = 10.0
    quick: bool = False
    sounds: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class WordRow:
    """One kind of noise at one ratio; ``snr_db`` None is the line without it. Shares are of words or of utterances."""

    noise: str
    snr_db: float | None
    wer: float | None
    first_word_recall: float | None
    last_word_recall: float | None
    undetected: int
    """Utterances of which the detector opened less than half."""
    clipped: int
    """Utterances that it opened more than 100 ms late, pre-roll included."""
    rejected: int
    """Decodings whose text the guard threw away."""
    asked_to_repeat: int
    decodings: int


@dataclass(frozen=True, slots=True)
class TriggerRow:
    """One sound that is not speech, alone on the line."""

    sound: str
    minutes: float
    opened: int
    opened_s: float
    decodings: int
    decoding_s: float
    """Seconds of computing, on this machine, that the decodings took."""
    rejected: dict[str, int]
    """Decodings thrown away by the guard, by reason."""
    recognised: int
    spoken: int
    asked_to_repeat: int
    texts: tuple[str, ...]


def bench_noise(loaded: Loaded, options: NoiseOptions, *, say: Say) -> dict[str, Any]:
    """Measure both halves. CorpusMissing or ModelMissing, with the remedy, when that cannot be."""
    before = load_average()
    prompts = human_prompts(options.language)
    engines = HearingEngines(local_recognizer(loaded), (options.language, options.target))
    words = []
    for row in _word_rows(loaded, engines, prompts, options):
        words.append(row)
        at = "clean" if row.snr_db is None else f"{row.noise} {row.snr_db:g} dB"
        say(f"{at}: word error rate {row.wer}, {row.undetected} undetected, load {load_average()}")
    triggers = []
    for name, pcm in _sounds(options):
        triggers.append(trigger_row(loaded, engines, name, pcm))
        row_ = triggers[-1]
        say(f"{name}: {row_.opened} opened, {row_.decodings} decoded, {row_.spoken} spoken, load {load_average()}")
    return {
        "language": options.language,
        "recognizer": loaded.settings.speech.recognizer,
        "utterances": _utterances(options),
        "words": [asdict(row) for row in words],
        "triggers": [asdict(row) for row in triggers],
        "spoken": sum(row.spoken for row in triggers),
        "load_average": [before, load_average()],
    }


# --- words under noise ----------------------------------------------------------------------------------------------


def under_noise(line: Line, make: Make | None, snr_db: float, chance: np.random.Generator) -> Line:
    """The line with noise from its first to its last sample, and through G.711; without ``make`` only the latter."""
    sound = line.pcm.astype(np.float64)
    if make is not None:
        loud = sound[np.abs(sound) > threshold_amplitude(SPEECH_DBFS)]
        speech_dbfs = 20 * math.log10(math.sqrt(float(np.mean(loud**2))) / 32768)
        sound += at_level(make(sound.size, chance), speech_dbfs - snr_db)
    return replace(line, pcm=through_g711(as_pcm(sound)))


def through_g711(pcm: Pcm) -> Pcm:
    """There and back through mu-law, as the telephone network does it."""
    return g711.decode("PCMU", g711.encode("PCMU", pcm))


def opened(pcm: Pcm, loaded: Loaded) -> list[Span]:
    """What the settings' detector and end-pointer make utterances of, in consecutive mode."""
    plan = endpoint_plan(loaded.settings, LEG_RATE_HZ)
    detector = VoiceDetector(RATE_HZ, plan.frame_ms, loaded.settings.endpoint.vad_aggressiveness)
    endpointer = Endpointer(plan)
    size = detector.frame_samples
    events = []
    for at in range(0, pcm.size - size + 1, size):
        events += endpointer.feed(detector.feed(pcm[at : at + size].tobytes(), at))
    events += endpointer.finish(pcm.size)
    return [Span(one.first_sample, one.end_sample, 0) for one in events if isinstance(one, SpeechEnded)]


def missed(placed: Sequence[Placed], spans: Sequence[Span]) -> tuple[int, int]:
    """Utterances of which less than half lies in a span, and of the others those that begin over 100 ms before it."""
    undetected = clipped = 0
    for one in placed:
        inside = [
            (max(span.first_sample, one.first_sample), min(span.end_sample, one.last_sample + 1)) for span in spans
        ]
        inside = [(first, end) for first, end in inside if end > first]
        if sum(end - first for first, end in inside) * 2 < one.last_sample + 1 - one.first_sample:
            undetected += 1
        elif inside[0][0] - one.first_sample > CLIPPED_SAMPLES:
            clipped += 1
    return undetected, clipped


def _utterances(options: NoiseOptions) -> int:
    return max(6, options.utterances // 4) if options.quick else options.utterances


def _word_rows(
    loaded: Loaded, engines: HearingEngines, prompts: Sequence[Prompt], options: NoiseOptions
) -> Iterator[WordRow]:
    (line,) = lay(prompts, utterances=_utterances(options), pause_ms=PAUSE_MS, seed=options.seed)
    kinds = {**UNDER_SPEECH, "babble": babble([prompt.pcm for prompt in prompts[::VOICES_EVERY]])}
    snrs_db = QUICK_SNRS_DB if options.quick else SNRS_DB
    yield _word_row(loaded, engines, under_noise(line, None, 0.0, _chance(options)), "none", None)
    for name, make in kinds.items():
        for snr_db in snrs_db:
            yield _word_row(loaded, engines, under_noise(line, make, snr_db, _chance(options)), name, snr_db)


def _word_row(loaded: Loaded, engines: HearingEngines, line: Line, name: str, snr_db: float | None) -> WordRow:
    language = engines.pair[0]
    talk, _ = _held(loaded, engines, line, previews=False)
    groups = grouped(line.placed, segments_of(talk, "a"))
    recalls = [one for group in groups for one in recalled(group, language)]
    undetected, clipped = missed(line.placed, opened(line.pcm, loaded))
    return WordRow(
        noise=name,
        snr_db=snr_db,
        wer=share(*word_errors(groups, language)),
        first_word_recall=_rounded(recall_of(recalls, 0)),
        last_word_recall=_rounded(recall_of(recalls, -1)),
        undetected=undetected,
        clipped=clipped,
        rejected=sum(bool(one.recognition.rejected) for one in engines.asked),
        asked_to_repeat=len(talk.of("unclear")),
        decodings=len(engines.asked),
    )


# --- what is not speech ---------------------------------------------------------------------------------------------


def not_speech(name: str, seconds: float, seed: int) -> Pcm:
    """One of `noises.NOT_SPEECH` on a telephone line, at levels from -50 to -15 dBFS in turns. KeyError for others."""
    samples, chance = round(seconds * RATE_HZ), np.random.default_rng(seed)
    sound = NOT_SPEECH[name](samples, chance)
    if name != "silence":
        sound = in_steps(sound) + at_level(white_noise(samples, chance), LINE_NOISE_DBFS)
    return through_g711(as_pcm(sound))


def recorded(path: Path, seconds: float) -> Pcm:
    """The first seconds of a sound file's first channel, on a telephone line. ValueError when it cannot be read."""
    try:
        sound, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise ValueError(f"{path}: {error}") from None
    pcm = np.ascontiguousarray(sound[: round(seconds * rate_hz), 0])
    return through_g711(pcm if rate_hz == RATE_HZ else resample(pcm, rate_hz, RATE_HZ))


def trigger_row(loaded: Loaded, engines: HearingEngines, name: str, pcm: Pcm) -> TriggerRow:
    """Let one direction of a call listen to a sound in which nobody speaks."""
    talk, decoding_s = _held(loaded, engines, Line(pcm, ()), previews=loaded.settings.speech.previews)
    spans = opened(pcm, loaded)
    texts = tuple(told.data["text"] for told in talk.of("heard"))
    return TriggerRow(
        sound=name,
        minutes=round(pcm.size / RATE_HZ / 60, 2),
        opened=len(spans),
        opened_s=round(sum(span.end_sample - span.first_sample for span in spans) / RATE_HZ, 1),
        decodings=len(engines.asked),
        decoding_s=round(decoding_s, 1),
        rejected=dict(Counter(one.recognition.rejected for one in engines.asked if one.recognition.rejected)),
        recognised=len(texts),
        spoken=sum(not told.data.get("lost") for told in talk.of("utterance")),
        asked_to_repeat=len(talk.of("unclear")),
        texts=texts,
    )


# --- small parts ----------------------------------------------------------------------------------------------------


def _sounds(options: NoiseOptions) -> Iterator[tuple[str, Pcm]]:
    seconds = (options.minutes / 10 if options.quick else options.minutes) * 60
    for name in NOT_SPEECH:
        yield name, not_speech(name, seconds, options.seed)
    for path in options.sounds:
        yield path.name, recorded(path, seconds)


def _held(loaded: Loaded, engines: HearingEngines, line: Line, *, previews: bool) -> tuple[Talk, float]:
    """One leg of a call hears the line; also the seconds that an idle machine computes for its decodings."""
    engines.asked.clear()
    engines.known.clear()
    speech = VirtualSpeech(engines, threads=worker_threads(loaded.settings))

    async def act(desk: Booth) -> Talk:
        return await hold(replace(desk, previews=previews), [line], engines.pair, "consecutive", say=_silent)

    talk, _ = in_virtual_time(loaded, act, speech)
    return talk, sum(run.charged_ns for run in speech.runs if run.kind == "recognize") / 1e9


def _chance(options: NoiseOptions) -> np.random.Generator:
    return np.random.default_rng(options.seed)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _silent(message: str) -> None:
    """Each row is told when it is done."""
