# SPDX-License-Identifier: GPL-3.0-or-later
"""A leg and the pjsua2 call behind it.

The call object is freed inside its own DISCONNECTED callback: every reference is dropped there. Freed later, its
destructor hangs up the new call that took the slot in the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pjsua2 as pj
import structlog

from gateway.sip.message import info_digit, sent_over_udp
from gateway.sip.native import answer_in_dialog
from gateway.sip.port import LegPort, LegTap

log = structlog.get_logger(__name__)

OK = 200
ACCEPTED = 202
DECLINE = 603


class CallEvents(Protocol):
    """Who is told what the library says about a call. All on the owner thread."""

    def call_state(self, call: SipCall, *, local: bool, source: str) -> None:
        """The dialog moved on; ``local`` when a timer of ours or a broken transport moved it.

        ``source`` is where the message came from that moved it, empty when none did.
        """

    def call_media(self, call: SipCall) -> None:
        """Offer and answer were settled anew."""

    def call_transfer(self, call: SipCall, target: str) -> SipCall | None:
        """The peer refers us to another address: the call for the library to place there, None to refuse."""

    def call_referred(self, call: SipCall, code: int) -> None:
        """The peer tells of the address that we referred it to, or that it calls none (``code`` 300 and up)."""

    def call_proceeds(self, call: SipCall) -> None:
        """The peer has answered an INVITE of ours, if only with 100."""

    def call_sent(self, call: SipCall, destination: str) -> None:
        """An INVITE of ours went over UDP to ``host:port``."""

    def call_digit(self, call: SipCall, digit: str) -> None:
        """A digit came, by RFC 4733 or INFO."""


@dataclass(slots=True)
class Leg:
    """What the owner thread knows about a leg."""

    id: str
    incoming: bool
    tap: LegTap
    call: SipCall | None = None
    port: LegPort | None = None
    trunk: str = ""
    """Whose call it is, of an incoming leg."""
    media_index: int = -1
    codec: str = ""
    ringing_code: int = 0
    unreachable: bool = False
    """Nobody listens at the address that was dialled."""
    confirmed: bool = False
    ended_here: bool = False
    signalling_ip: str = ""
    """Where the peer's messages really came from; empty while it has not answered."""
    media_ip: str = ""
    """What the peer's SDP names."""
    may_refer: Callable[[str], bool] | None = None
    uri: str = ""
    """Where an outgoing leg is dialled now."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Extra ones of its INVITE."""
    dialled_ns: int = 0
    proceeds: bool = False
    """Somebody has taken note of the INVITE."""
    tried: set[tuple[str, int]] = field(default_factory=set)
    """Hosts and ports that did not take the call."""
    successor: str = ""
    """Id of the leg that the peer referred us to."""
    rtp: dict[str, float] = field(default_factory=dict)

    def release_media(self) -> None:
        """Destroy the port, if there is one."""
        port, self.port = self.port, None
        self.tap.set_active(False)
        if port is not None:
            port.destroy()


class SipCall(pj.Call):  # type: ignore[misc]  # pjsua2 has no types
    """The library's call. ``leg`` is None for a call that is only refused."""

    def __init__(self, account: Any, events: CallEvents, call_id: int = pj.PJSUA_INVALID_ID) -> None:
        pj.Call.__init__(self, account, call_id)
        self._events = events
        self.leg: Leg | None = None

    def _tell(self, name: str, tell: Callable[[], None]) -> None:
        try:
            tell()
        except BaseException as error:  # an exception would end in C, SystemExit would end the process
            log.error("call_callback_failed", callback=name, error=type(error).__name__, reason=_reason(error))

    def onCallState(self, prm: Any) -> None:
        self._tell("call_state", lambda: self._state(prm.e))

    def _state(self, event: Any) -> None:
        self._events.call_state(self, local=local_cause(event), source=message_source(event))

    def onCallMediaState(self, prm: Any) -> None:
        self._tell("call_media", lambda: self._events.call_media(self))

    def onDtmfDigit(self, prm: Any) -> None:
        self._tell("call_digit", lambda: self._events.call_digit(self, str(prm.digit)))

    def onCallTsxState(self, prm: Any) -> None:
        self._tell("call_transaction", lambda: self._transaction(prm.e.body.tsxState))

    def _transaction(self, state: Any) -> None:
        self._bare_digit(state)
        tsx = state.tsx
        if tsx.method != "INVITE" or tsx.role != pj.PJSIP_ROLE_UAC:
            return
        if tsx.state == pj.PJSIP_TSX_STATE_PROCEEDING:
            self._events.call_proceeds(self)
        elif tsx.state == pj.PJSIP_TSX_STATE_CALLING:
            sent = tsx.lastTx
            if sent_over_udp(str(sent.wholeMsg)):
                self._events.call_sent(self, str(sent.dstAddress))

    def _bare_digit(self, state: Any) -> None:
        """Take the digit of an INFO that pjsip does not read, and would answer 500 by itself."""
        if state.tsx.method == "INFO" and state.tsx.state == pj.PJSIP_TSX_STATE_TRYING and self.leg is not None:
            digit = info_digit(str(state.src.rdata.wholeMsg))
            if digit:
                answer_in_dialog(state.src.rdata.pjRxData, OK)
                self._events.call_digit(self, digit)

    def onCallTransferRequest(self, prm: Any) -> None:
        prm.statusCode = DECLINE
        self._tell("call_transfer", lambda: self._transfer(prm))

    def _transfer(self, prm: Any) -> None:
        """Accept a REFER: the library places the call it is given, and sends the NOTIFYs about it."""
        successor = self._events.call_transfer(self, str(prm.dstUri))
        if successor is not None:
            prm.newCall = successor
            prm.opt.audioCount, prm.opt.videoCount = 1, 0
            prm.statusCode = ACCEPTED

    def onCallTransferStatus(self, prm: Any) -> None:
        """The answer to a REFER of ours, or a NOTIFY about what it led to."""
        self._tell("call_referred", lambda: self._events.call_referred(self, int(prm.statusCode)))

    def onCallRedirected(self, prm: Any) -> int:
        """302 names an address of the callee's choice: not followed, for the dial plan alone says who is called."""
        return int(pj.PJSIP_REDIRECT_REJECT)

    def onCallReplaceRequest(self, prm: Any) -> None:
        prm.statusCode = DECLINE


def local_cause(event: Any) -> bool:
    """Whether a timer of ours or a broken transport caused the event, not the peer."""
    causes = (pj.PJSIP_EVENT_TIMER, pj.PJSIP_EVENT_TRANSPORT_ERROR)
    return event.type in causes or (event.type == pj.PJSIP_EVENT_TSX_STATE and event.body.tsxState.type in causes)


def message_source(event: Any) -> str:
    """``host:port`` of the peer whose message caused the event; empty when it was no message."""
    if event.type == pj.PJSIP_EVENT_TSX_STATE and event.body.tsxState.type == pj.PJSIP_EVENT_RX_MSG:
        return str(event.body.tsxState.src.rdata.srcAddress)
    return ""


def media_ports(call: Any, media_index: int) -> tuple[int, ...]:
    """Our RTP and RTCP port of a stream that runs."""
    info = call.getMedTransportInfo(media_index)
    names = (str(info.localRtpName), str(info.localRtcpName))
    return tuple(int(name.rpartition(":")[2]) for name in names if ":" in name)


def _reason(error: BaseException) -> str:
    return str(getattr(error, "reason", ""))


def active_audio(info: Any) -> int | None:
    """Index of the call's audio that flows both ways, None on hold or before an answer."""
    for media in info.media:
        if media.type == pj.PJMEDIA_TYPE_AUDIO and media.status == pj.PJSUA_CALL_MEDIA_ACTIVE:
            return int(media.index)
    return None


def has_agreed_media(info: Any) -> bool:
    """Whether offer and answer have met at all, be it on hold."""
    return any(media.type == pj.PJMEDIA_TYPE_AUDIO and media.status != pj.PJSUA_CALL_MEDIA_NONE for media in info.media)


def rtp_counters(call: Any, media_index: int) -> dict[str, float]:
    """The stream's RTCP figures: packets, losses, jitter, and the depth of the jitter buffer."""
    stat = call.getStreamStat(media_index)
    received, sent, buffer = stat.rtcp.rxStat, stat.rtcp.txStat, stat.jbuf
    return {
        "rx_packets": received.pkt,
        "rx_lost": received.loss,
        "rx_discarded": received.discard,
        "rx_reordered": received.reorder,
        "rx_duplicated": received.dup,
        "rx_jitter_ms": received.jitterUsec.mean / 1000,
        "tx_packets": sent.pkt,
        "tx_lost": sent.loss,
        "round_trip_ms": stat.rtcp.rttUsec.mean / 1000,
        "jitter_buffer_ms": buffer.avgDelayMsec,
    }
