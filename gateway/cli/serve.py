# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway serve``: answer the phone until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from pathlib import Path
from typing import Annotated

import structlog
import typer

from gateway.cli.errors import told
from gateway.runtime import DRAIN_S, Gateway
from gateway.settings import Loaded, load_settings
from gateway.telemetry.logs import configure_logging

log = structlog.get_logger(__name__)

TRIM_EVERY_S = 30.0
TRIM_LOOK_S = 0.05
_M_MMAP_THRESHOLD = -3  # malloc.h; a size that is set stays set


def serve(
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    events: Annotated[
        Path | None,
        typer.Option(help="Write every call event, transcripts included, to this file as JSON lines."),
    ] = None,
) -> None:
    """Answer calls until SIGTERM or Ctrl-C; live calls may end first, a second signal ends them at once."""
    with told():
        loaded = load_settings(config, os.environ)
        log_settings = loaded.settings.log
        configure_logging(log_settings.level, log_settings.format, pii=log_settings.pii)
        _give_memory_back()
        asyncio.run(_serve(loaded, events))


def _give_memory_back() -> None:
    """Keep large blocks out of the heap, so that a call's sound (4 MB) leaves the process when the call does.

    glibc raises the size from which it maps blocks on their own as soon as one is freed; from then on they lie in a
    heap that gets holes. After a thousand calls: 187 MB, growing by 59 KB a call; with this 104 MB and 5 KB. What is
    left is free memory between smaller blocks: `_trim_when_idle` gives it back.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)


async def _trim_when_idle(gateway: Gateway) -> None:
    """Give glibc's free memory back to the machine while nobody is talking; it takes milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(TRIM_EVERY_S)
        while gateway.switchboard.statistics()["live"]:  # noqa: ASYNC110 - gaps of less than a second are looked for
            await asyncio.sleep(TRIM_LOOK_S)
        await asyncio.to_thread(trim, 0)


async def _serve(loaded: Loaded, events: Path | None) -> None:
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.put_nowait, number)
    gateway = Gateway(loaded, events_file=events)
    starting = asyncio.create_task(gateway.start())
    told_to_stop = asyncio.create_task(signals.get())
    await asyncio.wait({starting, told_to_stop}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        told_to_stop.cancel()
        return
    starting.result()
    trimming = asyncio.create_task(_trim_when_idle(gateway))
    await told_to_stop
    trimming.cancel()
    log.info("gateway_draining", longest_s=DRAIN_S)
    stopping = asyncio.create_task(gateway.stop(DRAIN_S))
    impatient = asyncio.create_task(signals.get())
    await asyncio.wait({stopping, impatient}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        gateway.switchboard.end_all()
    impatient.cancel()
    await stopping
    log.info("gateway_stopped")
