# SPDX-License-Identifier: GPL-3.0-or-later
"""The four checks of the regression dialogue (row S0.9), on a gateway's records and the telephones' captures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gateway.bench.capture import SPEECH_DBFS, Capture, by_time, last_above, level_envelope
from gateway.bench.records import SegmentRecord

WINDOW_MS = 5
CUT_SILENCE_MS = 60  # longer than the closure of a stop consonant, shorter than a pause between words of slow speech
CUT_TOLERANCE_MS = 250  # pre-roll and tail of a segment reach that far into the silence around it
LONGEST_TRANSIT_MS = 500  # a stamp that is later still is not explained by a jitter buffer
LONG_SILENCE_MS = 3000
JOIN_WORDS = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One check; ``findings`` name each offence, and an empty list is a pass."""

    name: str
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Nothing was found."""
        return not self.findings


def check_all(
    records: Sequence[SegmentRecord], captures: Mapping[str, Capture], references: Sequence[str] = ()
) -> tuple[Check, ...]:
    """All four, in the order of the row."""
    return (
        cuts_only_in_silence(records, captures),
        no_repeated_half_sentence(records, references),
        long_silence_yields_nothing(records, captures),
        times_rise(records),
    )


def cuts_only_in_silence(records: Sequence[SegmentRecord], captures: Mapping[str, Capture]) -> Check:
    """Around each begin and end of a segment, within the tolerance, the talker's sound rests for at least 60 ms.

    The gateway stamps sound when it has left the jitter buffer, which on a busy machine holds 200 ms and more: so the
    stamps of a leg are first moved back by the leg's own median transit.
    """
    findings = []
    reach_ns = CUT_TOLERANCE_MS * 1_000_000
    transit_ns = {leg: _transit_ns(records, leg, capture) for leg, capture in captures.items()}
    for record in records:
        for name, stamp_ns in (("begin", record.audio_first_ns), ("end", record.audio_end_ns)):
            at_ns = stamp_ns - transit_ns[record.leg]
            quiet = _envelope(captures[record.leg], at_ns - reach_ns, at_ns + reach_ns) < SPEECH_DBFS
            if _longest_run(quiet) * WINDOW_MS < CUT_SILENCE_MS:
                findings.append(f"{name} of {record.segment_id} cuts into speech")
    return Check("cuts-only-in-silence", tuple(findings))


def _transit_ns(records: Sequence[SegmentRecord], leg: str, capture: Capture) -> int:
    """From the telephone's last loud sample to the gateway's stamp of it: the median of the leg's segments."""
    waits = [
        record.audio_end_ns - last.at_ns
        for record in records
        if record.leg == leg and (last := last_above(capture.sent, record.audio_first_ns, record.audio_end_ns))
    ]
    return min(int(np.median(waits)), LONGEST_TRANSIT_MS * 1_000_000) if waits else 0


def no_repeated_half_sentence(records: Sequence[SegmentRecord], references: Sequence[str] = ()) -> Check:
    """No segment begins with the words (three or more) the leg's segment before ended with, and none says the same
    run of words twice on end, unless a reference text does."""
    findings = []
    for leg in sorted({record.leg for record in records}):
        before = ""
        for record in sorted((one for one in records if one.leg == leg), key=lambda one: one.audio_first_ns):
            text = record.source_text
            repeated = repeated_join(before, text, references) or repeated_inside(text, references)
            if repeated:
                findings.append(f"{record.segment_id} repeats {len(repeated.split())} words")
            before = text
    return Check("no-repeated-half-sentence", tuple(findings))


def long_silence_yields_nothing(records: Sequence[SegmentRecord], captures: Mapping[str, Capture]) -> Check:
    """No segment lies wholly in a silence of three seconds or more of its leg."""
    findings = []
    for record in records:
        middle_ns = (record.audio_first_ns + record.audio_end_ns) // 2
        half_ns = max(LONG_SILENCE_MS * 1_000_000, record.audio_end_ns - record.audio_first_ns) // 2
        around = _envelope(captures[record.leg], middle_ns - half_ns, middle_ns + half_ns)
        said_something = record.source_text or record.played_ns is not None
        if said_something and not bool((around >= SPEECH_DBFS).any()):
            findings.append(f"{record.segment_id} was made of silence")
    return Check("long-silence-yields-nothing", tuple(findings))


def times_rise(records: Sequence[SegmentRecord]) -> Check:
    """In the order of the records each segment of a leg begins before it ends and behind the end of the one in front;
    it is played behind its begin, and the translations of a leg in the order of its segments. Lost segments, which may
    be recorded late, are left out."""
    findings = []
    for leg in sorted({record.leg for record in records}):
        end_ns = played_ns = -1
        for record in (one for one in records if one.leg == leg and one.lost is None):
            if record.audio_first_ns >= record.audio_end_ns:
                findings.append(f"{record.segment_id} ends before it begins")
            if record.audio_first_ns < end_ns:
                findings.append(f"{record.segment_id} begins before the segment in front has ended")
            if record.played_ns is not None:
                if record.played_ns < max(record.audio_first_ns, played_ns):
                    findings.append(f"{record.segment_id} is played too early")
                played_ns = record.played_ns
            end_ns = record.audio_end_ns
    return Check("times-rise", tuple(findings))


def repeated_join(before: str, after: str, references: Sequence[str] = ()) -> str | None:
    """The three or more words with which ``before`` ends and ``after`` begins; None when there are none, or when a
    reference says them twice on end."""
    first, second = _words(before), _words(after)
    for count in range(min(len(first), len(second)), JOIN_WORDS - 1, -1):
        if first[-count:] == second[:count]:
            run = first[-count:]
            return None if _is_meant(run, references) else " ".join(run)
    return None


def repeated_inside(text: str, references: Sequence[str] = ()) -> str | None:
    """The longest run of three or more words that ``text`` says twice on end; None as above."""
    words = _words(text)
    for count in range(len(words) // 2, JOIN_WORDS - 1, -1):
        for begin in range(len(words) - 2 * count + 1):
            run = words[begin : begin + count]
            if run == words[begin + count : begin + 2 * count] and not _is_meant(run, references):
                return " ".join(run)
    return None


def _is_meant(run: list[str], references: Sequence[str]) -> bool:
    twice = f" {' '.join(run + run)} "
    return any(twice in f" {' '.join(_words(reference))} " for reference in references)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _envelope(capture: Capture, start_ns: int, end_ns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return level_envelope(by_time(capture.sent, start_ns, end_ns), capture.sent.rate_hz, WINDOW_MS)


def _longest_run(flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))
