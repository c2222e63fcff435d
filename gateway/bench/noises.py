# SPDX-License-Identifier: GPL-3.0-or-later
"""Sounds of a telephone line that are not speech: noise to lay under a voice, and what nobody says.

All are made from arithmetic and a seeded generator, so that a figure can be measured again. A maker takes a number of
samples at 8 kHz and a generator, and returns float samples of any level; `at_level` and `in_steps` set it. What the
telephone network adds (G.711) is the caller's business.

* `UNDER_SPEECH`: what lies under a voice for as long as it talks.
* `NOT_SPEECH`: what an ear must not take for speech, alone on the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gateway.bench.capture import Pcm
from gateway.bench.sdp import RATE_HZ

Wave = npt.NDArray[np.float64]
Make = Callable[[int, np.random.Generator], Wave]

BABBLERS = 6
STEP_S = 10
STEPS_DBFS = (-45.0, -20.0, -35.0, -15.0, -30.0, -50.0)
"""Levels that a sound takes in turns: a step up is the hardest for a floor that follows the noise."""


# --- levels ---------------------------------------------------------------------------------------------------------


def at_level(wave: Wave, dbfs: float) -> Wave:
    """The same with this RMS level over the samples that sound at all."""
    sounding = wave[np.abs(wave) > 1e-9]
    power = float(np.mean(sounding**2)) if sounding.size else 1.0
    return wave * (32768 * 10 ** (dbfs / 20) / math.sqrt(power))


def in_steps(wave: Wave, levels_dbfs: Sequence[float] = STEPS_DBFS, step_s: float = STEP_S) -> Wave:
    """The same with a level that changes every ``step_s``."""
    step = round(step_s * RATE_HZ)
    factors = 10 ** (np.array(levels_dbfs) / 20) / 10 ** (levels_dbfs[0] / 20)
    return at_level(wave, levels_dbfs[0]) * factors[np.arange(wave.size) // step % factors.size]


def as_pcm(wave: Wave) -> Pcm:
    """Float samples to int16."""
    return np.clip(np.rint(wave), -32768, 32767).astype(np.int16)


# --- noise ----------------------------------------------------------------------------------------------------------


def silence(samples: int, chance: np.random.Generator) -> Wave:
    """Digital silence."""
    return np.zeros(samples)


def white_noise(samples: int, chance: np.random.Generator) -> Wave:
    """Hiss: as much power at each frequency."""
    return chance.standard_normal(samples)


def pink_noise(samples: int, chance: np.random.Generator) -> Wave:
    """Noise whose power falls as 1/f."""
    spectrum = np.fft.rfft(chance.standard_normal(samples))
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(1, np.arange(spectrum.size))), samples)


def hum(mains_hz: float) -> Make:
    """Mains hum: the fundamental and its harmonics, as a ground loop and a rectifier leave them; the mains wander."""

    def make(samples: int, chance: np.random.Generator) -> Wave:
        wander = 0.03 * np.sin(2 * np.pi * np.arange(samples) / RATE_HZ / 37.0)
        phase = 2 * np.pi * np.cumsum(mains_hz + wander) / RATE_HZ
        strengths = 1 / np.arange(1, 13) ** chance.uniform(0.8, 1.4)
        offsets = chance.uniform(0, 2 * np.pi, strengths.size)
        wave = np.zeros(samples)
        for order, (strength, offset) in enumerate(zip(strengths, offsets, strict=True), 1):
            wave += strength * np.sin(order * phase + offset)
        return wave

    return make


def street(samples: int, chance: np.random.Generator) -> Wave:
    """Traffic: a rumble that falls as 1/f², tyres that come and go by, now and then a horn."""
    spectrum = np.fft.rfft(chance.standard_normal(samples))
    hz = np.fft.rfftfreq(samples, 1 / RATE_HZ)
    rumble = at_level(np.fft.irfft(spectrum / np.maximum(hz, 40.0), samples), -26)
    tyres = at_level(_band(chance.standard_normal(samples), 300, 1800), -26)
    passing = np.zeros(samples)
    for at in _arrivals(samples, 6.0, chance):
        width = chance.uniform(0.6, 2.0) * RATE_HZ
        passing += chance.uniform(0.3, 1.2) * np.exp(-0.5 * ((np.arange(samples) - at) / width) ** 2)
    wave = rumble + passing * tyres
    for at in _arrivals(samples, 20.0, chance):
        length = min(samples - at, round(chance.uniform(0.2, 0.7) * RATE_HZ))
        wave[at : at + length] += at_level(_tone((410.0, 510.0), length), -24) * _edges(length, 15)
    return wave


def clicks(samples: int, chance: np.random.Generator) -> Wave:
    """Crackle, key presses and knocks: short, each with its own ring."""
    wave = np.zeros(samples)
    for at in _arrivals(samples, 0.4, chance):
        decay = chance.uniform(2, 120)  # samples: 0.25 to 15 ms
        length = min(samples - at, int(decay * 7))
        time = np.arange(length)
        ring = np.sin(2 * np.pi * chance.uniform(150, 3000) * time / RATE_HZ) + chance.standard_normal(length)
        wave[at : at + length] += chance.uniform(0.2, 1.0) * np.exp(-time / decay) * ring
    return wave


def babble(voices: Sequence[Pcm]) -> Make:
    """Several of these voices at once, each as loud as the others and from a chance place on, over and over."""

    def make(samples: int, chance: np.random.Generator) -> Wave:
        wave = np.zeros(samples)
        for index in chance.choice(len(voices), size=min(BABBLERS, len(voices)), replace=False):
            voice = at_level(voices[int(index)].astype(np.float64), -26)
            wave += np.roll(np.resize(voice, samples + voice.size), int(chance.integers(voice.size)))[:samples]
        return wave

    return make


# --- what telephone networks play -----------------------------------------------------------------------------------


def cadence(lines_hz: Sequence[Sequence[float]], on_off_ms: Sequence[int]) -> Make:
    """A call-progress tone: ``lines_hz`` in turns, on and off for ``on_off_ms`` (ITU-T E.180 has every country's)."""

    def make(samples: int, chance: np.random.Generator) -> Wave:
        wave = np.zeros(samples)
        at = turn = 0
        while at < samples:
            length = min(samples - at, on_off_ms[turn % len(on_off_ms)] * RATE_HZ // 1000)
            if turn % 2 == 0:
                wave[at : at + length] = _tone(lines_hz[turn // 2 % len(lines_hz)], length) * _edges(length, 3)
            at, turn = at + length, turn + 1
        return wave

    return make


def dtmf(samples: int, chance: np.random.Generator) -> Wave:
    """Keys pressed by a human: 60 to 400 ms, 50 to 900 ms apart (ITU-T Q.23)."""
    rows, columns = (697.0, 770.0, 852.0, 941.0), (1209.0, 1336.0, 1477.0)
    wave = np.zeros(samples)
    at = 0
    while at < samples:
        length = min(samples - at, round(chance.uniform(0.06, 0.4) * RATE_HZ))
        wave[at : at + length] = _tone((chance.choice(rows), chance.choice(columns)), length) * _edges(length, 2)
        at += length + round(chance.uniform(0.05, 0.9) * RATE_HZ)
    return wave


def in_turns(makers: Sequence[Make], each_s: float = 30.0) -> Make:
    """Several sounds, one after the other, again and again, all equally loud."""

    def make(samples: int, chance: np.random.Generator) -> Wave:
        step = round(each_s * RATE_HZ)
        parts = [
            at_level(makers[number % len(makers)](min(step, samples - at), chance), -20)
            for number, at in enumerate(range(0, samples, step))
        ]
        return np.concatenate(parts)

    return make


# --- hold music -----------------------------------------------------------------------------------------------------

_SCALE = (0, 2, 4, 5, 7, 9, 11)
_PROGRESSION = ((0, 2, 4), (5, 0, 2), (3, 5, 0), (4, 6, 1))  # I, vi, IV, V as degrees of the scale
_VOICES = ((1.0, 0.5, 0.33, 0.2, 0.1), (1.0, 0.0, 0.5, 0.0, 0.25), (1.0, 0.8, 0.6, 0.5, 0.4))  # strings, reed, brass


def music(samples: int, chance: np.random.Generator) -> Wave:
    """Hold music: chords that swell and fade, a bass, a tune with vibrato on an instrument of its own, drums.

    A piece of 30 s at a time, each with its own key, tempo and instruments; some have no drums, some no tune.
    """
    piece = 30 * RATE_HZ
    return np.concatenate([_piece(min(piece, samples - at), chance) for at in range(0, samples, piece)])


def _piece(samples: int, chance: np.random.Generator) -> Wave:
    beat = round(60 / chance.uniform(70, 130) * RATE_HZ)
    root_hz = 130.8 * 2 ** (chance.integers(12) / 12)
    pad, lead = (_VOICES[int(index)] for index in chance.choice(len(_VOICES), size=2))
    has_drums, has_tune = chance.random() < 0.75, chance.random() < 0.85
    wave = np.zeros(samples + 8 * beat)
    for number, at in enumerate(range(0, samples, beat)):
        chord = _PROGRESSION[number // 4 % len(_PROGRESSION)]
        if number % 4 == 0:
            for degree in chord:
                _play(wave, at, 4 * beat, root_hz * 2 ** (_SCALE[degree] / 12), pad, 0.22, attack_ms=120)
        _play(wave, at, beat, root_hz / 2 * 2 ** (_SCALE[chord[0]] / 12), (1.0, 0.4, 0.2), 0.45, attack_ms=8)
        if has_tune:
            for half in range(2):
                degree, octave = int(chance.integers(7)), int(chance.integers(1, 3))
                if chance.random() < 0.8:
                    hz = root_hz * 2 ** (octave + _SCALE[degree] / 12)
                    _play(wave, at + half * beat // 2, beat // 2, hz, lead, 0.3, attack_ms=15, vibrato=0.006)
        if has_drums:
            _drum(wave, at, chance, snare=number % 2 == 1)
            _hat(wave, at + beat // 2, chance)
    return wave[:samples]


def _play(
    wave: Wave,
    at: int,
    length: int,
    hz: float,
    strengths: Sequence[float],
    loud: float,
    *,
    attack_ms: int,
    vibrato: float = 0.0,
) -> None:
    time_s = np.arange(length) / RATE_HZ
    phase = 2 * np.pi * hz * (time_s - vibrato / (2 * np.pi * 5.5) * np.cos(2 * np.pi * 5.5 * time_s))
    note = np.zeros(length)
    for order, strength in enumerate(strengths, 1):
        if order * hz < RATE_HZ / 2:
            note += strength * np.sin(order * phase)
    envelope = np.minimum(1.0, time_s * 1000 / attack_ms) * np.exp(-1.5 * time_s / time_s[-1])
    wave[at : at + length] += loud * note * envelope * _edges(length, 10)


def _drum(wave: Wave, at: int, chance: np.random.Generator, *, snare: bool) -> None:
    time_s = np.arange(RATE_HZ // 5) / RATE_HZ
    if snare:
        hit = 0.7 * chance.standard_normal(time_s.size) * np.exp(-time_s / 0.05)
    else:
        hit = 1.2 * np.sin(2 * np.pi * (60 * time_s + 3 * (1 - np.exp(-time_s / 0.03)))) * np.exp(-time_s / 0.08)
    wave[at : at + time_s.size] += hit[: wave.size - at]


def _hat(wave: Wave, at: int, chance: np.random.Generator) -> None:
    noise = np.diff(chance.standard_normal(RATE_HZ // 20 + 1))
    wave[at : at + noise.size] += 0.2 * noise * np.exp(-np.arange(noise.size) / (0.015 * RATE_HZ))


# --- small parts ----------------------------------------------------------------------------------------------------


def _tone(lines_hz: Sequence[float], samples: int) -> Wave:
    time_s = np.arange(samples) / RATE_HZ
    wave = np.zeros(samples)
    for hz in lines_hz:
        wave += np.sin(2 * np.pi * hz * time_s) / len(lines_hz)
    return wave


def _edges(samples: int, edge_ms: int) -> Wave:
    """Ones with a linear beginning and end."""
    edge = max(1, edge_ms * RATE_HZ // 1000)
    rise = np.minimum(1.0, (np.arange(samples) + 1) / edge)
    return rise * rise[::-1]


def _band(wave: Wave, low_hz: float, high_hz: float) -> Wave:
    hz = np.fft.rfftfreq(wave.size, 1 / RATE_HZ)
    return np.fft.irfft(np.where((hz >= low_hz) & (hz <= high_hz), np.fft.rfft(wave), 0), wave.size)


def _arrivals(samples: int, mean_s: float, chance: np.random.Generator) -> list[int]:
    """Chance moments, ``mean_s`` apart on average."""
    count = chance.poisson(samples / RATE_HZ / mean_s)
    return sorted(int(at) for at in chance.integers(0, samples, count))


_RING_BACK = in_turns(
    (
        cadence(((440, 480),), (2000, 4000)),  # North America
        cadence(((425,),), (1000, 4000)),  # most of Europe, Brazil
        cadence(((400, 450),), (400, 200, 400, 2000)),  # United Kingdom
        cadence(((450,),), (1000, 4000)),  # China
        cadence(((440,),), (1500, 3500)),  # France
    )
)
_BUSY = in_turns(
    (
        cadence(((480, 620),), (500, 500)),  # North America
        cadence(((480, 620),), (250, 250)),  # its reorder tone
        cadence(((425,),), (250, 250)),  # Brazil, Germany
        cadence(((425,),), (480, 480)),
        cadence(((400,),), (375, 375)),  # United Kingdom
        cadence(((950,), (1400,), (1800,)), (330, 1, 330, 1, 330, 1000)),  # special information tone
    )
)
_BEEPS = in_turns(
    (
        cadence(((1100,),), (500, 3000)),  # a calling fax
        cadence(((2100,),), (3300, 1000)),  # an answering modem
        cadence(((1000,),), (400, 2600)),  # a voice mail's beep
        cadence(((1400,),), (500, 14_500)),  # "this call is recorded"
    )
)

UNDER_SPEECH: Mapping[str, Make] = {
    "white": white_noise,
    "pink": pink_noise,
    "hum-50": hum(50.0),
    "hum-60": hum(60.0),
    "street": street,
    "clicks": clicks,
}
"""Babble needs voices: `babble`."""

NOT_SPEECH: Mapping[str, Make] = {
    "silence": silence,
    "white": white_noise,
    "pink": pink_noise,
    "hum": in_turns((hum(50.0), hum(60.0))),
    "street": street,
    "clicks": clicks,
    "ring-back": _RING_BACK,
    "busy": _BUSY,
    "beeps": _BEEPS,
    "dtmf": dtmf,
    "music": music,
}
