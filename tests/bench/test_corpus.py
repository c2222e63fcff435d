# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of speech: the same for the same seed, and each utterance where it is said to be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.synthetic import silence, tone
from gateway.bench.capture import SPEECH_DBFS, threshold_amplitude
from gateway.bench.corpus import CorpusMissing, Prompt, human_prompts, lay, read_transcript, usable

pytestmark = pytest.mark.unit

PROMPTS = [
    Prompt(f"p{length}", f"words of {length}", np.concatenate([silence(90), tone(length), silence(250)]))
    for length in (1000, 1500, 2300)
]


def test_the_same_seed_gives_the_same_line() -> None:
    one, other, third = (lay(PROMPTS, seconds=60, pause_ms=(600, 4000), seed=seed)[0] for seed in (1, 1, 2))
    assert one.placed == other.placed and np.array_equal(one.pcm, other.pcm)
    assert one.placed != third.placed


def test_utterances_lie_where_their_sound_is_and_pauses_keep_their_bounds() -> None:
    (line,) = lay(PROMPTS, utterances=12, pause_ms=(600, 4000), seed=3)
    threshold = threshold_amplitude(SPEECH_DBFS)
    loud = np.flatnonzero(np.abs(line.pcm.astype(np.int32)) > threshold + 100)  # above the line's noise
    assert len(line.placed) == 12
    assert loud[0] == pytest.approx(line.placed[0].first_sample, abs=4)
    assert loud[-1] == pytest.approx(line.placed[-1].last_sample, abs=4)
    for before, after in pairwise(line.placed):
        assert 0.6 - 0.001 <= after.first_s - before.end_s <= 4.0 + 0.001
        assert not np.any((loud > before.last_sample) & (loud < after.first_sample))
    assert line.seconds - line.placed[-1].end_s == pytest.approx(0.2, abs=0.001)


def test_what_a_recording_has_behind_its_speech_is_kept() -> None:
    """A weak final consonant lies there, and it must not be the bench that cuts it off."""
    whisper = (tone(120, 2500).astype(float) * 0.01).astype(np.int16)
    prompt = Prompt("weak", "a weak end", np.concatenate([silence(50), tone(1000), whisper, silence(50)]))
    (line,) = lay([prompt], utterances=1, pause_ms=(600, 600), seed=1, noise_dbfs=-90)
    behind = line.pcm[line.placed[0].last_sample + 8 :][: 110 * 8].astype(float)
    assert line.placed[0].end_s - line.placed[0].first_s == pytest.approx(1.0, abs=0.001)
    assert np.sqrt(np.mean(behind**2)) == pytest.approx(np.sqrt(np.mean(whisper.astype(float) ** 2)), rel=0.2)


def test_what_recordings_have_around_their_speech_adds_up() -> None:
    """In a short pause the tail of one lies over the lead of the next, and the line's noise under both."""
    faint = np.full(300 * 8, 100, np.int16)
    prompt = Prompt("faint", "around", np.concatenate([faint, tone(1000), faint]))
    (line,) = lay([prompt], utterances=2, pause_ms=(200, 200), seed=1)
    between = line.pcm[line.placed[0].last_sample + 100 : line.placed[1].first_sample - 100]
    assert between.mean() == pytest.approx(200, abs=3)
    assert between.std() == pytest.approx(threshold_amplitude(-66), rel=0.2)


def test_the_weaker_ending_has_the_lower_level() -> None:
    fading = (tone(1000) * np.linspace(1, 0.05, 8000)).astype(np.int16)
    assert Prompt("a", "a", fading).ending_db < Prompt("b", "b", tone(1000)).ending_db - 6


def test_a_line_stays_within_its_length_and_repeats_what_it_has() -> None:
    (line,) = lay(PROMPTS, seconds=30, pause_ms=(600, 900), seed=3)
    assert line.seconds <= 30.3
    assert len(line.placed) > len(PROMPTS)


def test_two_legs_take_turns_on_one_time_axis() -> None:
    legs = lay(PROMPTS, utterances=7, pause_ms=(600, 900), seed=3, legs=2)
    assert legs[0].pcm.size == legs[1].pcm.size
    assert [len(leg.placed) for leg in legs] == [4, 3]
    turns = sorted((one.first_s, one.end_s, leg) for leg, line in enumerate(legs) for one in line.placed)
    assert [leg for _, _, leg in turns] == [0, 1, 0, 1, 0, 1, 0]
    assert all(before[1] + 0.5 < after[0] for before, after in pairwise(turns))


def test_only_sentences_of_words_are_used() -> None:
    assert usable("Please enter your password.", "en")
    for text in (
        "[beep]",
        "Thank you.",
        "Press 1 to go on.",
        "Say M I S D N now.",
        "Press * to toggle it.",
        "...to lock, or unlock the conference.",
        "Please press one or two now.",
        "Hello <name> how are you",
    ):
        assert not usable(text, "en")


def test_a_transcript_is_read_by_name() -> None:
    assert read_transcript(["; a comment: no", "", "vm/hello: Hello: you.", "empty:"]) == {"vm/hello": "Hello: you."}


def test_recordings_and_words_come_together(tmp_path: Path) -> None:
    sounds, documents = tmp_path / "sounds", tmp_path / "doc"
    (sounds / "xx_voice").mkdir(parents=True)
    soundfile.write(sounds / "xx_voice" / "good.wav", np.concatenate([silence(200), tone(1500), silence(400)]), 8000)
    soundfile.write(sounds / "xx_voice" / "short.wav", tone(300), 8000)
    (documents / "asterisk-core-sounds-xx").mkdir(parents=True)
    (documents / "asterisk-core-sounds-xx" / "core-sounds-xx.txt").write_text(
        "good: some words here\nshort: some words here\nabsent: some words here\n"
    )
    (prompt,) = human_prompts("xx", sounds=sounds, documents=documents)
    assert prompt.name == "good"
    assert prompt.samples == pytest.approx(1.5 * 8000, abs=4)
    assert prompt.loud[0] == 200 * 8


def test_what_is_not_installed_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(CorpusMissing, match="apt-get install asterisk-core-sounds-xx-wav"):
        human_prompts("xx", sounds=tmp_path, documents=tmp_path)
    (tmp_path / "xx_voice").mkdir()
    with pytest.raises(CorpusMissing, match=r"apt-get install asterisk-core-sounds-xx$"):
        human_prompts("xx", sounds=tmp_path, documents=tmp_path)
