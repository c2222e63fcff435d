# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stream.agreement import Agreement, AgreementStep, Border, Hypothesis
from gateway.stream.words import Word, key, keys, units, words_of, written

pytestmark = pytest.mark.unit


def say(agreement: Agreement, *texts: str) -> list[str]:
    """Feed texts; what each committed."""
    return [written(agreement.feed(Hypothesis.of_text(text)).committed) for text in texts]


def texts(step: AgreementStep) -> tuple[str, str]:
    return written(step.committed), written(step.unstable)


# --- words -------------------------------------------------------------------------------------------------------


def test_words_are_the_same_by_letters_and_digits() -> None:
    assert key("Don’t,") == key("don't") == "dont"
    assert key("CAFE\u0301") == key("café.")
    assert key("3.5") != key("35")
    assert key("35.") == key("35")
    assert key("-5") != key("5")
    assert key("%") == "%"
    assert key("…") == ""


def test_unspaced_scripts_are_counted_by_character_and_written_without_spaces() -> None:
    assert [word.text for word in words_of("今天天气，真好。")] == ["今", "天", "天", "气，", "真", "好。"]
    assert [word.text for word in words_of("我用WhatsApp联系")] == ["我", "用", "WhatsApp", "联", "系"]
    for text in ("今天天气，真好。", "我用WhatsApp联系", "「好」吗？", "Hello there, ¿qué tal?", "5 % off"):
        assert written(words_of(text)) == text
    tokens = units([Word("今天", 0, 1000), Word("天气", 1000, 3000)])
    assert [(word.text, word.first_sample, word.end_sample) for word in tokens] == [
        ("今", 0, 500),
        ("天", 500, 1000),
        ("天", 1000, 2000),
        ("气", 2000, 3000),
    ]
    assert written(tokens) == "今天天气"


def test_lone_punctuation_belongs_to_the_word_before_it() -> None:
    assert [word.text for word in words_of("— yes - no .")] == ["—yes-", "no."]


# --- agreement ---------------------------------------------------------------------------------------------------


def test_s1_1_two_agreeing_hypotheses_commit_all_but_the_edge() -> None:
    agreement = Agreement()
    assert texts(agreement.feed(Hypothesis.of_text("I would like"))) == ("", "I would like")
    assert texts(agreement.feed(Hypothesis.of_text("I would like to"))) == ("I would like", "to")
    assert texts(agreement.feed(Hypothesis.of_text("I would like two rooms"))) == ("", "two rooms")
    assert texts(agreement.feed(Hypothesis.of_text("I would like two rooms please"))) == ("two rooms", "please")


def test_a_word_cut_in_the_middle_is_never_committed() -> None:
    agreement = Agreement()
    assert say(
        agreement, "the tempera", "the temperature is", "the temperature is ri", "the temperature is rising"
    ) == [
        "",
        "the",
        "temperature is",
        "",
    ]
    step = agreement.finish(Hypothesis.of_text("The temperature is rising."))
    assert texts(step) == ("rising.", "")
    assert agreement.text == "the temperature is rising."


def test_the_last_word_needs_three_agreements_of_different_sound() -> None:
    agreement = Agreement()
    same = [agreement.feed(Hypothesis.of_text("yes", end_sample=8000)) for _ in range(9)]
    assert all(step.committed == () for step in same)
    assert written(agreement.feed(Hypothesis.of_text("yes", end_sample=12_000)).committed) == ""
    assert written(agreement.feed(Hypothesis.of_text("Yes.", end_sample=16_000)).committed) == "Yes."


def test_newest_spelling_is_committed() -> None:
    assert say(Agreement(), "hello mister", "Hello, Mister Jones") == ["", "Hello, Mister"]


def test_s4_3_only_new_text_is_a_preview() -> None:
    agreement = Agreement()
    previews = [
        agreement.feed(Hypothesis.of_text(text)).is_preview
        for text in ("one two", "One, two.", "one", "", "one two", "one too", "one too", "one too three")
    ]
    assert previews == [True, False, False, False, False, True, False, True]
    assert agreement.statistics()["previews"] == 3


def test_b2_a_contradiction_of_committed_words_takes_nothing_back() -> None:
    agreement = Agreement()
    say(agreement, "I want to go to the", "I want to go to the")
    assert agreement.text == "I want to go to"
    # one word split, one changed, one put in
    assert say(agreement, "I wanted too go on to the bank now", "I wanted too go on to the bank now please") == [
        "the",
        "bank now",
    ]
    assert agreement.text == "I want to go to the bank now"
    assert agreement.statistics()["contradictions"] == 2


def test_a_hypothesis_that_lost_its_beginning_continues_in_the_right_place() -> None:
    agreement = Agreement()
    say(agreement, "one two three four five six", "one two three four five six")
    assert say(agreement, "four five six seven eight", "four five six seven eight nine") == ["six", "seven eight"]


def test_real_repeats_are_committed_as_often_as_they_are_said() -> None:
    agreement = Agreement()
    said = say(
        agreement, "no", "no no", "no no no", "no no no I said", "no no no I said five five", "no no no I said five"
    )
    agreement.finish(Hypothesis.of_text("No, no, no, I said five five."))
    assert said[:3] == ["", "no", "no"]
    assert keys(agreement.committed) == ["no", "no", "no", "i", "said", "five", "five"]


def test_empty_and_shrinking_hypotheses_do_no_harm() -> None:
    agreement = Agreement()
    assert say(agreement, "a b c d", "", "...", "a b", "a b c d", "a b c d e") == ["", "", "", "a", "b", "c d"]
    assert agreement.text == "a b c d"
    assert agreement.statistics()["empty"] == 2


def test_hypotheses_shorter_than_the_committed_words_are_survived() -> None:
    agreement = Agreement()
    say(agreement, "a b c d e", "a b c d e")
    assert say(agreement, "a", "b", "x y", "a b c d e f", "a b c d e f g") == ["", "", "", "", "e f"]


def test_f02_a_loop_is_shown_and_committed_for_one_round_at_most() -> None:
    agreement = Agreement()
    round_ = "you have success congratulations "
    for count in range(1, 12):
        step = agreement.feed(Hypothesis.of_text("well " + round_ * count))
        assert len(step.unstable) <= 9
    assert keys(agreement.committed).count("success") <= 2
    assert agreement.statistics()["loops"] > 0


def test_seven_zeros_followed_by_other_digits_are_said() -> None:
    agreement = Agreement()
    number = "zero " * 7 + "five two"
    say(agreement, number, number + " nine")
    assert agreement.text == number


def test_f06_a_tail_that_never_settles_is_committed_by_force() -> None:
    agreement = Agreement(unstable_limit=10)
    chance = random.Random(3)
    for length in range(1, 120):
        step = agreement.feed(Hypothesis.of_text(" ".join(str(chance.randrange(10**6)) for _ in range(length))))
        assert len(step.unstable) <= 12
    assert agreement.statistics()["forced"] > 90


def test_s1_8_an_improbable_word_waits_for_one_more_agreement() -> None:
    agreement = Agreement(doubt_below=0.5)

    def heard(end_sample: int) -> AgreementStep:
        words = (
            Word("press", 0, 400, 0.9),
            Word("knine", 400, 800, 0.2),
            Word("now", 800, 900, 0.9),
            Word("ok", 900, 990),
        )
        return agreement.feed(Hypothesis(words, end_sample))

    heard(1000)
    assert written(heard(2000).committed) == "press"
    third = heard(3000)
    assert written(third.committed) == "knine now ok"
    assert third.committed[0].confidence == 0.2


def test_sound_may_be_trimmed_at_a_border() -> None:
    agreement = Agreement()
    words = tuple(Word(text, 1000 * at, 1000 * at + 900) for at, text in enumerate(["a", "b", "c", "d", "e"]))
    agreement.feed(Hypothesis(words, 5000))
    agreement.feed(Hypothesis(words, 5100))
    border = agreement.border(keep_words=1)
    assert border == Border(3, 2900)
    # the decoder hears the end of "c" again
    rest = (Word("c", 2800, 2950), *words[3:], Word("f", 5000, 5900))
    assert written(agreement.feed(Hypothesis(rest, 6000, skipped=3)).unstable) == "f"
    assert agreement.text == "a b c d e"
    assert agreement.border(keep_words=9) is None
    with pytest.raises(ValueError, match="skips 9 words"):
        agreement.feed(Hypothesis((), skipped=9))


def test_times_find_the_place_when_the_text_does_not() -> None:
    agreement = Agreement()
    first = tuple(Word(text, 1000 * at, 1000 * at + 900) for at, text in enumerate(["aa", "bb", "cc", "dd"]))
    agreement.feed(Hypothesis(first, 4000))
    agreement.feed(Hypothesis(first, 4100))
    other = tuple(Word(text, 500 * at, 500 * at + 450) for at, text in enumerate("pqrstuvw"))
    # committed: aa bb cc, to sample 2900; the middle of "u" (2500..2950) lies before it, the middle of "v" behind
    assert written(agreement.feed(Hypothesis(other, 4200)).unstable) == "v w"
    assert written(agreement.feed(Hypothesis(other, 4300)).committed) == "v"


def test_cjk_is_agreed_by_character() -> None:
    agreement = Agreement()
    assert say(agreement, "今天天", "今天天气真", "今天天气真好") == ["", "今天天", "气真"]
    agreement.finish(Hypothesis.of_text("今天天气真好。"))
    assert agreement.text == "今天天气真好。"


def test_a_lost_final_leaves_the_last_words_standing_and_nothing_may_follow() -> None:
    agreement = Agreement()
    say(agreement, "call me", "call me back")
    assert texts(agreement.finish(None)) == ("back", "")
    with pytest.raises(RuntimeError):
        agreement.feed(Hypothesis.of_text("call me back"))
    with pytest.raises(RuntimeError):
        agreement.finish(None)


WORDS = st.lists(st.sampled_from(["no", "yes", "five", "the", "bank", "of"]), max_size=30)


@settings(max_examples=150, deadline=None)
@given(truth=WORDS, seed=st.integers(0, 10**6))
def test_growing_prefixes_with_ragged_edges_give_back_the_truth(truth: list[str], seed: int) -> None:
    chance = random.Random(seed)
    agreement, heard = Agreement(), 0
    while heard < len(truth):
        heard = min(len(truth), heard + chance.randrange(1, 4))
        ragged = truth[:heard]
        if chance.random() < 0.5:
            ragged[-1] = ragged[-1][:-1] + chance.choice("qxz")
        before = agreement.committed
        agreement.feed(Hypothesis.of_text(" ".join(ragged)))
        assert agreement.committed[: len(before)] == before
        assert [word.text for word in agreement.committed] == truth[: len(agreement.committed)]
    agreement.finish(Hypothesis.of_text(" ".join(truth)))
    assert agreement.text == " ".join(truth)


@settings(max_examples=150, deadline=None)
@given(hypotheses=st.lists(WORDS, max_size=12), final=WORDS)
def test_b2_committed_words_are_append_only_whatever_comes(hypotheses: list[list[str]], final: list[str]) -> None:
    agreement = Agreement(unstable_limit=12)
    said: list[Word] = []
    for words in hypotheses:
        step = agreement.feed(Hypothesis.of_text(" ".join(words)))
        said += step.committed
        assert list(agreement.committed) == said
        assert len(step.unstable) <= len(words) or not words
    said += agreement.finish(Hypothesis.of_text(" ".join(final))).committed
    assert list(agreement.committed) == said
    assert agreement.statistics()["committed"] == len(said)
