# SPDX-License-Identifier: GPL-3.0-or-later
"""One interpreted call: the caller's leg, the called party's leg, and a direction of speech each way.

    caller answered, told that a machine interprets → called party dialled → told too → both directions run
    → one hangs up → the other hears the last words → the call is over, with (result, reason)

What a leg may do stands in `states`; this file does what those tables say, in time. Every wait here is bounded, or
ends with a leg.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from gateway.audio.frames import Frame
from gateway.audio.playout import ClipKind
from gateway.call import termination
from gateway.call.controls import Controls
from gateway.call.cue import WaitingCue
from gateway.call.desk import Desk
from gateway.call.detail import detail_record, effective
from gateway.call.dialplan import Match
from gateway.call.direction import Direction
from gateway.call.fallback import FallbackNotice
from gateway.call.handover import Handovers
from gateway.call.party import Party
from gateway.call.prompts import CALLEE_DISCLOSURE, CALLER_DISCLOSURE, INTERPRETED, ON_HOLD, SAME_LANGUAGE
from gateway.call.reception import Reception
from gateway.call.recording import CallRecorder
from gateway.call.ringback import ring_back
from gateway.call.safety_mode import SafetyMode
from gateway.call.states import CallPhase, LegEvent, LegState, call_of
from gateway.call.termination import Ending
from gateway.call.transfer import Transfers, Wanted
from gateway.sip.events import Answered, Digit, Ended, MediaActive, MediaHeld, Ringing, SipEvent
from gateway.state import call_scope, trunk_scope

log = structlog.get_logger(__name__)

TICK_S = 0.1
HOLD = "hold"
EARLY_NS = 200_000_000  # sound and answer come together, unless there was early media
EARLY_TAIL_MS = 80  # what the jitter buffer may still hold of it; nobody says hello that soon
GONE_WAIT_S = 40.0  # a BYE that nobody answers is given up after 32 s (RFC 3261, 64·T1)


class Call:
    """One call, from the accepted INVITE to the last word. Create it, give it the SIP events, await `run`.

    ``leg`` is the first party's: the offered one, or a new id when ``match.first`` says that it is to be dialled.
    """

    def __init__(self, call_id: str, leg: str, match: Match, desk: Desk) -> None:
        self.call_id = call_id
        self.match = match
        self.ending: Ending | None = None
        self.phase = CallPhase.SETUP
        self.desk = desk
        scopes = (call_scope(call_id), *((trunk_scope(match.trunk),) if match.trunk else ()))
        self._booth = replace(desk.booth, glossary=lambda: desk.glossaries.current(scopes))
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        route = match.route
        self._rate_hz = desk.booth.endpoint.rate_hz
        self._recorder = CallRecorder(desk.recordings, call_id, self._rate_hz) if desk.recordings else None
        self.a = self._party("a", leg, route.source)
        self.b = self._party("b", f"{call_id}-b", route.target)
        self._voices = dict(route.voices or {})
        self._passing = False
        self.a_to_b = self._direction(self.a, self.b)
        self.b_to_a = self._direction(self.b, self.a)
        self.a_to_b.identify(match.candidates[0])
        self.b_to_a.identify(match.candidates[1])
        self._reception = Reception(route.menu, self.a, self._booth, self._said("a")) if route.menu else None
        self.safety = SafetyMode(
            (self.a_to_b, self.b_to_a),
            desk.booth.turns,
            prompts=desk.booth.prompts,
            tell=self._tell,
        )
        self.fallback = FallbackNotice(
            (self.a, self.b),
            desk.booth.fallbacks,
            prompts=desk.booth.prompts,
            tell=self._tell,
        )
        self.controls = Controls(
            (self.a, self.b),
            (self.a_to_b, self.b_to_a),
            prompts=desk.booth.prompts,
            allowed=desk.controls,
            safety=self.safety,
            set_language=self.set_language,
            pass_on=self._pass_on if desk.pass_digits else None,
            tell=self._tell_control,
            clock=self._booth.clock,
            original=desk.ducking.on,
        )
        self.started_at = time.time()
        self.bridged_at = 0.0
        """Wall clock, seconds; 0 before the parties can talk."""
        self._active_ns = 0  # when the parties could last begin to speak: bridged, or back from hold
        self._tasks: set[asyncio.Task[None]] = set()
        self.transfers = Transfers(call_id, desk, self)
        self.handovers = Handovers(call_id, desk, self)
        self.utterances: Counter[str] = Counter()
        self.controls_used: Counter[str] = Counter()
        if match.first is None:
            self._apply(self.a, LegEvent.OFFER)  # here and not in `run`: a CANCEL may come before that begins

    def _party(self, side: str, leg: str, language: str) -> Party:
        recorder = self._recorder
        tap = (lambda pcm, first: recorder.heard(side, pcm, first)) if recorder else None
        desk = self.desk
        party = Party(side, leg, language, self._sound_came, tap, desk.ducking, desk.comfort_dbfs, self._rate_hz)
        party.cue = WaitingCue(round(desk.waiting_cue_s * 1e9))
        return party

    def _said(self, side: str) -> Callable[[Frame], None] | None:
        recorder = self._recorder
        return (lambda frame: recorder.said(side, frame)) if recorder else None

    def _direction(self, source: Party, target: Party) -> Direction:
        booth, voice = self._booth, self._voices.get(target.language)
        route = self.match.route
        plan = booth.plan(source.language, target.language, mode=route.mode, voice=voice, register=route.register)
        return Direction(
            self.call_id,
            source,
            target,
            plan,
            booth=booth,
            publish=self._publish_utterance,
            recorder=self._recorder,
            on_language=partial(self._speaks, source.side),
        )

    @property
    def legs_to_dial(self) -> int:
        """Legs that this call has yet to take from the user agent."""
        if self.ending is not None:
            return 0
        dialled = (self.b, self.a) if self.match.first is not None else (self.b,)
        return sum(party.machine.state is LegState.IDLE for party in dialled)

    # --- what comes from outside --------------------------------------------------------------------------------

    def legs(self) -> tuple[str, ...]:
        """The ids of both legs, and of all that took or were to take the place of one."""
        return self.a.line, self.b.line, *self.transfers.legs

    def on_sip(self, event: SipEvent) -> None:
        """Take an event of one of the legs."""
        party = self._party_of(event.leg)
        if self.handovers.on_sip(event) or self.transfers.on_sip(self._party_of, event) or party is None:
            return
        match event:
            case Ringing():
                self._apply(party, LegEvent.RING)
            case Answered():
                self._apply(party, LegEvent.CONFIRM)
            case MediaActive():
                party.codec = event.codec
                party.sound_since_ns = party.sound_since_ns or self._booth.clock()
                self._hold(party, held=False)
            case MediaHeld():
                self._hold(party, held=True)
            case Ended():
                self._leg_ended(party, event)
            case Digit():
                self._pressed(party, event.digit)
            case _:
                pass

    def _party_of(self, leg: str) -> Party | None:
        """The party that is on this leg now; None for one that was replaced."""
        return next((party for party in (self.a, self.b) if party.leg == leg), None)

    def end(self, ending: Ending) -> None:
        """End the call now, without last words (shutdown, operator, longest call)."""
        self._end_with(ending)
        for party in (self.a, self.b):
            self._hang_up(party)

    def set_mode(self, mode: str, side: str | None = None) -> None:
        """Interpret one party's speech, or both, in another mode from the next utterance on; ValueError if unknown."""
        for direction in (self.a_to_b, self.b_to_a):
            if side in (None, direction.source.side):
                direction.set_mode(mode)

    def set_language(self, side: str, language: str, voice: str | None = None) -> None:
        """From the next utterance on a party speaks, and hears, another language; in that voice, if one is named.

        Whether the gateway serves the pair is the caller's affair to know.
        """
        (self.a if side == "a" else self.b).language = language
        if voice is not None:
            self._voices[language] = voice
        for direction in (self.a_to_b, self.b_to_a):
            direction.set_languages(self._voices.get(direction.target.language))

    def _speaks(self, side: str, language: str) -> None:
        """What a party speaks has been found out, or has changed."""
        self.set_language(side, language)
        self.changed()

    def _tell_passing(self) -> None:
        """Tell both parties, once each time, that they hear each other directly from now on, or do not any more.

        Looked at by the tick: while two languages are swapped they are the same for a moment.
        """
        passing = self.a.language == self.b.language
        if passing is self._passing or self.phase is not CallPhase.BRIDGED:
            return
        self._passing = passing
        self.desk.publish("passed-through", self.call_id, on=passing, language=self.a.language)
        log.info("passed_through" if passing else "interpreted_again", call=self.call_id)
        for party in (self.a, self.b):
            name = SAME_LANGUAGE if passing else INTERPRETED
            party.prompt(name, self.desk.booth.prompts.clip(party.language, name))

    def changed(self) -> None:
        """Tell the listeners and the register what was set from outside."""
        self.desk.publish("call-changed", self.call_id, effective=effective(self))
        self.desk.register.put_call(self.call_id, self.record())

    def _hold(self, party: Party, *, held: bool) -> None:
        """While one party is on hold nobody is interpreted: it does not listen, and its music is not speech (A01).

        What was said before is spoken when it comes back. The other party stays as it is, and is told.
        """
        if held is party.held:
            return
        party.held = held
        for direction in (self.a_to_b, self.b_to_a):
            if held:
                direction.pause(f"{HOLD}-{party.side}")
            else:
                direction.resume(f"{HOLD}-{party.side}")
        other = self.other(party)
        if self._is_up(other) and held:
            other.prompt(ON_HOLD, self.desk.booth.prompts.clip(other.language, ON_HOLD))
        self._active_ns = self._booth.clock()
        self.desk.publish("call-held" if held else "call-resumed", self.call_id, leg=party.side)
        self._changed.set()

    def _pressed(self, party: Party, key: str) -> None:
        """A key of a telephone: an answer to the menu while there is one, else for the interpreter."""
        if self._reception is not None:
            if party is self.a:
                self._reception.press(key)
                self._changed.set()
        elif self._is_up(party):
            self.controls.press(party, key)

    def _pass_on(self, presser: Party, keys: str) -> None:
        other = self.b if presser is self.a else self.a
        if self._is_up(other):
            self.desk.user_agent.send_digits(other.leg, keys)

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self.desk.publish(kind, self.call_id, **data)

    def _tell_control(self, kind: str, data: dict[str, Any]) -> None:
        self.controls_used[data["control"]] += 1
        self._tell(kind, data)
        self.changed()

    def _sound_came(self) -> None:
        # on PJSIP's clock thread; a loop that has just closed has no calls left to wake
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)

    # --- transfers --------------------------------------------------------------------------------------------------

    def replaced(self, party: Party, wanted: Wanted | None, *, active: bool) -> None:
        """Somebody else has taken a party's place: they hear nothing said before, and are told what this is."""
        self.direction_to(party).cut()
        if wanted is not None:
            self.direction_from(party).identify(wanted.among)
            self._speaks(party.side, wanted.language)
        self._hold(party, held=not active)
        if self.desk.disclosure:
            party.prompt(CALLEE_DISCLOSURE, self.desk.booth.prompts.clip(party.language, CALLEE_DISCLOSURE))
        self._changed.set()

    def left_alone(self, party: Party, ending: Ending) -> None:
        """A party has left, and its successor did not come: the other one hears why."""
        self._end_with(ending)
        other = self.other(party)
        other.prompt(ending.reason, self.desk.booth.prompts.clip(other.language, ending.reason))
        self.direction_from(party).stop()
        self._apply(party, LegEvent.END)

    def handed_over(self, party: Party, *, here: bool) -> None:
        """A party talks to somebody else without us: the other one is hung up on behind the last words."""
        self._end_with(termination.HANDED_OVER)
        self.direction_from(party).stop()
        if here:
            self._hang_up(party)
        else:
            self._apply(party, LegEvent.END)

    def ring_back(self, party: Party, rings: Callable[[], bool], waits: Callable[[], bool]) -> None:
        """Let a party hear that somebody's telephone rings."""
        self._spawn(ring_back(party, rings, waits))

    def other(self, party: Party) -> Party:
        """The other side."""
        return self.b if party is self.a else self.a

    # --- the call's life ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live the call to its end. Never raises: what breaks ends the call with `server_error`."""
        ears = asyncio.create_task(self._listen(), name=f"ears-{self.call_id}")
        ears.add_done_callback(self._ears_ended)
        self._publish_start()
        try:
            async with asyncio.timeout(self.desk.limits.longest_s):
                await self._connect()
                await self._until(lambda: self.phase is CallPhase.ENDED)
        except TimeoutError:
            self.end(termination.LONGEST_CALL)
        except asyncio.CancelledError:
            self.end(termination.SHUTDOWN)
            raise
        except Exception:
            log.exception("call_failed", call=self.call_id)
            self.end(termination.INTERNAL_ERROR)
        finally:
            await self._finish(ears)

    def _ears_ended(self, ears: asyncio.Task[None]) -> None:
        """A call that cannot hear any more is no call: end it rather than leave two people in silence."""
        if not ears.cancelled() and ears.exception() is not None:
            log.error("call_deaf", call=self.call_id, exc_info=ears.exception())
            self.end(termination.INTERNAL_ERROR)

    async def _connect(self) -> None:
        a, b, desk = self.a, self.b, self.desk
        if self.match.first is None:
            if a.machine.state is not LegState.OFFERED:
                return  # given up before we came to it
            desk.user_agent.attach(a.leg, a.ring, a.playout)
            desk.user_agent.answer(a.leg)
            self._apply(a, LegEvent.ANSWER)
            await self._until(lambda: a.machine.state is not LegState.ANSWERING)
        else:
            await self._dial(a, self.match.first)
        if a.machine.state is not LegState.UP or (self._reception is not None and not await self._ask(self._reception)):
            return
        if desk.disclosure:
            a.prompt(CALLER_DISCLOSURE, desk.booth.prompts.clip(a.language, CALLER_DISCLOSURE))
            await self._until(lambda: a.playout.is_idle() or a.machine.state is not LegState.UP)
        if a.machine.state is not LegState.UP:
            return
        if desk.disclosure:
            # queued before the leg exists: the first thing the called party hears, before any translation
            b.prompt(CALLEE_DISCLOSURE, desk.booth.prompts.clip(b.language, CALLEE_DISCLOSURE))
        self.ring_back(a, lambda: b.machine.state is LegState.RINGING, lambda: self.phase is CallPhase.CONNECTING)
        await self._dial(b, self.match.destination)

    async def _ask(self, reception: Reception) -> bool:
        """Let the caller choose in the menu; False when they are gone, or have been told goodbye."""
        reception.begin()
        try:
            await self._until(lambda: reception.over or not self._is_up(self.a))
        finally:
            reception.close()
            self._reception = None
        chosen = reception.connect
        if chosen is None:
            self._end_with(termination.NO_CHOICE)
            self._hang_up(self.a)
            return False
        self.match = replace(self.match, destination=chosen.destination)
        self.set_language("a", chosen.source)
        self.set_language("b", chosen.target)
        self.changed()
        self.a_to_b.listen()
        return True

    async def _dial(self, party: Party, uri: str) -> None:
        """Ring a telephone until it is answered, refuses, or the patience is over."""
        user_agent = self.desk.user_agent
        user_agent.dial(party.leg, uri)
        user_agent.attach(party.leg, party.ring, party.playout)
        self._apply(party, LegEvent.DIAL)
        waiting = (LegState.DIALLING, LegState.RINGING)
        try:
            async with asyncio.timeout(self.desk.limits.ring_timeout_s):
                await self._until(lambda: party.machine.state not in waiting)
        except TimeoutError:
            if party is self.b:
                self._no_connection(termination.CALLEE_NO_ANSWER)
            else:
                self._end_with(termination.CALLER_NO_ANSWER)
            self._hang_up(party)

    async def _listen(self) -> None:
        """Feed both directions as sound comes; look after queues and stamps ten times a second."""
        tick_at = self._loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(tick_at + TICK_S):
                    await self._wake.wait()
            self._wake.clear()
            if self._reception is not None:
                self._reception.hear()
            for direction in (self.a_to_b, self.b_to_a):
                direction.hear()
                if direction.interrupts():
                    self.direction_to(direction.source).cut()
            if self._loop.time() >= tick_at + TICK_S:
                tick_at = self._loop.time()
                for direction in (self.a_to_b, self.b_to_a):
                    direction.tick()
                if self._reception is not None:
                    self._reception.tick()
                self.controls.tick()
                if self.phase is CallPhase.BRIDGED:
                    self.fallback.tick()
                    self.safety.tick()
                self._tell_passing()
                if self._recorder is not None:
                    self._recorder.tick()
                self._hang_up_on_silence()
                self._changed.set()

    # --- endings ------------------------------------------------------------------------------------------------

    def _leg_ended(self, party: Party, event: Ended) -> None:
        was_up = party.was_up
        self.direction_from(party).stop()
        if self.ending is None:
            if party is self.b and not was_up:
                self._no_connection(termination.callee_failure(event.code))
            elif party is self.a and not was_up and self.match.first is not None:
                self._end_with(termination.caller_failure(event.code))
            elif party is self.a and not self.b.was_up:
                self._end_with(termination.CALLER_GAVE_UP)
            else:
                self._end_with(termination.CALLER_HUNG_UP if party is self.a else termination.CALLEE_HUNG_UP)
        self._apply(party, LegEvent.END)

    def _hang_up_on_silence(self) -> None:
        limit_s = self.desk.limits.silence_s
        if not limit_s or self.phase is not CallPhase.BRIDGED or self.a.held or self.b.held:
            return
        if self.controls.paused:  # they may well be talking, only not to the interpreter
            self._active_ns = self._booth.clock()
        spoke_ns = max(self.a_to_b.last_voice_ns, self.b_to_a.last_voice_ns, self._active_ns)
        if self._booth.clock() - spoke_ns > limit_s * 1e9:
            self.end(termination.LONG_SILENCE)

    def _no_connection(self, ending: Ending) -> None:
        """There will be no other party: say so to the caller, who is then hung up on by the call table."""
        self._end_with(ending)
        self.a.playout.flush(ClipKind.CUE)
        self.a.prompt(ending.reason, self.desk.booth.prompts.clip(self.a.language, ending.reason))

    def _end_with(self, ending: Ending) -> None:
        if self.ending is None:  # the first cause is the cause
            self.ending = ending

    def _hang_up(self, party: Party) -> None:
        state = party.machine.state
        if state in (LegState.ENDING, LegState.GONE):
            return
        self._apply(party, LegEvent.HANGUP)
        if state is LegState.IDLE:
            return
        if self.transfers.give_up(party):
            self._apply(party, LegEvent.END)
            return
        ending = self.ending or termination.INTERNAL_ERROR
        code = ending.sip_code if state in (LegState.OFFERED, LegState.ANSWERING) else 0
        self.desk.user_agent.hangup(party.leg, code, headers=ending.sip_headers())

    async def _hang_up_after_speech(self, party: Party) -> None:
        """Let the one who stays hear the last words, or the reason, to the end; on hold nobody listens."""
        direction = self.direction_to(party)

        def heard() -> bool:
            heard_out = direction.over and party.playout.is_idle()
            return heard_out or party.held or self.transfers.left(party) or not self._is_up(party)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.desk.limits.last_words_s):
                await self._until(heard)
        self._hang_up(party)

    @staticmethod
    def _is_up(party: Party) -> bool:
        return party.machine.state is LegState.UP

    async def _finish(self, ears: asyncio.Task[None]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_WAIT_S):
                await self._until(lambda: self.phase is CallPhase.ENDED)
        for direction in (self.a_to_b, self.b_to_a):
            direction.stop()
            await direction.close()
        for task in (ears, *self._tasks):
            task.cancel()
        await asyncio.gather(ears, *self._tasks, return_exceptions=True)
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)
        self.handovers.close()
        self._end_with(termination.INTERNAL_ERROR)
        record = self.record()
        self.desk.register.end_call(self.call_id)
        self.desk.glossaries.forget(call_scope(self.call_id))
        self.desk.publish("call-ended", self.call_id, **record)
        log.info("call_ended", call=self.call_id, result=record["result"], reason=record["reason"])

    # --- small parts --------------------------------------------------------------------------------------------

    def direction_from(self, party: Party) -> Direction:
        """The direction that listens to a party."""
        return self.a_to_b if party is self.a else self.b_to_a

    def direction_to(self, party: Party) -> Direction:
        """The direction that speaks to a party."""
        return self.b_to_a if party is self.a else self.a_to_b

    def _apply(self, party: Party, event: LegEvent) -> None:
        party.machine.apply(event)
        if party.machine.state is LegState.UP and not party.was_up:
            party.was_up = True
            self.transfers.permit(party)
            if self._reception is None:  # what is said in the menu is for the menu
                early = 0 < party.sound_since_ns < self._booth.clock() - EARLY_NS
                self.direction_from(party).listen(EARLY_TAIL_MS if early else 0)
        forced = call_of(self.a.machine.state, self.b.machine.state)
        if forced.phase is not self.phase:
            self._enter(forced.phase)
        for target, wanted in ((self.a, forced.on_a), (self.b, forced.on_b)):
            if wanted is LegEvent.HANGUP:
                if forced.after_speech:
                    self._spawn(self._hang_up_after_speech(target))
                else:
                    self._hang_up(target)
        self._changed.set()

    def _enter(self, phase: CallPhase) -> None:
        self.phase = phase
        if phase is CallPhase.BRIDGED:
            self.bridged_at, self._active_ns = time.time(), self._booth.clock()
            self.a.playout.flush(ClipKind.CUE)
        self.desk.publish("call-phase", self.call_id, phase=phase.value)
        if phase is not CallPhase.ENDED:
            self.desk.register.put_call(self.call_id, self.record())

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _publish_start(self) -> None:
        log.info("call_started", call=self.call_id, route=self.match.route.name)
        self.desk.publish(
            "call-started",
            self.call_id,
            route=self.match.route.name,
            effective=effective(self),
        )

    def _publish_utterance(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "utterance":
            self.utterances[data["outcome"]] += 1
        self._tell(kind, data)

    def record(self) -> dict[str, Any]:
        """The call's detail record so far: JSON-ready, without numbers or words of anybody."""
        return detail_record(self)
