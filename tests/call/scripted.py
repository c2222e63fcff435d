# SPDX-License-Identifier: GPL-3.0-or-later
"""A speech service scripted by hand: for time, chance and failure. What engines do is tested with real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gateway.speech.errors import QueueFull
from gateway.speech.jobs import (
    Done,
    Priority,
    Recognition,
    RecognizeTask,
    Result,
    Speech,
    SynthesizeTask,
    Task,
    Translation,
)

Answer = Callable[[Task], Result | BaseException]


class ScriptedTicket:
    """A task that is answered when the test says so, or at once."""

    def __init__(self, task: Task, leg: str, priority: Priority) -> None:
        self.task = task
        self.leg = leg
        self.priority = priority
        self.cancelled = False
        self.started = False
        self.future: asyncio.Future[Done] = asyncio.get_running_loop().create_future()

    async def result(self) -> Done:
        return await asyncio.shield(self.future)

    def cancel(self) -> None:
        self.cancelled = True
        self.future.cancel()

    def withdraw(self) -> bool:
        if self.started or self.future.done():
            return False
        self.cancel()
        return True

    def promote(self, priority: Priority) -> None:
        self.priority = min(self.priority, priority)

    def answer(self, result: Result | BaseException, run_ns: int = 0) -> None:
        if self.future.cancelled():
            return  # it ran on, unheard
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(Done(result, 0, 0, run_ns, 1_000_000, 1))


class ScriptedSpeech:
    """``hold`` names task types that wait for the test; ``full`` makes the next so many submissions fail."""

    def __init__(self, answer: Answer | None = None, *, hold: tuple[type, ...] = ()) -> None:
        self.tickets: list[ScriptedTicket] = []
        self.hold = hold
        self.full = 0
        self.run_ns = 0
        """How long each task is said to have run."""
        self._answer = answer or say_what_was_asked

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def submit(self, leg: str, task: Task, priority: Priority) -> ScriptedTicket:
        if self.full:
            self.full -= 1
            raise QueueFull("scripted")
        ticket = ScriptedTicket(task, leg, priority)
        self.tickets.append(ticket)
        if not isinstance(task, self.hold):
            ticket.answer(self._answer(task), self.run_ns)
        return ticket

    def of(self, kind: type) -> list[ScriptedTicket]:
        return [ticket for ticket in self.tickets if isinstance(ticket.task, kind)]

    def statistics(self) -> dict[str, Any]:
        return {"submitted": len(self.tickets)}

    def capabilities(self) -> dict[str, Any]:
        return {"pairs": [("xx", "yy"), ("yy", "xx")]}


def say_what_was_asked(task: Task) -> Result:
    """Hears "heard", translates by upper case, speaks 100 samples of a constant per character."""
    if isinstance(task, RecognizeTask):
        return Recognition("heard", task.language or "xx", 0.9)
    if isinstance(task, SynthesizeTask):
        return Speech(b"\x01\x00" * 100 * len(task.text), 8000, "v")
    return Translation(tuple(text.upper() for text in task.texts), (task.source, task.target))


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a state; the limit only bounds a failing test."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the state of the object under test
            await asyncio.sleep(0.01)


async def settle(rounds: int = 20) -> None:
    """Let all tasks run until they wait."""
    for _ in range(rounds):
        await asyncio.sleep(0)
