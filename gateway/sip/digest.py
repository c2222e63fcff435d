# SPDX-License-Identifier: GPL-3.0-or-later
"""Digest authentication of callers (RFC 3261 section 22, RFC 2617 with qop "auth"). Pure: clock and secret come in.

The algorithm is MD5: it is what every PBX speaks, and what it protects is not the call but the toll. A nonce is signed
with the time and the source it was given to, so that nothing is stored for strangers; it is good for one call only,
because a recorded answer would be good for a second one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum, auto

NONCE_LIFE_NS = 60_000_000_000
MAX_USED = 10_000
"""Nonces remembered as used: a minute of 160 calls a second."""

_FIELD = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class Verdict(Enum):
    """What a request's credentials are worth."""

    GOOD = auto()
    STALE = auto()
    """Right, but with a nonce that is too old or was used: to be asked again (stale=true)."""
    BAD = auto()
    """Wrong, or none."""


@dataclass(frozen=True, slots=True)
class Login:
    """Whom a trunk has to prove to be."""

    user: str
    password: str = field(repr=False)


def digest_fields(value: str) -> dict[str, str]:
    """The fields of a Digest header value, names in lower case; empty when it is of another scheme."""
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() != "digest":
        return {}
    return {name.lower(): quoted or bare for name, quoted, bare in _FIELD.findall(rest)}


def digest_response(login: Login, realm: str, method: str, fields: dict[str, str]) -> str:
    """The right value of ``response`` for these fields (RFC 2617 section 3.2.2)."""
    first = _md5(login.user, realm, login.password)
    second = _md5(method, fields.get("uri", ""))
    return _md5(first, fields.get("nonce", ""), fields.get("nc", ""), fields.get("cnonce", ""), "auth", second)


class Doorman:
    """Gives challenges and judges answers."""

    def __init__(self, realm: str, secret: bytes) -> None:
        self._realm = realm
        self._secret = secret
        self._used: OrderedDict[str, None] = OrderedDict()

    def challenge(self, ip: str, now_ns: int, *, stale: bool = False) -> str:
        """A value for WWW-Authenticate."""
        nonce = self._sign(ip, now_ns)
        again = ", stale=true" if stale else ""
        return f'Digest realm="{self._realm}", nonce="{nonce}", algorithm=MD5, qop="auth"{again}'

    def judge(self, value: str, method: str, login: Login, ip: str, now_ns: int) -> Verdict:
        """What an Authorization value proves. The same time is taken whatever is wrong in it."""
        fields = digest_fields(value)
        nonce = fields.get("nonce", "")
        ours = hmac.compare_digest(digest_response(login, self._realm, method, fields), fields.get("response", ""))
        named = hmac.compare_digest(fields.get("username", "").encode(), login.user.encode())
        if not (ours and named and fields.get("qop", "") == "auth"):
            return Verdict.BAD
        stamp = nonce.partition("-")[0]
        at_ns = int(stamp, 16) if re.fullmatch(r"[0-9a-f]{1,16}", stamp) else -1
        signed = at_ns >= 0 and hmac.compare_digest(self._sign(ip, at_ns), nonce)
        if not signed or not 0 <= now_ns - at_ns <= NONCE_LIFE_NS or nonce in self._used:
            return Verdict.STALE
        self._used[nonce] = None
        while len(self._used) > MAX_USED:
            self._used.popitem(last=False)
        return Verdict.GOOD

    def _sign(self, ip: str, at_ns: int) -> str:
        mark = hmac.new(self._secret, f"{at_ns:x}|{ip}".encode(), hashlib.sha256).hexdigest()[:32]
        return f"{at_ns:x}-{mark}"


def _md5(*parts: str) -> str:
    return hashlib.md5(":".join(parts).encode(), usedforsecurity=False).hexdigest()
