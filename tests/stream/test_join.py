# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stream.join import LONGEST_OVERLAP_WORDS, DecidedBy, Joined, join
from gateway.stream.words import Word, keys, words_of, written

pytestmark = pytest.mark.unit

RATE = 16_000
JITTER = RATE * 10 // 1000
CHOICES = ["no", "yes", "five", "the", "bank", "of", "monday", "call"]


def timed(text: str, first_ms: int = 0, word_ms: int = 300, confidence: float | None = None) -> list[Word]:
    """Words that follow each other without a gap."""
    samples = RATE * word_ms // 1000
    start = RATE * first_ms // 1000
    return [
        Word(word, start + at * samples, start + (at + 1) * samples, confidence) for at, word in enumerate(text.split())
    ]


def text(joined: Joined) -> str:
    return written(joined.words)


def by_text(before: str, behind: str, overlap_words: float | None = None) -> str:
    return text(join(words_of(before), words_of(behind), overlap_words=overlap_words))


# --- with times --------------------------------------------------------------------------------------------------


def test_s3_1_doubles_go_by_times_within_ten_ms() -> None:
    before, again = timed("the weather today is"), timed("today is fine", 600)
    behind = [Word(word.text, (word.first_sample or 0) - 100, (word.end_sample or 0) + 150) for word in again]
    joined = join(before, behind)
    assert text(joined) == "the weather today is fine"
    assert (joined.decided_by, joined.dropped) == (DecidedBy.TIMES, 2)


def test_s3_1_characters_with_times() -> None:
    before = [Word(character, 8000 * at, 8000 * (at + 1)) for at, character in enumerate("今天天气真")]
    behind = [Word(character, 8000 * at, 8000 * (at + 1)) for at, character in enumerate("天气真好", start=2)]
    assert text(join(before, behind)) == "今天天气真好"


def test_s3_2_of_the_same_word_the_earlier_or_the_more_confident_stays() -> None:
    before, behind = timed("we meet Monday"), timed("monday, at nine", 600)
    assert text(join(before, behind)) == "we meet Monday at nine"
    sure, unsure = timed("monday, at nine", 600, confidence=0.9), timed("we meet Monday", confidence=0.4)
    assert text(join(unsure, sure)) == "we meet monday, at nine"


def test_f05_repeats_at_other_times_stay() -> None:
    before = timed("no no no", word_ms=200)
    assert text(join(before, timed("no no I said", 400, 200))) == "no no no no I said"
    assert text(join(before, timed("no no no", 600, 200))) == "no no no no no no"
    assert join(before, timed("no", 700, 200)).decided_by is DecidedBy.NOTHING


def test_rivals_for_a_place_are_judged_by_confidence() -> None:
    before = [*timed("send it by", confidence=0.9), Word("wed", 14_400, 18_000, 0.3)]
    behind = [
        Word("by", 9600, 14_400, 0.8),
        Word("Wednesday", 14_400, 22_000, 0.95),
        Word("please", 22_000, 26_000, 0.9),
    ]
    assert text(join(before, behind)) == "send it by Wednesday please"
    assert text(join([*before[:3], Word("wed", 14_400, 18_000, 0.99)], behind)) == "send it by wed please"


def test_rivals_without_confidence_lose_at_their_windows_edge() -> None:
    before = [*timed("one two three four"), Word("fi", 19_200, 21_000)]
    behind = [Word("ree", 11_000, 14_400), *timed("four five six", 900)]
    assert text(join(before, behind)) == "one two three four five six"


def test_a_word_that_one_window_missed_is_kept_in_its_place() -> None:
    before = timed("a b c d e")
    assert text(join(before, [*timed("c", 600), *timed("e f", 1200)])) == "a b c d e f"
    assert text(join([*timed("a b c"), *timed("e", 1200)], timed("c d e f", 600))) == "a b c d e f"


def test_a_pause_at_the_seam_or_no_overlap_joins_plainly() -> None:
    assert text(join(timed("hello there"), timed("how are you", 5000))) == "hello there how are you"
    assert text(join([], timed("how are you"))) == "how are you"
    assert text(join(timed("hello"), [])) == "hello"
    assert join([], []) == Joined((), DecidedBy.NOTHING, 0)


@st.composite
def windowed(draw: st.DrawFn) -> tuple[list[Word], list[list[Word]]]:
    """A talk with pauses and repeats, and windows over it whose times jitter by ±10 ms."""
    chance = random.Random(draw(st.integers(0, 10**6)))
    talk: list[Word] = []
    at = 0
    while len(talk) < draw(st.integers(0, 60)):
        said = chance.choice(CHOICES)
        for _ in range(chance.choice([1, 1, 1, 2, 3, 5])):
            end = at + RATE * chance.randrange(80, 500) // 1000
            talk.append(Word(said, at, end, chance.choice([None, 0.2, 0.5, 0.9])))
            at = end + RATE * chance.choice([0, 0, 0, 30, 400]) // 1000
    windows = []
    start = 0
    while start < at:
        end = start + RATE * chance.randrange(2500, 9000) // 1000
        windows.append(
            [
                Word(
                    word.text,
                    (word.first_sample or 0) + chance.randint(-JITTER, JITTER),
                    (word.end_sample or 0) + chance.randint(-JITTER, JITTER),
                    chance.choice([None, 0.2, 0.5, 0.9]),
                )
                for word in talk
                if (word.first_sample or 0) >= start and (word.end_sample or 0) <= end
            ]
        )
        start = end - RATE * chance.randrange(600, 2000) // 1000  # longer than the longest word: none is in no window
    return talk, windows


@settings(max_examples=150, deadline=None)
@given(windowed())
def test_s3_1_windows_with_jittered_times_join_back_exactly(case: tuple[list[Word], list[list[Word]]]) -> None:
    talk, windows = case
    joined: list[Word] = []
    for window in windows:
        joined = list(join(joined, window, rate_hz=RATE).words)
    assert [word.text for word in joined] == [word.text for word in talk]


def test_f04_a_talk_with_pauses_at_the_seams_repeats_no_four_words() -> None:
    said = [f"w{at}" for at in range(90)]
    talk = [word for at in range(9) for word in timed(" ".join(said[10 * at : 10 * at + 10]), at * 4500)]
    joined: list[Word] = []
    for start_ms in range(0, 40_000, 3000):
        window = [
            word
            for word in talk
            if (word.first_sample or 0) >= start_ms * 16 and (word.end_sample or 0) <= (start_ms + 4500) * 16
        ]
        joined = list(join(joined, window, seam=(start_ms * 16, (start_ms + 1500) * 16)).words)
    grams = [tuple(keys(joined)[at : at + 4]) for at in range(len(joined) - 3)]
    assert len(grams) == len(set(grams))
    assert [word.text for word in joined] == said


# --- without times -----------------------------------------------------------------------------------------------


def test_s3_3_text_finds_the_overlap_and_keeps_repeats() -> None:
    assert by_text("今天天气真", "天气真好") == "今天天气真好"
    assert by_text("我不是不", "是不想去") == "我不是不想去"
    assert by_text("No, no, no.", "no no no I said") == "No, no, no. I said"
    assert by_text("it is five five", "five five seven two") == "it is five five seven two"
    assert by_text("apples five pears", "five pears five plums five") == "apples five pears five plums five"
    assert by_text("good morning", "how are you") == "good morning how are you"


def test_f05_the_expected_overlap_decides_how_often_a_repeat_was_said() -> None:
    assert by_text("no no no", "no no no I said", 1) == "no no no no no I said"
    assert by_text("no no no", "no no no I said", 2) == "no no no no I said"
    assert by_text("no no no", "no no no I said", 3) == "no no no I said"
    assert by_text("no no no", "no no no I said", 0) == "no no no no no no I said"


def test_s3_3_edges_that_were_cut_do_not_hide_the_overlap() -> None:
    assert by_text("please call me on wednes", "me on Wednesday at nine") == "please call me on Wednesday at nine"
    assert by_text("the red house is", "ouse is over there") == "the red house is over there"
    # nothing says that "um" is wrong, so nothing is lost
    assert by_text("we leave at nine from the um", "nine from the station") == "we leave at nine from the um station"


def test_s3_5_confidence_decides_without_times() -> None:
    def rated(text: str, *confidences: float) -> list[Word]:
        return [Word(word, confidence=each) for word, each in zip(text.split(), confidences, strict=True)]

    before = rated("the fare is fifteen dollars", 0.9, 0.9, 0.9, 0.4, 0.9)
    behind = rated("is fifty dollars today", 0.9, 0.95, 0.9, 0.9)
    joined = join(before, behind)
    assert (text(joined), joined.decided_by) == ("the fare is fifty dollars today", DecidedBy.CONFIDENCE)
    joined = join(rated("the fare is fifteen dollars", 0.9, 0.9, 0.9, 0.99, 0.9), behind)
    assert text(joined) == "the fare is fifteen dollars today"
    # what one window alone heard at its ragged edge, and doubts itself, goes
    assert text(join(rated("to the bank uh", 1, 1, 1, 0.2), rated("the bank of", 1, 1, 1))) == "to the bank of"


@settings(max_examples=150, deadline=None)
@given(
    talk=st.lists(st.sampled_from(CHOICES), min_size=2, max_size=40),
    cut=st.integers(0, 40),
    shared=st.integers(0, 8),
    known=st.booleans(),
)
def test_s3_3_without_times_the_error_is_bounded_and_repeats_survive(
    talk: list[str], cut: int, shared: int, known: bool
) -> None:
    end = min(cut + shared, len(talk))
    start = min(cut, len(talk))
    before, behind = talk[:end], talk[start:]
    joined = join(
        words_of(" ".join(before)), words_of(" ".join(behind)), overlap_words=(end - start) if known else None
    )
    got = [word.text for word in joined.words]
    if known:
        assert got == talk
    # with neither times nor the overlap's length, "no, yes" | "no" may be two words or three: what lies outside the
    # longest possible overlap is never touched, and the error stays within it
    outside = max(0, len(before) - LONGEST_OVERLAP_WORDS)
    assert got[:outside] == before[:outside]
    assert len(got) >= max(len(before), len(behind)) - 1
    assert abs(len(got) - len(talk)) <= max(len(before), len(behind))
