# SPDX-License-Identifier: GPL-3.0-or-later
"""What a leg hears: clips are queued, and the SIP side pulls exactly one frame every 20 ms, for ever.

Nothing here keeps time. PJSIP's clock asks, and the answer is always one whole frame: speech when there is some,
else silence, or the murmur of an open line (A8, B09). A stalled event loop therefore cannot disturb the packets (J01).

Joins (S1.13). Each clip rises over its first 10 ms and falls over its last 10 ms with complementary raised cosines.
The falling tail is an *overlay* that is added to whatever follows: if the next clip is there and no pause is wanted,
it starts under the tail (a cross-fade); if not, the tail runs into silence. A flush makes its fade the same way.
So no join can click, and a clip that ends in mid-frame leaves no hole before the next.

A prompt goes before translations, at the border of a clip and never in the middle of a word.

Translations can be heard faster or slower, from the next 15 ms on (`tempo`). The talker's own voice lies under all of
it and sinks while something is said (`original`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from gateway.audio.comfort import ComfortNoise
from gateway.audio.original import Ducking, OriginalVoice
from gateway.audio.pcm import SILENCE_DBFS, Float32, Int16, limited, rising
from gateway.audio.tempo import TempoReader, usable_ratio

JOIN_MS = 10  # long enough to hide a step in level, short enough to keep a plosive's attack
FLUSH_FADE_MS = 30
MAX_PENDING_S = 120.0  # two minutes of speech nobody has heard yet: the talk is elsewhere by then
LEVELS_KEPT = 1500  # frames, 30 s: as far back as an utterance may lie that could be an echo
EVENTS_KEPT = 4096  # three events a clip: over a thousand clips between two looks


class ClipKind(StrEnum):
    """What a clip is for, in order of priority."""

    PROMPT = "prompt"
    ANSWER = "answer"
    """To a key that was pressed; the next key cuts it off."""
    CUE = "cue"
    TRANSLATION = "translation"


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """1-D int16 sound at the play-out's rate. ``gap_ms`` of silence follow it before the next clip may start;
    ``more_follows`` says that the burst goes on, so that silence after it counts as an under-run."""

    clip_id: str
    kind: ClipKind
    pcm: Int16
    gap_ms: int = 0
    more_follows: bool = False


@dataclass(frozen=True, slots=True)
class PlayEvent:
    """What became of a clip: at which egress sample, when (monotonic), and how many of its samples were heard."""

    clip_id: str
    what: Literal["started", "ended", "dropped"]
    at_sample: int
    at_ns: int
    heard_samples: int


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A clip as float32 in int16 units, its ends faded; the last ``fall`` samples are played as an overlay."""

    clip: Clip
    sound: Float32
    fall: int


class PlayOut:
    """Implements FrameSource. ``next_frame`` belongs to the clock thread, all else to the event loop's thread.

    The lock is held for a frame's worth of arithmetic, or for one deque operation. Algorithmic delay: none, a clip
    queued before a pull is heard in that frame. ``tap(frame, first_sample)`` sees each frame, for the recorder.
    """

    def __init__(
        self,
        rate_hz: int,
        frame_samples: int,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        tap: Callable[[bytes, int], None] | None = None,
        max_pending_s: float = MAX_PENDING_S,
        ducking: Ducking | None = None,
        comfort_dbfs: float | None = None,
    ) -> None:
        if rate_hz <= 0 or frame_samples < 1:
            raise ValueError("play-out needs a rate and a frame of at least one sample")
        self.rate_hz = rate_hz
        self.frame_samples = frame_samples
        self._now_ns = now_ns
        self._tap = tap
        self._max_pending_samples = round(max_pending_s * rate_hz)
        self._join = rate_hz * JOIN_MS // 1000
        self._silence = bytes(2 * frame_samples)
        self._lock = threading.Lock()
        self._original = OriginalVoice(ducking or Ducking(), rate_hz)
        self._comfort = None if comfort_dbfs is None else ComfortNoise(comfort_dbfs, rate_hz)
        self._tempo = 1.0
        self._queues: dict[ClipKind, deque[_Ready]] = {kind: deque() for kind in ClipKind}
        self._queued_samples = dict.fromkeys(ClipKind, 0)
        self._current: _Ready | None = None
        self._reader = TempoReader(np.zeros(0, np.float32), rate_hz)  # of the current clip, up to its fall
        self._overlay: Float32 = np.zeros(0, np.float32)
        self._ending: list[tuple[Clip, int]] = []  # clips whose tail still sounds, and the sample where it ends
        self._gap_left = 0
        self._burst_open = False
        self._egress = 0  # index of the next egress sample
        self._frame_ns = 0
        self._frame_first = 0
        self._levels: deque[float] = deque(maxlen=LEVELS_KEPT)
        self._events: deque[PlayEvent] = deque(maxlen=EVENTS_KEPT)
        self._counts = dict.fromkeys(
            ("frames", "silent_frames", "underruns", "clips_played", "clips_dropped", "clips_refused", "events_lost"), 0
        )
        self._counts |= {"errors": 0, "tap_errors": 0}

    # --- the event loop's side ------------------------------------------------------------------------------------

    def enqueue(self, clip: Clip) -> bool:
        """Queues a clip; False, counted and told as 'dropped', when too much waits. ValueError for a wrong array."""
        if clip.pcm.dtype != np.int16 or clip.pcm.ndim != 1:
            raise ValueError(f"expected 1-D int16 samples, got {clip.pcm.dtype} of shape {clip.pcm.shape}")
        if clip.gap_ms < 0:
            raise ValueError("a pause cannot be negative")
        ready = self._shaped(clip)
        with self._lock:
            if sum(self._queued_samples.values()) + clip.pcm.size > self._max_pending_samples:
                self._counts["clips_refused"] += 1
                self._tell(clip, "dropped", self._egress, 0)
                return False
            self._queues[clip.kind].append(ready)
            self._queued_samples[clip.kind] += clip.pcm.size
            return True

    def flush(self, kind: ClipKind | None = None, fade_ms: int = FLUSH_FADE_MS) -> list[str]:
        """Drops what is queued and fades what sounds, of one kind or of all; the ids of the clips dropped, in order."""
        dropped: list[str] = []
        with self._lock:
            current = self._current
            if current is not None and kind in (None, current.clip.kind):
                fade = max(1, self.rate_hz * fade_ms // 1000)
                body = self._reader.read(fade, self._ratio(current))
                tail = np.concatenate([body, current.sound[current.sound.size - current.fall :]])[:fade]
                self._add_overlay(tail * rising(tail.size)[::-1])
                heard = current.sound.size - current.fall - self._reader.left + tail.size - body.size
                self._tell(current.clip, "dropped", self._egress + tail.size, heard)
                self._current = None
                dropped.append(current.clip.clip_id)
            for queued_kind, queue in self._queues.items():
                if kind in (None, queued_kind):
                    for ready in queue:
                        self._tell(ready.clip, "dropped", self._egress, 0)
                        dropped.append(ready.clip.clip_id)
                    queue.clear()
                    self._queued_samples[queued_kind] = 0
            if dropped:
                self._gap_left = 0
                self._burst_open = False
            self._counts["clips_dropped"] += len(dropped)
        return dropped

    def set_tempo(self, ratio: float) -> None:
        """Speak translations faster (over 1) or slower from now on, pitch kept. ValueError beyond `tempo`'s limits."""
        with self._lock:
            self._tempo = usable_ratio(ratio)

    def set_original(self, on: bool) -> None:
        """Let the talker's own voice be heard under the translation, or not."""
        with self._lock:
            self._original.set_on(on)

    @property
    def original_wanted(self) -> bool:
        """True when the talker's own voice is to be heard under translations too."""
        with self._lock:
            return self._original.wanted

    def set_passing(self, gain_db: float | None) -> None:
        """Let the talker's own voice be heard instead of a translation, at this gain in dB; None: as it was."""
        with self._lock:
            self._original.set_passing(gain_db)

    def hear_original(self, pcm: bytes) -> None:
        """What the other party has just said: s16le at the play-out's rate."""
        with self._lock:
            self._original.put(np.frombuffer(pcm, "<i2"))

    def pending_s(self) -> float:
        """Seconds, at the tempo in force, until all that is queued or being played will have been heard."""
        with self._lock:
            samples = 0.0
            for kind, queued in self._queued_samples.items():
                samples += queued / (self._tempo if kind is ClipKind.TRANSLATION else 1.0)
            if self._current is not None:
                samples += (self._reader.left + self._current.fall) / self._ratio(self._current)
            return samples / self.rate_hz

    @property
    def translating(self) -> bool:
        """True while a translation sounds."""
        with self._lock:
            return self._current is not None and self._current.clip.kind is ClipKind.TRANSLATION

    @property
    def egress_samples(self) -> int:
        """Samples given out so far."""
        return self._egress

    def levels_from(self, first_sample: int, frames: int) -> list[float]:
        """Levels in dBFS of so many frames from the one on that holds a sample; -127 for what is not known."""
        with self._lock:
            kept, given = list(self._levels), self._egress // self.frame_samples
        first = first_sample // self.frame_samples - (given - len(kept))
        return [kept[at] if 0 <= at < len(kept) else SILENCE_DBFS for at in range(first, first + frames)]

    def is_idle(self) -> bool:
        """True when nothing is queued or sounding, pauses and fades included."""
        with self._lock:
            return self._current is None and not self._overlay.size and not self._waiting()

    def events(self) -> list[PlayEvent]:
        """What happened since the last look, oldest first."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
            return events

    def statistics(self) -> dict[str, Any]:
        """Counters, what waits, and the listener's choices."""
        pending = self.pending_s()
        return {
            **self._counts,
            "pending_s": pending,
            "egress_samples": self._egress,
            "tempo": self._tempo,
            "original": self._original.statistics(),
        }

    # --- the clock thread's side ----------------------------------------------------------------------------------

    def next_frame(self) -> bytes:
        """Exactly one frame of s16le PCM; never blocks for longer than the lock, never raises."""
        with self._lock:
            first = self._egress
            try:
                frame = self._render()
            except Exception:  # a fault must cost one frame, not the call
                self._counts["errors"] += 1
                self._counts["silent_frames"] += 1
                frame = self._silence
                self._current, self._overlay = None, self._overlay[:0]
            self._egress = first + self.frame_samples
            self._counts["frames"] += 1
        if self._tap is not None:
            try:
                self._tap(frame, first)
            except Exception:
                self._counts["tap_errors"] += 1
        return frame

    def _render(self) -> bytes:
        self._frame_ns, self._frame_first = self._now_ns(), self._egress
        frame_end = self._egress + self.frame_samples
        if self._current is not None or self._overlay.size or self._waiting() or self._original.sounds:
            out = self._mixed(frame_end)
        else:
            self._gap_left = max(0, self._gap_left - self.frame_samples)
            self._note_underrun()
            self._original.pass_by(self.frame_samples, spoken=False)
            self._counts["silent_frames"] += 1
            if self._comfort is None:
                self._levels.append(SILENCE_DBFS)
                return self._silence
            out = np.zeros(self.frame_samples, np.float32)
        if self._comfort is not None:
            self._comfort.add_to(out)
        power = float(np.dot(out, out)) / (self.frame_samples * 32768.0**2)
        self._levels.append(10.0 * math.log10(power) if power > 1e-12 else SILENCE_DBFS)
        return np.clip(np.rint(out), -32768, 32767).astype("<i2").tobytes()

    def _mixed(self, frame_end: int) -> Float32:
        """Clips, the pauses between them and the original, up to ``frame_end``."""
        out = np.zeros(self.frame_samples, np.float32)
        spoken = False
        while self._egress < frame_end:
            count = frame_end - self._egress
            at = self.frame_samples - count
            if self._current is None and self._gap_left == 0:
                self._start_next()
            spoken = spoken or self._current is not None or self._overlay.size > 0
            if self._current is not None:
                body = self._reader.read(count, self._ratio(self._current))
                count = body.size
                out[at : at + count] += body
            elif self._gap_left:
                count = min(count, self._gap_left)
                self._gap_left -= count
            elif not self._overlay.size:
                self._note_underrun()
            overlaid = min(count, self._overlay.size)
            out[at : at + overlaid] += self._overlay[:overlaid]
            self._overlay = self._overlay[overlaid:]
            self._egress += count
            if self._current is not None and not self._reader.left:
                self._end_body(self._current)
        self._tell_ended(frame_end)
        if self._original.sounds:
            self._original.add_to(out, spoken=spoken)
            return limited(out, 32768.0)
        self._original.pass_by(self.frame_samples, spoken=spoken)
        return out

    def _waiting(self) -> bool:
        return any(self._queues.values())

    def _start_next(self) -> None:
        for kind, queue in self._queues.items():  # in order of priority
            if queue:
                ready = queue.popleft()
                self._queued_samples[kind] -= ready.sound.size
                self._current = ready
                self._reader = TempoReader(ready.sound[: ready.sound.size - ready.fall], self.rate_hz)
                self._burst_open = False
                self._tell(ready.clip, "started", self._egress, 0)
                return

    def _ratio(self, ready: _Ready) -> float:
        return self._tempo if ready.clip.kind is ClipKind.TRANSLATION else 1.0

    def _shaped(self, clip: Clip) -> _Ready:
        """The clip with its rise and its fall; done where the clip is queued, to keep it from the clock thread."""
        sound = clip.pcm.astype(np.float32)
        ramp = rising(min(self._join, sound.size // 2))
        sound[: ramp.size] *= ramp
        sound[sound.size - ramp.size :] *= ramp[::-1]
        return _Ready(clip, sound, ramp.size)

    def _end_body(self, ready: _Ready) -> None:
        """The clip has come to its fall: hand that to the overlay, so that the next clip can start under it."""
        clip, tail = ready.clip, ready.sound[ready.sound.size - ready.fall :]
        self._add_overlay(tail)
        self._ending.append((clip, self._egress + tail.size))
        gap = self.rate_hz * clip.gap_ms // 1000
        self._gap_left = tail.size + gap if gap else 0  # the pause starts behind the tail
        self._burst_open = clip.more_follows
        self._current = None
        self._counts["clips_played"] += 1

    def _add_overlay(self, tail: Float32) -> None:
        if tail.size > self._overlay.size:
            tail = tail.copy()
            tail[: self._overlay.size] += self._overlay
            self._overlay = tail
        else:
            self._overlay = self._overlay.copy()
            self._overlay[: tail.size] += tail

    def _tell_ended(self, before: int) -> None:
        while self._ending and self._ending[0][1] <= before:
            clip, ended_at = self._ending.pop(0)
            self._tell(clip, "ended", ended_at, clip.pcm.size)

    def _note_underrun(self) -> None:
        """Silence has begun although the burst was to go on: counted once, until the next clip starts."""
        if self._burst_open and not self._gap_left:
            self._counts["underruns"] += 1
            self._burst_open = False

    def _tell(self, clip: Clip, what: Literal["started", "ended", "dropped"], at_sample: int, heard: int) -> None:
        if len(self._events) == EVENTS_KEPT:
            self._counts["events_lost"] += 1
        ahead = at_sample - self._frame_first
        at_ns = self._frame_ns + ahead * 1_000_000_000 // self.rate_hz
        self._events.append(PlayEvent(clip.clip_id, what, at_sample, at_ns, heard))
