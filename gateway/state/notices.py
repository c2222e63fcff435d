# SPDX-License-Identifier: GPL-3.0-or-later
"""Hears one channel of Redis, and knows when it no longer does.

The client library's own PubSub object connects again behind one's back and can then wait for ever on a connection
that says nothing (CASES K01). Here a connection is used once: subscribed, read, asked for a sign of life when it is
quiet, and given up at the first doubt. Whoever listens makes a new one and looks at what was missed.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from redis.asyncio import Redis

_QUIET_S = 2.0  # then a PING; with the answer's timeout well within the 5 s of C7


class Notices:
    """``async with Notices(client, channel, timeout_s) as notices: await notices.next()``."""

    def __init__(self, client: Redis, channel: str, timeout_s: float) -> None:
        pool = client.connection_pool
        self._connection: Any = pool.connection_class(**pool.connection_kwargs)
        self._channel = channel
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        try:
            await self._connection.connect()
            await self._connection.send_command("SUBSCRIBE", self._channel)
            await self._connection.read_response()
        except BaseException:
            await self._connection.disconnect(nowait=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.disconnect(nowait=True)

    async def next(self) -> str:
        """The next message. Raises as any Redis call does, TimeoutError when the server gives no sign of life."""
        asked = False
        while True:
            answer = await self._connection.read_response(timeout=self._timeout_s if asked else _QUIET_S)
            if answer is None:
                if asked:
                    raise TimeoutError("no answer to a ping")
                await self._connection.send_command("PING", check_health=False)
                asked = True
                continue
            asked = False
            if answer[0] == "message":
                return str(answer[2])
