# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way the API says no, as problem details (RFC 9457). The type leads to the documentation page of this gateway.

A problem never repeats what was sent: a number or a word in a request must not come back in an answer that somebody
logs (CASES K07, K08).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PROBLEM_JSON = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem: its slug is what programs look at."""

    slug: str
    status: int
    title: str


BAD_REQUEST = Kind("bad-request", 400, "The request cannot be understood")
NO_TOKEN = Kind("no-token", 401, "A valid token is needed")
NOT_ALLOWED = Kind("not-allowed", 403, "The token's role does not allow this")
FOREIGN_ORIGIN = Kind("foreign-origin", 403, "The request comes from another web page")
DESTINATION_NOT_ALLOWED = Kind("destination-not-allowed", 403, "This destination may not be called")
NOT_FOUND = Kind("not-found", 404, "There is nothing here")
NO_SUCH_CALL = Kind("no-such-call", 404, "There is no such call, or no longer")
METHOD_NOT_ALLOWED = Kind("method-not-allowed", 405, "This cannot be done here")
TOO_SLOW = Kind("request-too-slow", 408, "The request did not arrive in time")
NO_TRANSFER_NOW = Kind("no-transfer-now", 409, "Nobody can be transferred in this call now")
CALL_IS_OVER = Kind("call-is-over", 409, "The call is over")
TOO_LARGE = Kind("too-large", 413, "The request is too large")
WRONG_MEDIA_TYPE = Kind("wrong-media-type", 415, "The request's content type is not understood")
INVALID = Kind("invalid", 422, "The request's values cannot be used")
PAIR_NOT_SERVED = Kind("pair-not-served", 422, "The gateway does not interpret between these languages")
TOO_MANY = Kind("too-many-requests", 429, "Too many requests")
BROKEN = Kind("internal-error", 500, "Something broke in the gateway")
BUSY = Kind("busy", 503, "No more calls can be taken now")
NOT_READY = Kind("not-ready", 503, "The gateway is not ready")
OTHER_GATEWAY = Kind("other-gateway-silent", 504, "The gateway that holds the call does not answer")

KINDS = {kind.slug: kind for kind in list(globals().values()) if isinstance(kind, Kind)}


@dataclass(eq=False)
class Problem(Exception):
    """A refusal. ``detail`` names the remedy in this very case; ``more`` are extension members."""

    kind: Kind
    detail: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The problem's document."""
        document: dict[str, Any] = {
            "type": f"/docs#{self.kind.slug}",
            "title": self.kind.title,
            "status": self.kind.status,
        }
        if self.detail:
            document["detail"] = self.detail
        return {**document, **self.more}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Problem:
        """The same problem, told by another gateway."""
        known = ("type", "title", "status", "detail")
        kind = KINDS.get(str(document.get("type", "")).rpartition("#")[2], BROKEN)
        more = {key: value for key, value in document.items() if key not in known}
        return cls(kind, str(document.get("detail", "")), more)
