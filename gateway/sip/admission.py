# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of an INVITE before anybody hears of it: from whom, how often, how many at once, with which password.

    address on the list? → password right, where one is asked for? → not too often? → fewer calls than the cap? → in

A stranger gets 403, whatever was dialled and however often: an answer that depends on anything would be a map. Nobody
is banned, since the source address of a datagram can be forged, and a ban would be a weapon against the one who is
named (L03). Attempts are counted for each source by itself. A trusted trunk is not counted, and a call with the right
password neither: what somebody else sends in their name cannot shut them out (A21).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.sip.access import AccessList, Admission, Trunk
from gateway.sip.digest import Doorman, Login, Verdict
from gateway.sip.message import header_value

FORBIDDEN = 403
UNAUTHORIZED = 401
BUSY = 486
UNAVAILABLE = 503
GUESSES_PER_S = 0.2
GUESSES_BURST = 10
"""Wrong passwords of one source: a PBX with an old one does not notice, a dictionary takes years."""
MAX_SOURCES = 4096
"""Sources whose attempts are counted; the one not heard of for longest is forgotten."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not let in, and what the peer is told."""

    reason: str
    code: int
    headers: Mapping[str, str] = field(default_factory=dict)


TOO_OFTEN = Refusal("too-many-attempts", UNAVAILABLE, {"Retry-After": "2"})
CHALLENGED = "challenged"
"""Not a refusal but half of a call: the peer is asked for its password."""


class Pace:
    """A token bucket for each source: ``burst`` attempts at once, ``per_s`` in the long run. Pure."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_ns = per_s / 1e9
        self._burst = float(burst)
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def allows(self, source: str, now_ns: int) -> bool:
        """Count one attempt; False when it is one too many."""
        tokens, then_ns = self._buckets.pop(source, (self._burst, now_ns))
        tokens = min(self._burst, tokens + (now_ns - then_ns) * self._per_ns)
        allowed = tokens >= 1
        self._buckets[source] = (tokens - 1 if allowed else tokens, now_ns)
        while len(self._buckets) > MAX_SOURCES:
            self._buckets.popitem(last=False)
        return allowed


class Admissions:
    """Judges incoming calls. Owner thread only."""

    def __init__(
        self,
        trunks: Iterable[Trunk],
        *,
        allow_loopback: bool,
        calls_per_s: float,
        burst: int,
        realm: str,
        secret: bytes,
    ) -> None:
        """BadSettings names the trunk with a network that is not one."""
        self._access = AccessList(trunks, allow_loopback=allow_loopback)
        self._pace = Pace(calls_per_s, burst)
        self._guesses = Pace(GUESSES_PER_S, GUESSES_BURST)
        self._doorman = Doorman(realm, secret)

    def judge(self, ip: str, message: str, live: Mapping[str, int], now_ns: int) -> Admission | Refusal:
        """Whether a call of this source is let in. ``live`` counts each trunk's calls that are up or on their way."""
        admission = self._access.admit(ip)
        if admission is None:
            return Refusal("not-in-access-list", FORBIDDEN)
        if admission.login is not None:
            refusal = self._ask(admission.login, header_value(message, "authorization"), ip, now_ns)
        else:
            counted = not admission.trusted and not self._pace.allows(ip, now_ns)
            refusal = TOO_OFTEN if counted else None
        if refusal is not None:
            return refusal
        if admission.max_calls is not None and live.get(admission.trunk, 0) >= admission.max_calls:
            return Refusal("trunk-full", BUSY, {"Retry-After": "10"})
        return admission

    def _ask(self, login: Login, given: str, ip: str, now_ns: int) -> Refusal | None:
        """None for the right password; else a challenge, as long as there were not too many wrong ones."""
        verdict = self._doorman.judge(given, "INVITE", login, ip, now_ns)
        if verdict is Verdict.GOOD:
            return None
        wrong = bool(given) and verdict is Verdict.BAD
        if wrong and not self._guesses.allows(ip, now_ns):
            return TOO_OFTEN
        challenge = self._doorman.challenge(ip, now_ns, stale=verdict is Verdict.STALE)
        return Refusal("wrong-password" if wrong else CHALLENGED, UNAUTHORIZED, {"WWW-Authenticate": challenge})
