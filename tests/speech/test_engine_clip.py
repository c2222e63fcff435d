# SPDX-License-Identifier: GPL-3.0-or-later
"""Finishing synthesized sound, without a voice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gateway.audio.loudness import active_level
from gateway.audio.pcm import limited
from gateway.speech.engines.clip import (
    LONGEST_PIECE,
    Sound,
    Traits,
    chosen_voice,
    finished,
    ordered_voices,
    spoken,
    trimmed,
)
from gateway.speech.engines.pace import Pace
from gateway.speech.engines.prose import marks
from gateway.speech.jobs import Speech

pytestmark = pytest.mark.unit
RATE_HZ = 22_050


def voice(seconds: float, level: float = 0.1) -> Sound:
    time = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    return (level * np.sin(2 * np.pi * 200 * time)).astype(np.float32)


def silence(seconds: float) -> Sound:
    return np.zeros(int(seconds * RATE_HZ), dtype=np.float32)


def samples_of(pcm: bytes) -> Sound:
    return (np.frombuffer(pcm, dtype="<i2") / 32767).astype(np.float32)


def test_silence_at_the_ends_is_cut() -> None:
    clip = trimmed(np.concatenate([silence(0.4), voice(1.0), silence(0.6)]), RATE_HZ)
    assert len(clip) / RATE_HZ == pytest.approx(1.0 + 0.02 + 0.12, abs=0.012)
    assert np.flatnonzero(np.abs(clip) > 0.01)[0] / RATE_HZ <= 0.03


def test_s1_13_a_piece_whose_sentence_goes_on_leaves_no_pause_behind_it() -> None:
    def speak(piece: str) -> Sound:
        return np.concatenate([silence(0.2), voice(1.0), silence(0.4)])

    assert seconds(say("the person you are calling", speak, traits=Traits(open_tail_ms=20))) == pytest.approx(
        1.04, abs=0.012
    )
    assert seconds(say("is not at their desk.", speak, traits=Traits(open_tail_ms=20))) == pytest.approx(
        1.14, abs=0.012
    )


@pytest.mark.parametrize("level", [0.004, 0.1, 0.9])
@pytest.mark.parametrize("seconds", [0.3, 1.0, 5.0])
def test_i11_active_level_is_one(level: float, seconds: float) -> None:
    clip = finished(np.concatenate([silence(0.2), voice(seconds, level)]), RATE_HZ)
    assert active_level(clip, RATE_HZ) == pytest.approx(-19.0, abs=0.3)


def test_peaks_stay_below_minus_one_dbfs_and_quiet_samples_are_untouched() -> None:
    loud = np.linspace(-3, 3, 1000, dtype=np.float32)
    bent = limited(loud)
    assert np.abs(bent).max() <= 10 ** (-1 / 20) + 1e-6
    assert np.all(np.diff(bent) >= -1e-6)
    quiet = np.abs(loud) < 0.6
    assert np.array_equal(bent[quiet], loud[quiet])


def say(
    text: str,
    speak: Callable[[str], Sound],
    *,
    tempo: float = 1.0,
    pitch: float = 1.0,
    pace: Pace | None = None,
    traits: Traits | None = None,
) -> Speech:
    """Every letter counts as a phoneme."""
    return spoken(
        text,
        language="en",
        rate_hz=RATE_HZ,
        voice="v",
        tempo=tempo,
        pitch=pitch,
        speak=speak,
        units=lambda piece: sum(letter.isalpha() for letter in piece),
        pace=pace or Pace(),
        traits=traits or Traits(),
    )


def seconds(sound: Speech) -> float:
    return len(sound.pcm) / 2 / RATE_HZ


def steady(piece: str) -> Sound:
    """A voice of 70 ms a letter."""
    return voice(0.07 * sum(letter.isalpha() for letter in piece))


def known() -> Pace:
    pace = Pace()
    for _ in range(5):
        say("five sentences of some thirty letters each", steady, pace=pace)
    return pace


@pytest.mark.parametrize("text", ["", "...", "😀", "​", "？", "你好"])
def test_i01_nothing_to_say_asks_no_engine(text: str) -> None:
    def never(piece: str) -> Sound:
        raise AssertionError(piece)

    assert say(text, never).pcm == b""


def test_i02_long_text_is_spoken_in_pieces() -> None:
    asked: list[str] = []

    def speak(piece: str) -> Sound:
        asked.append(piece)
        return steady(piece)

    text = "the quick brown fox jumps over the lazy dog, " * 12
    sound = say(text, speak)
    assert max(map(len, asked)) <= LONGEST_PIECE
    assert " ".join(asked) == text.strip()
    assert seconds(sound) >= 0.07 * sum(letter.isalpha() for letter in text)
    assert sound.respoken == 0


TEXT = "one two three four five six seven, eight nine ten eleven twelve thirteen"
LETTERS = sum(letter.isalpha() for letter in TEXT)


@pytest.mark.parametrize("lost", [0.35, 0.5, 1.0])
def test_i02_a_clip_that_lost_words_is_spoken_again_once_in_halves(lost: float) -> None:
    asked: list[str] = []

    def forgetful(piece: str) -> Sound:
        asked.append(piece)
        return steady(piece)[: round((1 - lost * (piece == TEXT)) * len(steady(piece)))]

    sound = say(TEXT, forgetful, pace=known())
    assert asked[0] == TEXT and " ".join(asked[1:]) == TEXT and len(asked) == 3
    assert sound.respoken == 1
    assert seconds(sound) == pytest.approx(0.07 * LETTERS, abs=0.6)


def test_i02_a_voice_that_babbles_is_spoken_again_once_in_halves() -> None:
    def babbling(piece: str) -> Sound:
        return np.concatenate([steady(piece), voice(20.0 * (piece == TEXT))])

    sound = say(TEXT, babbling, pace=known())
    assert sound.respoken == 1
    assert seconds(sound) == pytest.approx(0.07 * LETTERS, abs=0.6)


def test_i02_when_halves_are_no_better_the_nearer_one_is_kept() -> None:
    def worse_in_halves(piece: str) -> Sound:
        return voice(1.9 if piece == TEXT else 0.2)

    sound = say(TEXT, worse_in_halves, pace=known())
    assert sound.respoken == 1
    assert seconds(sound) == pytest.approx(1.9, abs=0.05)


@pytest.mark.parametrize("tempo", [0.8, 1.0, 1.3])
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.4])
def test_i02_an_ordinary_variation_is_left_alone_at_any_tempo(tempo: float, factor: float) -> None:
    pace = known()
    sound = say(TEXT, lambda piece: voice(len(steady(piece)) / RATE_HZ * factor / tempo), tempo=tempo, pace=pace)
    assert sound.respoken == 0


def test_i02_a_new_voice_has_wide_bounds_until_its_speed_is_known() -> None:
    slow = Pace()
    for _ in range(8):
        assert say(TEXT, lambda piece: voice(len(steady(piece)) / RATE_HZ * 1.6), pace=slow).respoken == 0
    assert slow.unit_s == pytest.approx(0.07 * 1.6, rel=0.05)
    assert say(TEXT, lambda piece: voice(len(steady(piece)) / RATE_HZ * 0.9), pace=slow).respoken == 1


def test_i02_pauses_at_commas_are_no_babble() -> None:
    text = "a, b, c, d, e, f, g, h, i, j, k, l, m, n"
    assert marks(text) == 13 and marks(text + "...") == 13 and marks("«O quê?» disse.") == 1
    assert say(text, lambda piece: voice(14 * 0.07 + 13 * 0.25), pace=known()).respoken == 0


def test_i02_an_engine_that_never_speaks_enough_ends() -> None:
    calls = 0

    def mute(piece: str) -> Sound:
        nonlocal calls
        calls += 1
        return silence(0.1)

    assert say("many words that nobody hears " * 4, mute).pcm == b""
    assert calls < 10


@pytest.mark.parametrize("tempo", [0.8, 1.15, 1.3])
def test_b5_what_the_engine_does_not_give_of_a_tempo_is_stretched(tempo: float) -> None:
    """An engine that leaves a third of a clip as it is, however fast it is asked to speak."""
    text = "Nobody could have known that the train would be as late as this"
    own = seconds(say(text, steady))

    def sluggish(piece: str) -> Sound:
        return voice(len(steady(piece)) / RATE_HZ * (1 / 3 + 2 / 3 / tempo))

    assert own / seconds(say(text, sluggish, tempo=tempo, traits=Traits(steady=1 / 3))) == pytest.approx(
        tempo, rel=0.02
    )


@pytest.mark.parametrize("pitch", [0.9, 0.98, 1.03, 1.1])
def test_s1_12_another_pitch_keeps_the_length(pitch: float) -> None:
    sound = say(TEXT, steady, pitch=pitch)
    assert seconds(sound) == pytest.approx(seconds(say(TEXT, steady)), abs=0.05)
    middle = samples_of(sound.pcm)[RATE_HZ : 2 * RATE_HZ]
    hz = int(np.argmax(np.abs(np.fft.rfft(middle * np.hanning(middle.size)))))
    assert hz == pytest.approx(200 * pitch, abs=2)


def test_i04_the_engine_gets_words_for_numbers() -> None:
    asked: list[str] = []

    def speak(piece: str) -> Sound:
        asked.append(piece)
        return steady(piece)

    say("Dr. Lee paid $3.50 at 3:30 pm.", speak)
    assert asked[0] == "Doctor Lee paid three dollars and fifty cents at three thirty p.m."


def test_a_voice_is_chosen_by_language_and_name_and_a_refusal_says_what_there_is() -> None:
    voices = {"en": ("joe", "amy"), "pt": ("rui",)}
    assert chosen_voice(voices, "en", None) == ("en", "joe")
    assert chosen_voice(voices, "en-GB", "amy") == ("en", "amy")
    with pytest.raises(LookupError, match="this voice speaks en, pt, not 'de'"):
        chosen_voice(voices, "de", None)
    with pytest.raises(LookupError, match="voice 'amy' is not among rui"):
        chosen_voice(voices, "pt-BR", "amy")
    assert ordered_voices(("a", "b", "c"), "b", "model") == ("b", "a", "c")
    assert ordered_voices(("a", "b"), None, "model") == ("a", "b")
    with pytest.raises(LookupError, match="voice 'x' is not in model: it has a, b"):
        ordered_voices(("a", "b"), "x", "model")
