# SPDX-License-Identifier: GPL-3.0-or-later
"""One real Redis for all tests of the API; each test has a prefix of its own in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from gateway.state.embedded import EmbeddedRedis
from tests.api.control_room import REDIS


@pytest.fixture(scope="session", autouse=True)
def redis() -> Iterator[None]:
    """The server's URL, in the environment for `control_room`."""
    server = EmbeddedRedis()
    with asyncio.Runner() as runner:
        os.environ[REDIS] = runner.run(server.start())
        yield
        del os.environ[REDIS]
        runner.run(server.stop())
