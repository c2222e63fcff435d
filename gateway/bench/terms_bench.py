# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench terms``: do prescribed terms come through, and is everything else left as it was (SPEC B8, S1.9)?

Terms: the shipped lists (``data/terms_*.json``), each term in a sentence, in both directions, through the call's own
way into the other language with the real translators. Neutral text: recorded telephone prompts are recognised with 1,
50 and 500 hotwords and without any, and translated with all terms in force and without. Numbers: random ones, through
the number guard.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from gateway.audio.resample import resample
from gateway.bench.confidence_bench import AROUND_MS
from gateway.bench.corpus import CorpusMissing, Prompt, human_prompts
from gateway.bench.demo import Say
from gateway.bench.number_check import check_numbers
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import local_recognizer
from gateway.call.glossary import Lexicon, parse_glossary
from gateway.call.rendering import Rendered, Route, render
from gateway.runtime import engine_spec, model_store
from gateway.settings import Loaded
from gateway.speech.engines.registry import TRANSLATORS, build
from gateway.speech.engines.routers import RoutedTranslator
from gateway.speech.jobs import MODEL_RATE_HZ
from gateway.speech.protocols import Recognizer
from gateway.text.hotwords import repair_hotwords
from gateway.text.normal import errors

DATA = Path(__file__).parent / "data"
HOTWORDS = (1, 50, 500)
SEED = 11
MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class TermInContext:
    """A term and a sentence that says it, by language."""

    domain: str
    term: Mapping[str, str]
    said: Mapping[str, str]


def shipped_terms() -> list[TermInContext]:
    """The bench's own lists."""
    terms = []
    for path in sorted(DATA.glob("terms_*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        terms += [TermInContext(data["domain"], one["term"], one["said"]) for one in data["terms"]]
    return terms


def lexicon_of(terms: Sequence[TermInContext], source: str, target: str) -> Lexicon:
    """The terms as a call would have them in force."""
    entries = [
        {"from": source, "to": target, "forms": each.term[source], "target": each.term[target]} for each in terms
    ]
    return parse_glossary({"terms": entries}).lexicon(source, target)


def local_translator(loaded: Loaded) -> RoutedTranslator:
    """The settings' translators alone, in this process."""
    spec, store = engine_spec(loaded.settings), model_store(loaded)
    return RoutedTranslator(
        [build(line, TRANSLATORS, store.ensure_verified, spec.threads) for line in spec.translators]
    )


def bench_terms(loaded: Loaded, *, prompts: int, numbers: int, say: Say) -> dict[str, Any]:
    """All figures. LookupError when the settings' translators serve none of the lists' languages."""
    terms = shipped_terms()
    translator = local_translator(loaded)
    languages = sorted(terms[0].term)
    pairs = [pair for pair in permutations(languages, 2) if pair in translator.capabilities.pairs]
    if not pairs:
        raise LookupError(f"no translator between {' and '.join(languages)}: see speech.translators")
    report: dict[str, Any] = {"terms": len(terms), "languages": [f"{source}-{target}" for source, target in pairs]}
    directions = {}
    for source, target in pairs:
        say(f"{len(terms)} terms from {source} to {target}")
        directions[f"{source}-{target}"] = asyncio.run(_direction(terms, translator, source, target))
    hits = sum(one["hits"] + one["repairs"] for one in directions.values())
    report["hit_rate"] = round(hits / max(1, len(terms) * len(pairs)), 4)
    report["directions"] = directions
    report |= _neutral(loaded, terms, translator, pairs, prompts, say)
    say(f"{numbers} numbers")

    def translate(texts: Sequence[str], source: str, target: str) -> Sequence[str]:
        return translator.translate(texts, source=source, target=target).texts

    checked, wrong = check_numbers(numbers, SEED, translate, pairs)
    report["numbers_checked"], report["numbers_wrong"] = checked, len(wrong)
    return report


async def _direction(
    terms: Sequence[TermInContext], translator: RoutedTranslator, source: str, target: str
) -> dict[str, Any]:
    """Each term in its sentence, judged by the output itself: how its target came there, and where it did not."""
    lexicon = lexicon_of(terms, source, target)
    counts: Counter[str] = Counter()
    missed: list[dict[str, str]] = []
    took_s: list[float] = []
    for each in terms:
        began_s = time.perf_counter()
        rendered = await _rendered(each.said[source], translator, source, target, lexicon)
        took_s.append(time.perf_counter() - began_s)
        if each.term[target].casefold() not in rendered.text.casefold():
            counts["misses"] += 1
            missed.append({"term": each.term[source], "wanted": each.term[target], "text": rendered.text})
        else:
            counts["repairs" if rendered.repairs else "hits"] += 1
    return {
        **{name: counts[name] for name in ("hits", "repairs", "misses")},
        "missed": missed[:MOST_TOLD],
        "mean_ms": round(1000 * sum(took_s) / max(1, len(took_s)), 1),
    }


async def _rendered(text: str, translator: RoutedTranslator, source: str, target: str, lexicon: Lexicon) -> Rendered:
    async def translate(texts: Sequence[str]) -> Sequence[str]:
        return translator.translate(texts, source=source, target=target).texts

    return await render(text, Route(source, target, translate), lexicon)


# --- what has no terms in it --------------------------------------------------------------------------------------


def _neutral(
    loaded: Loaded,
    terms: Sequence[TermInContext],
    translator: RoutedTranslator,
    pairs: Sequence[tuple[str, str]],
    prompts: int,
    say: Say,
) -> dict[str, Any]:
    """Word errors and translations of recorded prompts, with and without; None where no prompts are installed."""
    language, target = pairs[0]
    try:
        everyone = human_prompts(language)
    except CorpusMissing as missing:
        say(str(missing))
        return {"neutral_wer_delta": None, "neutral_chrf_delta": None}
    chance = random.Random(SEED)  # noqa: S311  # the same prompts for the same seed, no secret
    lexicon = lexicon_of(terms, language, target)
    neutral = [one for one in everyone if not lexicon.terms.find(one.text)]
    picked = chance.sample(neutral, min(prompts, len(neutral)))
    say(f"{len(picked)} neutral prompts with {', '.join(map(str, HOTWORDS))} hotwords, and without")
    hotwords = _hotwords(terms, language, chance)
    recognizer = local_recognizer(loaded)
    bare, bare_text = _word_errors(recognizer, picked, language, ())
    by_number, changed = {}, {}
    for number in HOTWORDS:
        by_number[str(number)], texts = _word_errors(recognizer, picked, language, hotwords[:number])
        changed[str(number)] = sum(one != other for one, other in zip(texts, bare_text, strict=True))
    return {
        "neutral_prompts": len(picked),
        "neutral_wer": bare,
        "neutral_wer_by_hotwords": by_number,
        "neutral_changed_by_hotwords": changed,
        "neutral_wer_delta": round(max(by_number.values()) - bare, 4),
        "neutral_chrf_delta": _chrf_delta(picked, translator, language, target, lexicon),
    }


def _hotwords(terms: Sequence[TermInContext], language: str, chance: random.Random) -> tuple[str, ...]:
    """The terms, then what else fills a long list: their single words, and the terms of the other languages."""
    own = [each.term[language] for each in terms]
    words = [word for term in own for word in term.split() if len(word) > 4]
    other = [term for each in terms for name, term in each.term.items() if name != language]
    chance.shuffle(own)
    return tuple(dict.fromkeys((*own, *words, *other)))


def _word_errors(
    recognizer: Recognizer, prompts: Sequence[Prompt], language: str, hotwords: Sequence[str]
) -> tuple[float, list[str]]:
    edits = words = 0
    texts = []
    for prompt in prompts:
        around = np.zeros(RATE_HZ * AROUND_MS // 1000, np.int16)
        first, last = prompt.loud
        sound = np.concatenate([around, prompt.pcm[first : last + 1], around])
        heard = recognizer.recognize(
            resample(sound, RATE_HZ, MODEL_RATE_HZ).tobytes(), language=language, hotwords=hotwords
        )
        text, _ = repair_hotwords(heard.text, hotwords, heard.confidence)
        texts.append(text)
        more, length = errors(prompt.text, text, language)
        edits, words = edits + more, words + length
    return round(edits / max(1, words), 4), texts


def _chrf_delta(
    prompts: Sequence[Prompt], translator: RoutedTranslator, source: str, target: str, lexicon: Lexicon
) -> float | None:
    """How far translations move from those without terms, in chrF (0 to 100); None without the package sacrebleu."""
    try:
        from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415  # an extra of the bench alone
    except ImportError:
        return None

    async def translations(with_terms: Lexicon) -> list[str]:
        return [(await _rendered(one.text, translator, source, target, with_terms)).text for one in prompts]

    plain, forced = asyncio.run(translations(Lexicon())), asyncio.run(translations(lexicon))
    return round(100.0 - float(CHRF().corpus_score(forced, [plain]).score), 4)
