# SPDX-License-Identifier: GPL-3.0-or-later
"""``/v1/calls``: place, see, change, end; what happens in them, and what was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.api.access import CallId, JsonOnly, control_of, needs, problems
from gateway.api.control import Control
from gateway.api.guard import EVERYBODY_HERE
from gateway.api.journal import Page
from gateway.api.problems import INVALID, TOO_MANY, Problem
from gateway.api.shapes import CallChange, CallDetail, CallList, CallOrder, Transcript, TransferOrder
from gateway.api.tokens import Permission, Principal, TokenBook
from gateway.call.captions import cues, subrip, webvtt

log = structlog.get_logger(__name__)

MOST_STREAMS = 32
MOST_KEYS = 256  # of placed calls, against a second one by a request that is sent again
LOOK_S = 1.0  # a revoked token ends its streams within this and the file's second
QUIET_LOOKS = 10  # then a comment, so that proxies keep the line
_STREAM = {"content": {"text/event-stream": {}}, "description": "Events as they happen."}
_TEXT = {"description": "Subtitles."}

router = APIRouter(prefix="/v1/calls", tags=["calls"])


@router.get("", responses=problems(422, 503))
async def list_calls(
    request: Request,
    _: Annotated[Principal, needs(Permission.CALLS)],
    state: Annotated[Literal["live", "ended"], Query(description="Calls that live, or that are over.")] = "live",
    most: Annotated[int, Query(ge=1, le=200, description="Of those that are over.")] = 50,
) -> CallList:
    """Calls of all gateways that share this one's Redis."""
    control = control_of(request)
    found = await control.calls() if state == "live" else await control.ended_calls(most)
    return CallList.model_validate({"calls": found})


@router.post("", status_code=201, responses=problems(415, 422, 503), dependencies=[JsonOnly])
async def place_call(
    request: Request,
    response: Response,
    order: CallOrder,
    who: Annotated[Principal, needs(Permission.CONTROL)],
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=100, description="The same key again gives the same call.")
    ] = None,
) -> CallDetail:
    """Click to call: the first party's telephone rings, then the second's; both hear each other interpreted."""
    control, placed = control_of(request), request.app.state.placed
    call_id = placed.get((who.id, idempotency_key)) if idempotency_key else None
    if call_id is None:
        call_id = control.place(order, anywhere=who.may(Permission.ANYWHERE))
        if idempotency_key:
            placed[who.id, idempotency_key] = call_id
            if len(placed) > MOST_KEYS:
                del placed[next(iter(placed))]
        if order.hotwords is not None:
            await control.change(call_id, CallChange(hotwords=order.hotwords))
        log.info("api_call_placed", call=call_id, token=who.id)
    response.headers["Location"] = f"/v1/calls/{call_id}"
    return CallDetail.model_validate(await control.call(call_id))


@router.get("/{call_id}", responses=problems(404, 422, 503, 504))
async def show_call(request: Request, call_id: CallId, _: Annotated[Principal, needs(Permission.CALLS)]) -> CallDetail:
    """One call, live or over."""
    return CallDetail.model_validate(await control_of(request).call(call_id))


@router.patch("/{call_id}", responses=problems(404, 409, 415, 422, 503, 504), dependencies=[JsonOnly])
async def change_call(
    request: Request, call_id: CallId, change: CallChange, who: Annotated[Principal, needs(Permission.CONTROL)]
) -> CallDetail:
    """Change a live call. It takes effect with the next utterance; what has begun is finished as it began."""
    changed = await control_of(request).change(call_id, change)
    log.info("api_call_changed", call=call_id, token=who.id, fields=sorted(change.model_fields_set))
    return CallDetail.model_validate(changed)


@router.post(
    "/{call_id}/transfer", status_code=202, responses=problems(404, 409, 415, 422, 503, 504), dependencies=[JsonOnly]
)
async def transfer_call(
    request: Request, call_id: CallId, order: TransferOrder, who: Annotated[Principal, needs(Permission.CONTROL)]
) -> CallDetail:
    """Put a party through to somebody else, with the interpreter or without.

    The events ``call-transfer`` (with) and ``call-handover`` (without) tell what becomes of it: ``trying``, ``done``,
    or ``failed`` with a reason, which the party hears too. As long as it is not done, both go on talking.
    """
    shown = await control_of(request).transfer(call_id, order, anywhere=who.may(Permission.ANYWHERE))
    log.info("api_call_transferred", call=call_id, token=who.id, interpreted=order.interpreted)
    return CallDetail.model_validate(shown)


@router.delete("/{call_id}", status_code=204, responses=problems(404, 422, 503, 504))
async def hang_up(request: Request, call_id: CallId, who: Annotated[Principal, needs(Permission.CONTROL)]) -> Response:
    """Hang up on both parties."""
    await control_of(request).hang_up(call_id)
    log.info("api_call_hung_up", call=call_id, token=who.id)
    return Response(status_code=204)


@router.get(
    "/{call_id}/events",
    response_class=StreamingResponse,
    responses={**problems(404, 422, 503, 504), 200: _STREAM, 204: {"description": "Over, and you have heard it all."}},
)
async def call_events(
    request: Request,
    call_id: CallId,
    who: Annotated[Principal, needs(Permission.WORDS)],
    last_event_id: Annotated[str | None, Header(description="Go on behind this event.")] = None,
) -> Response:
    """Server-sent events: everything that happens in a call, from its beginning or from where you were cut off.

    An event ``missed`` says how many are no longer kept. The stream ends behind ``call-ended``.
    """
    after = _number(last_event_id)
    control, streams = control_of(request), request.app.state.streams
    page = await control.events(call_id, after)
    if page.over and not page.events:
        return Response(status_code=204)
    if streams.open >= MOST_STREAMS:
        raise Problem(TOO_MANY, f"{MOST_STREAMS} streams are open already", headers={"Retry-After": "5"})
    tokens: TokenBook = request.app.state.tokens

    def still_wanted() -> bool:
        return not streams.closing.is_set() and (who is EVERYBODY_HERE or tokens.still(who))

    return EventStream(_events(control, call_id, after, page, still_wanted), streams)


class Streams:
    """How many event streams are open, and whether they are to end."""

    def __init__(self) -> None:
        self.open = 0
        self.closing = asyncio.Event()


class EventStream(StreamingResponse):
    """A stream that gives its place back however it ends, also while a client does not take what is sent."""

    def __init__(self, events: AsyncGenerator[str, None], streams: Streams) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._events = events
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until it ends."""
        self._streams.open += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.open -= 1
            await self._events.aclose()


async def _events(
    control: Control, call_id: str, after: int, page: Page, still_wanted: Callable[[], bool]
) -> AsyncGenerator[str, None]:
    quiet = 0
    yield "retry: 1000\n\n"
    while True:
        if page.missed:
            yield f'event: missed\ndata: {{"missed": {page.missed}}}\n\n'
        for told in page.events:
            after = told["id"]
            yield f"id: {after}\nevent: {told['kind']}\ndata: {json.dumps(told, ensure_ascii=False)}\n\n"
        if page.over or not still_wanted():
            return
        quiet = 0 if page.events else quiet + 1
        if quiet >= QUIET_LOOKS:
            quiet = 0
            yield ": still here\n\n"
        if not page.events:
            await control.wait(call_id, after, LOOK_S)
        try:
            page = await control.events(call_id, after)
        except Problem:  # the call, or the gateway that held it, is gone
            return


def _number(last_event_id: str | None) -> int:
    if not last_event_id:
        return 0
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= 15):
        raise Problem(INVALID, "Last-Event-ID is the id of an event: a number")
    return int(last_event_id)


@router.get("/{call_id}/transcript.json", responses=problems(404, 422, 503, 504))
async def transcript(request: Request, call_id: CallId, _: Annotated[Principal, needs(Permission.WORDS)]) -> Transcript:
    """What was said so far, in both languages; for a while also behind the call."""
    return Transcript.model_validate(await control_of(request).transcript(call_id))


Language = Annotated[
    str | None,
    Query(
        pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$",
        max_length=35,
        description="As somebody hears the call who speaks this language. By default the first party's.",
    ),
]


@router.get(
    "/{call_id}/transcript.vtt",
    response_class=PlainTextResponse,
    responses={**problems(404, 422, 503, 504), 200: {**_TEXT, "content": {"text/vtt": {"schema": {"type": "string"}}}}},
)
async def transcript_vtt(
    request: Request, call_id: CallId, _: Annotated[Principal, needs(Permission.WORDS)], language: Language = None
) -> Response:
    """The transcript as WebVTT subtitles in one language."""
    chosen, lines = await _captions(request, call_id, language)
    return Response(webvtt(lines, language=chosen), media_type="text/vtt; charset=utf-8")


@router.get(
    "/{call_id}/transcript.srt",
    response_class=PlainTextResponse,
    responses={
        **problems(404, 422, 503, 504),
        200: {**_TEXT, "content": {"application/x-subrip": {"schema": {"type": "string"}}}},
    },
)
async def transcript_srt(
    request: Request, call_id: CallId, _: Annotated[Principal, needs(Permission.WORDS)], language: Language = None
) -> Response:
    """The transcript as SubRip subtitles in one language."""
    _chosen, lines = await _captions(request, call_id, language)
    return Response(subrip(lines), media_type="application/x-subrip; charset=utf-8")


async def _captions(request: Request, call_id: str, language: str | None) -> tuple[str, Any]:
    told = (await control_of(request).transcript(call_id))["lines"]
    if language is None:
        language = next((_heard_by_a(line) for line in told), "")
    return language, cues([_line(line) for line in told], language, 0)


def _heard_by_a(line: dict[str, Any]) -> str:
    return str(line["source_language"] if line["party"] == "a" else line["target_language"])


def _line(told: dict[str, Any]) -> Any:
    def ns(ms: int | None) -> int:
        return (ms or 0) * 1_000_000

    return SimpleNamespace(
        leg=told["party"],
        source_lang=told["source_language"],
        target_lang=told["target_language"],
        source_text=told["source_text"],
        target_text=told["target_text"],
        audio_first_ns=ns(told["said_ms"]),
        audio_end_ns=ns(told["said_end_ms"]),
        played_ns=None if told["heard_ms"] is None else ns(told["heard_ms"]),
    )
