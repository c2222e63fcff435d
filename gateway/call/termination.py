# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way a call or a leg can end, as (result, reason): the same two words in log, CDR and event.

A result answers "did it work?", a reason answers "why not?". The SIP code is how the ending looks on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Result(StrEnum):
    """Did the call do what it was made for?"""

    COMPLETED = "completed"
    """Both parties were connected, and one of them hung up."""
    CANCELLED = "cancelled"
    """The caller gave up before the parties were connected."""
    REFUSED = "refused"
    """The gateway would not take the call."""
    UNANSWERED = "unanswered"
    """The called party could not or would not take the call."""
    SERVER_ERROR = "server_error"
    """Something broke on our side."""


@dataclass(frozen=True, slots=True)
class Ending:
    """One ending: the two words, and the SIP final code that an unanswered caller gets for it."""

    result: Result
    reason: str
    sip_code: int = 0
    retry_after_s: int = 0

    def sip_headers(self) -> dict[str, str]:
        """Headers that tell the peer why: RFC 3326 Reason, RFC 3261 section 20.33 Retry-After."""
        headers = {"Reason": f'SIP;cause={self.sip_code or 200};text="{self.reason}"'}
        if self.retry_after_s:
            headers["Retry-After"] = str(self.retry_after_s)
        return headers


CALLER_HUNG_UP = Ending(Result.COMPLETED, "caller-hung-up")
CALLEE_HUNG_UP = Ending(Result.COMPLETED, "callee-hung-up")
OPERATOR_HUNG_UP = Ending(Result.COMPLETED, "operator-hung-up")
HANDED_OVER = Ending(Result.COMPLETED, "handed-over")
"""A party was sent to talk to somebody else, without the gateway."""
LONG_SILENCE = Ending(Result.COMPLETED, "long-silence")
LONGEST_CALL = Ending(Result.COMPLETED, "longest-call")

CALLER_NO_ANSWER = Ending(Result.UNANSWERED, "caller-no-answer", 480)
"""The first party of a call that the gateway dialled itself."""

CALLER_GAVE_UP = Ending(Result.CANCELLED, "caller-gave-up", 487)
NO_CHOICE = Ending(Result.CANCELLED, "no-choice")
"""The caller was asked in the menu, and gave no answer that could be used."""

UNKNOWN_NUMBER = Ending(Result.REFUSED, "unknown-number", 404)
UNKNOWN_LANGUAGE = Ending(Result.REFUSED, "language-pair-not-served", 488)
NO_FREE_LEG = Ending(Result.REFUSED, "no-free-leg", 486, retry_after_s=10)
DRAINING = Ending(Result.REFUSED, "draining", 503, retry_after_s=60)
NOT_READY = Ending(Result.REFUSED, "models-loading", 503, retry_after_s=10)

CALLEE_BUSY = Ending(Result.UNANSWERED, "callee-busy", 486)
CALLEE_DECLINED = Ending(Result.UNANSWERED, "callee-declined", 603)
CALLEE_NO_ANSWER = Ending(Result.UNANSWERED, "callee-no-answer", 480)
CALLEE_UNKNOWN = Ending(Result.UNANSWERED, "callee-unknown", 404)
CALLEE_UNREACHABLE = Ending(Result.UNANSWERED, "callee-unreachable", 503)
CALLEE_INCOMPATIBLE = Ending(Result.UNANSWERED, "callee-incompatible", 488)

SHUTDOWN = Ending(Result.SERVER_ERROR, "gateway-stopped", 503, retry_after_s=60)
INTERNAL_ERROR = Ending(Result.SERVER_ERROR, "internal-error", 500)

_CALLEE_BY_CODE = {
    404: CALLEE_UNKNOWN,
    408: CALLEE_UNREACHABLE,
    410: CALLEE_UNKNOWN,
    415: CALLEE_INCOMPATIBLE,
    480: CALLEE_NO_ANSWER,
    484: CALLEE_UNKNOWN,
    486: CALLEE_BUSY,
    487: CALLEE_NO_ANSWER,
    488: CALLEE_INCOMPATIBLE,
    600: CALLEE_BUSY,
    603: CALLEE_DECLINED,
    604: CALLEE_UNKNOWN,
    606: CALLEE_INCOMPATIBLE,
}


def callee_failure(sip_code: int) -> Ending:
    """What a final code of the called party means; codes without a meaning of their own are 'unreachable'."""
    return _CALLEE_BY_CODE.get(sip_code, CALLEE_DECLINED if sip_code == 403 else CALLEE_UNREACHABLE)


def caller_failure(sip_code: int) -> Ending:
    """The same for a first party that the gateway dialled itself: ``caller-busy`` and so on."""
    ending = callee_failure(sip_code)
    return replace(ending, reason=ending.reason.replace("callee-", "caller-", 1))
