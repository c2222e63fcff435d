# SPDX-License-Identifier: GPL-3.0-or-later
"""Feeds lines of speech to a call's own directions, frame by frame, and keeps what they tell.

The same code runs in virtual time (`simulate.VirtualLoop`) and in real time (an ordinary loop and worker processes):
the frame with the samples up to t arrives at t, the other party's play-out is asked once for each frame, and all that
is told is stamped on the **audio time line**: seconds since the first sample was spoken.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from gateway.audio.frames import Frame, frame_samples
from gateway.audio.playout import PlayOut
from gateway.bench.corpus import Line
from gateway.bench.demo import Say
from gateway.bench.sdp import RATE_HZ
from gateway.bench.simulate import CpuMeter, VirtualLoop, load_average, local_engines, virtual_speech, worker_pids
from gateway.call.desk import Booth
from gateway.call.direction import Direction
from gateway.call.party import FRAME_MS, LEG_RATE_HZ, Party
from gateway.call.voices import measure_speeds
from gateway.runtime import booth, deliveries, prompt_book, speech_service
from gateway.settings import Loaded
from gateway.speech.protocols import SpeechService

FRAME = frame_samples(LEG_RATE_HZ, FRAME_MS)
FRAME_NS = FRAME_MS * 1_000_000
LONGEST_REST_S = 180.0  # for the interpreter to come to an end behind the last sample
SIDES = "ab"

T = TypeVar("T")


class TalkFailed(ValueError):
    """The interpreter did not come to rest."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a direction, stamped on the audio time line."""

    side: str
    kind: str
    at_s: float
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """What waited at one moment: speech that is queued or sounding for the listener of ``side``'s words."""

    side: str
    at_s: float
    waiting_s: float


@dataclass(slots=True)
class Talk:
    """All that was told. ``began_ns`` is the clock at sample 0 of every line."""

    began_ns: int
    told: list[Told] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict)
    speech: dict[str, Any] = field(default_factory=dict)
    cpu_s: float = 0.0
    came_to_rest: bool = True

    def seconds(self, at_ns: int) -> float:
        """A stamp of the clock on the audio time line."""
        return (at_ns - self.began_ns) / 1e9

    def of(self, kind: str, side: str | None = None) -> list[Told]:
        """Events of a kind, of one side or of both, in order."""
        return [one for one in self.told if one.kind == kind and side in (None, one.side)]


class Minutely(Protocol):
    """Looks at the pipeline's objects from time to time."""

    def __call__(self, at_s: float, roots: Sequence[object]) -> None:
        """``roots``: the directions and parties, once a minute of the line."""


async def hold(
    desk: Booth,
    lines: Sequence[Line],
    pair: tuple[str, str],
    mode: str,
    *,
    say: Say,
    minutely: Minutely | None = None,
    rest_s: float = LONGEST_REST_S,
    must_rest: bool = True,
) -> Talk:
    """Speak the lines, one per leg at most two, both in ``pair[0]``, and wait until all is said.

    After ``rest_s`` behind the last sample the talk is broken off: TalkFailed, or without ``must_rest`` what is not
    spoken yet is lost as when a call ends.

    With two lines both directions translate from ``pair[0]`` into ``pair[1]``: the load is that of a call.
    """
    loop = asyncio.get_running_loop()
    wake = asyncio.Event()
    parties = [_party(side, pair[0], wake, desk.clock) for side in SIDES]
    talk = Talk(desk.clock())

    def publisher(side: str) -> Callable[[str, dict[str, Any]], None]:
        return lambda kind, data: talk.told.append(Told(side, kind, talk.seconds(desk.clock()), data))

    directions = []
    for index, side in enumerate(SIDES[: len(lines)]):
        source, target = parties[index], parties[1 - index]
        direction = Direction("bench", source, target, desk.plan(*pair, mode=mode), booth=desk, publish=publisher(side))
        direction.listen()
        directions.append(direction)

    def advance(frame: int) -> None:
        for direction in directions:
            direction.hear()
            direction.tick()
        for index in range(len(directions)):
            parties[1 - index].playout.next_frame()
        if (frame + 1) * FRAME_MS % 1000 == 0:
            at_s = (frame + 1) * FRAME_MS / 1000
            for index in range(len(directions)):
                talk.looks.append(Look(SIDES[index], at_s, parties[1 - index].playout.pending_s()))
            if at_s % 60 == 0:
                say(f"{at_s:.0f} s of {lines[0].seconds:.0f} s spoken, load {load_average()}")
                if minutely is not None:
                    minutely(at_s, [*directions, *parties])

    frames = max(line.pcm.size for line in lines) // FRAME
    began_s = loop.time()
    frame = 0
    while frame < frames or not _rested(directions, parties):
        if (frame - frames) * FRAME_MS > rest_s * 1000:
            if must_rest:
                raise TalkFailed(f"the interpreter did not come to rest {rest_s:.0f} s behind the last word")
            talk.came_to_rest = False
            break
        # after the last word there is nothing to catch up with, should the machine have stalled
        due_s = began_s + (frame + 1) * FRAME_MS / 1000 - loop.time() if frame < frames else FRAME_MS / 1000
        await asyncio.sleep(max(0.0, due_s))
        if frame < frames:
            for index in range(len(directions)):
                pcm = lines[index].pcm[frame * FRAME : (frame + 1) * FRAME].tobytes()
                parties[index].ring.put(Frame(parties[index].leg, frame * FRAME, RATE_HZ, pcm, desk.clock()))
        advance(frame)
        frame += 1
        if frame == frames:
            for direction in directions:
                direction.stop()
    for index, direction in enumerate(directions):
        direction.tick()
        await direction.close()
        talk.statistics[SIDES[index]] = {**direction.statistics(), "to": parties[1 - index].statistics()}
    talk.speech = desk.speech.statistics()
    return talk


def _rested(directions: Sequence[Direction], parties: Sequence[Party]) -> bool:
    return all(each.over for each in directions) and all(party.playout.is_idle() for party in parties)


def _party(side: str, language: str, wake: asyncio.Event, clock: Callable[[], int]) -> Party:
    party = Party(side, f"bench-{side}", language, wake.set)
    # the same play-out on the talk's clock: a party's own is on the machine's
    party.playout = PlayOut(LEG_RATE_HZ, FRAME, now_ns=clock)
    return party


# --- the two kinds of time ------------------------------------------------------------------------------------------

Act = Callable[[Booth], Awaitable[T]]


def in_virtual_time(loaded: Loaded, act: Act[T], speech: SpeechService | None = None) -> tuple[T, float]:
    """Run ``act`` in a simulation of time, with the settings' engines in this process; also its CPU seconds."""
    engine = speech or virtual_speech(loaded, local_engines(loaded))
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        desk = replace(booth(loaded.settings, engine, prompt_book(loaded, LEG_RATE_HZ)), clock=loop.clock)
        meter = CpuMeter()
        result = runner.run(_acted(act, desk, loaded))
        return result, meter.spent_s()


def in_real_time(loaded: Loaded, act: Act[T]) -> tuple[T, float]:
    """Run ``act`` with real workers at the speed of speech; also the CPU seconds of this process and of theirs."""

    async def run() -> tuple[T, float]:
        async with speech_service(loaded) as speech:
            meter = CpuMeter(worker_pids(speech.statistics()))
            result = await _acted(act, booth(loaded.settings, speech, prompt_book(loaded, LEG_RATE_HZ)), loaded)
            return result, meter.spent_s()

    return asyncio.run(run())


async def _acted(act: Act[T], desk: Booth, loaded: Loaded) -> T:
    speeds = await measure_speeds(desk.speech, loaded.settings.speech.voices)
    return await act(replace(desk, speeds=speeds, deliveries=deliveries(loaded)))


def progress(message: str) -> None:
    """A line on standard error, for who waits."""
    print(message, file=sys.stderr, flush=True)
