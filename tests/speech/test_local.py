# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker's side, in a process of its own but without a service."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from fake_speech_engines import FakeEngines, MissingModel

from gateway.speech import local
from gateway.speech.jobs import Recognition, RecognizeTask, TranslateTask

pytestmark = pytest.mark.unit

Pool = Callable[[Callable[[], local.Engines]], ProcessPoolExecutor]


@pytest.fixture
def pool() -> Iterator[Pool]:
    pools: list[ProcessPoolExecutor] = []

    def start(factory: Callable[[], local.Engines]) -> ProcessPoolExecutor:
        setup = local.WorkerSetup.of(factory, threads=3, niceness=1)
        context = multiprocessing.get_context("spawn")
        pools.append(ProcessPoolExecutor(1, context, local.initialise, (setup, os.getpid())))
        return pools[-1]

    yield start
    for one in pools:
        one.shutdown()


def say(*texts: str) -> TranslateTask:
    return TranslateTask(texts, "xx", "yy")


def test_s1_16_a_worker_is_warm_before_its_first_task_and_knows_its_share(pool: Pool) -> None:
    loaded = pool(FakeEngines).submit(local.load).result()
    assert loaded.failure is None
    assert loaded.capabilities == {
        "languages": ("xx", "yy"),
        "warm": True,
        "omp": "3",
        "nice": os.nice(0) + 1,
        "sigint_ignored": True,
    }


def test_stamps_are_on_the_parents_clock_and_failures_are_values(pool: Pool) -> None:
    workers = pool(FakeEngines)
    loaded = workers.submit(local.load).result()
    before_ns = time.monotonic_ns()
    ran = workers.submit(local.run_task, RecognizeTask(b"\x01\x02", None)).result()
    assert before_ns <= ran.started_ns <= ran.done_ns <= time.monotonic_ns()
    assert ran.cpu_ns >= 0
    assert ran.worker_pid == loaded.worker_pid != os.getpid()
    assert ran.outcome == Recognition("0102", "xx", 1.0)
    # An exception that cannot be pickled, one that is no Exception: the worker goes on.
    assert workers.submit(local.run_task, say("raise")).result().outcome == local.Failure(
        "OddError", "not today", model_missing=False
    )
    panic = workers.submit(local.run_task, say("panic")).result()
    assert isinstance(panic.outcome, local.Failure)
    assert panic.outcome.type_name == "NativePanic"
    assert panic.worker_pid == loaded.worker_pid


def test_a_missing_model_is_told_in_its_own_words(pool: Pool) -> None:
    workers = pool(MissingModel())
    assert workers.submit(local.load).result().failure == local.Failure(
        "ModelMissing", "model xx-1 is missing: run the fetch command", model_missing=True
    )
    outcome = workers.submit(local.run_task, say("hello")).result().outcome
    assert isinstance(outcome, local.Failure)
    assert outcome.type_name == "RuntimeError"


def test_a_factory_has_to_be_picklable() -> None:
    with pytest.raises(AttributeError, match="pickle"):
        local.WorkerSetup.of(lambda: FakeEngines(), threads=1, niceness=0)
    assert local.WorkerSetup.of(partial(FakeEngines), threads=1, niceness=0).threads == 1


def test_sigterm_ends_a_worker_and_sigint_does_not(pool: Pool) -> None:
    workers = pool(FakeEngines)
    pid = workers.submit(local.load).result().worker_pid
    os.kill(pid, signal.SIGINT)
    assert workers.submit(local.run_task, say("echo")).result().worker_pid == pid
    (process,) = workers._processes.values()
    os.kill(pid, signal.SIGTERM)
    process.join(30)
    assert process.exitcode == -signal.SIGTERM
