# SPDX-License-Identifier: GPL-3.0-or-later
"""The parent's end of a telephone process: commands down, events up, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gateway.bench.capture import Capture, load_capture

Event = dict[str, Any]

_MOST_EVENTS = 20_000  # an hour's call makes some hundreds; more is a fault of the telephone


class PhoneError(RuntimeError):
    """The telephone reported an error, went away, or did not do in time what was waited for."""


class PhoneProcess:
    """A telephone in its own process; use it as an async context manager.

    All events are kept in ``events`` in order. ``wait`` looks at kept events from a position on, so nothing that
    happened between two waits is missed.
    """

    def __init__(
        self,
        *,
        user: str,
        sip_port: int = 0,
        rtp_port: int = 0,
        answer_after_ms: int | None = None,
        quiet_ms: int = 500,
        codecs: tuple[str, ...] = ("PCMU", "PCMA"),
        host: str = "127.0.0.1",
    ) -> None:
        self._arguments = ["--user", user, "--host", host, "--sip-port", str(sip_port), "--rtp-port", str(rtp_port)]
        self._arguments += ["--quiet-ms", str(quiet_ms), "--codecs", ",".join(codecs)]
        if answer_after_ms is not None:
            self._arguments += ["--answer-after-ms", str(answer_after_ms)]
        self._user, self._host = user, host
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._gone = False
        self.events: list[Event] = []
        self.sip_port = 0
        self.rtp_port = 0
        self.pid = 0

    async def __aenter__(self) -> PhoneProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway.bench.phone",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        self._reading = asyncio.create_task(self._read())
        try:
            ready = await self.wait("ready", timeout_s=20)
        except BaseException:
            await self._end()
            raise
        self.sip_port, self.rtp_port, self.pid = ready["sip_port"], ready["rtp_port"], ready["pid"]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    @property
    def uri(self) -> str:
        """Where this telephone can be called directly."""
        return f"sip:{self._user}@{self._host}:{self.sip_port}"

    @property
    def position(self) -> int:
        """The number of events so far: where a later `wait` may begin."""
        return len(self.events)

    def send(self, cmd: str, **fields: Any) -> None:
        """Give one command; PhoneError when the process is gone."""
        if self._process is None or self._process.stdin is None or self._gone:
            raise PhoneError(f"telephone {self._user} is gone")
        self._process.stdin.write((json.dumps({"cmd": cmd, **fields}) + "\n").encode())

    async def wait(
        self, *names: str, timeout_s: float, since: int = 0, such_that: Callable[[Event], bool] = lambda event: True
    ) -> Event:
        """The first event from position ``since`` on with one of the names that fulfils ``such_that``.

        Raises:
            PhoneError: the time is over, the telephone ended, or it reported an error while this waited.
        """

        def found() -> Event | None:
            for event in self.events[since:]:
                if event["event"] in names and such_that(event):
                    return event
                if event["event"] == "error" and "error" not in names:
                    raise PhoneError(f"telephone {self._user}: {event['message']} ({event.get('cmd')})")
            return None

        async def until() -> Event:
            async with self._changed:
                while (event := found()) is None:
                    if self._gone:
                        raise PhoneError(f"telephone {self._user} ended while {' or '.join(names)} was waited for")
                    await self._changed.wait()
                return event

        try:
            return await asyncio.wait_for(until(), timeout_s)
        except TimeoutError as error:
            raise PhoneError(f"telephone {self._user}: no {' or '.join(names)} within {timeout_s:g} s") from error

    def find(self, name: str, since: int = 0) -> list[Event]:
        """The events of one name so far."""
        return [event for event in self.events[since:] if event["event"] == name]

    async def capture(self, path: Path) -> Capture:
        """Let the telephone save its call, and read it."""
        since = self.position
        self.send("save", file=str(path))
        await self.wait("saved", timeout_s=30, since=since)
        return await asyncio.to_thread(load_capture, path)

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                event = json.loads(line)
                async with self._changed:
                    if len(self.events) < _MOST_EVENTS:
                        self.events.append(event)
                    self._changed.notify_all()
        finally:
            async with self._changed:
                self._gone = True
                self._changed.notify_all()

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()  # the telephone hangs up and ends
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            with suppress(asyncio.CancelledError, ValueError):
                await self._reading
        self._process = None
