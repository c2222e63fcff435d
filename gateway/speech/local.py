# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs inside a speech worker process: it loads the engines once, then answers one task at a time.

All tasks run in the process's main thread, so an engine that is bound to the thread that made it is at home here.
What an engine raises is handed over as a value, not as an exception: an exception class whose constructor does not
fit its pickled arguments would break the whole pool when the parent reads it.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from typing import Any, Protocol

from gateway.speech.errors import ModelMissing
from gateway.speech.jobs import Result, Task

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Engines(Protocol):
    """All engines of one worker behind one front."""

    def warm(self) -> None:
        """Run each engine once, so that the first caller does not pay for lazy initialisation."""

    def run(self, task: Task) -> Result:
        """Answer a task."""

    def capabilities(self) -> dict[str, Any]:
        """Languages, pairs and voices; picklable."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """How a worker is set up. ``threads`` bounds OpenMP; ``niceness`` is added to the parent's (0..19)."""

    factory: bytes
    """The pickled ``Callable[[], Engines]``: reading it imports engines, which must see ``threads`` first."""
    threads: int
    niceness: int

    @classmethod
    def of(cls, factory: Callable[[], Engines], *, threads: int, niceness: int) -> WorkerSetup:
        """Pickle the factory, which therefore has to be a module's function or a picklable object."""
        return cls(pickle.dumps(factory), threads, niceness)


@dataclass(frozen=True, slots=True)
class Failure:
    """What an engine raised: the type's name and the text. The text may quote a transcript: never log it."""

    type_name: str
    text: str
    model_missing: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engines are loaded and warm, or why not."""

    worker_pid: int
    load_ns: int
    capabilities: dict[str, Any]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """A task's outcome; stamps on the machine's monotonic clock, which all processes share; CPU of all threads."""

    outcome: Result | Failure
    started_ns: int
    done_ns: int
    cpu_ns: int
    worker_pid: int


class _Worker:
    """The one worker of this process. A pool's tasks are functions, so it has to lie in the module."""

    setup: WorkerSetup | None = None
    engines: Engines | None = None


def initialise(setup: WorkerSetup, parent_pid: int) -> None:
    """Prepare the process: it ends with its parent, leaves Ctrl-C to it, and knows its share of the machine."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent(parent_pid)
    # More threads than cores make CTranslate2 slower, and OpenMP reads this when its library is loaded.
    os.environ["OMP_NUM_THREADS"] = str(setup.threads)
    if setup.niceness:
        os.nice(setup.niceness)
    _Worker.setup = setup


def load() -> Loaded:
    """Make the engines and warm them."""
    began_ns = time.monotonic_ns()
    setup = _Worker.setup
    if setup is None:
        raise RuntimeError("the worker was not initialised")
    try:
        engines: Engines = pickle.loads(setup.factory)()  # noqa: S301 - made by WorkerSetup.of in the parent
        engines.warm()
        capabilities = engines.capabilities()
    except BaseException as error:  # noqa: BLE001, RUF100 - native panics are no Exception
        return Loaded(os.getpid(), time.monotonic_ns() - began_ns, {}, _failure(error))
    _Worker.engines = engines
    return Loaded(os.getpid(), time.monotonic_ns() - began_ns, capabilities)


def run_task(task: Task) -> Ran:
    """Run one task."""
    started_ns, cpu_began_ns = time.monotonic_ns(), time.process_time_ns()
    outcome: Result | Failure
    try:
        if _Worker.engines is None:
            raise RuntimeError("the worker has no engines")
        outcome = _Worker.engines.run(task)
    except BaseException as error:  # noqa: BLE001, RUF100 - native panics are no Exception; the worker survives
        outcome = _failure(error)
    return Ran(outcome, started_ns, time.monotonic_ns(), time.process_time_ns() - cpu_began_ns, os.getpid())


def _failure(error: BaseException) -> Failure:
    return Failure(type(error).__name__, str(error), isinstance(error, ModelMissing))


def _die_with_parent(parent_pid: int) -> None:
    """A worker without a parent would hold its models for ever: the kernel ends it, however the parent died.

    The kernel's signal comes when the parent's *thread* that started the worker ends: that is the thread of the
    event loop, without which nobody could ask anything of the worker.
    """
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent_pid:  # it died before the call
            os._exit(1)
        return
    threading.Thread(target=_watch_parent, name="parent-watch", daemon=True).start()


def _watch_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)
