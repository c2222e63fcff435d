# SPDX-License-Identifier: GPL-3.0-or-later
"""What sound really is: measured from the sound itself, never taken from a label (S0.1).

Files are described by ffprobe, or by libsndfile where ffprobe is not installed, and measured by decoding them.
A leg is described from the frames that arrive.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from gateway.audio.errors import AudioFormatError
from gateway.audio.frames import Frame
from gateway.audio.pcm import Float32, SampleFormat, unpack

TOOL_TIMEOUT_S = 120  # an hour of sound decodes in seconds; a hung decoder must not hang the caller
LABEL_TOLERANCE_S = 0.05  # codecs pad to whole packets: 26 ms in MP3, 20 ms in Opus


@dataclass(frozen=True, slots=True)
class Portrait:
    """A file's sound. ``labelled_duration_s`` is what the header claims, ``measured_duration_s`` what decoding gave."""

    codec: str
    rate_hz: int
    channels: int
    sample_format: str
    labelled_duration_s: float | None
    measured_samples: int
    measured_duration_s: float

    @property
    def label_lies(self) -> bool:
        """True when header and sound differ by more than a codec's padding."""
        if self.labelled_duration_s is None:
            return False
        return abs(self.labelled_duration_s - self.measured_duration_s) > LABEL_TOLERANCE_S


def probe(path: Path) -> Portrait:
    """Describes and measures the first audio stream of a file; AudioFormatError names the file and the remedy."""
    label = _label(path)
    sound, rate_hz = decode(path)
    seconds = sound.shape[0] / rate_hz
    return Portrait(
        codec=str(label["codec"]),
        rate_hz=rate_hz,
        channels=sound.shape[1],
        sample_format=str(label["sample_format"]),
        labelled_duration_s=label["duration_s"],
        measured_samples=sound.shape[0],
        measured_duration_s=seconds,
    )


def decode(path: Path) -> tuple[Float32, int]:
    """The whole sound as float32 of shape (frames, channels), and its rate in Hz; the file's own rate and channels."""
    _check_file(path)
    try:
        sound, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        sound, rate_hz = _decode_with_ffmpeg(path, error)
    if rate_hz <= 0:
        raise AudioFormatError(f"{path}: the header claims a rate of {rate_hz} Hz: export the file again")
    if not sound.size:
        raise AudioFormatError(f"{path}: holds no sound samples, it is empty or cut short: export or copy it again")
    if not np.isfinite(sound).all():
        raise AudioFormatError(f"{path}: holds NaN or infinite samples: export it again as PCM")
    return np.ascontiguousarray(sound, np.float32), int(rate_hz)


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise AudioFormatError(f"{path}: is a folder: name a file in it")
    if not path.is_file():
        raise AudioFormatError(f"{path}: there is no such file: check the path")
    if path.stat().st_size == 0:
        raise AudioFormatError(f"{path}: the file is empty: copy it again")


def _label(path: Path) -> dict[str, Any]:
    _check_file(path)
    ffprobe = shutil.which("ffprobe")
    if ffprobe is None:
        return _label_by_soundfile(path)
    command = [ffprobe, "-v", "error", "-select_streams", "a:0", "-show_streams", "-show_format", "-of", "json"]
    done = _run([*command, str(path)], path)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise AudioFormatError(f"{path}: not readable as sound ({' '.join(reason)}): convert it to WAV and try again")
    report = json.loads(done.stdout)
    if not report.get("streams"):
        raise AudioFormatError(f"{path}: has no audio stream: give a file that holds sound")
    stream = report["streams"][0]
    if int(stream.get("sample_rate") or 0) <= 0:
        raise AudioFormatError(f"{path}: the header claims a rate of 0 Hz: export the file again")
    duration = stream.get("duration") or report.get("format", {}).get("duration")
    return {
        "codec": stream.get("codec_name", "unknown"),
        "sample_format": stream.get("sample_fmt", "unknown"),
        "duration_s": None if duration is None else float(duration),
    }


def _label_by_soundfile(path: Path) -> dict[str, Any]:
    try:
        info = soundfile.info(path)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise AudioFormatError(f"{path}: not readable ({error}): install ffmpeg, or convert it to WAV") from error
    codec, sample_format = info.format.lower(), info.subtype.lower()
    return {"codec": codec, "sample_format": sample_format, "duration_s": float(info.duration)}


def _decode_with_ffmpeg(path: Path, why: Exception) -> tuple[Float32, int]:
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None or shutil.which("ffprobe") is None:
        raise AudioFormatError(f"{path}: not readable ({why}): install ffmpeg, or convert it to WAV") from why
    _label(path)  # tells a missing stream or a rate of zero in better words
    ffprobe = [str(shutil.which("ffprobe")), "-v", "error", "-select_streams", "a:0", "-of", "json"]
    done = _run([*ffprobe, "-show_entries", "stream=sample_rate,channels", str(path)], path)
    stream = json.loads(done.stdout)["streams"][0]
    channels, rate_hz = int(stream["channels"]), int(stream["sample_rate"])
    command = [ffmpeg, "-v", "error", "-nostdin", "-i", str(path), "-map", "0:a:0", "-f", "f32le"]
    done = _run([*command, "-ac", str(channels), "-ar", str(rate_hz), "-"], path)
    if done.returncode and not done.stdout:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise AudioFormatError(f"{path}: cannot be decoded ({' '.join(reason)}): convert it to WAV and try again")
    return unpack(done.stdout, SampleFormat.F32, channels), rate_hz


def _run(command: list[str], path: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        # a list, no shell; the path is the caller's own file
        return subprocess.run(command, capture_output=True, timeout=TOOL_TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise AudioFormatError(f"{path}: decoding took over {TOOL_TIMEOUT_S} s: convert it to WAV") from error


class LegPortrait:
    """What a leg's sound is, from what arrives: frames, rate, gaps, and the pace by the clock. Constant memory."""

    def __init__(self, leg: str) -> None:
        self.leg = leg
        self._first: Frame | None = None
        self._last: Frame | None = None
        self._frames = 0
        self._samples = 0
        self._gaps = 0
        self._gap_samples = 0
        self._overlaps = 0
        self._rate_changes = 0
        self._sizes: dict[int, int] = {}

    def note(self, frame: Frame) -> None:
        """Takes account of one frame; never raises."""
        last = self._last
        if last is None:
            self._first = frame
        elif last.rate_hz != frame.rate_hz:
            self._rate_changes += 1
        elif frame.first_sample > last.end_sample:
            self._gaps += 1
            self._gap_samples += frame.first_sample - last.end_sample
        elif frame.first_sample < last.end_sample:
            self._overlaps += 1
        self._frames += 1
        self._samples += frame.samples
        if frame.samples in self._sizes or len(self._sizes) < 16:  # a leg with more frame sizes is told by the first
            self._sizes[frame.samples] = self._sizes.get(frame.samples, 0) + 1
        self._last = frame

    def describe(self) -> dict[str, int | float | str | dict[int, int] | None]:
        """The portrait; by the stamps, ``arrival_hz`` frames per second and ``measured_rate_hz`` samples per second.

        Both need at least a second of stamps, else None: a shorter span measures the jitter.
        """
        first, last = self._first, self._last
        span_ns = 0 if first is None or last is None else last.arrived_ns - first.arrived_ns
        measured: float | None = None
        arrival: float | None = None
        if first is not None and last is not None and span_ns >= 1_000_000_000:
            # the first frame's samples were there when its stamp was made, so they are not counted
            measured = (self._samples - first.samples) * 1e9 / span_ns
            arrival = (self._frames - 1) * 1e9 / span_ns
        return {
            "leg": self.leg,
            "rate_hz": None if last is None else last.rate_hz,
            "channels": 1,
            "sample_format": SampleFormat.S16.value,
            "frames": self._frames,
            "samples": self._samples,
            "first_sample": None if first is None else first.first_sample,
            "end_sample": None if last is None else last.end_sample,
            "frame_sizes": dict(self._sizes),
            "gaps": self._gaps,
            "gap_samples": self._gap_samples,
            "overlaps": self._overlaps,
            "rate_changes": self._rate_changes,
            "measured_rate_hz": measured,
            "arrival_hz": arrival,
        }
