# SPDX-License-Identifier: GPL-3.0-or-later
"""The menu as a machine: what is asked, what is taken for an answer, and what is never dialled (SPEC A2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.call.menu import (
    LONGEST_NS,
    Action,
    Connect,
    GiveUp,
    Hush,
    Key,
    Menu,
    MenuEvent,
    Named,
    Quiet,
    Say,
    Step,
    Tick,
)
from gateway.call.menu_plan import MenuPlan, parse_menu

pytestmark = pytest.mark.unit

SECOND = 1_000_000_000
DIAL = [
    {"number": "7001", "destination": "sip:desk@192.0.2.1"},
    {"prefix": "2", "destination": "sip:{rest}@192.0.2.2"},
    {"prefix": "29", "to": "pt", "destination": "sip:long-{number}@192.0.2.3"},
]


def plan(languages: list[str] | None = None, dial: Any = None) -> MenuPlan:
    faults: list[str] = []
    made = parse_menu({"languages": languages or ["en", "pt"], "dial": dial or DIAL}, "menu", faults)
    assert made is not None, faults
    return made


class Caller:
    """Somebody in the menu; time goes by only where the test says so."""

    def __init__(self, menu_plan: MenuPlan) -> None:
        self.menu = Menu(menu_plan)
        self.now_ns = 5 * SECOND
        self.last: list[Action] = self.menu.start(self.now_ns)

    def does(self, *events: MenuEvent | str) -> list[Action]:
        for event in events:
            self.last = self.menu.feed(Key(event) if isinstance(event, str) else event, self.now_ns)
        return self.last

    def keys(self, keys: str) -> list[Action]:
        return self.does(*keys)

    def listens(self) -> None:
        assert self.does(Quiet()) == []

    def waits(self, seconds: float) -> list[Action]:
        self.now_ns += round(seconds * SECOND)
        return self.does(Tick())

    @property
    def told(self) -> tuple[tuple[str, str], ...]:
        return next((action.lines for action in self.last if isinstance(action, Say)), ())


OFFERS = (("en", "menu-language"), ("en", "digit-1"), ("pt", "menu-language"), ("pt", "digit-2"))


def test_a2_each_language_is_offered_in_itself() -> None:
    assert Caller(plan()).told == OFFERS


def test_a2_the_whole_way_to_a_call() -> None:
    caller = Caller(plan())
    caller.listens()
    caller.does("2")
    assert caller.told == (("pt", "menu-number"),)
    caller.keys("7001#")
    read_back = [f"digit-{digit}" for digit in "7001"]
    assert [name for _, name in caller.told] == ["menu-entered", *read_back, "menu-confirm"]
    assert {language for language, _ in caller.told} == {"pt"}
    assert caller.does("1") == [Hush(), Connect("pt", "en", "sip:desk@192.0.2.1")]
    assert caller.does("1", Quiet(), Tick()) == [], "it is over"


def test_a2_who_knows_the_way_types_it_in_one_go() -> None:
    assert Caller(plan()).keys("17001#1")[-1] == Connect("en", "pt", "sip:desk@192.0.2.1")


def test_a2_a_pause_ends_the_number_too() -> None:
    caller = Caller(plan())
    caller.keys("17001")
    assert caller.waits(3.9) == []
    caller.waits(0.2)
    assert caller.menu.step is Step.CONFIRM


def test_a2_the_star_corrects() -> None:
    caller = Caller(plan())
    caller.keys("17009*")
    assert caller.told == (("en", "menu-number"),)
    caller.keys("2555#*")
    assert caller.told == (("en", "menu-number"),)
    assert caller.keys("7001#1")[-1] == Connect("en", "pt", "sip:desk@192.0.2.1")


@pytest.mark.parametrize(
    ("number", "uri", "target"),
    [
        ("7001", "sip:desk@192.0.2.1", "pt"),
        ("255", "sip:55@192.0.2.2", "pt"),
        ("2955", "sip:long-2955@192.0.2.3", "pt"),
    ],
)
def test_a2_the_longest_rule_wins(number: str, uri: str, target: str) -> None:
    assert Caller(plan()).keys(f"1{number}#1")[-1] == Connect("en", target, uri)


@pytest.mark.parametrize("number", ["7002", "70010", "2", "911", "0019005551234", "700"])
def test_a2_toll_fraud_what_no_rule_allows_is_refused(number: str) -> None:
    caller = Caller(plan())
    caller.keys(f"1{number}#")
    assert caller.told == (("en", "menu-not-allowed"), ("en", "menu-number"))
    assert caller.keys("1")[-1] == Hush(), "a one is a digit now and no confirmation"


def test_a2_somebody_who_speaks_the_callers_language_needs_no_interpreter() -> None:
    caller = Caller(plan())
    caller.keys("22955#")
    assert caller.told[0] == ("pt", "menu-not-allowed")


def test_a2_with_three_languages_the_other_ones_is_asked_for() -> None:
    caller = Caller(plan(["en", "pt", "es"]))
    caller.keys("2255#")
    asked = (("pt", "menu-other"), ("en", "menu-language"), ("en", "digit-1"), ("es", "menu-language"))
    assert caller.told[:4] == asked
    caller.does("2")
    assert caller.menu.step is Step.CONFIRM
    assert caller.does("1")[-1] == Connect("pt", "es", "sip:55@192.0.2.2")


def test_a2_a_language_may_be_named_aloud() -> None:
    caller = Caller(plan())
    assert caller.menu.names_wanted == ("en", "pt")
    assert caller.does(Named("es")) == []
    caller.does(Named("pt"))
    assert caller.told == (("pt", "menu-number"),)
    assert caller.menu.names_wanted == () and caller.does(Named("en")) == []


@pytest.mark.parametrize(
    ("way", "wrong", "asked_again"),
    [
        ("", "9", OFFERS),
        ("", "*", OFFERS),
        ("1", "#", (("en", "menu-wrong"), ("en", "menu-number"))),
        ("1", "A", (("en", "menu-wrong"), ("en", "menu-number"))),
        ("17001#", "5", (("en", "menu-wrong"), ("en", "menu-entered"))),
    ],
)
def test_a2_three_wrong_keys_end_in_a_goodbye(way: str, wrong: str, asked_again: tuple[Any, ...]) -> None:
    caller = Caller(plan())
    caller.keys(way)
    for _ in range(2):
        caller.does(wrong)
        assert caller.told[: len(asked_again)] == asked_again
    hush, goodbye, end = caller.does(wrong)
    assert (hush, end) == (Hush(), GiveUp())
    languages = ("en",) if way else ("en", "pt")
    assert goodbye == Say(tuple((language, "menu-goodbye") for language in languages))


@pytest.mark.parametrize("way", ["", "1", "17001#"])
def test_a2_silence_is_asked_again_and_at_last_given_up(way: str) -> None:
    caller = Caller(plan())
    caller.keys(way)
    for _ in range(2):
        assert caller.waits(100 if not way else 0) == [], "as long as it talks itself, no answer is late"
        caller.now_ns = 6 * SECOND
        caller.listens()
        assert caller.waits(5.9) == []
        assert caller.waits(0.2) and caller.told, "the question is asked again"
    caller.listens()
    assert caller.waits(6)[-1] == GiveUp()


def test_a2_a_right_answer_forgives_the_wrong_ones_before() -> None:
    caller = Caller(plan())
    assert caller.keys("99" + "1" + "911#911#" + "7001#" + "55" + "1")[-1] == Connect("en", "pt", "sip:desk@192.0.2.1")


def test_a2_a_line_left_open_is_closed() -> None:
    caller = Caller(plan())
    caller.now_ns += LONGEST_NS
    assert caller.does(Tick())[-1] == GiveUp()


def test_a2_a_number_without_end_is_no_number() -> None:
    caller = Caller(plan())
    caller.keys("1" + "2" * 20)
    assert caller.menu.step is Step.NUMBER and caller.last == [Hush()]
    caller.does("2")
    assert caller.told[0] == ("en", "menu-wrong")


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from("0123456789*#").map(Key),
            st.sampled_from([Quiet(), Tick(), Named("pt")]),
        ),
        max_size=60,
    ),
    st.integers(0, 10 * SECOND),
)
def test_a2_whatever_comes_it_ends_once_and_dials_only_what_is_allowed(events: list[MenuEvent], apart_ns: int) -> None:
    caller = Caller(plan())
    ends = []
    for event in events:
        caller.now_ns += apart_ns
        ends += [action for action in caller.does(event) if isinstance(action, (Connect, GiveUp))]
    assert len(ends) <= 1
    for end in ends:
        if isinstance(end, Connect):
            assert end.destination == "sip:desk@192.0.2.1" or end.destination.startswith(("sip:long-29", "sip:"))
            assert end.destination.endswith(("192.0.2.1", "192.0.2.2", "192.0.2.3"))
            assert end.source != end.target


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ([], "must be a mapping"),
        ({"languages": ["en"], "dial": DIAL}, "2 to 9"),
        ({"languages": ["en", "en"], "dial": DIAL}, "different"),
        ({"languages": ["en", "pt"]}, "nothing else can be"),
        ({"languages": ["en", "pt"], "dial": []}, "nothing else can be"),
        ({"languages": ["en", "pt"], "dial": DIAL, "answers": 3}, "unknown key 'answers'"),
        ({"languages": ["en", "pt"], "dial": DIAL, "answer_s": 0}, "answer_s"),
        ({"languages": ["en", "pt"], "dial": DIAL, "entry_pause_s": True}, "entry_pause_s"),
        ({"languages": ["en", "pt"], "dial": [{"prefix": "", "destination": "sip:{rest}@x"}]}, "prefix must be"),
        ({"languages": ["en", "pt"], "dial": [{"number": 7001, "destination": "sip:a@b"}]}, "quoted string of digits"),
        ({"languages": ["en", "pt"], "dial": [{"number": "1", "prefix": "1", "destination": "sip:a@b"}]}, "either"),
        ({"languages": ["en", "pt"], "dial": [{"number": "1", "destination": "tel:1"}]}, "SIP URI"),
        ({"languages": ["en", "pt"], "dial": [{"number": "1", "destination": "sip:a@b", "to": "x"}]}, "language code"),
        ({"languages": ["en", "pt"], "dial": ["7001"]}, "dial 1: must be a mapping"),
    ],
)
def test_a2_a_bad_menu_says_what_and_where(entry: Any, says: str) -> None:
    faults: list[str] = []
    assert parse_menu(entry, "route 1, menu", faults) is None
    assert any(says in fault and "route 1, menu" in fault for fault in faults), faults


def test_a2_the_pairs_that_a_menu_needs() -> None:
    assert plan(["en", "es"]).pairs() == {("en", "es"), ("es", "en"), ("en", "pt"), ("es", "pt")}
