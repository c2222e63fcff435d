# SPDX-License-Identifier: GPL-3.0-or-later
"""J06: who talks over a translation cuts it, unless it was a nod or an echo; nothing stale is heard afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gateway.audio.playout import Clip, ClipKind, PlayOut
from gateway.call.echo import EchoWatch
from gateway.call.interpretation import INTERRUPTED
from gateway.call.talkover import TalkOver
from gateway.speech.jobs import Result, Speech, SynthesizeTask, Task
from gateway.stream.events import VoiceFrame
from tests.call.scripted import ScriptedSpeech, say_what_was_asked, settle, until
from tests.call.test_clauses import Listener
from tests.call.test_direction import Line, run, voice

pytestmark = pytest.mark.unit

FRAME = 160


class Played:
    """What the talker hears, written by hand, one level a frame."""

    def __init__(self) -> None:
        self.translating = True
        self.levels: list[float] = []

    @property
    def egress_samples(self) -> int:
        return len(self.levels) * FRAME

    def levels_from(self, first_sample: int, frames: int) -> Sequence[float]:
        first = first_sample // FRAME
        return [self.levels[at] if 0 <= at < len(self.levels) else -127.0 for at in range(first, first + frames)]


class Telephone:
    """A party who says levels while others are played to them. Speech is what is louder than -45 dBFS."""

    def __init__(self, after_ms: int = 700) -> None:
        self.played = Played()
        self.echo = EchoWatch(self.played)
        self.over = TalkOver(after_ms, 8000, self.played, self.echo)
        self.said = 0

    def counted(self, heard: Sequence[float], given: Sequence[float], late: int = 0) -> int:
        """Feed frame by frame, the verdicts so many frames behind the play-out; how often it counted."""
        counted = 0
        self.played.levels += given[:late]
        for level, out in zip(heard, (*given[late:], *[-127.0] * late), strict=True):
            self.played.levels.append(out)
            verdict = VoiceFrame(self.said * FRAME, FRAME, level > -45, level)
            self.said += 1
            self.echo.feed(verdict)
            self.over.feed(verdict)
            counted += self.over.take()
        return counted


def speech_levels(frames: int, seed: int) -> list[float]:
    """Levels that rise and fall as speech does: a syllable of 3 to 8 frames, then a fall."""
    chance = np.random.default_rng(seed)
    levels: list[float] = []
    while len(levels) < frames:
        levels += [chance.uniform(-26, -16)] * int(chance.integers(3, 9))
        levels += [chance.uniform(-50, -35)] * int(chance.integers(1, 5))
    return levels[:frames]


def echoed(given: Sequence[float], delay_frames: int, softer_db: float) -> list[float]:
    """What a loudspeaker telephone sends back."""
    chance = np.random.default_rng(1)
    late = [-70.0] * delay_frames + [max(-70.0, level - softer_db) for level in given[: len(given) - delay_frames]]
    return [level + float(chance.normal(0, 1.0)) for level in late]


def test_j06_talking_over_counts_and_goes_on_counting() -> None:
    phone = Telephone()
    assert phone.counted(speech_levels(100, 1), speech_levels(100, 2)) == 2
    assert phone.echo.found == 0


@pytest.mark.parametrize("nod_ms", [200, 400, 600])
def test_j06_a_nod_does_not_count(nod_ms: int) -> None:
    one = [-20.0] * (nod_ms // 20) + [-70.0] * 30
    assert Telephone().counted(one * 5, speech_levels(len(one) * 5, 2)) == 0


def test_talking_while_nothing_is_translated_does_not_count() -> None:
    phone = Telephone()
    phone.played.translating = False
    assert phone.counted(speech_levels(200, 1), [-127.0] * 200) == 0


def test_it_can_be_off() -> None:
    assert Telephone(0).counted(speech_levels(200, 1), speech_levels(200, 2)) == 0


@pytest.mark.parametrize("delay_frames", [1, 6, 14, 28])
@pytest.mark.parametrize("softer_db", [6.0, 20.0])
@pytest.mark.parametrize("late", [0, 2])
def test_b7_an_echo_interrupts_nobody_and_is_no_speech(delay_frames: int, softer_db: float, late: int) -> None:
    phone, given = Telephone(), [*[-70.0] * 50, *speech_levels(250, 3)]
    assert phone.counted(echoed(given, delay_frames, softer_db), given, late) == 0
    assert phone.echo.is_echo(0, 300 * FRAME)
    assert phone.echo.is_echo(100 * FRAME, 200 * FRAME)
    assert not phone.echo.is_echo(100 * FRAME, 140 * FRAME), "less than a second tells nothing"


@pytest.mark.parametrize("seed", range(10, 20))
def test_b7_speech_of_ones_own_is_no_echo_whatever_is_played(seed: int) -> None:
    phone = Telephone()
    phone.counted(speech_levels(300, seed), speech_levels(300, seed + 100))
    assert not phone.echo.is_echo(0, 300 * FRAME)


def test_b7_what_is_louder_than_what_was_played_is_no_echo() -> None:
    phone, given = Telephone(), [level - 20 for level in speech_levels(200, 3)]
    phone.counted([level + 20 for level in given], given)
    assert not phone.echo.is_echo(0, 200 * FRAME)


def test_b7_another_telephone_in_the_same_place_starts_anew() -> None:
    phone, given = Telephone(), speech_levels(200, 3)
    phone.counted(speech_levels(200, 4), speech_levels(200, 5))
    phone.said = 0
    phone.counted(echoed(given, 6, 12.0), given)
    assert phone.echo.is_echo(0, 200 * FRAME)


def test_a_play_out_tells_what_it_plays() -> None:
    line = PlayOut(8000, 160, now_ns=lambda: 0)
    line.enqueue(Clip("p", ClipKind.PROMPT, np.full(320, 8000, np.int16)))
    line.enqueue(Clip("t", ClipKind.TRANSLATION, np.full(1600, 3277, np.int16)))
    line.next_frame()
    assert not line.translating
    for _ in range(4):
        line.next_frame()
    assert line.translating
    assert line.levels_from(3 * 160, 2) == pytest.approx([-20.0, -20.0], abs=0.1)
    assert line.levels_from(4 * 160, 3)[1:] == [-127.0, -127.0], "what is not played yet is not known"
    assert line.levels_from(-320, 2) == [-127.0, -127.0]
    for _ in range(20):
        line.next_frame()
    assert not line.translating and line.levels_from(20 * 160, 1) == [-127.0]


@pytest.mark.parametrize("mode", ["consecutive", "simultaneous"])
def test_b7_a9_what_a_telephone_sends_back_is_not_interpreted_again(mode: str) -> None:
    """B's telephone sends what it plays: A's own voice. B's direction recognises it, and says nothing of it."""

    async def work() -> None:
        line = Line(ScriptedSpeech(), mode)
        said = voice(3.0)
        chance = np.random.default_rng(2)
        loud = np.repeat(chance.choice([0.8, 0.9, 1.0], said.size // 800 + 1), 800)[: said.size]
        spoken = (said * loud).astype(np.int16)
        line.talker.playout.set_original(True)
        sent: list[bytes] = []
        for at in range(0, spoken.size + 8000, FRAME):
            frame = np.zeros(FRAME, np.int16)
            part = spoken[at : at + FRAME]
            frame[: part.size] = part
            line.talker.playout.hear_original(frame.tobytes())
            sent.append(line.talker.playout.next_frame())
            late = np.frombuffer(sent[-5], "<i2") // 2 if len(sent) > 5 else np.zeros(FRAME, np.int16)
            await line.say(np.asarray(late, np.int16), listen=False)
        await line.pause(1.0)
        await line.hang_up()
        assert line.direction.statistics()["turns"]["sounds-echoed"] >= 1
        assert not line.of("heard") and not line.of("clause")
        assert not line.listener.playout.statistics()["clips_played"]

    run(work())


def at_length(task: Task) -> Result:
    """Every piece takes 3 s to be heard."""
    return Speech(b"\x00\x10" * 24_000, 8000, "v") if isinstance(task, SynthesizeTask) else say_what_was_asked(task)


def test_j06_after_a_cut_nothing_stale_is_spoken_and_the_next_utterance_is() -> None:
    async def work() -> None:
        line = Line(ScriptedSpeech(at_length))
        await line.pause(0.3)
        await line.say(voice(1.2))
        await line.pause(0.8)
        assert line.listener.playout.translating
        line.direction.cut()
        tail = np.frombuffer(b"".join(line.listener.playout.next_frame() for _ in range(3)), "<i2")
        assert not tail[240:].any(), "faded within 30 ms"
        await line.pause(1.0)
        assert not line.listener.playout.translating
        assert line.of("interrupted") == [{"leg": "a", "clips": 1}]
        await line.say(voice(1.2))
        await line.pause(0.8)
        assert line.listener.playout.translating, "what is said after the cut is translated and spoken"
        await line.hang_up()
        assert len(line.of("heard")) == 2
        line.ended_once()

    run(work())


def test_j06_what_was_not_begun_is_counted_as_interrupted_and_nobody_is_asked_to_repeat() -> None:
    async def work() -> None:
        speech = ScriptedSpeech(hold=(SynthesizeTask,))
        line = Line(speech)
        await line.pause(0.3)
        await line.say(voice(1.2))
        await line.pause(0.8)
        line.direction.cut()
        speech.hold = ()
        for ticket in speech.of(SynthesizeTask):
            ticket.answer(speech._answer(ticket.task))
        await settle()
        await line.hang_up()
        (lost,) = line.of("utterance")
        assert lost["lost"] == INTERRUPTED
        assert not line.listener.playout.translating
        assert line.direction.statistics()[f"lost-{INTERRUPTED}"] == 1
        assert line.talker.playout.is_idle(), "no 'please repeat' for what the other did not want to hear"

    run(work())


def test_j06_clauses_that_wait_are_dropped_at_a_cut() -> None:
    async def work() -> None:
        heard = Listener(ScriptedSpeech())
        heard.pending_s = 5.0
        heard.put(1, "one thing.")
        heard.put(2, "another thing.")
        await settle()
        heard.speaker.cut()
        heard.pending_s = 0.0
        await until(lambda: len(heard.lost) == 2)
        assert heard.said == [] and heard.lost == [("c1", INTERRUPTED), ("c2", INTERRUPTED)]
        heard.put(3, "a new thing.")
        await until(lambda: heard.said == ["c3"])
        await heard.speaker.close()

    run(work())
