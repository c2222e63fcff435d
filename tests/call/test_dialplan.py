# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers to routes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.call.dialplan import DialPlan, DialPlanError, Route, load_dialplan
from gateway.call.menu_plan import DialRule, MenuPlan
from gateway.resources import resource

pytestmark = pytest.mark.unit

PLAN = """
routes:
  - {number: "7001", from: en, to: pt, destination: "sip:desk@127.0.0.1:5070"}
  - {prefix: "7", from: en, to: pt, destination: "sip:{rest}@127.0.0.1"}
  - {prefix: "72", from: pt, to: en, destination: "sip:x{number}@127.0.0.1"}
"""


def plan(tmp_path: Path, text: str = PLAN) -> DialPlan:
    path = tmp_path / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return load_dialplan(path)


def test_a2_the_longest_match_wins_and_exact_beats_prefix(tmp_path: Path) -> None:
    routes = plan(tmp_path)
    exact = routes.match("7001")
    long_prefix = routes.match("7201")
    short_prefix = routes.match("7999")
    assert exact and exact.destination == "sip:desk@127.0.0.1:5070"
    assert long_prefix and long_prefix.destination == "sip:x7201@127.0.0.1" and long_prefix.route.source == "pt"
    assert short_prefix and short_prefix.destination == "sip:999@127.0.0.1"


@pytest.mark.parametrize("dialled", ["", "8", "7", "a b", "7001@evil", "7001;x=y", "7" * 65, "<7001>"])
def test_a22_what_no_route_takes_is_none(tmp_path: Path, dialled: str) -> None:
    assert plan(tmp_path).match(dialled) is None


def test_a_trusted_trunk_chooses_the_languages_by_header(tmp_path: Path) -> None:
    routes = plan(tmp_path)
    chosen = routes.match("7001", {"x-translate": "pt-en"}, trusted=True)
    ignored = routes.match("7001", {"x-translate": "pt-en"}, trusted=False)
    assert chosen and (chosen.route.source, chosen.route.target) == ("pt", "en")
    assert ignored and (ignored.route.source, ignored.route.target) == ("en", "pt")


@pytest.mark.parametrize("wish", ["pt", "english-pt", "-", "pt-en-es"])
def test_a_bad_header_of_a_trusted_trunk_is_an_error(tmp_path: Path, wish: str) -> None:
    with pytest.raises(LookupError, match="X-Translate"):
        plan(tmp_path).match("7001", {"x-translate": wish}, trusted=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("routes: 5", "must be a mapping with a list"),
        ("routes:\n  - {number: 7001, from: en, to: pt, destination: 'sip:a@b'}", "quoted string"),
        ("routes:\n  - {number: '1', prefix: '2', from: en, to: pt, destination: 'sip:a@b'}", "either"),
        ("routes:\n  - {number: '1', from: no, to: en, destination: 'sip:a@b'}", "quote it if YAML"),
        ("routes:\n  - {number: '1', from: en, to: pt, destination: 'tel:5'}", "SIP URI"),
        ("routes:\n  - {number: '1', from: en, to: pt, destintion: 'sip:a@b'}", "did you mean 'destination'"),
        ("routes:\n  - {number: '1', from: en, to: pt, destination: 'sip:a@b', mode: fast}", "mode 'fast'"),
        (
            "routes:\n  - {number: '1', from: en, to: pt, destination: 'sip:a@b'}\n"
            "  - {number: '1', from: en, to: pt, destination: 'sip:a@b'}",
            "appears twice",
        ),
        ("routes:\n  - {number: '1', menu: {languages: [en, pt]}}", "menu: dial must list"),
        (
            "routes:\n  - {number: '1', from: en,"
            " menu: {languages: [en, pt], dial: [{number: '2', destination: 'sip:a@b'}]}}",
            "leave out 'from'",
        ),
        ("routes: [", "cannot be read as YAML"),
    ],
)
def test_a_bad_plan_says_what_and_where(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DialPlanError, match=r"plan\.yaml") as fault:
        plan(tmp_path, text)
    assert says in str(fault.value)


def test_a_missing_plan_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DialPlanError, match=r"set dialplan\.file"):
        load_dialplan(tmp_path / "none.yaml")


def test_the_shipped_plan_is_good() -> None:
    shipped = load_dialplan(resource("dialplans/default.yaml"))
    assert shipped.match("7001")
    menu = shipped.match("7000")
    assert menu and menu.route.menu and menu.route.menu.rule_for("7001")


def test_a2_a_menu_is_not_answered_by_the_language_header(tmp_path: Path) -> None:
    text = """
routes:
  - {number: "1", menu: {languages: [en, pt], dial: [{number: "2", destination: "sip:a@b"}]}}
"""
    match = plan(tmp_path, text).match("1", {"x-translate": "pt-en"}, trusted=True)
    assert match and match.destination == "" and match.route.pairs() == {("en", "pt"), ("pt", "en")}


@pytest.mark.parametrize(
    ("uri", "language", "allowed"),
    [
        ("sip:200@pbx.example", "pt", True),
        ("sip:200@PBX.example:5060;transport=tcp;user=phone", "pt", True),
        ("sip:200@pbx.example", "en", False),
        ("sip:200@pbx.example:5062", "pt", False),
        ("sip:200@other.example", "pt", False),
        ("sip:200@pbx.example;maddr=192.0.2.66", "pt", False),
        ("sip:200@pbx.example?Replaces=1", "pt", False),
        ("sip:200:secret@pbx.example", "pt", False),
        ("sip:pbx.example", "pt", False),
        ("sip:ext-7155-x@pbx.example:5070", "en", True),
        ("sip:ext-7255-x@pbx.example:5070", "en", False),
        ("sip:ext-71~any~-x@pbx.example:5070", "en", False),
        ("sip:fixed@192.0.2.9:5070", "pt", True),
        ("sip:9001@192.0.2.9", "pt", True),
        ("sip:9002@192.0.2.9", "pt", False),
        ("sip:12@menu.example", "de", True),
        ("sip:12@menu.example", "pt", False),
        ("sip:12x@menu.example", "de", False),
        ("sip:desk@menu.example", "en", True),
        ("sip:desk@menu.example", "fr", False),
    ],
)
def test_a16_a_transfer_may_go_where_a_route_goes_in_that_language(uri: str, language: str, allowed: bool) -> None:
    rules = (
        DialRule("sip:{rest}@menu.example", prefix="0", target="de"),
        DialRule("sip:desk@menu.example", number="1"),
    )
    menu = MenuPlan(("en", "pt"), rules)
    plan = DialPlan(
        (
            Route("a", "en", "pt", "sip:{rest}@pbx.example", prefix="70"),
            Route("b", "pt", "en", "sip:ext-{number}-x@pbx.example:5070", prefix="71"),
            Route("c", "en", "pt", "sip:fixed@192.0.2.9:5070", number="8"),
            Route("d", "en", "pt", "sip:{number}@192.0.2.9", number="9001"),
            Route("e", "en", "pt", "", number="6", menu=menu),
        )
    )
    assert plan.leads_to(uri, language) is allowed
