# SPDX-License-Identifier: GPL-3.0-or-later
"""The CTranslate2 translator on real model files of a few kilobytes with random weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_translation_models import put_translation_model

from gateway.speech.engines.ct2 import CTranslate2Translator, language_tokens
from gateway.speech.engines.registry import TRANSLATORS, build
from gateway.speech.errors import ModelMissing

pytestmark = pytest.mark.unit
TEXTS = ("good morning", "the meeting is on thursday afternoon", "...", "", "call me back. please call me tomorrow")


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_translation_model(
        tmp_path_factory.mktemp("ct2") / "opus-mt-en-pt", spm_names=("source.spm", "target.spm")
    )


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_translation_model(
        tmp_path_factory.mktemp("ct2") / "nllb",
        spm_names=("sentencepiece.bpe.model",),
        language_tokens=("eng_Latn", "por_Latn", "spa_Latn", "zho_Hans"),
    )


def test_b13_a_pair_model_knows_its_pair_from_its_name(marian: Path) -> None:
    engine = build("ct2:opus-mt-en-pt", TRANSLATORS, lambda _: marian, 1)
    assert engine.capabilities.pairs == {("en", "pt")}
    assert not engine.capabilities.target_prefix
    answer = engine.translate(TEXTS, source="en", target="pt-BR")
    assert answer.route == ("en", "pt")
    assert len(answer.texts) == len(TEXTS)
    assert answer.texts[2:4] == ("...", "")
    assert answer.texts[0]


def test_b13_the_option_names_the_pair(marian: Path) -> None:
    engine = build("ct2:whatever:de-fr", TRANSLATORS, lambda _: marian, 1)
    assert engine.capabilities.pairs == {("de", "fr")}
    with pytest.raises(LookupError, match="en to pt"):
        engine.translate(["x"], source="en", target="pt")


def test_b13_one_multilingual_model_serves_all_pairs_without_a_reload(nllb: Path) -> None:
    engine = CTranslate2Translator(nllb)
    assert len(engine.capabilities.pairs) == 12
    assert engine.capabilities.target_prefix
    answers = {t: engine.translate(["good morning"], source="en", target=t).texts[0] for t in ("pt", "es", "zh")}
    assert len(set(answers.values())) == 3  # the target's token decides: same source, three texts
    assert not any("_" in answer for answer in answers.values())  # the prefix itself is not in the text


def test_s1_28_a_models_own_mark_asks_for_a_register(marian: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(marian, tmp_path / "opus-mt-en-pt"))
    (model / "registers.json").write_text('{"formal": "<unk>"}')
    polite, plain = CTranslate2Translator(model), CTranslate2Translator(marian)
    assert polite.capabilities.registers == {"formal"}
    assert plain.capabilities.registers == frozenset()

    def said(engine: CTranslate2Translator, register: str) -> tuple[str, ...]:
        return engine.translate(TEXTS[:2], source="en", target="pt", register=register).texts

    assert said(polite, "") == said(plain, "") == said(plain, "formal")
    assert said(polite, "formal") != said(polite, "")


def test_m2m_language_tokens() -> None:
    assert language_tokens(["a", "__pt__", "__en__", "<unk>"]) == {"pt": "__pt__", "en": "__en__"}
    assert language_tokens(["a", "b"]) == {}


def test_batch_equals_one_by_one_and_runs_repeat(nllb: Path) -> None:
    engine = CTranslate2Translator(nllb)
    together = engine.translate(TEXTS, source="en", target="pt").texts
    assert engine.translate(TEXTS, source="en", target="pt").texts == together
    assert tuple(engine.translate([text], source="en", target="pt").texts[0] for text in TEXTS) == together


def test_s1_14_weights_are_int8(marian: Path) -> None:
    assert CTranslate2Translator(marian)._model.compute_type.startswith("int8")


def test_an_incomplete_directory_is_named(tmp_path: Path, marian: Path) -> None:
    with pytest.raises(ModelMissing, match=r"model\.bin"):
        CTranslate2Translator(tmp_path)
    half = tmp_path / "opus-mt-en-pt"
    half.mkdir()
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        (half / name).write_bytes((marian / name).read_bytes())
    with pytest.raises(ModelMissing, match="SentencePiece"):
        CTranslate2Translator(half)
