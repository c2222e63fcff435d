# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway console FILE``: the call's own pipeline on a sound file, without a telephone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import soundfile
import typer

from gateway.audio.frames import Frame, frame_samples
from gateway.audio.pcm import downmix, to_int16
from gateway.audio.portrait import decode
from gateway.audio.resample import resample
from gateway.call.direction import Direction
from gateway.call.party import FRAME_MS, LEG_RATE_HZ, Party
from gateway.call.voices import measure_speeds
from gateway.cli.errors import told
from gateway.runtime import booth, file_glossary, prompt_book, speech_service
from gateway.settings import Loaded, load_settings
from gateway.telemetry.logs import configure_logging

FRAME = frame_samples(LEG_RATE_HZ, FRAME_MS)


def console(
    file: Annotated[Path, typer.Argument(help="What was said: any sound file.")],
    source: Annotated[str, typer.Option("--from", help="Language of the file.")],
    target: Annotated[str, typer.Option("--to", help="Language to translate into.")],
    mode: Annotated[str, typer.Option(help="consecutive or simultaneous.")] = "consecutive",
    out: Annotated[Path | None, typer.Option(help="Write what the other party would hear to this WAV.")] = None,
    fast: Annotated[bool, typer.Option(help="Feed the file as fast as it goes, not at the speed of speech.")] = False,
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Interpret a file exactly as a call would, and print what was heard and what was said for it."""
    with told():
        loaded = load_settings(config, os.environ)
        configure_logging("warning", loaded.settings.log.format, pii=False)
        if target not in loaded.settings.speech.voices:  # said at once; the translators are asked when they are loaded
            raise typer.BadParameter(f"no voice for {target}: add it to speech.voices", param_hint="--to")
        samples, rate_hz = decode(file)
        pcm = resample(to_int16(downmix(samples)), rate_hz, LEG_RATE_HZ)
        report = asyncio.run(_interpret(loaded, pcm, (source, target), mode, paced=not fast, quiet=as_json))
    heard = np.frombuffer(report.pop("pcm"), np.int16)
    if out is not None:
        soundfile.write(out, heard, LEG_RATE_HZ, subtype="PCM_16")
        report["out"] = str(out)
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))


async def _interpret(
    loaded: Loaded,
    pcm: np.ndarray[Any, np.dtype[np.int16]],
    pair: tuple[str, str],
    mode: str,
    *,
    paced: bool,
    quiet: bool,
) -> dict[str, Any]:
    source, target = pair
    async with contextlib.AsyncExitStack() as stack:
        speech = await stack.enter_async_context(speech_service(loaded))
        if pair not in {tuple(each) for each in speech.capabilities()["pairs"]}:
            raise typer.BadParameter(
                f"no translator for {source} to {target}: see speech.translators", param_hint="--to"
            )
        utterances: list[dict[str, Any]] = []

        def publish(kind: str, data: dict[str, Any]) -> None:
            if kind == "utterance":
                utterances.append(data)
                if not quiet:
                    at_s = data["source_span"][0] / LEG_RATE_HZ
                    typer.echo(f"{at_s:7.2f} s  {source}: {data['source_text']}")
                    typer.echo(f"           {target}: {data['target_text'] or '(' + str(data['lost']) + ')'}")

        wake = asyncio.Event()
        talker, listener = Party("a", "file", source, wake.set), Party("b", "out", target, wake.set)
        speeds = await measure_speeds(speech, (target,))
        glossary = file_glossary(loaded)
        desk = booth(loaded.settings, speech, prompt_book(loaded, LEG_RATE_HZ), speeds)
        desk = replace(desk, glossary=lambda: glossary)
        direction = Direction(
            "console", talker, listener, desk.plan(source, target, mode=mode), booth=desk, publish=publish
        )
        direction.listen()
        heard = await _feed(direction, talker, listener, pcm, paced=paced)
        await direction.close()
        return {
            "file_s": round(pcm.size / LEG_RATE_HZ, 3),
            "utterances": utterances,
            "statistics": direction.statistics(),
            "pcm": heard,
        }


async def _feed(
    direction: Direction, talker: Party, listener: Party, pcm: np.ndarray[Any, np.dtype[np.int16]], *, paced: bool
) -> bytes:
    """Put frames in and take frames out at the same pace, until everything is said."""
    heard = bytearray()
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    for index in range(-(-pcm.size // FRAME)):
        piece = pcm[index * FRAME : (index + 1) * FRAME]
        talker.ring.put(Frame(talker.leg, index * FRAME, LEG_RATE_HZ, piece.tobytes(), time.monotonic_ns()))
        direction.hear()
        direction.tick()
        if paced:
            await asyncio.sleep(max(0.0, began + (index + 1) * FRAME_MS / 1000 - loop.time()))
            heard += listener.playout.next_frame()
        else:
            await asyncio.sleep(0)
    direction.stop()
    while not (direction.over and listener.playout.is_idle()):
        direction.tick()
        if direction.over or paced:
            heard += listener.playout.next_frame()
        await asyncio.sleep(0 if direction.over and not paced else FRAME_MS / 1000)
    direction.tick()
    return bytes(heard)
