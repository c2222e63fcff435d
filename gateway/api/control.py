# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API can do with calls, whichever gateway holds them.

A call is shown, changed and ended by the gateway that has it. The others put the same command, as JSON, on the line
through Redis (`gateway.state.line`) and pass on the answer, be it a refusal. Commands may be done twice without harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, cast

import structlog

from gateway.api.destinations import Destination, Destinations
from gateway.api.dictionaries import Dictionaries
from gateway.api.journal import MOST_EVENTS, Journal, Page
from gateway.api.problems import (
    BROKEN,
    BUSY,
    CALL_IS_OVER,
    INVALID,
    NO_SUCH_CALL,
    NO_TRANSFER_NOW,
    NOT_READY,
    OTHER_GATEWAY,
    PAIR_NOT_SERVED,
    Problem,
)
from gateway.api.shapes import AUTO, CallChange, CallOrder, PartyChange, TransferOrder
from gateway.call import termination
from gateway.call.bridge import Call
from gateway.call.dialplan import Match, Route
from gateway.call.fallback import Fallbacks
from gateway.call.glossary import GLOBAL_SCOPE
from gateway.call.party import Party
from gateway.call.safety_mode import SafetyWish
from gateway.call.states import CallPhase
from gateway.call.switchboard import Switchboard
from gateway.call.termination import Ending
from gateway.call.transfer import Wanted
from gateway.state import CallRecord, NobodyAnswers, StateStore, StateUnavailable, call_scope, trunk_scope
from gateway.text.safety import safety_words

log = structlog.get_logger(__name__)

T = TypeVar("T")
_KEPT = ("phase", "route", "mode", "paused", "started_at", "duration_s", "bridged_s", "result", "reason", "utterances")
ROUTE = "click-to-call"
EVENTS_AT_ONCE = 100  # over the line; the next page follows at once
ANSWER_S = 3.0
MOST_HOLDERS = 256
LOOK_AGAIN_S = 0.25  # for events of a call of another gateway


class Control:
    """The one object behind the routes. All methods belong to the event loop; all refusals are `Problem`."""

    def __init__(
        self,
        *,
        switchboard: Switchboard,
        state: StateStore,
        journal: Journal,
        destinations: Destinations,
        default_mode: str,
        trunks: frozenset[str] = frozenset(),
    ) -> None:
        self.dictionaries = Dictionaries(state)
        self.voices: Mapping[str, tuple[str, ...]] = {}
        """By language, once the models are loaded."""
        self.fallbacks = Fallbacks()
        self._board = switchboard
        self._state = state
        self._journal = journal
        self._destinations = destinations
        self._default_mode = default_mode
        self._scopes = {GLOBAL_SCOPE, *map(trunk_scope, trunks)}
        self._holders: dict[str, str] = {}
        state.line.serve(self._answer)

    def serves(self, source: str, target: str) -> bool:
        """Whether two people with these languages can talk to each other."""
        return self._board.serves(source, target)

    # --- calls ------------------------------------------------------------------------------------------------------

    async def calls(self) -> list[dict[str, Any]]:
        """All live calls of all gateways."""
        records = {record.call_id: self._seen(record) for record in await self._state.list_calls()}
        mine = {call_id: self._shown(call_id, record) for call_id, record in self._board.calls().items()}
        return [shown for _, shown in sorted({**records, **mine}.items())]

    async def ended_calls(self, most: int) -> list[dict[str, Any]]:
        """The last calls that are over, the latest first, as far as they are kept."""
        recent = await _from_store(self._state.transcripts.recent(most))
        return [_view(call_id, record, "ended", "") for call_id, record in recent.items()]

    def place(self, order: CallOrder, *, anywhere: bool) -> str:
        """Dial two parties; the call's id. ``anywhere``: any URI may be called."""
        a = self._destinations.find(order.a.to, "a.to", anywhere=anywhere)
        b = self._destinations.find(order.b.to, "b.to", anywhere=anywhere)
        source, target = order.a.language or a.language, order.b.language or b.language
        if source is None or target is None:
            missing = "a" if source is None else "b"
            raise Problem(INVALID, f"{missing}.language is needed, because {missing}.to is no number of the dial plan")
        voices = {}
        for language, voice in ((source, order.a.voice), (target, order.b.voice)):
            if voice is not None:
                self._check_voice(language, voice)
                voices[language] = voice
        route = Route(ROUTE, source, target, b.uri, order.mode or self._default_mode, voices=voices)
        placed = self._board.bridge(Match(route, b.uri, first=a.uri))
        if isinstance(placed, Ending):
            raise _refusal(placed)
        return placed

    async def call(self, call_id: str) -> dict[str, Any]:
        """A call that lives anywhere, or is over and still known."""
        if self._board.live(call_id) is None:
            ended = await _from_store(self._state.transcripts.ended(call_id))
            if ended is not None:
                return {**_view(call_id, ended, "ended", ""), "statistics": _statistics(ended)}
        return await self._do(call_id, "show")

    async def change(self, call_id: str, change: CallChange) -> dict[str, Any]:
        """Change a live call from the next utterance on; the call as it is then."""
        return await self._do(call_id, "change", change=change.model_dump(exclude_unset=True))

    async def hang_up(self, call_id: str) -> None:
        """End a live call."""
        await self._do(call_id, "hang-up")

    async def transfer(self, call_id: str, order: TransferOrder, *, anywhere: bool) -> dict[str, Any]:
        """Let a party of a live call talk to somebody else; the call as it is while that one's telephone rings."""
        return await self._do(call_id, "transfer", order=order.model_dump(), anywhere=anywhere)

    async def events(self, call_id: str, after: int) -> Page:
        """What happened in a call behind an event's number."""
        if self._journal.holds(call_id):
            return self._journal.since(call_id, after, MOST_EVENTS)
        told = await self._do(call_id, "events", after=after)
        return Page(told["events"], told["missed"], told["over"])

    async def wait(self, call_id: str, after: int, timeout_s: float) -> None:
        """Return when there may be more events."""
        if self._journal.holds(call_id):
            await self._journal.wait(call_id, after, timeout_s)
        else:
            await asyncio.sleep(LOOK_AGAIN_S)

    async def transcript(self, call_id: str) -> dict[str, Any]:
        """``{"call", "over", "lines"}`` of a call that lives anywhere, or is over and still known, however it ended.

        A gateway that died took its calls along, but not what had been said in them: that was in Redis by then.
        """
        if self._board.live(call_id) is None:
            ended = await _from_store(self._state.transcripts.ended(call_id))
            record = await self._state.get_call(call_id) if ended is None else None
            if ended is not None or record is None or record.orphan:
                lines = await _from_store(self._state.transcripts.lines(call_id))
                if lines or ended is not None or record is not None:
                    return {"call": call_id, "over": True, "lines": lines}
        return await self._do(call_id, "transcript")

    async def dictionary(self, scope: str, verb: str, document: dict[str, Any] | None) -> dict[str, Any]:
        """Read or change a dictionary: ``global``, ``trunk:NAME``, or by its id that of a live call."""
        if scope in self._scopes:
            return await self._dictionary(scope, verb, document)
        return await self._do(scope, "dictionary", verb=verb, document=document)

    # --- here or there ------------------------------------------------------------------------------------------------

    async def _do(self, call_id: str, command: str, **arguments: Any) -> dict[str, Any]:
        if self._board.live(call_id) is not None or (command == "events" and self._journal.holds(call_id)):
            return await self._here(command, call_id, arguments)
        record = await self._state.get_call(call_id)
        if record is not None and record.orphan:
            if command == "show":
                return {**self._seen(record), "statistics": _statistics(record.data)}
            raise Problem(CALL_IS_OVER, "the gateway that held the call no longer lives")
        holder = record.instance if record is not None else self._holders.get(call_id)
        if holder is None or holder == self._state.instance or (record is None and command != "events"):
            raise Problem(NO_SUCH_CALL)
        self._remember(call_id, holder)
        question = {"command": command, "call": call_id, "arguments": arguments}
        try:
            answer = await self._state.line.ask(holder, question, timeout_s=ANSWER_S)
        except NobodyAnswers as error:
            raise Problem(OTHER_GATEWAY, str(error)) from None
        if "problem" in answer:
            raise Problem.from_json(answer["problem"])
        return cast(dict[str, Any], answer["done"])

    def _remember(self, call_id: str, holder: str) -> None:
        """The end of a call is heard from its gateway, also when the registry has forgotten the call already."""
        self._holders[call_id] = holder
        if len(self._holders) > MOST_HOLDERS:
            del self._holders[next(iter(self._holders))]

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Another gateway asks about a call of ours."""
        try:
            command, call_id, arguments = question["command"], question["call"], question["arguments"]
            return {"done": await self._here(command, call_id, arguments)}
        except Problem as problem:
            return {"problem": problem.as_json()}
        except Exception as error:  # the asker waits for an answer, whatever broke here; no words in the log
            log.error("command_failed", command=str(question.get("command"))[:20], error=type(error).__name__)
            return {"problem": Problem(BROKEN).as_json()}

    async def _here(self, command: str, call_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if command == "events" and self._journal.holds(call_id):
            page = self._journal.since(call_id, int(arguments["after"]), EVENTS_AT_ONCE)
            return {"events": page.events, "missed": page.missed, "over": page.over}
        call = self._board.live(call_id)
        if call is None:
            raise Problem(NO_SUCH_CALL)
        match command:
            case "show":
                pass
            case "change":
                await self._change(call, CallChange.model_validate(arguments["change"]))
            case "transfer":
                self._transfer(call, TransferOrder.model_validate(arguments["order"]), anywhere=arguments["anywhere"])
            case "hang-up":
                self._board.hang_up(call_id)
                return {}
            case "transcript":
                lines = await self._state.transcripts.lines(call_id)
                return {"call": call_id, "over": False, "lines": lines}
            case "dictionary":
                return await self._dictionary(call_scope(call_id), arguments["verb"], arguments["document"])
            case _:
                raise Problem(BROKEN, "this gateway does not know that command: update it")
        record = call.record()
        return {**self._shown(call_id, record), "statistics": _statistics(record)}

    # --- what is done here --------------------------------------------------------------------------------------------

    async def _change(self, call: Call, change: CallChange) -> None:
        """All of it or nothing: what cannot be done is found out before anything is."""
        if call.ending is not None:
            raise Problem(CALL_IS_OVER)
        parties = ((call.a, change.a or PartyChange()), (call.b, change.b or PartyChange()))
        languages = [wish.pinned or party.language for party, wish in parties]
        if not self._board.serves(*languages):
            raise Problem(PAIR_NOT_SERVED, "see /v1/languages for the pairs that are")
        if change.safety_words is SafetyWish.ON and safety_words(*languages) is None:
            raise Problem(INVALID, f"there are no safety words between {' and '.join(languages)}")
        for language, (_, wish) in zip(languages, parties, strict=True):
            if wish.voice is not None:
                self._check_voice(language, wish.voice)
        if change.hotwords is not None:
            await self.dictionaries.set_hotwords(call_scope(call.call_id), change.hotwords)
        if change.mode is not None:
            call.set_mode(change.mode)
        if change.paused is not None:
            call.controls.set_paused(change.paused)
        if change.safety_words is not None:
            call.safety.set(change.safety_words)
        for party, wish in parties:
            _change_party(call, party, wish)
            if wish.language is not None:  # pinned, or to be found out among what the other party can be talked to in
                among = () if wish.pinned else self._board.candidates(call.other(party).language)
                call.direction_from(party).identify(among)
        call.changed()

    def _transfer(self, call: Call, order: TransferOrder, *, anywhere: bool) -> None:
        if call.ending is not None:
            raise Problem(CALL_IS_OVER)
        if call.phase is not CallPhase.BRIDGED:
            raise Problem(NO_TRANSFER_NOW, "the parties are not connected yet")
        to = self._destinations.find(order.to, "to", anywhere=anywhere)
        stays = call.a if order.party == "a" else call.b
        leaves = call.other(stays)
        awaited = call.transfers.awaits(stays) or call.transfers.awaits(leaves)
        busy = Problem(NO_TRANSFER_NOW, "another transfer is under way: its call-transfer or call-handover event tells")
        if not order.interpreted:
            if awaited or call.handovers.under_way not in (None, (stays.side, to.uri)):
                raise busy
            call.handovers.begin(stays, to.uri)
            return
        wanted = self._wanted(to, order.language, stays, leaves)
        if call.transfers.has_brought(leaves, wanted):
            return
        if awaited or call.handovers.under_way is not None:
            raise busy
        refusal = self._board.transfer(call, leaves, wanted)
        if refusal is not None:
            raise _refusal(refusal)

    def _wanted(self, to: Destination, language: str | None, stays: Party, leaves: Party) -> Wanted:
        """Whom to bring, and what they speak: as ordered, as the dial plan says, or what the one before spoke."""
        spoken = language or to.language or leaves.language
        if spoken == AUTO:
            return Wanted(to.uri, leaves.language, self._board.candidates(stays.language))
        if not self._board.serves(stays.language, spoken):
            raise Problem(PAIR_NOT_SERVED, "see /v1/languages for the pairs that are")
        return Wanted(to.uri, spoken)

    async def _dictionary(self, scope: str, verb: str, document: dict[str, Any] | None) -> dict[str, Any]:
        match verb:
            case "replace":
                return await self.dictionaries.replace(scope, document or {})
            case "merge":
                return await self.dictionaries.merge(scope, document or {})
            case "hotwords":
                return await self.dictionaries.set_hotwords(scope, document or {})
            case _:
                return await self.dictionaries.read(scope)

    def _check_voice(self, language: str, voice: str) -> None:
        known = self.voices.get(language, ())
        if voice not in known:
            raise Problem(INVALID, f"there is no such voice for {language}; there are: {', '.join(known) or 'none'}")

    def _shown(self, call_id: str, record: Mapping[str, Any]) -> dict[str, Any]:
        return _view(call_id, record, "live", self._state.instance)

    @staticmethod
    def _seen(record: CallRecord) -> dict[str, Any]:
        return _view(record.call_id, record.data, "lost" if record.orphan else "live", record.instance)


def _change_party(call: Call, party: Party, wish: PartyChange) -> None:
    if wish.mode is not None:
        call.set_mode(wish.mode, party.side)
    if wish.language is not None or wish.voice is not None:
        call.set_language(party.side, wish.pinned or party.language, wish.voice)
    if wish.original is not None:
        call.controls.set_original(party, wish.original)
    if wish.tempo is not None:
        call.controls.set_tempo(party, wish.tempo)


def _view(call_id: str, record: Mapping[str, Any], state: str, gateway: str) -> dict[str, Any]:
    languages, codecs = record["languages"], record["codecs"]
    # a gateway of an older version tells neither
    snr_db, safety = record.get("snr_db", (None, None)), record.get("safety_words", (False, False))
    return {
        "id": call_id,
        "gateway": gateway,
        "state": state,
        "a": {"language": languages[0], "codec": codecs[0], "snr_db": snr_db[0], "safety_words": safety[0]},
        "b": {"language": languages[1], "codec": codecs[1], "snr_db": snr_db[1], "safety_words": safety[1]},
        **{key: record[key] for key in _KEPT},
    }


def _statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    told = ("directions", "parties", "controls", "safety_mode", "transfers")
    return {key: record[key] for key in told if key in record}  # an older gateway does not know all of them


def _refusal(ending: Ending) -> Problem:
    """Why the switchboard did not place a call, in the API's words."""
    after = {"Retry-After": str(ending.retry_after_s)} if ending.retry_after_s else {}
    if ending is termination.UNKNOWN_LANGUAGE:
        return Problem(PAIR_NOT_SERVED, "see /v1/languages for the pairs that are")
    kind = NOT_READY if ending is termination.NOT_READY else BUSY
    return Problem(kind, f"{ending.reason}: try again later", {"reason": ending.reason}, after)


async def _from_store(asked: Awaitable[T]) -> T:
    """An answer of the state store, or a refusal when there is none."""
    try:
        return await asked
    except StateUnavailable as error:
        raise Problem(NOT_READY, str(error), headers={"Retry-After": "5"}) from None
