# SPDX-License-Identifier: GPL-3.0-or-later
"""A transcript as subtitles in one language: WebVTT (W3C) and SubRip. Pure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_READING_MS_PER_CHARACTER = 70  # about 14 characters a second, the pace of unhurried speech
_LEAST_MS = 700


class Line(Protocol):
    """What is needed of one segment; stamps in ns of any one clock."""

    @property
    def leg(self) -> str:
        """Who spoke, ``a`` or ``b``."""

    @property
    def source_lang(self) -> str:
        """In which language."""

    @property
    def target_lang(self) -> str:
        """And into which it was translated."""

    @property
    def source_text(self) -> str:
        """What was said."""

    @property
    def target_text(self) -> str:
        """What was spoken for it."""

    @property
    def audio_first_ns(self) -> int:
        """When its talker began,"""

    @property
    def audio_end_ns(self) -> int:
        """and ended."""

    @property
    def played_ns(self) -> int | None:
        """When the translation was first heard; None: never."""


@dataclass(frozen=True, slots=True)
class Cue:
    """One line of subtitles: milliseconds from the start of the call, who is heard, and what."""

    start_ms: int
    end_ms: int
    speaker: str
    text: str


def cues(records: Sequence[Line], language: str, start_ns: int) -> tuple[Cue, ...]:
    """The conversation as somebody hears it who speaks ``language``: originals in it, and translations into it.

    An original lasts as long as it was spoken; a translation from its first sound for the time its text takes to say,
    but not into the next one of the same talker.
    """
    found = []
    for record in records:
        if record.source_lang == language and record.source_text:
            found.append(_cue(record.audio_first_ns, record.audio_end_ns, start_ns, record.leg, record.source_text))
        elif record.target_lang == language and record.target_text and record.played_ns is not None:
            length_ns = max(_LEAST_MS, len(record.target_text) * _READING_MS_PER_CHARACTER) * 1_000_000
            later = [
                other.played_ns
                for other in records
                if other.leg == record.leg and other.played_ns is not None and other.played_ns > record.played_ns
            ]
            end_ns = min([record.played_ns + length_ns, *later])
            found.append(_cue(record.played_ns, end_ns, start_ns, record.leg, record.target_text))
    return tuple(sorted(found, key=lambda cue: (cue.start_ms, cue.end_ms)))


def webvtt(lines: Sequence[Cue], *, language: str = "") -> str:
    """A WebVTT file (W3C): text is escaped, so neither markup nor a timing arrow of a transcript gets through."""
    head = "WEBVTT" + (f"\nLanguage: {language}" if language.isalnum() else "")
    blocks = [
        f"{number}\n{_clock(cue.start_ms)} --> {_clock(max(cue.end_ms, cue.start_ms + 1))}\n"
        f"<v {_escape(cue.speaker)}>{_escape(cue.text)}"
        for number, cue in enumerate(lines, start=1)
    ]
    return "\n\n".join([head, *blocks]) + "\n"


def subrip(lines: Sequence[Cue]) -> str:
    """A SubRip file, for players that know no WebVTT. It cannot escape: angle brackets become quotation marks."""
    blocks = [
        f"{number}\n{_clock(cue.start_ms).replace('.', ',')} --> "
        f"{_clock(max(cue.end_ms, cue.start_ms + 1)).replace('.', ',')}\n"
        f"{_plain(cue.speaker)}: {_plain(cue.text)}"
        for number, cue in enumerate(lines, start=1)
    ]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _cue(first_ns: int, end_ns: int, start_ns: int, speaker: str, text: str) -> Cue:
    first_ms, end_ms = (max(0, (stamp - start_ns) // 1_000_000) for stamp in (first_ns, end_ns))
    return Cue(int(first_ms), int(max(end_ms, first_ms + 1)), speaker, text)


def _escape(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False)


def _plain(text: str) -> str:
    return " ".join(text.translate({ord("<"): "‹", ord(">"): "›"}).split())


def _clock(ms: int) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"
