# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this frame speech? WebRTC's detector, with the gates it lacks on a telephone.

WebRTC's detector (Gaussian mixtures over six bands) keeps nearly every frame of speech, but at the levels of a
telephone line it also takes ring-back, busy tone, DTMF, hum, clicks and loud noise for speech. A frame must
therefore also pass, each measured on G.711 sound at 8 kHz:

* **energy**: above -50 dBFS, and 4 dB above an adaptive noise floor;
* **tonality**: a 40 ms window with 99.8 % of its energy in two spectral lines, or with 98 % in two lines that stay
  where they are at a level that stays, is a call-progress tone, DTMF or a beep. 3 % of the frames of a high voice
  look like that too, for a frame or two at a time: a voice that has been heard for 100 ms is given 60 ms. Of a weak
  tone a part is the line's noise, by the noise floor: that part is allowed here and for steadiness (10 minutes of tones
  at six levels opened 180 utterances without, 1 with it; of 16,000 frames of speech it costs 4);
* **voicing**: somewhere in the last 300 ms the pre-emphasised sound was periodic with a voice's pitch (normalised
  cross-correlation of 0.42 or more at lags of 2.5 to 15 ms, for 40 ms). White and pink noise
  stay below 0.35, three quarters of all speech frames are above 0.6. Pre-emphasis makes pink noise white, but lifts
  white noise above the voice: so it follows the noise between the words. With a fixed one, 56 of 120 prompts under
  white noise at 5 dB are not heard, and 119 at 0 dB; so none and 1. A knock that rings passes for two frames of
  five at most, as do the onsets of tones and hum: the end-pointer asks for three. Unvoiced consonants live on the vowel
  before them; those that open an utterance are brought back by the end-pointer's pre-roll;
* **steadiness**: the last 20 ms equal those of 40, 50 or 100 ms before (correlation 0.98). These are whole numbers of
  periods of mains hum at 50 and 60 Hz and of most call-progress tones; a voice's pitch does not hold that still;
* **music** (`gateway.audio.music`): no notes are being held, or this is louder than they.

Kept at -30 dBFS through mu-law, of the frames within 15.9 dB of the active level: 97.2 % of 548 English and 98.3 % of
508 Spanish telephone prompts; 99.97 % with the end-pointer's pre-roll and tail around what was kept.

The sound is freed of DC first. Algorithmic delay: none beyond the frame.
"""

from __future__ import annotations

import numpy as np
import structlog
import webrtcvad
from numpy.typing import NDArray

from gateway.audio.frames import frame_samples
from gateway.audio.music import MusicDetector
from gateway.audio.pcm import SILENCE_DBFS, DcBlocker, level_dbfs, rounded
from gateway.stream.events import VoiceFrame

log = structlog.get_logger(__name__)

RATES_HZ = (8000, 16000, 32000, 48000)  # all that WebRTC's detector accepts
FRAMES_MS = (10, 20, 30)

ABSOLUTE_FLOOR_DBFS = -50.0
ABOVE_NOISE_DB = 4.0
HIGHEST_NOISE_FLOOR_DBFS = -42.0  # speech at -30 dBFS is never gated, however long it goes on without a pause
NOISE_RISE_DB_PER_S = 2.0  # slower than the pauses of speech can undo
VOICED_CORRELATION = 0.42  # two minutes of white and of pink noise, at -15 to -35 dBFS: no frame passes
VOICED_RUN_MS = 40  # the onset of a tone looks voiced for less than this
VOICED_HOLD_MS = 300
PRE_EMPHASIS = 0.9  # whitens pink noise, and what most rooms sound like
TILT_SHARE = 0.02  # of a noise frame in the tilt: 1 s
TILT_BACK_SHARE = 0.005  # while somebody speaks: 4 s
TONAL_SHARE = 0.998
TONAL_SHARE_STABLE = 0.98
LARGEST_NOISE_SHARE = 0.05  # of a tone's energy that may be the line's noise: 13 dB below
TONAL_LEVEL_STEP_DB = 0.7
TONAL_RUN_MS = 60
VOICE_KNOWN_AFTER_MS = 100
TONAL_HOLD_MS = 40  # the edge at which a tone stops has a wide spectrum
STEADY_CORRELATION = 0.98
HEALED_AFTER_S = 5
LEAST_KEPT = 0.2  # of what sounds like speech; prompts keep 0.76, as WebRTC's detector goes on behind each of them
JUDGED_AFTER_FRAMES = 512  # 10 s of it

_ANALYSIS_HZ = 8000
_SHORTEST_LAG = _ANALYSIS_HZ * 25 // 10_000  # 2.5 ms: 400 Hz
_LONGEST_LAG = _ANALYSIS_HZ * 15 // 1000  # 15 ms: 67 Hz
_NCC_WINDOW = _ANALYSIS_HZ * 20 // 1000
_TONE_WINDOW = _ANALYSIS_HZ * 40 // 1000
_STEADY_LAGS = tuple(_ANALYSIS_HZ * lag_ms // 1000 for lag_ms in (40, 50, 100))
_LOWEST_TONE_BIN = 13  # 325 Hz: below all call-progress tones, above the pitch that is all there is of an "n"
_LINE_HALF_WIDTH = 2  # bins of 25 Hz: the main lobe of a Hann window


def periodicity(window: NDArray[np.float64], emphasis: float = PRE_EMPHASIS) -> float:
    """The highest normalised cross-correlation of the window's last 20 ms with itself 2.5 to 15 ms before.

    ``window``: at least 35 ms plus one sample at 8 kHz. ``emphasis`` of its high frequencies, 0 to 1: right when it
    makes the noise white, because that has no period. Method: NCC pitch candidate, as in RAPT (Talkin 1995).
    """
    emphasised = window[1:] - emphasis * window[:-1]
    emphasised = emphasised[-(_NCC_WINDOW + _LONGEST_LAG) :]
    now = emphasised[_LONGEST_LAG:]
    products = np.correlate(emphasised, now, "valid")[::-1]  # index = lag
    sums = np.concatenate(([0.0], np.cumsum(emphasised * emphasised)))
    energies = (sums[_NCC_WINDOW:] - sums[:-_NCC_WINDOW])[::-1]
    # one int16 step of noise keeps digital silence from dividing by zero
    scores = products / np.sqrt((energies[0] + _NCC_WINDOW) * (energies + _NCC_WINDOW))
    inner = scores[_SHORTEST_LAG:-1]
    # only a true peak tells a period: the flank of something slower, such as hum, is high at the shortest lag too
    peaks = inner[(inner >= scores[_SHORTEST_LAG - 1 : -2]) & (inner >= scores[_SHORTEST_LAG + 1 :])]
    return float(peaks.max(initial=0.0))


_HANN = np.hanning(_TONE_WINDOW)


def tilt(window: NDArray[np.float64]) -> float:
    """Correlation of the last 20 ms with themselves a sample before: 0 for white noise, 0.9 for pink, -1 to 1."""
    now = window[-_NCC_WINDOW:]
    return float(now[1:] @ now[:-1] / (now @ now + _NCC_WINDOW))


def two_lines(window: NDArray[np.float64]) -> tuple[float, tuple[int, ...]]:
    """The two strongest spectral lines of the last 40 ms (8 kHz): their share of the energy, and their 25 Hz bins."""
    spectrum = np.abs(np.fft.rfft(window[-_TONE_WINDOW:] * _HANN)) ** 2
    total = float(spectrum.sum())
    if total <= 0.0:
        return 0.0, ()
    share = 0.0
    peaks: list[int] = []
    for _ in range(2):
        peak = int(spectrum.argmax())
        peaks.append(peak)
        line = spectrum[max(0, peak - _LINE_HALF_WIDTH) : peak + _LINE_HALF_WIDTH + 1]
        share += float(line.sum())
        line[:] = 0.0
    return share / total, tuple(peaks)


def steadiness(window: NDArray[np.float64]) -> float:
    """The highest correlation of the window's last 20 ms with those of 40, 50 and 100 ms before, -1 to 1."""
    now = window[-_NCC_WINDOW:]
    energy = now @ now + _NCC_WINDOW
    scores = []
    for lag in _STEADY_LAGS:
        before = window[-_NCC_WINDOW - lag : -lag]
        scores.append(float(now @ before / np.sqrt(energy * (before @ before + _NCC_WINDOW))))
    return max(scores)


class VoiceDetector:
    """Judges whole frames of one leg: ``feed(pcm, first_sample) -> VoiceFrame``.

    Never raises on sound: a frame of the wrong size is counted, logged, judged as not speech, and makes the
    detector unhealthy until HEALED_AFTER_S of good frames have passed (E02: an alarm, not a silent deaf ear).
    """

    def __init__(self, rate_hz: int, frame_ms: int = 20, aggressiveness: int = 2) -> None:
        if rate_hz not in RATES_HZ or frame_ms not in FRAMES_MS:
            raise ValueError(f"voice detection takes {FRAMES_MS} ms at {RATES_HZ} Hz: {frame_ms}, {rate_hz}")
        if aggressiveness not in range(4):
            raise ValueError("aggressiveness goes from 0 to 3")
        self.rate_hz = rate_hz
        self.frame_samples = frame_samples(rate_hz, frame_ms)
        self._frame_ms = frame_ms
        self._vad = webrtcvad.Vad(aggressiveness)
        self._dc = DcBlocker(rate_hz)
        self._decimation = rate_hz // _ANALYSIS_HZ
        self._window = np.zeros(_STEADY_LAGS[-1] + _NCC_WINDOW, np.float64)
        self._music = MusicDetector()
        self._is_music = False
        self._noise_dbfs = ABSOLUTE_FLOOR_DBFS - ABOVE_NOISE_DB
        self._emphasis = PRE_EMPHASIS
        self._voiced_run_ms = 0
        self._voiced_left_ms = 0
        self._voiced_total_ms = 0
        self._tonal_run_ms = 0
        self._tonal_left_ms = 0
        self._last_lines: set[int] = set()
        self._last_level = SILENCE_DBFS
        self._good_since_error = 0
        self._errors = 0
        self._frames = 0
        self._speech_frames = 0
        self._likely_frames = 0
        self._gated = dict.fromkeys(("energy", "tonal", "unvoiced", "music"), 0)

    @property
    def healthy(self) -> bool:
        """False from an error until HEALED_AFTER_S without one."""
        return not self._errors or self._good_since_error * self._frame_ms >= HEALED_AFTER_S * 1000

    def feed(self, pcm: bytes, first_sample: int) -> VoiceFrame:
        """Judges one frame of s16le mono; the level is that of the sound without DC."""
        if len(pcm) != 2 * self.frame_samples:
            return self._fault(first_sample, len(pcm) // 2, f"frame of {len(pcm)} bytes")
        clean = self._dc.feed(np.frombuffer(pcm, "<i2"))
        samples = rounded(clean)
        level = level_dbfs(samples)
        try:
            sounds_like_speech = bool(self._vad.is_speech(samples.tobytes(), self.rate_hz))
        except Exception as error:
            return self._fault(first_sample, self.frame_samples, repr(error))
        self._frames += 1
        self._good_since_error += 1
        is_speech = self._passes_gates(self._remember(clean), level, sounds_like_speech)
        self._speech_frames += is_speech
        self._likely_frames += sounds_like_speech
        if sounds_like_speech:
            self._look_back()
        return VoiceFrame(first_sample, self.frame_samples, is_speech, level, self._is_music)

    @property
    def kept_share(self) -> float:
        """Of the frames that WebRTC's detector took for speech, the share that the gates let through."""
        return self._speech_frames / self._likely_frames if self._likely_frames else 1.0

    def statistics(self) -> dict[str, int | float | bool]:
        """Frames seen, kept and gated (of those that WebRTC's detector took for speech), errors, the noise floor."""
        return {
            "frames": self._frames,
            "speech_frames": self._speech_frames,
            "kept_share": round(self.kept_share, 3),
            **{f"gated_{name}_frames": count for name, count in self._gated.items()},
            "errors": self._errors,
            "healthy": self.healthy,
            "noise_dbfs": self._noise_dbfs,
        }

    def _look_back(self) -> None:
        """Say so when most of what sounds like speech is thrown away (E06): after 10, 20, 40 ... seconds of it."""
        likely = self._likely_frames
        if likely >= JUDGED_AFTER_FRAMES and likely.bit_count() == 1 and self.kept_share < LEAST_KEPT:
            log.warning("voice_mostly_refused", kept_share=round(self.kept_share, 3), **self._gated)

    def _remember(self, clean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The last 120 ms at the analysis rate. Box averaging suffices: only pitch and strong lines are looked at."""
        if self._decimation > 1:
            clean = clean.reshape(-1, self._decimation).mean(axis=1)
        self._window = np.concatenate((self._window[clean.size :], clean))
        return self._window

    def _passes_gates(self, window: NDArray[np.float64], level: float, sounds_like_speech: bool) -> bool:
        loud = level > max(ABSOLUTE_FLOOR_DBFS, self._noise_dbfs + ABOVE_NOISE_DB)
        self._follow_noise(level)
        newest = window[-(self.frame_samples // self._decimation) :]
        self._is_music = music = self._music.feed(newest, audible=loud)
        self._tonal_left_ms = max(0, self._tonal_left_ms - self._frame_ms)
        self._voiced_left_ms = max(0, self._voiced_left_ms - self._frame_ms)
        if not self._voiced_left_ms:
            self._voiced_total_ms = 0
        if not loud:
            self._emphasis += TILT_SHARE * (PRE_EMPHASIS - self._emphasis)
        if not (loud and sounds_like_speech):
            self._gated["energy"] += sounds_like_speech
            self._voiced_run_ms = self._tonal_run_ms = 0
            self._last_level = level
            return False
        if self._is_tonal(window, level):
            self._gated["tonal"] += 1
            return False
        periodic = periodicity(window, self._emphasis) >= VOICED_CORRELATION
        self._voiced_run_ms = self._voiced_run_ms + self._frame_ms if periodic else 0
        if self._voiced_run_ms >= VOICED_RUN_MS:
            self._voiced_left_ms = VOICED_HOLD_MS
            self._voiced_total_ms += self._frame_ms
        self._follow_tilt(window)
        if not self._voiced_left_ms:
            self._gated["unvoiced"] += 1
            return False
        self._gated["music"] += music
        return not music

    def _is_tonal(self, window: NDArray[np.float64], level: float) -> bool:
        share, lines = two_lines(window)
        stays = set(lines) == self._last_lines and abs(level - self._last_level) < TONAL_LEVEL_STEP_DB
        self._last_lines, self._last_level = set(lines), level
        noise_share = min(LARGEST_NOISE_SHARE, 10 ** ((self._noise_dbfs - level) / 10))
        least_share = (TONAL_SHARE_STABLE if stays else TONAL_SHARE) - noise_share
        pure = share >= least_share and lines[0] >= _LOWEST_TONE_BIN
        tonal = pure or steadiness(window) >= STEADY_CORRELATION - noise_share
        self._tonal_run_ms = self._tonal_run_ms + self._frame_ms if tonal else 0
        if self._tonal_run_ms >= TONAL_RUN_MS:
            self._tonal_left_ms = TONAL_HOLD_MS + self._frame_ms
            self._voiced_left_ms = self._voiced_total_ms = 0
        elif tonal and self._voiced_total_ms >= VOICE_KNOWN_AFTER_MS:
            return False
        if tonal:
            self._voiced_run_ms = self._voiced_total_ms = 0
        return tonal or self._tonal_left_ms > 0

    def _follow_noise(self, level: float) -> None:
        """Down at once by half the way, up slowly: the floor settles in the pauses."""
        if level < self._noise_dbfs:
            self._noise_dbfs += 0.5 * (max(level, SILENCE_DBFS) - self._noise_dbfs)
        else:
            rise = NOISE_RISE_DB_PER_S * self._frame_ms / 1000
            self._noise_dbfs = min(level, self._noise_dbfs + rise, HIGHEST_NOISE_FLOOR_DBFS)

    def _follow_tilt(self, window: NDArray[np.float64]) -> None:
        """Of noise that is loud enough to pass for speech. A wrong one, with which all sounds voiced, is forgotten."""
        if self._voiced_left_ms:
            self._emphasis += TILT_BACK_SHARE * (PRE_EMPHASIS - self._emphasis)
        else:
            self._emphasis += TILT_SHARE * (min(max(0.0, tilt(window)), PRE_EMPHASIS) - self._emphasis)

    def _fault(self, first_sample: int, samples: int, error: str) -> VoiceFrame:
        self._errors += 1
        self._good_since_error = 0
        if self._errors.bit_count() == 1:  # the 1st, 2nd, 4th, 8th ... so that a broken leg cannot flood the log
            log.error("voice_detection_failed", error=error, errors=self._errors, expected_samples=self.frame_samples)
        return VoiceFrame(first_sample, samples, is_speech=False, level_dbfs=SILENCE_DBFS)


def self_test(rate_hz: int, frame_ms: int = 20, aggressiveness: int = 2) -> bool:
    """True when a fresh detector hears a made-up voice and does not hear silence or a dial tone (E02).

    The voice is a pulse train whose pitch glides from 110 to 150 Hz through three vowel resonances. To be called at
    start-up: a detector that is deaf because of a wrong rate or a broken library is found before the first call.
    """
    time_s = np.arange(rate_hz) / rate_hz
    phase = 2 * np.pi * (110.0 * time_s + 20.0 * time_s**2)
    voice = np.zeros(rate_hz)
    for harmonic in range(1, 25):
        hz = 130.0 * harmonic
        strength = sum(peak / (1 + ((hz - centre) / width) ** 2) for centre, width, peak in _VOWEL)
        voice += strength * np.sin(harmonic * phase)
    voice *= 6000.0 / np.abs(voice).max() * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time_s))  # 4 syllables a second
    tone = 4000.0 * (np.sin(2 * np.pi * 350 * time_s) + np.sin(2 * np.pi * 440 * time_s))

    def heard(sound: NDArray[np.float64]) -> float:
        detector = VoiceDetector(rate_hz, frame_ms, aggressiveness)
        size = detector.frame_samples
        pcm = rounded(sound)
        verdicts = [
            detector.feed(pcm[at : at + size].tobytes(), at).is_speech for at in range(0, pcm.size - size, size)
        ]
        return float(np.mean(verdicts))

    return heard(voice) > 0.5 and heard(tone) < 0.1 and heard(np.zeros(rate_hz)) == 0.0


_VOWEL = ((600.0, 80.0, 1.0), (1200.0, 120.0, 0.5), (2500.0, 200.0, 0.25))  # centre Hz, half width Hz, height
