# SPDX-License-Identifier: GPL-3.0-or-later
"""How far speech stands out of what is around it: the signal-to-noise ratio of one leg, in the telephone band.

Each frame's power is taken between 300 and 3400 Hz, so that hum and rumble, which no telephone lets through, do not
count. What the voice detector calls speech is speech and noise together; their mean power over the last seconds of
it, less the noise, is the signal. The noise is a low percentile of the latest other frames: low, because the detector
misses parts of words, which are louder. Somebody who never pauses leaves no such frames: then it is a still lower
percentile of all. Other people's voices are not told from the talker's own: only the gaps between them are noise.

On 40 s of human prompts at -20 dBFS through mu-law white noise at 0, 3, 5, 8, 10, 13 and 20 dB reads as 1.4, 3.9, 5.8,
8.4, 10.3, 13.5 and 20.7 dB, at -30 dBFS up to 1.7 dB too high; clean prompts never read below 27 dB, nor below 19 where
every pause is digital silence. Of 40 s each of six pieces of music behind speech none read below 10 dB for 3 s.

Frames of digital silence (suppressed by the other side, or never sent) say nothing about noise and are left out. A
source that suppresses its silence to the last frame has an unknown ratio, unless its speech alone shows the noise.

Music is no noise either: it may be a line on hold that nobody told of. Until 2 s behind it the ratio is unknown.

Of somebody who listens, the ratio is that of their last words against the noise of now, for a minute.

Algorithmic delay: none beyond the frame. A step of the noise is seen in full after 2 s of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from gateway.audio.frames import frame_samples
from gateway.audio.pcm import SILENCE_DBFS
from gateway.stream.events import VoiceFrame

LOWEST_HZ, HIGHEST_HZ = 300, 3400
NOISE_S, SPEECH_S = 2.5, 5.0  # of such sound that is looked at
KNOWN_NOISE_S, KNOWN_SPEECH_S = 1.0, 0.5  # of such sound before anything is said
FORGOTTEN_S = 60.0
MUSIC_S = 2.0  # behind the last of it: held notes are a third of what is played
NOISE_PERCENTILE = 20.0
NOISE_PERCENTILE_OF_ALL = 10.0
NO_SOUND_DBFS = -85.0  # G.711's quietest step but zero is at -72 (mu-law) and -66 (A-law)
LEAST_DB, MOST_DB = -10.0, 60.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """What is known of a leg, in dB; the levels are of full scale, between 300 and 3400 Hz."""

    snr_db: float
    speech_dbfs: float
    noise_dbfs: float


class SnrMeter:
    """One leg's meter: `feed` each frame with its verdict, `ratio` at any time. Constant memory."""

    def __init__(self, rate_hz: int, frame_ms: int = 20) -> None:
        self._rate_hz = rate_hz
        size = frame_samples(rate_hz, frame_ms)
        self._window = np.hanning(size)
        hz = np.fft.rfftfreq(size, 1 / rate_hz)
        self._band = (hz >= LOWEST_HZ) & (hz <= HIGHEST_HZ)
        # Parseval: one side of the spectrum, and the window's own power
        self._scale = 2.0 / (size * float(np.square(self._window).sum()) * 32768.0**2)
        per_s = 1000 // frame_ms
        self._noise: deque[tuple[int, float]] = deque(maxlen=int(NOISE_S * per_s))
        self._speech: deque[tuple[int, float]] = deque(maxlen=int(SPEECH_S * per_s))
        self._all: deque[tuple[int, float]] = deque(maxlen=int((NOISE_S + SPEECH_S) * per_s))
        self._heard = self._music_until = 0
        self._known_noise, self._known_speech = int(KNOWN_NOISE_S * per_s), int(KNOWN_SPEECH_S * per_s)

    def feed(self, pcm: bytes, verdict: VoiceFrame) -> None:
        """The next frame, s16le mono of the meter's length; one of another length is left out."""
        self._heard = verdict.end_sample
        if verdict.is_music:
            self._music_until = verdict.end_sample + int(MUSIC_S * self._rate_hz)
            return
        samples = np.frombuffer(pcm, "<i2")
        if samples.size != self._window.size:
            return
        spectrum = np.abs(np.fft.rfft(samples * self._window)[self._band])
        power = float(spectrum @ spectrum) * self._scale
        if power <= 10 ** (NO_SOUND_DBFS / 10):
            return
        one = (verdict.end_sample, power)
        (self._speech if verdict.is_speech else self._noise).append(one)
        self._all.append(one)
        oldest = verdict.end_sample - int(FORGOTTEN_S * self._rate_hz)
        for kept in (self._speech, self._noise, self._all):
            while kept and kept[0][0] < oldest:
                kept.popleft()

    def ratio(self) -> Ratio | None:
        """The ratio now; None until there has been enough of speech and of its background."""
        if len(self._speech) < self._known_speech or self._heard < self._music_until:
            return None
        loud = float(np.mean([power for _, power in self._speech]))
        if len(self._noise) >= self._known_noise:
            noise = float(np.percentile([power for _, power in self._noise], NOISE_PERCENTILE))
        elif len(self._all) >= self._known_noise + self._known_speech:
            noise = float(np.percentile([power for _, power in self._all], NOISE_PERCENTILE_OF_ALL))
        else:
            return None
        signal = max(loud - noise, noise * 10 ** (LEAST_DB / 10))
        return Ratio(round(min(_db(signal / noise), MOST_DB), 1), round(_db(signal), 1), round(_db(noise), 1))

    def statistics(self) -> dict[str, float | None]:
        """The ratio and its two levels; None each while they are unknown."""
        now = self.ratio()
        if now is None:
            return {"snr_db": None, "speech_dbfs": None, "noise_dbfs": None}
        return {"snr_db": now.snr_db, "speech_dbfs": now.speech_dbfs, "noise_dbfs": now.noise_dbfs}


def _db(power: float) -> float:
    return max(SILENCE_DBFS, 10.0 * float(np.log10(power)))
