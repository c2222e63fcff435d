# SPDX-License-Identifier: GPL-3.0-or-later
"""Pulls misheard words towards the call's hotwords, the more the less the recogniser was sure.

The recogniser has no bias hook, and a prompt full of hotwords leaks them into silence and spoils other words. So a text
comes first. `likely_hotwords` says which few of many hotwords it may have misheard, for a second look with just these;
`repair_hotwords` makes a word (or a few) that looks or sounds nearly like a hotword into it. How near it has to be
grows with the confidence: an uncertain hypothesis yields to a hotword, a certain one keeps even a near miss. An empty
text stays empty, nothing is inserted, and word borders do not move for the words around.

"Sounds like" is a spelling key that merges what recognisers confuse in alphabetic scripts, of no language in
particular: c/k/q, ph/f, v/w/b, z/s, y/i, doubled and silent letters. For the second look there is a coarser one, the
consonants without their voice, because a name that the recogniser does not know comes out as other words that sound
alike: "on Brazil" and "omeprazole" are both n-b-r-s-l.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz import fuzz, process

SHORTEST = 4
"""Letters of the shortest word that is touched or wanted: in shorter ones everything is near everything."""

MOST_HOTWORDS = 500
MOST_WORDS = 400

_PULL_NONE = 0.95  # a hypothesis this sure is left alone
_LOWEST, _HIGHEST = 74.0, 96.0  # similarity asked for at confidence 0 and at _PULL_NONE
_EACH_WORD = 50.0  # similarity asked of each word of a phrase
# a second look needs so much less likeness than a repair, because the sound decides: at confidence 1, and more at 0
_LOOSER, _LOOSER_STILL = 26.0, 30.0
_MOST_ALIKE = 12  # hotwords that one phrase is compared with letter by letter
_LEAST_SKELETON = 3  # consonants; in fewer everything is alike
_VOICELESS = str.maketrans("pdgmx", "btkns", "aeiouàáâãäåæèéêëìíîïòóôõöøœùúûü")

_SOUNDS = tuple(
    (re.compile(pattern), key)
    for pattern, key in (
        (r"tsch|sch|tch|sh|ch|cz|sz", "x"),
        (r"ph", "f"),
        (r"th", "t"),
        (r"gh", "g"),
        (r"ck|q(?!u)|qu", "k"),
        (r"c(?=[eiy])", "s"),
        (r"c", "k"),
        (r"z", "s"),
        (r"[vw]", "b"),
        (r"[yj]", "i"),
        (r"h", ""),
        (r"(.)\1+", r"\1"),
    )
)


@dataclass(frozen=True, slots=True)
class Repair:
    """A replacement that was made; ``similarity`` 0..100."""

    heard: str
    hotword: str
    similarity: float


def threshold(confidence: float) -> float:
    """Similarity (0..100) that a repair needs at a confidence (0..1); above 100 means never."""
    if confidence >= _PULL_NONE:
        return 101.0
    return _LOWEST + (_HIGHEST - _LOWEST) * max(0.0, confidence) / _PULL_NONE


def repair_hotwords(text: str, hotwords: Sequence[str], confidence: float) -> tuple[str, tuple[Repair, ...]]:
    """The text with near misses of ``hotwords`` replaced, and the replacements, best match first, none overlapping.

    ``confidence`` is that of the hypothesis, 0..1. Looks at the first `MOST_HOTWORDS` and `MOST_WORDS`.
    """
    needed = threshold(confidence)
    words = _word_spans(text)
    wanted = _wanted(tuple(hotwords)) if needed <= 100 and words else None
    if wanted is None or not wanted.plain:
        return text, ()
    found: list[tuple[float, int, int, str]] = []
    for size in range(1, wanted.most_words + 2):
        for first, last in zip(words, words[size - 1 :], strict=False):
            heard = text[first[0] : last[1]]
            match = wanted.closest(heard, size, needed)
            if match is not None:
                found.append((match[0], first[0], last[1], match[1]))
    # the best first; of equals the one that takes more of the text
    found.sort(key=lambda each: (-each[0], each[1] - each[2]))
    taken: list[tuple[float, int, int, str]] = []
    for each in found:
        if all(each[2] <= other[1] or each[1] >= other[2] for other in taken):
            taken.append(each)
    made = [each for each in taken if text[each[1] : each[2]] != each[3]]
    repairs = tuple(Repair(text[start:end], hotword, score) for score, start, end, hotword in made)
    for _, start, end, hotword in sorted(made, key=lambda each: -each[1]):
        text = text[:start] + hotword + text[end:]
    return text, repairs


def likely_hotwords(text: str, hotwords: Sequence[str], confidence: float, most: int) -> tuple[str, ...]:
    """At most ``most`` hotwords that are not in the text, but may be what some of its words are; the likeliest first.

    ``confidence`` is that of the hypothesis, 0..1; a certain one has none.
    """
    needed = threshold(confidence) - _LOOSER - _LOOSER_STILL * (1 - confidence)
    words = _word_spans(text)
    wanted = _wanted(tuple(hotwords)) if confidence < _PULL_NONE and words else None
    if wanted is None or not wanted.plain:
        return ()
    there = f" {' '.join(map(_plain, text.split()))} "
    scores: dict[str, float] = {}
    for size in range(1, wanted.most_words + 2):
        for first, last in zip(words, words[size - 1 :], strict=False):
            for hotword, score in wanted.alike(text[first[0] : last[1]], needed):
                scores[hotword] = max(score, scores.get(hotword, 0.0))
    missing = [each for each in scores if f" {' '.join(map(_plain, each.split()))} " not in there]
    return tuple(sorted(missing, key=lambda hotword: -scores[hotword])[:most])


def _word_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\w[\w'’\-]*", text)][:MOST_WORDS]


@lru_cache(maxsize=32)
def _wanted(hotwords: tuple[str, ...]) -> _Wanted:
    """The same lists come with each utterance: their keys are made once."""
    return _Wanted(hotwords)


class _Wanted:
    """The hotwords with their keys of comparison."""

    def __init__(self, hotwords: Sequence[str]) -> None:
        usable = [word for word in dict.fromkeys(map(str.strip, hotwords)) if len(_plain(word)) >= SHORTEST]
        self.words = usable[:MOST_HOTWORDS]
        self.plain = [_plain(word) for word in self.words]
        self.sound = [_sound(plain) for plain in self.plain]
        self.skeleton = [_skeleton(sound) for sound in self.sound]
        self.exact = dict(zip(self.plain, self.words, strict=True))
        self.most_words = max((len(word.split()) for word in self.words), default=0)

    def _word_by_word(self, heard: str, index: int) -> bool:
        """False when a word of ``heard`` is nothing like its counterpart ("the cloud" for "Acme Cloud")."""
        ours, theirs = heard.split(), self.words[index].split()
        if len(ours) != len(theirs):
            return True
        pairs = zip(ours, theirs, strict=True)
        return all(fuzz.ratio(_sound(_plain(one)), _sound(_plain(other))) >= _EACH_WORD for one, other in pairs)

    def alike(self, heard: str, needed: float) -> Iterator[tuple[str, float]]:
        """Hotwords that sound like ``heard`` to this degree: half by the letters, half by the consonants."""
        plain = _plain(heard)
        sound = _sound(plain)
        skeleton = _skeleton(sound)
        if len(plain) < SHORTEST or len(skeleton) < _LEAST_SKELETON:
            return
        # the mean of the two reaches ``needed`` only if each is not too far below
        least = max(0.0, 2 * needed - 100)
        for _, likeness, index in process.extract(
            skeleton, self.skeleton, scorer=fuzz.ratio, score_cutoff=least, limit=_MOST_ALIKE
        ):
            score = (likeness + fuzz.ratio(sound, self.sound[index], score_cutoff=2 * needed - likeness)) / 2
            if score >= needed and len(self.skeleton[index]) >= _LEAST_SKELETON:
                yield self.words[index], score

    def closest(self, heard: str, size: int, needed: float) -> tuple[float, str] | None:
        """(similarity, hotword) of the best hotword for ``heard`` (``size`` words), or None below ``needed``."""
        plain = _plain(heard)
        if len(plain) < SHORTEST:
            return None
        if plain in self.exact:
            # said as wanted: its place is taken, so that no neighbour claims it
            hotword = self.exact[plain]
            return (100.0, heard if len(heard.split()) == len(hotword.split()) else hotword)
        best: tuple[float, str] | None = None
        for keys, key in ((self.plain, plain), (self.sound, _sound(plain))):
            match = process.extractOne(key, keys, scorer=fuzz.ratio, score_cutoff=needed)
            if match is None:
                continue
            _, score, index = match
            if not self._word_by_word(heard, index):
                continue
            # equal sound alone is a little less than equal spelling
            score = min(score, 99.0) if keys is self.sound else score
            # merging or splitting words is a bigger step than changing a letter
            score -= 2.0 * abs(size - len(self.words[index].split()))
            if score >= needed and len(keys[index]) >= SHORTEST - 1 and (best is None or score > best[0]):
                best = (score, self.words[index])
        return best


def _plain(text: str) -> str:
    """Letters and digits without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(char for char in decomposed if char.isalnum()))


def _sound(plain: str) -> str:
    for pattern, key in _SOUNDS:
        plain = pattern.sub(key, plain)
    return plain


def _skeleton(sound: str) -> str:
    """The consonants of a sound key, voiced and voiceless ones alike, without doubles."""
    return re.sub(r"(.)\1+", r"\1", sound.translate(_VOICELESS))
