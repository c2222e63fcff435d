# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench confidence``: is the recogniser right as often as its confidence says (SPEC S1.7)?

Human telephone speech is recognised clean and with noise: pink noise, and babble made of other prompts, at several
signal-to-noise ratios. An utterance counts as right when its word error rate is 0.1 or less. On one half of the
utterances (with all their noisy copies, so that no voice is on both sides) one number is fitted, the temperature
``T`` of ``confidence ** (1 / T)``, by the least negative log-likelihood; on the other half the reliability is
reported before and after.

Why that form: `Recognition.confidence` is the geometric mean of the tokens' probabilities, the question is about the
whole utterance, which has many tokens. ``1 / T`` acts as the number of tokens that fail independently, so T < 1 is
expected. Dividing the log-odds by a temperature, the usual form, cannot move 0.5 and is reported beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gateway.audio.resample import resample
from gateway.bench.capture import SPEECH_DBFS, Pcm, threshold_amplitude
from gateway.bench.corpus import LINE_NOISE_DBFS, Prompt, human_prompts
from gateway.bench.demo import Say
from gateway.bench.noises import as_pcm, babble, pink_noise
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import load_average, local_recognizer
from gateway.settings import Loaded
from gateway.speech.jobs import MODEL_RATE_HZ
from gateway.text.normal import wer

SNRS_DB: tuple[float | None, ...] = (None, 20.0, 10.0, 5.0, 0.0)
"""None is the recording as it is."""
RIGHT_WER = 0.1
BINS = 10
AROUND_MS = 300  # of line noise on either side, as the pre-roll and the kept tail give
_LEAST, _MOST = 1e-4, 1 - 1e-4  # a probability of 0 or 1 would make one mistake infinitely bad
_GOLDEN = (math.sqrt(5) - 1) / 2

Calibrate = Callable[[float, float], float]
"""(confidence, temperature) → probability."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One recognition: the confidence it came with, and whether it was right."""

    confidence: float
    right: bool


@dataclass(frozen=True, slots=True)
class Bin:
    """Utterances whose probability lies in [low, high)."""

    low: float
    high: float
    count: int
    mean_confidence: float
    accuracy: float


def powered(confidence: float, temperature: float) -> float:
    """``confidence ** (1 / temperature)``: the mean log-probability divided by the temperature."""
    return math.exp(math.log(_clipped(confidence)) / temperature)


def log_odds_scaled(confidence: float, temperature: float) -> float:
    """The log-odds divided by the temperature (Guo et al., "On Calibration of Modern Neural Networks", 2017)."""
    held = _clipped(confidence)
    return 1 / (1 + math.exp(-math.log(held / (1 - held)) / temperature))


def nll(judged: Sequence[Judged], calibrate: Calibrate, temperature: float) -> float:
    """Mean negative log-likelihood of being right or wrong."""
    total = 0.0
    for one in judged:
        held = _clipped(calibrate(one.confidence, temperature))
        total -= math.log(held if one.right else 1 - held)
    return total / len(judged)


def fitted(judged: Sequence[Judged], calibrate: Calibrate) -> float:
    """The temperature between 1/100 and 100 of the least `nll`, by golden-section search of its logarithm."""
    low, high = -math.log(100), math.log(100)
    while high - low > 1e-4:
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if nll(judged, calibrate, math.exp(left)) <= nll(judged, calibrate, math.exp(right)):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


def reliability(judged: Sequence[Judged], bins: int = BINS) -> list[Bin]:
    """The bins that hold something, by confidence."""
    table = []
    for number in range(bins):
        inside = [one for one in judged if min(bins - 1, int(one.confidence * bins)) == number]
        if inside:
            mean = sum(one.confidence for one in inside) / len(inside)
            accuracy = sum(one.right for one in inside) / len(inside)
            table.append(Bin(number / bins, (number + 1) / bins, len(inside), round(mean, 4), round(accuracy, 4)))
    return table


def expected_error(judged: Sequence[Judged], bins: int = BINS) -> float:
    """Expected calibration error: mean distance of confidence and accuracy over the bins, weighted by count."""
    table = reliability(judged, bins)
    return sum(one.count * abs(one.mean_confidence - one.accuracy) for one in table) / max(1, len(judged))


def calibrated(judged: Sequence[Judged], calibrate: Calibrate, temperature: float) -> list[Judged]:
    """The same with probabilities in place of confidences."""
    return [Judged(calibrate(one.confidence, temperature), one.right) for one in judged]


# --- the measurement ----------------------------------------------------------------------------------------------


def bench_confidence(loaded: Loaded, *, utterances: int, language: str, seed: int, say: Say) -> dict[str, Any]:
    """Recognise, fit on one half, report on the other. ValueError when there is not enough to fit."""
    chance = np.random.default_rng(seed)
    everyone = human_prompts(language)
    picked = [everyone[int(index)] for index in chance.permutation(len(everyone))[:utterances]]
    before = load_average()
    recognizer = local_recognizer(loaded)
    halves: tuple[list[Judged], list[Judged]] = ([], [])
    by_snr: dict[str, list[Judged]] = {}
    rejected = 0
    for number, prompt in enumerate(picked):
        for snr_db in SNRS_DB:
            pcm = noisy(prompt, snr_db, everyone, chance, over_voices=number % 4 < 2)
            heard = recognizer.recognize(resample(pcm, RATE_HZ, MODEL_RATE_HZ).tobytes(), language=language)
            if not heard.text:
                rejected += 1  # nothing was claimed, so there is nothing to trust
                continue
            one = Judged(heard.confidence, wer(prompt.text, heard.text, language) <= RIGHT_WER)
            halves[number % 2].append(one)
            by_snr.setdefault("clean" if snr_db is None else f"{snr_db:g} dB", []).append(one)
        if number % 10 == 9:
            say(f"{number + 1} of {len(picked)} utterances, load {load_average()}")
    return {
        "language": language,
        "recognizer": loaded.settings.speech.recognizer,
        "utterances": len(picked),
        "recognitions": sum(map(len, halves)),
        "rejected": rejected,
        **calibration(*halves),
        "by_snr": {
            name: {"count": len(some), "accuracy": _share(some), "mean_confidence": _mean_confidence(some)}
            for name, some in by_snr.items()
        },
        "load_average": [before, load_average()],
    }


def calibration(fit_on: Sequence[Judged], report_on: Sequence[Judged]) -> dict[str, Any]:
    """Fit both forms on the first half; everything that is reported comes from the second."""
    if len({one.right for one in fit_on}) < 2 or not report_on:
        raise ValueError("too few utterances to fit a temperature: some must be right and some wrong")
    temperature = fitted(fit_on, powered)
    after = calibrated(report_on, powered, temperature)
    odds = fitted(fit_on, log_odds_scaled)
    return {
        "temperature": round(temperature, 4),
        "form": "confidence ** (1 / temperature)",
        "ece_before": round(expected_error(report_on), 4),
        "ece_after": round(expected_error(after), 4),
        "nll_before": round(nll(report_on, powered, 1.0), 4),
        "nll_after": round(nll(report_on, powered, temperature), 4),
        "log_odds_temperature": round(odds, 4),
        "log_odds_nll_after": round(nll(report_on, log_odds_scaled, odds), 4),
        "log_odds_ece_after": round(expected_error(calibrated(report_on, log_odds_scaled, odds)), 4),
        "fitted_on": len(fit_on),
        "reported_on": len(report_on),
        "before": [asdict(one) for one in reliability(report_on)],
        "after": [asdict(one) for one in reliability(after)],
    }


def noisy(
    prompt: Prompt, snr_db: float | None, others: Sequence[Prompt], chance: np.random.Generator, *, over_voices: bool
) -> Pcm:
    """A prompt with line noise around it, and babble or pink noise over all of it.

    The ratio is between the power of the prompt's samples above the level of speech and that of the noise.
    """
    around = AROUND_MS * RATE_HZ // 1000
    first, last = prompt.loud
    clean = np.pad(prompt.pcm[first : last + 1].astype(np.float64), around)
    clean += chance.standard_normal(clean.size) * threshold_amplitude(LINE_NOISE_DBFS)
    if snr_db is not None:
        rest = [other.pcm for other in others if other.name != prompt.name]
        noise = (babble(rest) if over_voices else pink_noise)(clean.size, chance)
        loud = clean[np.abs(clean) > threshold_amplitude(SPEECH_DBFS)]
        ratio = float(np.mean(loud**2)) / max(1e-9, float(np.mean(noise**2)))
        clean += noise * math.sqrt(ratio) / 10 ** (snr_db / 20)
    return as_pcm(clean)


def _clipped(probability: float) -> float:
    return min(_MOST, max(_LEAST, probability))


def _share(judged: Sequence[Judged]) -> float:
    return round(sum(one.right for one in judged) / len(judged), 4)


def _mean_confidence(judged: Sequence[Judged]) -> float:
    return round(sum(one.confidence for one in judged) / len(judged), 4)
