# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may use the API, and for what: tokens with roles, of which only hashes are kept.

A token is 256 random bits behind an id that is no secret: nobody can guess it, so one round of SHA-256 protects it at
rest as well as a slow hash would, and a check costs microseconds. The file is looked at once a second, so a revoked
token is dead everywhere within that time; a file that cannot be read lets nobody in.

Whoever runs commands as the gateway's own user can write that file anyway. So the gateway leaves such a user a token
of its own life time beside it, and ``gateway calls`` works without ceremony.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger(__name__)

LOOK_EVERY_NS = 1_000_000_000
_TOKEN = re.compile(r"gw_([0-9a-f]{8})_([A-Za-z0-9_-]{43})\Z")
_NAME = re.compile(r"[A-Za-z0-9_. -]{1,64}\Z")


class Permission(StrEnum):
    """What a role may contain."""

    METRICS = "metrics"
    CALLS = "calls"
    """See calls, languages, models and dictionaries, but no word of what is said."""
    WORDS = "words"
    """Read transcripts and events: what people say."""
    CONTROL = "control"
    """Place, change and end calls; change dictionaries."""
    ANYWHERE = "anywhere"
    """Call any SIP URI, not only what the settings allow."""


_P = Permission
ROLES: dict[str, frozenset[Permission]] = {
    "monitor": frozenset({_P.METRICS}),
    "viewer": frozenset({_P.METRICS, _P.CALLS}),
    "auditor": frozenset({_P.METRICS, _P.CALLS, _P.WORDS}),
    "operator": frozenset({_P.METRICS, _P.CALLS, _P.WORDS, _P.CONTROL}),
    "admin": frozenset(Permission),
}


class TokenError(Exception):
    """A token file or a request for one that cannot be used; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking. ``id`` is the token's, which is no secret."""

    id: str
    name: str
    role: str

    def may(self, permission: Permission) -> bool:
        """Whether the role allows it."""
        return permission in ROLES[self.role]


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is kept: never the secret itself. Times are ISO 8601 in UTC."""

    id: str
    name: str
    role: str
    sha256: str
    created: str
    expires: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {name: getattr(self, name) for name in self.__slots__}


def default_file() -> Path:
    """``gateway/tokens.json`` in the user's state directory (XDG base directory specification)."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "gateway" / "tokens.json"


class TokenFile:
    """The file itself, for the commands that change it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[TokenRecord, ...]:
        """All records; none when there is no file. TokenError when it cannot be used."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            records = tuple(TokenRecord(**item) for item in document["tokens"])
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, KeyError):
            raise TokenError(f"{self.path} cannot be read as a token file: restore it, or remove it") from None
        if unknown := {record.role for record in records} - ROLES.keys():
            raise TokenError(f"{self.path} names an unknown role {unknown.pop()!r}: known are {', '.join(ROLES)}")
        return records

    def create(self, name: str, role: str, *, created: str, expires: str | None = None) -> tuple[TokenRecord, str]:
        """A new token: its record, and the secret that is shown this once."""
        if not _NAME.match(name):
            raise TokenError("a token's name has 1 to 64 letters, digits, spaces, dots, dashes or underscores")
        if role not in ROLES:
            raise TokenError(f"role {role!r} is unknown: choose one of {', '.join(ROLES)}")
        number, token = _new_token()
        record = TokenRecord(number, name, role, _digest(token), created, expires)
        with self._locked() as records:
            self._write((*records, record))
        return record, token

    def revoke(self, id_or_name: str) -> TokenRecord:
        """Take a token away. TokenError when there is none, or the name fits several."""
        with self._locked() as records:
            found = [record for record in records if id_or_name in (record.id, record.name)]
            if len(found) != 1:
                told = "there is no token" if not found else f"{len(found)} tokens are"
                raise TokenError(f"{told} called {id_or_name!r}: see `gateway token list`, and give the id")
            self._write(tuple(record for record in records if record is not found[0]))
        return found[0]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[tuple[TokenRecord, ...]]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read()
        finally:
            os.close(lock)

    def _write(self, records: tuple[TokenRecord, ...]) -> None:
        write_private(self.path, json.dumps({"tokens": [record.as_json() for record in records]}, indent=1) + "\n")


class TokenBook:
    """Checks tokens against the file, which is read again when it has changed. Lives on the event loop.

    ``clock`` gives monotonic ns, ``utc`` the time of day as ISO 8601 in UTC.
    """

    def __init__(self, path: Path, *, clock: Callable[[], int], utc: Callable[[], str]) -> None:
        self._file = TokenFile(path)
        self._clock = clock
        self._utc = utc
        self._records: dict[str, TokenRecord] = {}
        self._own: dict[str, TokenRecord] = {}
        self._mark: tuple[int, ...] | None = None
        self._looked_ns = -LOOK_EVERY_NS

    def issue_local(self) -> str:
        """A token that lives as long as this process, for the user who runs it."""
        number, token = _new_token()
        self._own[number] = TokenRecord(number, "local", "admin", _digest(token), self._utc())
        return token

    def check(self, token: str) -> Principal | None:
        """Who holds this token; None when it is none of ours, expired or revoked."""
        self._look()
        match = _TOKEN.match(token)
        record = (self._own.get(match[1]) or self._records.get(match[1])) if match else None
        known = record.sha256 if record else _NOBODYS
        if not hmac.compare_digest(_digest(token), known) or record is None:
            return None
        return self._principal(record)

    def still(self, principal: Principal) -> bool:
        """Whether a token that was good is good still: asked again and again while a stream is open."""
        self._look()
        record = self._own.get(principal.id) or self._records.get(principal.id)
        return record is not None and self._principal(record) == principal

    def _principal(self, record: TokenRecord) -> Principal | None:
        if record.expires is not None and record.expires <= self._utc():
            return None
        return Principal(record.id, record.name, record.role)

    def _look(self) -> None:
        now_ns = self._clock()
        if now_ns - self._looked_ns < LOOK_EVERY_NS:
            return
        self._looked_ns = now_ns
        try:
            found = self._file.path.stat()
            mark: tuple[int, ...] | None = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            mark = None
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._records = {record.id: record for record in self._file.read()}
        except TokenError as error:
            self._records = {}
            log.error("token_file_unusable", reason=str(error))


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole; it is readable by its owner only, from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, half = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # made with mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(half).replace(path)


def _new_token() -> tuple[str, str]:
    number = secrets.token_hex(4)
    return number, f"gw_{number}_{secrets.token_urlsafe(32)}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


_NOBODYS = "0" * 64
