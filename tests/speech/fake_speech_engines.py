# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines for the tests of the speech service: the task itself says what its run shall do; and how to watch workers.

Imports little, because every worker process of a test imports it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import (
    Recognition,
    RecognizeTask,
    Result,
    Speech,
    SynthesizeTask,
    Task,
    TranslateTask,
    Translation,
)

if TYPE_CHECKING:
    from gateway.speech.service import LocalSpeechService


class OddError(Exception):
    """Cannot be rebuilt from its pickled arguments."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} {right}")


class NativePanic(BaseException):
    """As some native bindings raise it."""


class Gate:
    """Holds a worker inside a run: two named pipes, so that neither side polls or sleeps."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = str(folder / name)
        os.mkfifo(self.name + ".in")
        os.mkfifo(self.name + ".out")

    async def entered(self) -> None:
        """Wait until a worker is inside."""
        await asyncio.to_thread(lambda: Path(self.name + ".in").read_bytes())

    async def release(self) -> None:
        """Let it go on."""
        await asyncio.to_thread(lambda: Path(self.name + ".out").write_bytes(b"go"))


def pass_gate(name: str) -> None:
    """What the worker does at a gate."""
    Path(name + ".in").write_bytes(b"in")
    Path(name + ".out").read_bytes()


class FakeEngines:
    """Echoes. The first word of a translation's first text is a command, its source language the argument."""

    def __init__(self) -> None:
        self.warmed = False
        self.served = 0

    def warm(self) -> None:
        self.warmed = True

    def capabilities(self) -> dict[str, Any]:
        return {
            "languages": ("xx", "yy"),
            "warm": self.warmed,
            "omp": os.environ.get("OMP_NUM_THREADS"),
            "nice": os.nice(0),
            "sigint_ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        }

    def run(self, task: Task) -> Result:
        self.served += 1
        if isinstance(task, RecognizeTask):
            return Recognition(task.pcm.hex(), task.language or "xx", 1.0)
        if isinstance(task, SynthesizeTask):
            unsaid = float(task.text.removeprefix("mute:")) if task.text.startswith("mute:") else 0.0
            return Speech(task.text.encode("utf-16-le"), 16_000, task.language, unsaid=unsaid)
        command, _, argument = task.texts[0].partition(" ")
        if command == "gate":
            pass_gate(argument)
        elif command == "gate-once":
            if not Path(argument + ".mark").exists():
                Path(argument + ".mark").touch()
                pass_gate(argument)
        elif command == "note":
            with Path(argument).open("a") as book:
                book.write(task.texts[1] + "\n")
        elif command == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif command == "raise":
            raise OddError("not", "today")
        elif command == "panic":
            raise NativePanic("thread-bound")
        elif command == "hang":
            signal.pause()
        elif command == "unpicklable":
            return Translation((lambda: None,), ())  # type: ignore[arg-type]
        return Translation(task.texts, (str(os.getpid()), str(self.served)))


class MissingModel:
    """A factory whose model is not in the store."""

    def __call__(self) -> NoReturn:
        raise ModelMissing("model xx-1 is missing: run the fetch command")


class DiesAtLoad:
    """A factory that kills its process."""

    def __call__(self) -> NoReturn:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()


class FailsLater:
    """A factory that works for the first process alone."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self) -> FakeEngines:
        if self.mark.exists():
            raise ModelMissing("the store is gone")
        self.mark.touch()
        return FakeEngines()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 90))


def say(*texts: str) -> TranslateTask:
    return TranslateTask(texts, "xx", "yy")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(service: LocalSpeechService) -> list[int]:
    return [worker["pid"] for worker in service.statistics()["workers"]]


async def until(condition: Callable[[], bool]) -> None:
    # The service tells its state, it does not announce it.
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def until_ready(service: LocalSpeechService) -> None:
    await until(lambda: all(worker["state"] != "loading" for worker in service.statistics()["workers"]))
