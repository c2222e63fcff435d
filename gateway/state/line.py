# SPDX-License-Identifier: GPL-3.0-or-later
"""The line between gateways: one asks another to do something with a call that lives there, and hears the answer.

Each gateway listens to one channel of Redis, ``{prefix}:line:{instance}``, for questions and for answers to its own.
A channel keeps nothing: a question is heard now or never, so nobody hangs up a call an hour later because a queue
was emptied at last. That nobody listens is known at once (PUBLISH counts its hearers), that the answer is lost after
a time-out; whoever asks then does not know whether it was done, and what may be asked is therefore harmless when it
is done twice. Whoever may write to this Redis may ask: it is as trusted as the gateways.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from redis.asyncio import Redis

from gateway.state.connect import FAILURES
from gateway.state.errors import StateUnavailable
from gateway.state.notices import Notices

log = structlog.get_logger(__name__)

MOST_QUESTIONS = 64  # answered at the same time, or waiting for an answer
_LARGEST_BYTES = 4_194_304

Handler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Takes a question and gives its answer, both JSON objects. It must not raise: refusals are answers too."""


class NobodyAnswers(StateUnavailable):
    """The other gateway does not listen, or did not answer in time."""


class Line:
    """One gateway's end. ``listen`` is run by the store; ``ask`` may be called by anybody."""

    def __init__(self, client: Redis, prefix: str, instance: str, timeout_s: float) -> None:
        self._client = client
        self._prefix = prefix
        self._instance = instance
        self._timeout_s = timeout_s
        self._handler: Handler | None = None
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._counts = dict.fromkeys(("asked", "answered", "unanswered", "refused"), 0)

    def serve(self, handler: Handler) -> None:
        """Who answers the questions of others."""
        self._handler = handler

    async def ask(self, instance: str, question: dict[str, Any], *, timeout_s: float = 3.0) -> dict[str, Any]:
        """Put a question to another gateway. NobodyAnswers when it does not listen or takes too long."""
        if len(self._waiting) >= MOST_QUESTIONS:
            self._counts["refused"] += 1
            raise NobodyAnswers("too many questions to other gateways are open; try again in a moment")
        number = secrets.token_hex(8)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._counts["asked"] += 1
        try:
            async with asyncio.timeout(timeout_s):
                hearers = await self._send(instance, {"id": number, "from": self._instance, "question": question})
                if not hearers:
                    raise NobodyAnswers(f"gateway {instance} is not listening")
                return await answer
        except TimeoutError:
            self._counts["unanswered"] += 1
            raise NobodyAnswers(f"gateway {instance} did not answer within {timeout_s:g} s") from None
        except FAILURES as fault:
            self._counts["unanswered"] += 1
            raise NobodyAnswers(f"Redis does not carry the question ({type(fault).__name__})") from None
        finally:
            del self._waiting[number]

    async def listen(self) -> None:
        """Hear questions and answers until the connection fails, which raises as any Redis call does."""
        async with Notices(self._client, self._channel(self._instance), self._timeout_s) as notices:
            while True:
                self._hear(await notices.next())

    def statistics(self) -> dict[str, int]:
        """What was asked of others, and what others asked."""
        return {**self._counts, "open": len(self._waiting), "answering": len(self._answering)}

    def _hear(self, text: str) -> None:
        try:
            message = json.loads(text)
            number, answer, question = message["id"], message.get("answer"), message.get("question")
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # another program's
        if isinstance(answer, dict):
            waiting = self._waiting.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        elif isinstance(question, dict) and self._handler is not None and len(self._answering) < MOST_QUESTIONS:
            task = asyncio.create_task(self._answer(self._handler, number, str(message.get("from")), question))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        else:
            self._counts["refused"] += 1

    async def _answer(self, handler: Handler, number: str, asker: str, question: dict[str, Any]) -> None:
        try:
            await self._send(asker, {"id": number, "answer": await handler(question)})
            self._counts["answered"] += 1
        except FAILURES as fault:
            log.warning("answer_not_sent", reason=type(fault).__name__)
        except Exception:
            log.exception("question_failed")

    async def _send(self, instance: str, message: dict[str, Any]) -> int:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        if len(text) > _LARGEST_BYTES:
            raise ValueError(f"a message between gateways must not exceed {_LARGEST_BYTES} characters")
        pipe = self._client.pipeline(transaction=False)
        pipe.publish(self._channel(instance), text)
        (hearers,) = await pipe.execute()
        return int(hearers)

    def _channel(self, instance: str) -> str:
        return f"{self._prefix}:line:{instance}"
