# SPDX-License-Identifier: GPL-3.0-or-later
"""``bench tail``: how much silence to keep behind the last speech (SPEC S4.4, CASES E07).

Too little of it eats weak final consonants, too much makes a recogniser invent closing words or loop. The sweep runs
on a continuous line through the call's own end-pointer and segments, not on files: whether a tail is there at all is
the end-pointer's doing. Two things follow that a sweep on files does not show, and the table says both:

* a span never ends behind what has been heard when its end is confirmed, so ``keep_tail_ms`` above ``end_ms`` has no
  effect; here ``end_ms`` grows with it, and the price is sentences merged into one;
* with preparing on, what is recognised is the candidate's span, which ends ``prepare_ms`` behind the speech.

Only the recogniser is real. Equal sound is recognised once; a run is charged a fixed time, on which no text depends.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from gateway.bench.corpus import LINE_NOISE_DBFS, Line, human_prompts, lay
from gateway.bench.demo import Say
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import Run, VirtualSpeech, load_average, local_recognizer
from gateway.bench.stream_bench import PAUSE_MS, segments_of
from gateway.bench.stream_figures import grouped, recalled, word_errors
from gateway.bench.talk import FRAME_NS, Talk, hold, in_virtual_time
from gateway.call.desk import Booth
from gateway.settings import Loaded
from gateway.speech.engines.whisper_guard import cut_loop
from gateway.speech.jobs import (
    MODEL_RATE_HZ,
    Recognition,
    RecognizeTask,
    Result,
    Speech,
    Task,
    TranslateTask,
    Translation,
)
from gateway.speech.protocols import Recognizer

TAILS_MS = (40, 80, 160, 240, 400, 600, 800)
RUN_NS = 150_000_000  # charged for a recognition: shorter than from prepare to end, as on an idle machine
CHANCE = 0.05  # two settings differ when their missed last words would so rarely differ by chance


@dataclass(frozen=True, slots=True)
class TailRow:
    """One setting of the sweep and what became of the words. Counts are of utterances or words as named."""

    prepare_ms: int
    keep_tail_ms: int
    end_ms: int
    recognised_tail_ms: float | None
    """Median of what was really recognised behind the last voiced frame."""
    utterances: int
    last_word_recall: float
    missed_last_words: int
    extra_words_at_end: int
    loops: int
    merged: int
    unheard: int
    wer: float
    hits: tuple[bool, ...] = ()
    """Of each utterance in order: was its last word recognised?"""

    @property
    def faults(self) -> int:
        """What a wrong tail causes, in all."""
        return self.missed_last_words + self.extra_words_at_end + self.loops + self.merged


@dataclass(frozen=True, slots=True)
class Asked:
    """One recognition: when it was run (loop seconds), how much sound it had (16 kHz samples), what came of it."""

    at_s: float
    samples: int
    recognition: Recognition


@dataclass(slots=True)
class HearingEngines:
    """Engines of which only the recogniser is real: the rest is silence. Remembers what it recognised."""

    recognizer: Recognizer
    pair: tuple[str, str]
    asked: list[Asked] = field(default_factory=list)
    known: dict[bytes, Recognition] = field(default_factory=dict)

    def warm(self) -> None:
        """Nothing to do."""

    def capabilities(self) -> dict[str, Any]:
        """One pair, no voices."""
        return {"pairs": [self.pair], "speeds": {}, "voices": {}, "recognizer": [self.pair[0]]}

    def run(self, task: Task) -> Result:
        """Recognise, once for equal sound; a translation of one word; 20 ms of silence for speech."""
        if isinstance(task, RecognizeTask):
            key = hashlib.sha256(task.pcm).digest()
            if key not in self.known:
                self.known[key] = self.recognizer.recognize(task.pcm, language=task.language)
            heard = self.known[key]
            self.asked.append(Asked(asyncio.get_running_loop().time(), len(task.pcm) // 2, heard))
            return heard
        if isinstance(task, TranslateTask):
            return Translation(tuple("la" for _ in task.texts), self.pair)
        return Speech(bytes(MODEL_RATE_HZ // 50 * 2), MODEL_RATE_HZ, "")


def bench_tail(
    loaded: Loaded,
    *,
    utterances: int,
    language: str,
    target: str,
    seed: int,
    say: Say,
    noise_dbfs: float = LINE_NOISE_DBFS,
    tails_ms: Sequence[int] = TAILS_MS,
) -> dict[str, Any]:
    """Sweep ``keep_tail_ms`` with preparing as configured and off, over the utterances with the weakest endings."""
    weakest = sorted(human_prompts(language), key=lambda prompt: prompt.ending_db)[:utterances]
    (line,) = lay(weakest, utterances=utterances, pause_ms=PAUSE_MS, seed=seed, noise_dbfs=noise_dbfs)
    before = load_average()
    endpoint = loaded.settings.endpoint
    engines = HearingEngines(local_recognizer(loaded), (language, target))
    rows = []
    for prepare_ms in dict.fromkeys((endpoint.prepare_ms, 0)):
        for keep_ms in tails_ms:
            rows.append(_row(loaded, engines, line, prepare_ms, keep_ms))
            say(f"prepare {prepare_ms}, tail {keep_ms}: {rows[-1].faults} faults, load {load_average()}")
    return {
        "language": language,
        "utterances": len(line.placed),
        "noise_dbfs": noise_dbfs,
        "line_s": round(line.seconds, 1),
        "rows": [_as_json(row) for row in rows],
        "verdict": verdict(rows, endpoint.keep_tail_ms, endpoint.prepare_ms),
        "recognitions": len(engines.known),
        "load_average": [before, load_average()],
    }


def _row(loaded: Loaded, engines: HearingEngines, line: Line, prepare_ms: int, keep_ms: int) -> TailRow:
    engines.asked.clear()
    end_ms = max(loaded.settings.endpoint.end_ms, keep_ms)

    async def act(desk: Booth) -> Talk:
        plan = replace(desk.endpoint, prepare_ms=prepare_ms, keep_tail_ms=keep_ms, end_ms=end_ms)
        # neither previews nor doubts: each segment is recognised once, and its text is taken as it is
        return await hold(
            replace(desk, endpoint=plan, previews=False, repeat_below=0.0),
            [line],
            engines.pair,
            "consecutive",
            say=_silent,
        )

    talk, _ = in_virtual_time(loaded, act, VirtualSpeech(engines, measure=_fixed))
    return tail_row(line, talk, engines.asked, engines.pair[0], (prepare_ms, keep_ms, end_ms))


def tail_row(line: Line, talk: Talk, asked: Sequence[Asked], language: str, setting: tuple[int, int, int]) -> TailRow:
    """Evaluate one setting (prepare, tail, end in ms) from what was told and what the recogniser was asked."""
    groups = grouped(line.placed, segments_of(talk, "a"))
    recalls = [one for group in groups for one in recalled(group, language)]
    used = [(told, _used(asked, talk.began_ns / 1e9 + told.at_s)) for told in talk.of("heard", "a")]
    tails = [
        told.data["source_span"][0] * 1000 / RATE_HZ
        + one.samples * 1000 / MODEL_RATE_HZ
        - (told.data["clocks_ns"]["audio_end"] - talk.began_ns) / 1e6
        for told, one in used
    ]
    edits, words = word_errors(groups, language)
    last_words = tuple(one.words[-1] for one in recalls)
    hits = sum(last_words)
    return TailRow(
        prepare_ms=setting[0],
        keep_tail_ms=setting[1],
        end_ms=setting[2],
        recognised_tail_ms=round(float(np.median(tails))) if tails else None,
        utterances=len(recalls),
        last_word_recall=round(hits / len(recalls), 4),
        missed_last_words=len(recalls) - hits,
        extra_words_at_end=sum(one.extra_at_end for one in recalls),
        loops=sum(one.recognition.rejected == "loop" or cut_loop(one.recognition.text, language)[1] for _, one in used),
        merged=sum(len(group.placed) > 1 for group in groups),
        unheard=sum(not any(one.words) for one in recalls),
        wer=round(edits / max(1, words), 4),
        hits=last_words,
    )


def verdict(rows: Sequence[TailRow], keep_ms: int, prepare_ms: int) -> dict[str, Any]:
    """Whether the settings in force are as good as the best of the sweep, as far as this many utterances can tell.

    ``keep_tail_ms`` shows with preparing off; ``prepare_ms`` is right when preparing costs no words at that tail.
    """
    plain = [row for row in rows if row.prepare_ms == 0]
    best = min(plain, key=lambda row: (row.faults, row.wer))
    found: dict[str, Any] = {"best_keep_tail_ms": best.keep_tail_ms, "best_faults": best.faults}
    chosen = next((row for row in plain if row.keep_tail_ms == keep_ms), None)
    prepared = next((row for row in rows if (row.prepare_ms, row.keep_tail_ms) == (prepare_ms, keep_ms)), None)
    if chosen is not None:
        found |= _compared("keep_tail", chosen, best)
    if chosen is not None and prepared is not None and prepare_ms:
        found |= _compared("prepare", prepared, chosen)
    return found


def _compared(name: str, row: TailRow, other: TailRow) -> dict[str, Any]:
    """Right: not more invented, looped or merged than the other by more than one, nor worse in last words but for
    chance."""
    chance = sign_test(row.hits, other.hits)
    more = (row.faults - row.missed_last_words) - (other.faults - other.missed_last_words)
    worse = row.missed_last_words > other.missed_last_words and chance < CHANCE
    return {f"{name}_right": more <= 1 and not worse, f"{name}_faults": row.faults, f"{name}_chance": round(chance, 3)}


def sign_test(one: Sequence[bool], other: Sequence[bool]) -> float:
    """How likely two settings that are equally good differ so much or more on the same utterances: the exact sign
    test (McNemar's) on those of which only one setting was right."""
    gained = sum(a and not b for a, b in zip(one, other, strict=True))
    differing = gained + sum(b and not a for a, b in zip(one, other, strict=True))
    fewer = min(gained, differing - gained)
    return float(min(1.0, 2 * sum(math.comb(differing, k) for k in range(fewer + 1)) / 2**differing))


def _as_json(row: TailRow) -> dict[str, Any]:
    fields = asdict(row) | {"faults": row.faults}
    del fields["hits"]
    return fields


def _used(asked: Sequence[Asked], at_s: float) -> Asked:
    """The recognition whose text became final at that moment: the last one that was run before it."""
    return [one for one in asked if one.at_s <= at_s + FRAME_NS / 1e9 / 2][-1]


def _fixed(kind: str, threads: int, work: Callable[[], Result]) -> tuple[Result, Run]:
    return work(), Run(kind, RUN_NS, RUN_NS, RUN_NS)


def _silent(message: str) -> None:
    """The sweep tells its own progress."""
