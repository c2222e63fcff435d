# SPDX-License-Identifier: GPL-3.0-or-later
"""What a telephone says: clips, keys and silence, one packet every 20 ms, as a pure source of RTP packets.

The stream never stops and its timestamp never jumps: silence is sent as sound (a telephone without voice activity
detection). A key press replaces the sound of its packets; the clock of the sound runs on underneath (RFC 4733, 2.2).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from gateway.bench import g711
from gateway.bench.capture import Pcm
from gateway.bench.rtp import DIGITS, RtpPacket, TelephoneEvent, pack_event

FRAME_SAMPLES = 160  # 20 ms at 8 kHz
_KEY_FRAMES = 8  # 160 ms of tone
_END_REPEATS = 3  # RFC 4733 section 2.5.1.4
_PAUSE_FRAMES = 5  # without silence between them, equal keys look like one
_MOST_CLIPS = 64
_AIR_FRAMES = 6  # 120 ms between loudspeaker and microphone: the jitter buffer of a telephone
_MOST_AIR_FRAMES = 25


@dataclass(frozen=True, slots=True)
class Played:
    """A clip has been sent: the departures of its first and last packet."""

    clip_id: str
    first_ns: int
    last_ns: int


@dataclass(slots=True)
class _Clip:
    clip_id: str
    pcm: Pcm
    not_before_ns: int
    position: int = 0
    first_ns: int = 0


class Talker:
    """Makes the packets of one call. ``event_payload`` None means the peer takes no key presses."""

    def __init__(self, *, codec: str, payload_type: int, event_payload: int | None, ssrc: int, sequence: int) -> None:
        self._codec, self._payload_type, self._event_payload = codec, payload_type, event_payload
        self._ssrc, self._sequence, self._timestamp = ssrc, sequence, 0
        self._clips: deque[_Clip] = deque()
        self._keys: deque[tuple[str, int, bool, bool] | None] = deque()
        self._key_began = 0
        self._first = True
        self._silence = g711.encode(codec, np.zeros(FRAME_SAMPLES, np.int16))
        self._loudspeaker: float | None = None
        self._air: deque[Pcm] = deque(maxlen=_MOST_AIR_FRAMES)

    def loudspeaker(self, gain_db: float | None) -> None:
        """From now on send back what is heard, so much louder (less than 0), as a loudspeaker does; None: not."""
        self._loudspeaker = None if gain_db is None else 10 ** (gain_db / 20)
        self._air.clear()

    def hear(self, pcm: Pcm) -> None:
        """A frame of what the telephone plays."""
        if self._loudspeaker is not None:
            self._air.append(pcm)

    def play(self, clip_id: str, pcm: Pcm, not_before_ns: int = 0) -> None:
        """Queue a clip (int16, 8 kHz); it starts at the first packet behind ``not_before_ns`` and its predecessor.

        Raises:
            RuntimeError: 64 clips wait already.
        """
        if len(self._clips) >= _MOST_CLIPS:
            raise RuntimeError("too many clips wait")
        self._clips.append(_Clip(clip_id, pcm, not_before_ns))

    def stop(self) -> None:
        """Forget the clips: silence from the next packet on."""
        self._clips.clear()

    def press(self, digits: str) -> None:
        """Queue key presses. ValueError for what is no key, RuntimeError when the peer did not agree to events."""
        if self._event_payload is None:
            raise RuntimeError("the peer takes no telephone events")
        if not digits or any(digit not in DIGITS for digit in digits) or len(digits) > 32:
            raise ValueError("1 to 32 keys of 0-9, *, #, A-D")
        for digit in digits:
            self._keys.extend((digit, frame, frame == 1, False) for frame in range(1, _KEY_FRAMES + 1))
            self._keys.extend((digit, _KEY_FRAMES, False, True) for _ in range(_END_REPEATS))
            self._keys.extend(None for _ in range(_PAUSE_FRAMES))

    def change(self, *, codec: str, payload_type: int, event_payload: int | None) -> None:
        """Take over a new agreement in the running stream."""
        self._codec, self._payload_type, self._event_payload = codec, payload_type, event_payload
        self._silence = g711.encode(codec, np.zeros(FRAME_SAMPLES, np.int16))

    def tick(self, now_ns: int) -> tuple[RtpPacket, Played | None]:
        """The next packet, which leaves at ``now_ns``, and the clip that ends with it."""
        payload, played = self._sound(now_ns)
        if len(self._air) > _AIR_FRAMES and self._loudspeaker is not None:
            own = g711.decode(self._codec, payload).astype(np.float64)
            back = self._air.popleft()[:FRAME_SAMPLES]
            own[: back.size] += back * self._loudspeaker
            payload = g711.encode(self._codec, np.clip(own, -32768, 32767).astype(np.int16))
        payload_type, timestamp, marker = self._payload_type, self._timestamp, self._first
        key = self._keys.popleft() if self._keys else None
        if key is not None and self._event_payload is not None:
            digit, frame, begins, ends = key
            if begins:
                self._key_began = timestamp
            event = TelephoneEvent(digit, ends, 10, frame * FRAME_SAMPLES)
            payload, payload_type, timestamp, marker = pack_event(event), self._event_payload, self._key_began, begins
        packet = RtpPacket(payload_type, self._sequence, timestamp, self._ssrc, payload, marker)
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._timestamp = (self._timestamp + FRAME_SAMPLES) & 0xFFFFFFFF
        self._first = False
        return packet, played

    def skip(self, frames: int) -> None:
        """Let the clock of the sound run on without packets (the machine stood still)."""
        self._timestamp = (self._timestamp + frames * FRAME_SAMPLES) & 0xFFFFFFFF

    def statistics(self) -> dict[str, int]:
        """Clips and key packets that wait."""
        return {"clips": len(self._clips), "keys": len(self._keys)}

    def _sound(self, now_ns: int) -> tuple[bytes, Played | None]:
        if not self._clips or self._clips[0].not_before_ns > now_ns or self._keys:
            return self._silence, None
        clip = self._clips[0]
        if clip.position == 0:
            clip.first_ns = now_ns
        part = clip.pcm[clip.position : clip.position + FRAME_SAMPLES]
        clip.position += FRAME_SAMPLES
        if len(part) < FRAME_SAMPLES:
            part = np.concatenate([part, np.zeros(FRAME_SAMPLES - len(part), np.int16)])
        payload = g711.encode(self._codec, part)
        if clip.position < len(clip.pcm):
            return payload, None
        self._clips.popleft()
        return payload, Played(clip.clip_id, clip.first_ns, now_ns)
