# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.stream.agreement import Agreement, Hypothesis
from gateway.stream.clause import Clause, ClauseReleaser, Heard, Reason, boundary_f1
from gateway.stream.clause_rules import LanguageRules, rules_for
from gateway.stream.words import Word, words_of, written

pytestmark = pytest.mark.unit

DATA = Path(__file__).parent / "data"
LANGUAGES = ("en", "pt", "es", "fr", "de")


def marked(language: str) -> list[str]:
    lines = (DATA / f"clauses_{language}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def split(language: str, text: str, **options: int) -> list[str]:
    """The clauses of a whole text, fed word by word. ``/`` after a word is a pause of 300 ms, ``//`` one of 1 s."""
    releaser = ClauseReleaser(rules_for(language), **options)  # type: ignore[arg-type]
    clauses: list[Clause] = []
    for word in words_of(text):
        gap = {0: None, 1: 4800, 2: 16_000}[word.text.count("/")]
        clauses += releaser.feed([Heard(Word(word.text.strip("/"), glued=word.glued), gap)])
    clauses += releaser.feed([], is_final=True)
    return [clause.text for clause in clauses]


# --- what is released ------------------------------------------------------------------------------------------


def test_s1_2_a_clause_is_released_before_the_sentence_ends() -> None:
    releaser = ClauseReleaser(rules_for("en"))
    assert releaser.feed([Heard(word) for word in words_of("please call me tomorrow")]) == []
    # "because" opens a clause whatever follows
    (clause,) = releaser.feed([Heard(Word("because"))])
    assert (clause.text, clause.first, clause.end, clause.reason) == ("please call me tomorrow", 0, 4, Reason.STRENGTH)
    assert written(releaser.waiting) == "because"
    (rest,) = releaser.feed([Heard(Word("I")), Heard(Word("am")), Heard(Word("away"))], is_final=True)
    assert (rest.text, rest.first, rest.end, rest.reason) == ("because I am away", 4, 8, Reason.FINAL)
    assert releaser.statistics() == {
        "sentence": 0,
        "punctuation": 0,
        "pause": 0,
        "strength": 1,
        "length": 0,
        "final": 1,
        "waiting_words": 0,
    }


def test_s1_2_the_word_behind_and_decides_whether_it_opens_a_clause() -> None:
    assert split("en", "we sell bread and butter every day") == ["we sell bread and butter every day"]
    assert split("en", "we sell the bread and you can pay here") == ["we sell the bread", "and you can pay here"]
    assert split("pt", "eu comprei pão e leite ontem") == ["eu comprei pão e leite ontem"]
    assert split("pt", "eu comprei o pão e ela pagou") == ["eu comprei o pão", "e ela pagou"]


def test_punctuation_releases_sentences_and_clauses() -> None:
    assert split("en", "Yes. Hold on, I will look.") == ["Yes.", "Hold on,", "I will look."]
    assert split("en", "Mr. Smith and J. Doe are here.") == ["Mr. Smith and J. Doe are here."]
    assert split("en", "Well, that is fine.") == ["Well, that is fine."]
    assert split("de", "Ich weiß, dass er kommt.") == ["Ich weiß,", "dass er kommt."]


def test_a_pause_releases_what_may_end() -> None:
    assert split("en", "I was in the office/ yesterday we met") == ["I was in the office", "yesterday we met"]
    assert split("en", "I was in the/ office") == ["I was in the office"]
    assert split("en", "Tomorrow/ works") == ["Tomorrow works"]
    assert split("en", "Tomorrow// works") == ["Tomorrow", "works"]


def test_a_pause_is_also_told_while_it_lasts_and_taken_from_word_times() -> None:
    releaser = ClauseReleaser(rules_for("en"), rate_hz=8000)
    assert releaser.silence(8000) == []
    assert releaser.feed([Heard(word) for word in words_of("it is late")]) == []
    assert releaser.silence(1900) == []
    assert [clause.text for clause in releaser.silence(1920)] == ["it is late"]
    assert releaser.silence(4000) == []
    timed = [
        Heard(Word(text, at, at + 900)) for at, text in ((0, "she"), (1000, "left"), (2000, "early"), (5000, "today"))
    ]
    assert [clause.text for clause in releaser.feed(timed)] == ["she left early"]


def test_a_clause_that_grows_too_long_is_split_at_its_strongest_border() -> None:
    talk = "the man with the long grey coat from the second floor of the old house near the small station or the park"
    parts = split("en", talk)
    assert " ".join(parts) == talk
    assert all(len(part.split()) <= rules_for("en").most for part in parts)
    assert not any(part.split()[-1] in rules_for("en").never_ends for part in parts)
    eager = split("en", "we looked for a house in the city last year without any luck at all", first_most=8)
    assert len(eager[0].split()) <= 8


# --- what is never split ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "the number is four five/ seven two// one nine/"),
        ("en", "the number is 4, 5, 7, 2, 1, 9"),
        ("en", "it costs two hundred/ and/ fifty/ dollars"),
        ("en", "it is twenty/ dollars/ and thirty cents"),
        ("en", "he was born on the fifth/ of/ May/ nineteen eighty four"),
        ("en", "he came on March/ 3rd/ 2024"),
        ("en", "between ten/ and/ twelve"),
        ("en", "we live in New/ York"),
        ("en", "we met Maria/ Gonzalez"),
        ("en", "the Bank/ of/ America"),
        ("en", "twenty-five/ thousand"),
        ("pt", "é quatro sete/ dois// nove"),
        ("pt", "cento/ e vinte/ reais"),
        ("pt", "três/ de/ março de/ 2024"),
        ("pt", "entre as dez/ e/ as doze"),
        ("pt", "moro no Rio/ de/ Janeiro"),
        ("pt", "cinco cinco, sete dois, um/ nove"),
        ("es", "treinta/ y cinco/ euros"),
        ("es", "el tres/ de/ mayo"),
        ("fr", "quatre-vingt-dix/ sept/ euros"),
        ("fr", "le quinze/ janvier/ deux mille"),
        ("de", "fünfundzwanzig/ Euro"),
        ("de", "am dritten/ Mai/ zweitausend"),
        ("zh", "二零/二四/年三月/五日"),
    ],
)
def test_s1_2_numbers_dates_amounts_and_names_are_not_split(language: str, text: str) -> None:
    assert len(split(language, text)) == 1


def test_b9_a_number_that_may_go_on_waits_through_a_pause() -> None:
    releaser = ClauseReleaser(rules_for("en"))
    assert releaser.feed([Heard(word) for word in words_of("my number is four five")]) == []
    assert releaser.in_number
    assert releaser.silence(32_000) == []
    assert releaser.feed([Heard(Word("seven")), Heard(Word("two"), 16_000)]) == []
    assert [clause.text for clause in releaser.feed([Heard(Word("did")), Heard(Word("you"))])] == [
        "my number is four five seven two"
    ]
    assert not releaser.in_number


def test_even_an_endless_number_is_let_go_at_last() -> None:
    releaser = ClauseReleaser(rules_for("en"))
    longest = 0
    for _ in range(500):
        releaser.feed([Heard(Word("five"))])
        longest = max(longest, len(releaser.waiting))
    assert longest <= 3 * rules_for("en").most + 1


@pytest.mark.parametrize(
    ("language", "text", "clauses"),
    [
        ("es", "quiero otra cita porque hoy no puedo ir", ["quiero otra cita", "porque hoy no puedo ir"]),
        ("es", "llámeme cuando llegue a casa", ["llámeme cuando llegue a casa"]),
        ("fr", "je voudrais venir demain parce qu'il part", ["je voudrais venir demain", "parce qu'il part"]),
        ("fr", "attendez ici un moment pour qu'il vous voie", ["attendez ici un moment pour qu'il vous voie"]),
        ("de", "ich rufe später an weil ich keine zeit habe", ["ich rufe später an weil ich keine zeit habe"]),
        ("de", "ich komme morgen vorbei wenn sie zeit haben", ["ich komme morgen vorbei", "wenn sie zeit haben"]),
        ("zh", "我明天不能来因为我要上班", ["我明天不能来", "因为我要上班"]),
        ("zh", "我明天不能来，因为我要上班。", ["我明天不能来，", "因为我要上班。"]),
    ],
)
def test_s1_2_other_languages_are_data(language: str, text: str, clauses: list[str]) -> None:
    assert split(language, text) == clauses


def test_an_unknown_language_has_punctuation_pauses_and_length() -> None:
    assert rules_for("xx") == LanguageRules()
    assert rules_for("pt-BR") == rules_for("pt")
    assert split("xx", "ba be bi, bo bu. Da de di do/ du") == ["ba be bi,", "bo bu.", "Da de di do", "du"]
    parts = split("xx", " ".join(f"w{chr(97 + at % 26)}x" for at in range(100)))
    assert all(len(part.split()) <= LanguageRules().most for part in parts)


# --- how good it is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "pt"])
def test_s1_2_rules_beat_punctuation_alone_on_hand_marked_speech(language: str) -> None:
    lines = marked(language)
    assert len(lines) >= 40

    def by_rules() -> ClauseReleaser:
        return ClauseReleaser(rules_for(language))

    def by_punctuation() -> ClauseReleaser:
        return ClauseReleaser(LanguageRules())

    for part in (lines, lines[1::2]):
        precision, _, bare = boundary_f1(by_rules, part)
        assert bare > boundary_f1(by_punctuation, part)[2] + 0.5
        assert precision > 0.85
        assert bare > 0.7
        # and where the recogniser writes punctuation, the rules still find more
        written_f1 = boundary_f1(by_rules, part, strip_punctuation=False)[2]
        assert written_f1 > boundary_f1(by_punctuation, part, strip_punctuation=False)[2] + 0.2


def test_f1_counts_borders_inside_utterances() -> None:
    def by_punctuation() -> ClauseReleaser:
        return ClauseReleaser(LanguageRules())

    assert boundary_f1(by_punctuation, ["a b, ‖ c d.", "a b, c d"], strip_punctuation=False) == (0.5, 1.0, 2 / 3)
    assert boundary_f1(by_punctuation, ["a b, ‖ c d."]) == (0.0, 0.0, 0.0)


# --- whatever comes --------------------------------------------------------------------------------------------

VOCABULARY = ["I", "you", "and", "but", "five", "of", "May", "New", "York", "dollars", "can", "not", "the", "house"]
VOCABULARY += ["so", "that", "because", "as", "soon", "thank", "by", "Dr"]
MARKS = ["", "", "", ",", "."]
GAPS = [None, 0, 3000, 5000]


@settings(max_examples=150, deadline=None)
@given(
    said=st.lists(
        st.tuples(st.sampled_from(VOCABULARY), st.sampled_from(MARKS), st.sampled_from(GAPS)),
        max_size=60,
    ),
    chunk=st.integers(1, 7),
    language=st.sampled_from([*LANGUAGES, "zh", "xx"]),
)
def test_every_word_comes_out_once_and_in_order(
    said: list[tuple[str, str, int | None]], chunk: int, language: str
) -> None:
    releaser = ClauseReleaser(rules_for(language))
    heard = [Heard(Word(word + mark), gap) for word, mark, gap in said]
    clauses: list[Clause] = []
    for start in range(0, len(heard), chunk):
        clauses += releaser.feed(heard[start : start + chunk])
    clauses += releaser.feed([], is_final=True)
    assert [word for clause in clauses for word in clause.words] == [each.word for each in heard]
    assert [clause.first for clause in clauses] == [0, *(clause.end for clause in clauses)][: len(clauses)]
    assert all(clause.words for clause in clauses)
    assert releaser.waiting == ()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(VOCABULARY), st.sampled_from(MARKS)), max_size=50), st.integers(1, 9))
def test_streaming_equals_one_shot(text: list[tuple[str, str]], chunk: int) -> None:
    said = ["".join(each) for each in text]

    def clauses(size: int) -> list[str]:
        releaser = ClauseReleaser(rules_for("en"))
        result: list[Clause] = []
        for start in range(0, len(said), size):
            result += releaser.feed([Heard(Word(word)) for word in said[start : start + size]])
        return [clause.text for clause in [*result, *releaser.feed([], is_final=True)]]

    assert clauses(chunk) == clauses(max(len(said), 1))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(["four", "seven", "twenty", "hundred", "9", "42"]), min_size=2, max_size=14),
            st.lists(st.sampled_from(["so", "we", "call", "because", "the", "house", "when", "later"]), max_size=9),
        ),
        max_size=8,
    ),
    st.integers(0, 10**6),
)
def test_b9_no_pause_comma_or_length_splits_a_number(runs: list[list[str]], seed: int) -> None:
    chance = random.Random(seed)
    said = [(word, word[0].isdigit() or word in rules_for("en").numbers) for run in runs for word in run]
    releaser = ClauseReleaser(rules_for("en"))
    borders: set[int] = set()
    for word, _ in said:
        heard = Heard(Word(word + chance.choice(["", "", ","])), chance.choice([None, 0, 3000, 8000, 30_000]))
        borders |= {clause.end for clause in releaser.feed([heard])}
    number = 0
    for at, (_, is_number) in enumerate(said):
        assert not (is_number and number and at in borders and number < rules_for("en").most)
        number = number + 1 if is_number else 0


def test_j07_stable_clauses_do_not_wait_for_the_unstable_tail() -> None:
    """A monologue of several minutes, decoded every 400 ms in windows: no word waits longer than a clause and a bit."""
    talk = [word for line in marked("en") for word in words_of(line.replace("‖", ""))]
    talk = [Word(word.text.strip(".,?!:"), 6400 * at, 6400 * at + 6000) for at, word in enumerate(talk)]  # 2.5 words/s
    agreement, releaser = Agreement(), ClauseReleaser(rules_for("en"))
    trimmed = released = 0
    for heard in range(1, len(talk) + 1):
        ragged = [*talk[trimmed : heard - 1], replace(talk[heard - 1], text=talk[heard - 1].text[:-1] + "~x")]
        step = agreement.feed(Hypothesis(tuple(ragged), 6400 * heard, skipped=trimmed))
        for clause in releaser.feed([Heard(word) for word in step.committed]):
            assert clause.first == released
            released = clause.end
        # a clause, the words that decide its border, the word agreement holds back, and the hypothesis it confirms by
        assert heard - released <= rules_for("en").most + 2 + 1 + 2
        if (border := agreement.border(keep_words=8)) is not None:
            trimmed = border.words
        assert heard - trimmed <= 12
    releaser.feed([Heard(word) for word in agreement.finish(None).committed], is_final=True)
    assert releaser.waiting == ()
    assert [word.text for word in agreement.committed[:-1]] == [word.text for word in talk[:-1]]
