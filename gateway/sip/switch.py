# SPDX-License-Identifier: GPL-3.0-or-later
"""The owner thread's side of the user agent: legs, and what happens to them.

Everything here runs on the owner thread. The one thing other threads read are plain numbers and finished
dictionaries, replaced as a whole.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network
from typing import Any

import pjsua2 as pj
import structlog

from gateway.sip.access import Trunk, source_ip
from gateway.sip.account import Account, ExtensionAccount, LocalAccount, account_config
from gateway.sip.admission import CHALLENGED, Admissions, Refusal
from gateway.sip.brake import CallBrake
from gateway.sip.clockthread import ClockThread
from gateway.sip.events import (
    Answered,
    Digit,
    Ended,
    Incoming,
    MediaActive,
    MediaHeld,
    ReferProgress,
    Referred,
    Ringing,
    SipEvent,
)
from gateway.sip.framecopy import FrameCopy, choose_copy
from gateway.sip.knock import Knocks
from gateway.sip.leg import Leg, SipCall, active_audio, has_agreed_media, media_ports, rtp_counters
from gateway.sip.limits import COMMON_PLACES, UNKNOWN_CALL_LIMIT, call_limit, library_facts
from gateway.sip.message import (
    bare_uri,
    extension_headers,
    header_value,
    is_safe_uri,
    request_uri,
    safe_headers,
    uri_user,
)
from gateway.sip.port import LegPort, LegTap
from gateway.sip.protocols import FrameSink, FrameSource
from gateway.sip.qualify import ANSWER_NS, Peer, PeerWatch
from gateway.sip.registration import (
    Extension,
    Registration,
    extension_account_config,
    peer_of,
    registrar_networks,
)
from gateway.sip.rtpgate import RtpGate
from gateway.sip.settings import SipSettings

log = structlog.get_logger(__name__)

OK = 200
RINGING = 180
BAD_REQUEST = 400
TIMEOUT = 408
CANCELLED = 487
UNAVAILABLE = 503


class LegSwitch:
    """Legs by id: takes commands from the front and callbacks from the library, and tells events."""

    def __init__(self, settings: SipSettings, on_event: Callable[[SipEvent], None]) -> None:
        self._settings = settings
        self._on_event = on_event
        # also proves the trunks before anything is started; the registrars' addresses are looked up in `open`
        self._admissions = self._make_admissions(settings.trunks)
        self._extensions: tuple[Extension, ...] = ()
        self._gate = RtpGate(tuple(map(IPv4Network, settings.rtp_networks)))
        self._knocks = Knocks(settings.bind_address)
        self._watch = PeerWatch((), lambda to: False, random.Random())  # noqa: S311
        self._clock = ClockThread()
        self._brake = CallBrake(COMMON_PLACES, UNKNOWN_CALL_LIMIT)
        self._rest = threading.Event()  # never set: a rest has its time
        self._turned_away: set[SipCall] = set()
        self._legs: dict[str, Leg] = {}
        self._account: LocalAccount | None = None
        self._copy: Callable[[], FrameCopy] = choose_copy()
        self.closing = False
        self.rtp: dict[str, dict[str, float]] = {}
        self.registrations: dict[str, dict[str, Any]] = {}
        self.peers: dict[str, Any] = {}
        self.counts = {
            "incoming": 0,
            "outgoing": 0,
            "ended": 0,
            "refused": 0,
            "rests": 0,
            "transfers_refused": 0,
            "referred": 0,
            "unknown_leg": 0,
            "unsafe_headers": 0,
            "listener_errors": 0,
            "late_frames": 0,
            "rx_refused": 0,
            "callback_errors": 0,
        }
        self.worst_gap_ms = 0.0

    @property
    def size(self) -> int:
        """Legs that are up or on their way."""
        return len(self._legs)

    # --- life ----------------------------------------------------------------------------------------------------

    def open(self, bound_port: int) -> None:
        """Make the accounts; calls may come from here on. ValueError: a registrar's name has no address."""
        settings = self._settings
        self._brake = CallBrake(library_facts().socket_places, call_limit())
        registrars = tuple(Trunk(each.name, registrar_networks(each), each.trusted) for each in settings.registrations)
        self._admissions = self._make_admissions((*settings.trunks, *registrars))
        self._account = LocalAccount(self.incoming, self._answered)
        self._account.create(account_config(settings, bound_port))
        peers = [Peer(each.name, each.addresses, each.ping_s) for each in settings.trunks]
        peers += [Peer(each.name, each.registrars, each.ping_s) for each in settings.registrations]
        # chance keeps gateways from knocking at the same moment, and is no secret
        self._watch = PeerWatch(peers, self._account.ask, random.Random())  # noqa: S311
        self._extensions = tuple(self._extension(each, bound_port, random.Random()) for each in settings.registrations)  # noqa: S311

    def _make_admissions(self, trunks: tuple[Trunk, ...]) -> Admissions:
        settings = self._settings
        return Admissions(
            trunks,
            allow_loopback=settings.allow_loopback,
            calls_per_s=settings.calls_per_s,
            burst=settings.calls_burst,
            realm=settings.user_agent,
            secret=secrets.token_bytes(32),
        )

    def _extension(self, wanted: Registration, bound_port: int, chance: random.Random) -> Extension:
        accounts = []
        for registrar in wanted.registrars:
            account = ExtensionAccount(self.incoming)
            account.create(extension_account_config(account_config(self._settings, bound_port), wanted, registrar))
            accounts.append(account)
        extension = Extension(wanted, accounts, chance)
        for account in accounts:
            account.extension = extension
        return extension

    def drain(self) -> bool:
        """End every leg and take the registrations back; True while anything of it is left."""
        if not self.closing:
            self.closing = True
            for extension in self._extensions:
                extension.withdraw()
            for leg in list(self._legs.values()):
                self._end(leg, UNAVAILABLE, [])
        return bool(self._legs) or any(extension.leaving for extension in self._extensions)

    def close(self) -> None:
        """Drop what remains, so that nothing of ours outlives the library."""
        self.closing = True
        for leg in list(self._legs.values()):
            self._release(leg)
            self._say(Ended(leg.id, UNAVAILABLE, "Gateway stopped", by_remote=False))
        self._turned_away.clear()
        extensions, self._extensions = self._extensions, ()
        for extension in extensions:
            extension.release()
        account, self._account = self._account, None
        if account is not None:
            account.release()

    # --- commands ------------------------------------------------------------------------------------------------

    def dial(self, leg_id: str, uri: str, headers: Mapping[str, str] | None) -> None:
        if leg_id in self._legs:
            self.counts["unknown_leg"] += 1
            log.error("leg_id_taken", leg=leg_id)
            return
        if not is_safe_uri(uri):
            self._say(Ended(leg_id, BAD_REQUEST, "Not a SIP URI", by_remote=False))
            return
        leg = self._add(leg_id, incoming=False)
        leg.uri, leg.headers = self._watch.instead_of(uri), self._checked(headers)
        self.counts["outgoing"] += 1
        self._place(leg)

    def _place(self, leg: Leg) -> None:
        leg.call = SipCall(self._account_for(leg.uri), self)
        leg.call.leg = leg
        leg.dialled_ns = time.monotonic_ns()
        self._rest_if_needed()
        try:
            leg.call.makeCall(leg.uri, self._operation(0, leg.headers))
        except pj.Error as error:
            # makeCall may have told DISCONNECTED already; then the leg is gone and its end was said, or waits for more
            if self._legs.get(leg.id) is leg and leg.call is not None:
                self._release(leg)
                self._say(Ended(leg.id, UNAVAILABLE, f"Not placed: {error.reason}", by_remote=False))

    def _account_for(self, uri: str) -> Any:
        """Who calls an address: the extension at a PBX of ours, which knows its password; else the gateway itself."""
        found = (extension.account_for(uri) for extension in self._extensions)
        return next((account for account in found if account is not None), self._account)

    def ring(self, leg_id: str) -> None:
        self._respond(leg_id, RINGING)

    def answer(self, leg_id: str) -> None:
        self._respond(leg_id, OK)

    def attach(self, leg_id: str, sink: FrameSink, source: FrameSource) -> None:
        leg = self._find(leg_id)
        if leg is not None:
            leg.tap.sink, leg.tap.source = sink, source

    def permit_transfer(self, leg_id: str, allowed: Callable[[str], bool]) -> None:
        leg = self._find(leg_id)
        if leg is not None:
            leg.may_refer = allowed

    def refer(self, leg_id: str, uri: str) -> None:
        leg = self._find(leg_id)
        if leg is None or leg.call is None:
            return
        if not leg.confirmed or not is_safe_uri(uri):
            self._say(ReferProgress(leg_id, BAD_REQUEST))
            return
        try:
            leg.call.xfer(f"<{uri}>", self._operation(0, []))  # bare, its parameters would be the header's
            self.counts["referred"] += 1
        except pj.Error as error:
            log.warning("refer_not_sent", leg=leg_id, reason=str(error.reason))
            self._say(ReferProgress(leg_id, UNAVAILABLE))

    def hangup(self, leg_id: str, code: int, headers: Mapping[str, str] | None) -> None:
        leg = self._find(leg_id)
        if leg is not None:
            leg.unreachable = False  # nor is it to go elsewhere
            self._end(leg, code, self._checked(headers))

    def send_digits(self, leg_id: str, digits: str) -> None:
        leg = self._find(leg_id)
        if leg is None or leg.call is None or not leg.confirmed:
            return
        try:
            leg.call.dialDtmf(digits)
        except pj.Error as error:  # the far end did not agree to telephone events
            log.warning("digits_not_sent", leg=leg_id, reason=str(error.reason))

    def tick(self) -> None:
        """Once a second: look after peers, registrations and dials, sample the counters of all legs.

        So readers never touch the library.
        """
        now_ns = time.monotonic_ns()
        if not self.closing:
            self._watch.tick(now_ns)
        self.peers = self._watch.statistics()
        fallen = self._watch.fallen()
        for extension in self._extensions:
            if (extension.wanted.name, extension.registrar) in fallen:
                extension.lost(now_ns)
            extension.tick(now_ns)
        self.registrations = {each.wanted.name: each.statistics() for each in self._extensions}
        for leg_id in self._knocks.refused(now_ns):
            called = self._legs.get(leg_id)
            if called is not None and not (called.ringing_code or called.confirmed):
                called.unreachable = True
                self._end(called, 0, [])
        self._look_after_dials(now_ns)
        sampled, unplaced = {}, []
        for leg in self._legs.values():
            if leg.call is not None and leg.media_index >= 0:
                leg.rtp = rtp_counters(leg.call, leg.media_index) | {"rx_refused": self._gate.drops(leg.id)}
            if not leg.incoming and leg.call is not None and leg.call.getId() == pj.PJSUA_INVALID_ID:
                unplaced.append(leg)
            sampled[leg.id] = leg.rtp | leg.tap.statistics() | {"media_active": float(leg.tap.active)}
        self.rtp = sampled
        for leg in unplaced:  # the library could not place the call of a transfer, and tells only the peer
            self._release(leg)
            self._say(Ended(leg.id, UNAVAILABLE, "Not placed", by_remote=False))

    # --- callbacks of the library ----------------------------------------------------------------------------------

    def incoming(self, account: Account, call_id: int, source: str, message: str) -> None:
        self._rest_if_needed()
        call = SipCall(account, self, call_id)
        ip = source_ip(source)
        live = Counter(leg.trunk for leg in self._legs.values() if leg.incoming)
        verdict = self._admissions.judge(ip, message, live, time.monotonic_ns())
        if self.closing and not isinstance(verdict, Refusal):
            verdict = Refusal("closing", UNAVAILABLE)
        if isinstance(verdict, Refusal):
            if verdict.reason != CHALLENGED:
                self.counts["refused"] += 1
                log.warning("call_refused", source_ip=ip, reason=verdict.reason, code=verdict.code)
            self._turn_away(call, verdict)
            return
        leg = self._add(f"in-{secrets.token_hex(6)}", incoming=True)
        leg.trunk = verdict.trunk
        leg.call, call.leg = call, leg
        leg.signalling_ip = ip
        self.counts["incoming"] += 1
        self._say(
            Incoming(
                leg=leg.id,
                source_ip=ip,
                trunk=verdict.trunk,
                dialled=uri_user(request_uri(message)),
                caller=uri_user(header_value(message, "from")),
                headers=extension_headers(message) if verdict.trusted else {},
            )
        )

    def call_state(self, call: SipCall, *, local: bool, source: str) -> None:
        info = call.getInfo()
        leg = call.leg
        if leg is not None and source and not (leg.incoming or leg.confirmed):
            leg.signalling_ip = source_ip(source)
            self._admit_sound(leg)
        if info.state == pj.PJSIP_INV_STATE_DISCONNECTED:
            call.leg = None
            self._turned_away.discard(call)
            if leg is not None:
                code, phrase = int(info.lastStatusCode), str(info.lastReason)
                if leg.unreachable:
                    code, phrase = UNAVAILABLE, "Connection refused"
                if self._goes_elsewhere(leg, code):
                    return
                self._release(leg)
                # an answered leg ends with 408 when the ACK or the session refresh did not come: our BYE
                by_remote = not (local or leg.ended_here or (code == TIMEOUT and (leg.incoming or leg.confirmed)))
                self._say(Ended(leg.id, code, phrase, by_remote))
        elif leg is None:
            return
        elif info.state == pj.PJSIP_INV_STATE_EARLY and not leg.incoming:
            if leg.ringing_code != info.lastStatusCode:
                leg.ringing_code = int(info.lastStatusCode)
                self._say(Ringing(leg.id, leg.ringing_code))
        elif info.state == pj.PJSIP_INV_STATE_CONFIRMED and not leg.confirmed:
            leg.confirmed = True
            self._say(Answered(leg.id))
            if not has_agreed_media(info):  # an ACK that owes us the answer to our offer (A04)
                log.warning("no_answer_to_offer", leg=leg.id)
                self._end(leg, 0, [])

    def call_media(self, call: SipCall) -> None:
        """Wire the leg's port to what was negotiated.

        A re-INVITE that changes nothing keeps the library's stream and its place in the bridge, and connecting what
        is connected is no change: sound goes on. One that does change it takes a new place, hence connect again.
        """
        leg = call.leg
        if leg is None:
            return
        info = call.getInfo()
        index = active_audio(info)
        if index is None:
            was_active, leg.media_index = leg.tap.active, -1
            leg.tap.set_active(False)
            begins_on_hold = not leg.codec and has_agreed_media(info)
            if was_active or begins_on_hold:
                self._say(MediaHeld(leg.id))
            return
        stream = call.getStreamInfo(index)
        codec = str(stream.codecName)
        leg.media_index, leg.media_ip = index, str(stream.remoteRtpAddress).rpartition(":")[0]
        self._admit_sound(leg)
        sound = call.getAudioMedia(index)
        if leg.port is None:
            leg.port = LegPort(leg.tap, self._copy(), self._clock)
        was_active = leg.tap.active
        if not was_active:
            leg.tap.set_active(True)
        leg.port.startTransmit(sound)
        sound.startTransmit(leg.port)
        if not was_active or codec != leg.codec:
            leg.codec = codec
            self._say(MediaActive(leg.id, codec, leg.tap.rate_hz))

    def call_transfer(self, call: SipCall, target: str) -> SipCall | None:
        leg, uri = call.leg, bare_uri(target)
        if (
            leg is None
            or leg.may_refer is None
            or self.closing
            or leg.successor in self._legs
            or not leg.may_refer(uri)
        ):
            self.counts["transfers_refused"] += 1
            log.warning("transfer_refused", leg=leg.id if leg is not None else "")
            return None
        successor = self._add(f"to-{secrets.token_hex(6)}", incoming=False)
        successor.call = SipCall(self._account, self)
        successor.call.leg = successor
        leg.successor = successor.id
        self.counts["outgoing"] += 1
        self._rest_if_needed()
        self._say(Referred(leg.id, successor.id))
        return successor.call

    def call_referred(self, call: SipCall, code: int) -> None:
        if call.leg is not None:
            self._say(ReferProgress(call.leg.id, code))

    def call_proceeds(self, call: SipCall) -> None:
        if call.leg is not None:
            call.leg.proceeds = True

    def call_sent(self, call: SipCall, destination: str) -> None:
        ip, _, port = destination.rpartition(":")
        if call.leg is not None and not call.leg.incoming and port.isdigit():
            self._knocks.knock(call.leg.id, (ip, int(port)), time.monotonic_ns())

    def call_digit(self, call: SipCall, digit: str) -> None:
        if call.leg is not None:
            self._say(Digit(call.leg.id, digit))

    def _answered(self, address: str, code: int) -> None:
        self._watch.answered(address, code, time.monotonic_ns())

    # --- inside ----------------------------------------------------------------------------------------------------

    def _goes_elsewhere(self, leg: Leg, code: int) -> bool:
        """A call ended that its peer's address did not take, and there is another one: the next tick dials that."""
        refused = leg.unreachable or (not leg.ended_here and code in (TIMEOUT, UNAVAILABLE))
        if leg.incoming or leg.confirmed or leg.ringing_code or self.closing or not refused:
            return False
        leg.tried.add(peer_of(leg.uri))
        if leg.unreachable:  # a 503 may be about this one call
            self._watch.silent(leg.uri, time.monotonic_ns())
        other = self._watch.after(leg.uri, leg.tried)
        if other is None:
            return False
        log.info("sip_call_goes_elsewhere", leg=leg.id, code=code)
        self._gate.forget(leg.id)
        self._knocks.forget(leg.id)
        leg.release_media()
        leg.call, leg.uri, leg.signalling_ip, leg.media_index = None, other, "", -1
        leg.unreachable = leg.ended_here = leg.proceeds = False
        return True

    def _look_after_dials(self, now_ns: int) -> None:
        """Dial those that go on to another address; leave an address that has said nothing, if there is another."""
        for leg in [each for each in self._legs.values() if not (each.incoming or each.confirmed)]:
            if leg.call is None:
                self._place(leg)
            elif not (leg.proceeds or leg.ended_here) and now_ns - leg.dialled_ns > ANSWER_NS:
                leg.unreachable = self._watch.after(leg.uri, leg.tried | {peer_of(leg.uri)}) is not None
                if leg.unreachable:
                    self._end(leg, 0, [])

    def _rest_if_needed(self) -> None:
        """A call begins. Keep the library from more of them while it has no room for their sockets, even here in its
        callback: it would end the process. Behind a flood of INVITEs others wait, and their sound goes on."""
        rest_ns = self._brake.begun(time.monotonic_ns())
        if rest_ns:
            if not self.counts["rests"] % 100:
                log.warning("sip_flood", rest_ms=rest_ns // 1_000_000, rests=self.counts["rests"])
            self.counts["rests"] += 1
            self._rest.wait(rest_ns / 1e9)

    def _turn_away(self, call: SipCall, refusal: Refusal) -> None:
        """Refuse an INVITE inside its own callback. A hang-up there would lose the headers; an answer is kept by the
        library until the media is made, and the call has to live until then."""
        self._turned_away.add(call)
        try:
            call.answer(self._operation(refusal.code, list(refusal.headers.items())))
        except pj.Error as error:
            log.warning("refusal_failed", code=refusal.code, reason=str(error.reason))
            self._turned_away.discard(call)

    def _add(self, leg_id: str, *, incoming: bool) -> Leg:
        leg = Leg(leg_id, incoming, LegTap(leg_id, time.monotonic_ns, self._settings.media_rate_hz))
        self._legs[leg_id] = leg
        return leg

    def _find(self, leg_id: str) -> Leg | None:
        leg = self._legs.get(leg_id)
        if leg is None:  # commands and endings cross: a leg that ended a moment ago is no fault
            self.counts["unknown_leg"] += 1
        return leg

    def _respond(self, leg_id: str, code: int) -> None:
        leg = self._find(leg_id)
        if leg is None or leg.call is None or not leg.incoming or leg.confirmed:
            return
        try:
            leg.call.answer(self._operation(code, []))
        except pj.Error as error:
            log.warning("answer_failed", leg=leg_id, code=code, reason=str(error.reason))
            if code >= OK and self._legs.get(leg_id) is leg:
                self._end(leg, 0, [])

    def _end(self, leg: Leg, code: int, headers: list[tuple[str, str]]) -> None:
        leg.ended_here = True
        leg.tap.set_active(False)
        call = leg.call
        if call is None:  # between two addresses of its peer
            self._release(leg)
            self._say(Ended(leg.id, CANCELLED, "Request Terminated", by_remote=False))
            return
        try:
            call.hangup(self._operation(code if leg.incoming and not leg.confirmed else 0, headers))
        except pj.Error as error:
            log.warning("hangup_failed", leg=leg.id, reason=str(error.reason))

    def _admit_sound(self, leg: Leg) -> None:
        """Hear the peer and nobody else, as far as is known by now who that is."""
        if leg.call is not None and leg.media_index >= 0:
            self._gate.admit(leg.id, media_ports(leg.call, leg.media_index), (leg.signalling_ip, leg.media_ip))

    def _release(self, leg: Leg) -> None:
        """Forget a leg: port destroyed, call dropped, counters kept in the sums."""
        self.counts["ended"] += 1  # first: who counts no leg finds its end counted
        self._legs.pop(leg.id, None)
        self._gate.forget(leg.id)
        self._knocks.forget(leg.id)
        leg.release_media()
        call, leg.call = leg.call, None
        if call is not None:
            call.leg = None
        leg.tap.sink = leg.tap.source = None
        self.counts["late_frames"] += leg.tap.late_frames
        self.counts["rx_refused"] += int(leg.rtp.get("rx_refused", 0))
        self.counts["callback_errors"] += leg.tap.errors
        self.worst_gap_ms = max(self.worst_gap_ms, leg.tap.worst_gap_ns / 1e6)

    def _checked(self, headers: Mapping[str, str] | None) -> list[tuple[str, str]]:
        good, refused = safe_headers(headers)
        if refused:
            self.counts["unsafe_headers"] += refused
            log.warning("unsafe_headers_dropped", count=refused)
        return good

    def _operation(self, code: int, headers: list[tuple[str, str]]) -> Any:
        """pjsua2's parameter of an operation on a call: one audio, no video, a status code, extra headers."""
        operation = pj.CallOpParam(True)
        operation.statusCode = code
        operation.opt.audioCount = 1
        operation.opt.videoCount = 0
        operation.opt.textCount = 0  # builds from 2.16 on would offer a text stream (RFC 4103), two more ports a call
        for name, value in headers:
            header = pj.SipHeader()
            header.hName, header.hValue = name, value
            operation.txOption.headers.append(header)
        return operation

    def _say(self, event: SipEvent) -> None:
        try:
            self._on_event(event)
        except BaseException as error:  # a listener's fault must not undo what happened to the leg
            self.counts["listener_errors"] += 1
            log.error("sip_listener_failed", event_type=type(event).__name__, error=type(error).__name__)
