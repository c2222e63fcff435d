# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds what connections can hold of this process: their number, and how long one may ask for nothing.

The same process carries the telephones' sound and needs its file handles. The server has no limit of either kind, so
its protocol is given one here.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 128
LOOK_S = 15.0


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 that turns away the 129th connection, and ends one on which two looks found no new request."""

    _seen: Any = None
    _looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """A client is there."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """A request in progress may take its time; a slow or missing one may not."""
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is self._seen:
            self.transport.abort()
            return
        self._seen = self.cycle
        self._look_later()
