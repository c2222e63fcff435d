# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway's SIP identities: a local account that takes what arrives and dials what is asked, and one for each
registrar of an extension."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pjsua2 as pj
import structlog

from gateway.sip.message import request_uri
from gateway.sip.registration import Extension
from gateway.sip.settings import SipSettings

_SRTP = {
    "off": pj.PJMEDIA_SRTP_DISABLED,
    "optional": pj.PJMEDIA_SRTP_OPTIONAL,
    "mandatory": pj.PJMEDIA_SRTP_MANDATORY,
}

log = structlog.get_logger(__name__)

FORBIDDEN = 403


class Account(pj.Account):  # type: ignore[misc]  # pjsua2 has no types
    """Hands incoming calls over by their id, source address and text; refuses presence and messages."""

    def __init__(self, on_incoming: Callable[[Account, int, str, str], None]) -> None:
        pj.Account.__init__(self)
        self._on_incoming = on_incoming

    def onIncomingCall(self, prm: Any) -> None:
        try:
            self._on_incoming(self, int(prm.callId), str(prm.rdata.srcAddress), str(prm.rdata.wholeMsg))
        except BaseException as error:  # would be printed and forgotten, SystemExit would end the process
            log.error("incoming_call_failed", error=type(error).__name__)

    def onIncomingSubscribe(self, prm: Any) -> None:
        prm.code = FORBIDDEN

    def release(self) -> None:
        """Delete the account in the library."""
        self.shutdown()


class LocalAccount(Account):
    """The gateway's own: takes and dials calls, and asks peers by OPTIONS whether they are there.

    ``on_answer`` takes the address that was asked, and the code of its answer.
    """

    def __init__(
        self, on_incoming: Callable[[Account, int, str, str], None], on_answer: Callable[[str, int], None]
    ) -> None:
        super().__init__(on_incoming)
        self._on_answer = on_answer

    def ask(self, address: str) -> bool:
        """Send OPTIONS; False when that cannot be."""
        question = pj.SendRequestParam()
        question.method = "OPTIONS"
        question.txOption.targetUri = address
        try:
            self.sendRequest(question)
        except pj.Error as error:
            log.warning("sip_options_not_sent", address=address, reason=str(error.reason))
            return False
        return True

    def onSendRequest(self, prm: Any) -> None:
        try:
            state = prm.e.body.tsxState
            if prm.e.type == pj.PJSIP_EVENT_TSX_STATE and state.type == pj.PJSIP_EVENT_RX_MSG:  # not its late time-out
                self._on_answer(request_uri(str(state.tsx.lastTx.wholeMsg)), int(state.tsx.statusCode))
        except BaseException as error:
            log.error("sip_options_answer_failed", error=type(error).__name__)

    def release(self) -> None:
        """Leave the account to the library for its last moments: it tells an account of its questions that were still
        open when it ends, and asserts that there is one. It is never freed, and there is one in a process."""
        self.__disown__()


class ExtensionAccount(Account):
    """An account at a registrar: tells the extension what the registrar says."""

    def __init__(self, on_incoming: Callable[[Account, int, str, str], None]) -> None:
        super().__init__(on_incoming)
        self.extension: Extension | None = None

    def onRegState(self, prm: Any) -> None:
        try:
            if self.extension is not None:
                self.extension.answered(self, int(prm.code), int(prm.expiration), time.monotonic_ns())
        except BaseException as error:
            log.error("registration_state_failed", error=type(error).__name__)

    def release(self) -> None:
        self.extension = None
        super().release()


def account_config(settings: SipSettings, bound_port: int) -> Any:
    """A local account: nothing registered, no NAT helpers, RTP in the configured range."""
    config = pj.AccountConfig()
    config.idUri = f"sip:{settings.from_user}@{settings.advertised_address}:{bound_port}"
    config.regConfig.registerOnAdd = False
    nat = config.natConfig
    nat.iceEnabled = False
    nat.turnEnabled = False
    nat.sipStunUse = pj.PJSUA_STUN_USE_DISABLED
    nat.mediaStunUse = pj.PJSUA_STUN_USE_DISABLED
    nat.contactRewriteUse = nat.viaRewriteUse = nat.sdpNatRewriteUse = 0
    config.presConfig.publishEnabled = False
    config.mwiConfig.enabled = False
    config.videoConfig.autoShowIncoming = False
    config.videoConfig.autoTransmitOutgoing = False
    rtp = config.mediaConfig.transportConfig
    rtp.port = settings.rtp_port_min
    rtp.portRange = settings.rtp_port_max - settings.rtp_port_min
    rtp.boundAddress = settings.bind_address
    if settings.public_address:
        rtp.publicAddress = settings.public_address
    media = config.mediaConfig
    media.srtpUse = _SRTP[settings.srtp]
    media.srtpSecureSignaling = 0  # whether the keys travel over TLS is the operator's affair; a warning tells
    return config
