# SPDX-License-Identifier: GPL-3.0-or-later
"""S0.1, S0.6: portraits measured from the sound; and the recorder's one time line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from audio_signals import noise, strongest_hz, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.errors import AudioFormatError
from gateway.audio.frames import Frame
from gateway.audio.portrait import LegPortrait, decode, probe
from gateway.audio.recorder import TrackRecorder

pytestmark = pytest.mark.unit
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
def test_s0_1_wav_of_every_sample_format(tmp_path: Path, subtype: str) -> None:
    path = tmp_path / "x.wav"
    stereo = np.stack([tone(440, 22050, 1.0), tone(880, 22050, 1.0)], axis=1) / 32768
    soundfile.write(path, stereo, 22050, subtype=subtype)
    portrait = probe(path)
    assert (portrait.rate_hz, portrait.channels, portrait.measured_samples) == (22050, 2, 22050)
    assert not portrait.label_lies
    sound, rate_hz = decode(path)
    assert sound.dtype == np.float32 and sound.shape == (22050, 2)
    assert abs(strongest_hz((sound[:, 1] * 32767).astype(np.int16), rate_hz) - 880) < 3
    assert 20 * np.log10(np.sqrt((sound**2).mean())) == pytest.approx(-20, abs=0.3)


def test_s0_1_without_ffprobe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, tone(440, 16000, 0.5), 16000)
    monkeypatch.setenv("PATH", str(tmp_path))
    portrait = probe(path)
    assert (portrait.codec, portrait.rate_hz, portrait.measured_duration_s) == ("flac", 16000, 0.5)
    (tmp_path / "x.m4a").write_bytes(b"not sound at all" * 100)
    with pytest.raises(AudioFormatError, match="install ffmpeg"):
        decode(tmp_path / "x.m4a")


@needs_ffmpeg
def test_s0_1_a_format_libsndfile_cannot_read(tmp_path: Path) -> None:
    source, path = tmp_path / "x.wav", tmp_path / "x.m4a"
    soundfile.write(source, tone(440, 16000, 1.0), 16000)
    subprocess.run(["ffmpeg", "-v", "error", "-i", source, "-c:a", "aac", path], check=True)
    portrait = probe(path)
    assert (portrait.codec, portrait.rate_hz, portrait.channels) == ("aac", 16000, 1)
    assert portrait.measured_duration_s == pytest.approx(1.0, abs=0.1)


@needs_ffmpeg
def test_s0_6_faults_are_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(AudioFormatError, match=r"nowhere\.wav.*no such file"):
        probe(tmp_path / "nowhere.wav")
    empty = tmp_path / "empty.wav"
    empty.touch()
    with pytest.raises(AudioFormatError, match=r"empty\.wav.*is empty"):
        decode(empty)
    text = tmp_path / "letter.wav"
    text.write_text("Dear Sir or Madam, " * 50)
    with pytest.raises(AudioFormatError, match=r"letter\.wav"):
        probe(text)
    headless = tmp_path / "headless.wav"
    soundfile.write(headless, np.zeros(0, np.int16), 8000)
    with pytest.raises(AudioFormatError, match="no sound samples"):
        decode(headless)
    picture = tmp_path / "picture.mkv"
    video = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=size=32x32:duration=0.2", "-c:v", "rawvideo"]
    subprocess.run([*video, picture], check=True)
    with pytest.raises(AudioFormatError, match="no audio stream"):
        probe(picture)


@needs_ffmpeg
def test_s0_6_a_header_with_rate_zero(tmp_path: Path) -> None:
    path = tmp_path / "zero.wav"
    soundfile.write(path, tone(440, 8000, 0.5), 8000)
    data = bytearray(path.read_bytes())
    data[24:28] = bytes(4)  # the fmt chunk's sample rate
    path.write_bytes(data)
    with pytest.raises(AudioFormatError, match=r"zero\.wav"):
        probe(path)


@needs_ffmpeg
def test_s0_1_a_truncated_file_is_measured_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "cut.flac"
    soundfile.write(path, noise(16000 * 4, -20), 16000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    portrait = probe(path)
    assert portrait.labelled_duration_s == pytest.approx(4.0)
    assert 1.5 < portrait.measured_duration_s < 2.5
    assert portrait.label_lies


def test_s0_1_a_leg_is_measured_from_what_arrives() -> None:
    leg = LegPortrait("a")
    for index in range(200):
        if 50 <= index < 60:
            continue
        # the clock of this sender is 1 % fast
        leg.note(Frame("a", 1000 + index * 160, 8000, bytes(320), round(index * 20_000_000 / 1.01)))
    portrait = leg.describe()
    assert (portrait["frames"], portrait["gaps"], portrait["gap_samples"]) == (190, 1, 1600)
    assert (portrait["first_sample"], portrait["end_sample"]) == (1000, 1000 + 200 * 160)
    assert portrait["frame_sizes"] == {160: 190}
    assert portrait["arrival_hz"] == pytest.approx(189 / 199 * 50.5, rel=1e-3)


def test_s0_1_a_leg_too_short_to_measure_says_so() -> None:
    leg = LegPortrait("a")
    assert leg.describe()["rate_hz"] is None
    leg.note(Frame("a", 0, 8000, bytes(320), 0))
    assert leg.describe()["arrival_hz"] is None


# --- recorder -----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 900), st.integers(0, 200)), max_size=12))
def test_recorder_puts_every_sample_at_its_place(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("rec") / "call.wav"
    recorder = TrackRecorder(path, 1000, tracks=3, max_s=1.0)
    wanted = np.zeros((1000, 3), np.int16)
    length = 0
    for number, (track, first, count) in enumerate(writes):
        pcm = np.full(count, number + 1, np.int16)
        recorder.write(track, first, pcm)
        low, high = max(0, first), min(1000, first + count)
        if high > low:
            wanted[low:high, track] = number + 1
            length = max(length, high)
    recorder.close()
    sound, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
    assert rate_hz == 1000
    assert np.array_equal(sound, wanted[:length])
    assert list(path.parent.iterdir()) == [path]


def test_recorder_aligns_tracks_and_fills_gaps_with_silence(tmp_path: Path) -> None:
    recorder = TrackRecorder(tmp_path / "deep" / "call.wav", 8000)
    recorder.write(0, 0, tone(400, 8000, 1.0))
    recorder.write(2, 200_000, tone(1000, 8000, 1.0))  # beyond one block of the final copy
    assert not recorder.path.exists()
    path = recorder.close()
    assert recorder.close() == path
    sound, _ = soundfile.read(path, dtype="int16")
    assert sound.shape == (208_000, 4)
    assert np.array_equal(sound[:8000, 0], tone(400, 8000, 1.0)) and not sound[8000:, 0].any()
    assert np.array_equal(sound[200_000:, 2], tone(1000, 8000, 1.0)) and not sound[:200_000, 2].any()
    assert not sound[:, [1, 3]].any()
    with pytest.raises(ValueError, match="closed"):
        recorder.write(0, 0, noise(10, -20))


def test_recorder_refuses_what_it_cannot_place(tmp_path: Path) -> None:
    recorder = TrackRecorder(tmp_path / "call.wav", 8000, tracks=2, max_s=1.0)
    with pytest.raises(ValueError, match="no track 2"):
        recorder.write(2, 0, noise(10, -20))
    recorder.write(0, 7990, noise(20, -20))
    assert recorder.statistics() == {"samples": 8000, "tracks": 2, "dropped_samples": 10}
    recorder.close()
