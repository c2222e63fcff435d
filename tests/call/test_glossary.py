# SPDX-License-Identifier: GPL-3.0-or-later
"""The document that people write, and what a direction takes from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.call.glossary import Glossaries, parse_glossary
from gateway.call.glossary_document import GlossaryError, json_schema
from gateway.call.glossary_file import GlossaryFile
from gateway.runtime import file_glossary
from gateway.settings import load_settings

pytestmark = pytest.mark.unit

DOCUMENT = {
    "hotwords": {"en": ["Kowalczyk"]},
    "terms": [
        {"from": "en", "to": "pt", "forms": {"invoice": "fatura", "invoices": "faturas"}, "both": True},
        {"from": "en", "to": "pt", "forms": "Acme", "never_translate": True, "spell": True},
        {"from": "en", "to": "pt", "forms": ["dose"], "target": "toma", "ipa": "ˈtomɐ", "hotword": False},
    ],
    "rules": [{"language": "en", "forms": "AAPL", "write": "Apple Inc."}],
    "idioms": [{"from": "en", "to": "pt", "say": "{break|breaks} even", "means": "{1:lose|loses} nothing"}],
    "pronunciations": [{"language": "en", "written": "Kowalczyk", "say": "Kovaltchik"}],
}


@dataclass
class Snapshot:
    version: int
    data: Any


@dataclass
class Source:
    held: dict[str, Snapshot] = field(default_factory=dict)

    def terms(self, scope: str) -> Snapshot:
        return self.held.get(scope, Snapshot(0, {}))


def test_b8_one_document_serves_recogniser_translator_and_voice() -> None:
    there = parse_glossary(DOCUMENT).lexicon("en", "pt")
    assert there.hotwords == ("Kowalczyk", "invoice", "Acme")
    assert there.rules.replaced("buy AAPL now") == ("buy Apple Inc. now", 1)
    assert there.idioms.replaced("she breaks even") == ("she loses nothing", 1)
    assert [hit.target for hit in there.terms.find("two invoices for Acme, one dose")] == ["faturas", "Acme", "toma"]
    assert {(one.written, one.say, one.ipa) for one in there.pronunciations.within("uma toma, Acme")} == {
        ("toma", "", "ˈtomɐ"),
        ("Acme", "A. C. M. E.", ""),
    }
    back = parse_glossary(DOCUMENT).lexicon("pt", "en")
    assert back.hotwords == ("fatura",)
    assert [hit.target for hit in back.terms.find("as faturas, Acme")] == ["invoices"]
    assert back.pronunciations.within("Mr KOWALCZYK")[0].say == "Kovaltchik"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "the document"),
        ({"term": []}, "term: unknown key"),
        ({"terms": [{"from": "en", "to": "pt", "forms": "x"}]}, "terms 1: the term 'x' needs a target"),
        ({"terms": [{"from": "en", "to": "pt", "forms": "x", "target": "y", "colour": 1}]}, "terms 1, colour: unknown"),
        ({"terms": [{"to": "pt", "forms": "x", "target": "y"}]}, "terms 1, from"),
        ({"hotwords": {"en": "Acme"}}, "hotwords"),
        ({"idioms": [{"from": "en", "to": "pt", "say": "{a", "means": "b"}]}, "idioms 1: the idiom '{a' has a brace"),
        ({"pronunciations": [{"language": "en", "written": "x"}]}, "pronunciations 1: the pronunciation of 'x' needs"),
    ],
)
def test_a_bad_document_is_refused_with_the_place_and_the_remedy(data: Any, told: str) -> None:
    with pytest.raises(GlossaryError) as caught:
        parse_glossary(data)
    assert told in str(caught.value)


def test_the_schema_names_every_key_as_people_write_it() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(DOCUMENT)
    assert {"from", "to", "forms", "target", "both", "spell"} <= set(schema["$defs"]["TermEntry"]["properties"])
    assert schema["additionalProperties"] is False


def test_the_calls_own_list_comes_before_its_trunks_and_the_gateways() -> None:
    def of(target: str) -> dict[str, Any]:
        return {"terms": [{"from": "en", "to": "pt", "forms": "dose", "target": target}], "hotwords": {"en": [target]}}

    source = Source({"global": Snapshot(3, of("g")), "trunk:pbx": Snapshot(1, of("t")), "call:1": Snapshot(2, of("c"))})
    glossaries = Glossaries(source)

    def target(*scopes: str) -> str:
        return glossaries.current(scopes).lexicon("en", "pt").terms.find("a dose")[0].target

    assert (target("call:1", "trunk:pbx"), target("trunk:pbx"), target()) == ("c", "t", "g")
    assert glossaries.current(("call:1", "trunk:pbx")).lexicon("en", "pt").hotwords == ("c", "t", "g", "dose")
    assert glossaries.current(("call:1",)).version == (2, 3)
    assert glossaries.current(("call:1",)) is glossaries.current(("call:1",)), "made once, not for each utterance"
    assert target("call:none") == "g"


def test_s1_4_a_new_version_is_in_force_at_once_and_a_bad_one_leaves_the_good_one() -> None:
    source = Source({"global": Snapshot(1, {"rules": [{"language": "en", "forms": "AAPL", "write": "Apple"}]})})
    glossaries = Glossaries(source, shipped=False)
    assert glossaries.current().lexicon("en", "pt").rules.replaced("AAPL")[0] == "Apple"
    source.held["global"] = Snapshot(2, {"rules": "nonsense"})
    assert glossaries.current().lexicon("en", "pt").rules.replaced("AAPL")[0] == "Apple"
    assert glossaries.refused == 1
    source.held["global"] = Snapshot(3, {})
    assert glossaries.current().lexicon("en", "pt").rules.replaced("AAPL")[0] == "AAPL"


def test_shipped_idioms_belong_to_every_call_unless_they_are_switched_off() -> None:
    assert Glossaries(Source()).current().lexicon("en", "pt").idioms.idioms
    assert not Glossaries(Source(), shipped=False).current().lexicon("en", "pt").idioms.idioms


def test_many_terms_are_made_elsewhere_and_calls_go_on_with_the_old_list() -> None:
    """Chunks of the check keep the numbering, and a bad term among thousands is named."""
    many: list[dict[str, Any]] = [{"from": "en", "to": "pt", "forms": f"w{n}", "target": f"x{n}"} for n in range(1000)]
    waiting: list[Callable[[], None]] = []
    source = Source({"global": Snapshot(1, {"terms": many[:1]})})
    glossaries = Glossaries(source, spawn=waiting.append)
    before = glossaries.current().lexicon("en", "pt")
    source.held["global"] = Snapshot(2, {"terms": many})
    glossaries.changed("global", source.held["global"])
    assert glossaries.current().lexicon("en", "pt") is before
    waiting.pop()()
    assert glossaries.current().version == (2,)
    assert [hit.target for hit in glossaries.current().lexicon("en", "pt").terms.find("w999")] == ["x999"]
    with pytest.raises(GlossaryError, match=r"^terms 701, colour: unknown key"):
        parse_glossary({"terms": [*many[:700], {**many[700], "colour": 1}, *many[701:]]})


def test_a_list_that_comes_when_its_call_is_over_is_not_kept() -> None:
    waiting: list[Callable[[], None]] = []
    glossaries = Glossaries(Source({"call:1": Snapshot(1, {})}), spawn=waiting.append)
    glossaries.current(("call:1",))
    glossaries.changed("call:1", Snapshot(2, DOCUMENT))
    glossaries.forget("call:1")
    waiting.pop()()
    assert glossaries.statistics() == {"scopes": 1, "refused": 0}
    glossaries.changed("call:2", Snapshot(1, DOCUMENT))
    assert not waiting, "nobody uses that scope"


def test_s1_4_an_edited_file_is_news_once(tmp_path: Path) -> None:
    path = tmp_path / "terms.json"
    path.write_text("{}")
    file = GlossaryFile(path)
    assert file.read() == {}
    assert file.news() is None
    path.write_text(json.dumps(DOCUMENT))
    assert file.news() == DOCUMENT
    assert file.news() is None
    path.write_text("{")
    with pytest.raises(GlossaryError, match="cannot be read as JSON"):
        file.news()
    assert file.news() is None
    path.unlink()
    assert file.news() is None


def test_a_pipeline_without_calls_has_the_settings_file_and_the_shipped_idioms(tmp_path: Path) -> None:
    path = tmp_path / "terms.json"
    path.write_text(json.dumps(DOCUMENT))
    both = load_settings(None, {"GATEWAY__TERMS__FILE": str(path)})
    assert file_glossary(both).lexicon("en", "pt").rules.replaced("AAPL")[1] == 1
    assert len(file_glossary(both).lexicon("en", "pt").idioms.idioms) > 60
    neither = load_settings(None, {"GATEWAY__TERMS__IDIOMS": "false"})
    assert file_glossary(neither).lexicon("en", "pt").sizes() == dict.fromkeys(
        ("hotwords", "rules", "idioms", "terms", "pronunciations"), 0
    )
