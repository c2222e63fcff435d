# SPDX-License-Identifier: GPL-3.0-or-later
"""What a telephone sent and received, packet by packet, and what can be measured on it.

One convention of time, used everywhere in the bench: a sample was **sent** when its packet left the telephone (stamp
taken just before the socket call) and **received** when its packet arrived (stamp taken just behind it), both on the
machine's monotonic clock. Which sample it is, is exact; its offset inside the packet does not move its time, because
all samples of a packet leave and arrive together. `Sample.line_ns` adds the offset for those who draw.

Levels are dB relative to full scale: 20*log10(|x| / 32768), so a full-scale sine has 0 dBFS peak and -3 dBFS RMS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.bench import g711
from gateway.bench.rtp import RtpPacket
from gateway.bench.sdp import RATE_HZ, STATIC

Pcm = npt.NDArray[np.int16]
Longs = npt.NDArray[np.int64]

SPEECH_DBFS = -45.0  # the level that counts as speech in the definition of ear latency
_LONGEST_LINE_S = 4 * 3600  # a time line beyond this is a broken timestamp, not a call


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """The packets of one direction in the order they were sent or arrived; n packets, ``pcm`` of all in one array.

    ``sequence`` and ``timestamp`` are unwrapped (int64); at a change of SSRC they go on, the timestamp by the clock.
    Packet i holds ``pcm[offset[i]:offset[i + 1]]``, which is empty for telephone events and unknown codecs.
    """

    at_ns: Longs
    sequence: Longs
    timestamp: Longs
    marker: npt.NDArray[np.bool_]
    payload_type: npt.NDArray[np.uint8]
    ssrc: Longs
    offset: Longs
    pcm: Pcm
    rate_hz: int = RATE_HZ

    @property
    def packets(self) -> int:
        """Number of packets."""
        return len(self.at_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """Both directions of one telephone's call; ``info`` is plain JSON (codec, stamps of the call, counters)."""

    sent: Track
    received: Track
    info: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample found in a track: its packet, its place in the packet, the packet's time."""

    packet: int
    offset: int
    at_ns: int
    rate_hz: int

    @property
    def line_ns(self) -> int:
        """The packet's time plus the offset: for drawings, not for latency."""
        return self.at_ns + self.offset * 1_000_000_000 // self.rate_hz


@dataclass(frozen=True, slots=True)
class PacketRate:
    """Packets per second over the whole track ((n - 1) / time from first to last) and in each full second."""

    overall_pps: float
    per_second: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Regularity:
    """Steps of the RTP timestamp between neighbouring audio packets against the samples they hold."""

    steps: int
    irregular: int
    irregular_unmarked: int
    """Irregular steps whose packet has no marker and no new SSRC: these make peers drop sound."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Sequence numbers and spacing of a track."""

    lost: int
    duplicate: int
    reordered: int
    gap_p50_ms: float
    gap_p99_ms: float
    gap_max_ms: float


def build_track(packets: Sequence[tuple[int, RtpPacket]]) -> Track:
    """A track from (time in ns, packet) pairs in order; payload types 0 and 8 are decoded."""
    at_ns = np.array([at for at, _ in packets], dtype=np.int64)
    ssrc = np.array([packet.ssrc for _, packet in packets], dtype=np.int64)
    pcm = [_decode(packet) for _, packet in packets]
    sequence = np.array([packet.sequence for _, packet in packets], dtype=np.int64)
    timestamp = np.array([packet.timestamp for _, packet in packets], dtype=np.int64)
    changed = np.flatnonzero(np.diff(ssrc) != 0)
    sequence_steps, timestamp_steps = _signed_steps(sequence, 16), _signed_steps(timestamp, 32)
    sequence_steps[changed] = 1
    timestamp_steps[changed] = np.rint(np.diff(at_ns)[changed] * RATE_HZ / 1e9).astype(np.int64)
    return Track(
        at_ns=at_ns,
        sequence=_line_up(sequence, sequence_steps),
        timestamp=_line_up(timestamp, timestamp_steps),
        marker=np.array([packet.marker for _, packet in packets], dtype=np.bool_),
        payload_type=np.array([packet.payload_type for _, packet in packets], dtype=np.uint8),
        ssrc=ssrc,
        offset=np.concatenate([np.zeros(1, np.int64), np.cumsum([len(part) for part in pcm], dtype=np.int64)]),
        pcm=np.concatenate(pcm) if pcm else np.zeros(0, np.int16),
    )


def save_capture(path: Path, capture: Capture) -> None:
    """Write a capture as .npz (plain arrays, no pickles)."""
    arrays: dict[str, Any] = {"info": np.array(json.dumps(dict(capture.info)))}
    for side, track in (("sent", capture.sent), ("received", capture.received)):
        for name in _ARRAYS:
            arrays[f"{side}_{name}"] = getattr(track, name)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def load_capture(path: Path) -> Capture:
    """Read what `save_capture` wrote; ValueError for another file."""
    with np.load(path, allow_pickle=False) as stored:
        try:
            tracks = [Track(**{name: stored[f"{side}_{name}"] for name in _ARRAYS}) for side in ("sent", "received")]
            return Capture(tracks[0], tracks[1], json.loads(str(stored["info"])))
        except KeyError as error:
            raise ValueError(f"{path.name} is not a capture: {error}") from error


def by_timestamp(track: Track) -> Pcm:
    """The sound on the RTP time line, first packet at 0; what was never sent or got lost is zero, the first of two
    packets for one place stays.

    Raises:
        ValueError: the timestamps span more than four hours.
    """
    if not track.packets:
        return np.zeros(0, np.int16)
    begin = track.timestamp - track.timestamp.min()
    length = int((begin + np.diff(track.offset)).max())
    if length > _LONGEST_LINE_S * track.rate_hz:
        raise ValueError("the timestamps of the track jump by hours")
    line = np.zeros(length, np.int16)
    for index in range(track.packets - 1, -1, -1):
        part = _packet(track, index)
        line[begin[index] : begin[index] + len(part)] = part
    return line


def by_time(track: Track, start_ns: int, end_ns: int) -> Pcm:
    """The sound on the clock's line from ``start_ns`` to ``end_ns``, without the jitter of single packets.

    Packets keep the places their timestamps give them; the stream as a whole is anchored at the median of (time -
    timestamp), anew wherever that leaps by more than 300 ms. For levels and drawings, not for latency.
    """
    length = max(0, (end_ns - start_ns) * track.rate_hz // 1_000_000_000)
    line = np.zeros(length, np.int16)
    if not track.packets:
        return line
    skew = (track.at_ns - start_ns) * track.rate_hz // 1_000_000_000 - track.timestamp
    leaps = np.flatnonzero(np.abs(np.diff(skew)) > 300 * track.rate_hz // 1000) + 1
    for run in np.split(np.arange(track.packets), leaps):
        places = track.timestamp[run] + int(np.median(skew[run]))
        for index, place in zip(run, places, strict=True):
            part = _packet(track, int(index))
            low, high = max(int(place), 0), min(int(place) + len(part), length)
            if low < high:
                line[low:high] = part[low - int(place) : high - int(place)]
    return line


def packet_rate(track: Track, start_ns: int | None = None, end_ns: int | None = None) -> PacketRate:
    """Packets per second (row A8 wants 50.0), optionally of the packets in [start_ns, end_ns) only."""
    at = track.at_ns
    at = at[
        (at >= (start_ns if start_ns is not None else -(2**63))) & (at < (end_ns if end_ns is not None else 2**63 - 1))
    ]
    if len(at) < 2:
        return PacketRate(0.0, ())
    seconds = ((at - at[0]) // 1_000_000_000).astype(np.int64)
    counts = np.bincount(seconds)[: int((at[-1] - at[0]) // 1_000_000_000)]
    return PacketRate(float((len(at) - 1) / ((at[-1] - at[0]) / 1e9)), tuple(int(count) for count in counts))


def regularity(track: Track) -> Regularity:
    """Do the timestamps rise by what the packets hold, across utterances too? Compared are audio packets with
    neighbouring sequence numbers."""
    samples = np.diff(track.offset)
    order = np.argsort(track.sequence, kind="stable")
    order = order[samples[order] > 0]
    first, second = order[:-1], order[1:]
    neighbours = track.sequence[second] - track.sequence[first] == 1
    first, second = first[neighbours], second[neighbours]
    odd = track.timestamp[second] - track.timestamp[first] != samples[first]
    announced = track.marker[second] | (track.ssrc[second] != track.ssrc[first])
    return Regularity(len(first), int(odd.sum()), int((odd & ~announced).sum()))


def delivery(track: Track) -> Delivery:
    """Loss, duplicates, order and spacing of the packets."""
    if track.packets < 2:
        return Delivery(0, 0, 0, 0.0, 0.0, 0.0)
    unique = np.unique(track.sequence)
    gaps = np.diff(track.at_ns) / 1e6
    p50, p99 = np.percentile(gaps, [50, 99])
    return Delivery(
        lost=int(unique[-1] - unique[0] + 1 - len(unique)),
        duplicate=int(track.packets - len(unique)),
        reordered=int((np.diff(track.sequence) < 0).sum()),
        gap_p50_ms=float(p50),
        gap_p99_ms=float(p99),
        gap_max_ms=float(gaps.max()),
    )


def level_envelope(pcm: Pcm, rate_hz: int = RATE_HZ, window_ms: int = 5) -> npt.NDArray[np.float64]:
    """RMS level in dBFS of each whole window (a last, shorter one is left out); silence is -120."""
    window = rate_hz * window_ms // 1000
    blocks = pcm[: len(pcm) // window * window].reshape(-1, window).astype(np.float64)
    rms = np.sqrt(np.mean(blocks**2, axis=1)) / 32768
    return np.asarray(20 * np.log10(np.maximum(rms, 1e-6)), dtype=np.float64)


def first_above(track: Track, start_ns: int, end_ns: int, dbfs: float = SPEECH_DBFS) -> Sample | None:
    """The first sample louder than ``dbfs`` in the packets of [start_ns, end_ns]; None when all are below."""
    return _find(track, start_ns, end_ns, dbfs, last=False)


def last_above(track: Track, start_ns: int, end_ns: int, dbfs: float = SPEECH_DBFS) -> Sample | None:
    """The last sample louder than ``dbfs`` in the packets of [start_ns, end_ns]; None when all are below."""
    return _find(track, start_ns, end_ns, dbfs, last=True)


def tone_share(pcm: Pcm, hz: float, rate_hz: int = RATE_HZ) -> float:
    """Share (0..1) of the energy that lies within 25 Hz of ``hz``: a fingerprint of *which* telephone is heard."""
    if not len(pcm):
        return 0.0
    power = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm)))) ** 2
    near = np.abs(np.fft.rfftfreq(len(pcm), 1 / rate_hz) - hz) <= 25
    return float(power[near].sum() / max(power.sum(), 1e-9))


def threshold_amplitude(dbfs: float) -> float:
    """The amplitude, in int16 units, of a level."""
    return float(32768 * 10 ** (dbfs / 20))


_ARRAYS = ("at_ns", "sequence", "timestamp", "marker", "payload_type", "ssrc", "offset", "pcm")


def _decode(packet: RtpPacket) -> Pcm:
    codec = STATIC.get(packet.payload_type)
    return g711.decode(codec, packet.payload) if codec else np.zeros(0, np.int16)


def _packet(track: Track, index: int) -> Pcm:
    return track.pcm[track.offset[index] : track.offset[index + 1]]


def _find(track: Track, start_ns: int, end_ns: int, dbfs: float, *, last: bool) -> Sample | None:
    packets = np.flatnonzero((track.at_ns >= start_ns) & (track.at_ns <= end_ns))
    limit = threshold_amplitude(dbfs)
    for index in packets[::-1] if last else packets:
        loud = np.flatnonzero(np.abs(_packet(track, index).astype(np.int32)) > limit)
        if len(loud):
            return Sample(int(index), int(loud[-1 if last else 0]), int(track.at_ns[index]), track.rate_hz)
    return None


def _signed_steps(values: Longs, bits: int) -> Longs:
    """Differences of a counter modulo 2**bits as the nearest signed numbers."""
    half = 1 << (bits - 1)
    return np.asarray((np.diff(values) + half) % (1 << bits) - half, dtype=np.int64)


def _line_up(values: Longs, steps: Longs) -> Longs:
    return np.concatenate([values[:1], values[:1] + np.cumsum(steps)]) if len(values) else values
