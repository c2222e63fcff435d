# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway as an extension of a PBX: REGISTER with digest at one of several registrars (RFC 3261 section 10; A19).

The library answers challenges. What it lacks is here: to see within seconds that a registrar does not answer, and to go
to another one, with growing pauses between the rounds that are never the same for two gateways, so that a PBX that
comes back is not met by all at once (RFC 5626 section 4.5). So each renewal is asked for here, before the library
would do it.

Each registrar has an account of its own in the library, so that nothing has to be changed under a transaction that is
still waiting for a dead one.
"""

from __future__ import annotations

import random
import re
import socket
from dataclasses import dataclass, field
from typing import Any

import pjsua2 as pj
import structlog

from gateway.sip.errors import BadSettings

log = structlog.get_logger(__name__)

ANSWER_NS = 5_000_000_000
"""A registrar that has not answered after this long is given up for now; the library itself would wait 32 s."""
ROUND_S = 2.0
LONGEST_ROUND_S = 300.0
_URI = re.compile(r"sip:(?P<host>[A-Za-z0-9.-]+)(:(?P<port>\d{1,5}))?(;transport=(udp|tcp|tls))?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Registration:
    """One extension: where it is registered, best first, and as whom."""

    name: str
    registrars: tuple[str, ...]
    user: str
    password: str = field(repr=False)
    domain: str = ""
    """Domain of the address of record; empty: the first registrar's host."""
    expires_s: int = 300
    trusted: bool = False
    """Whether this PBX's X- headers are believed."""
    ping_s: float = 60.0
    """How often each registrar is asked by OPTIONS whether it is there; 0 never."""

    def __post_init__(self) -> None:
        for registrar in self.registrars:
            if not _URI.match(registrar):
                raise BadSettings(f"registration {self.name!r}: {registrar!r} must be like sip:192.0.2.10:5060")
        if not self.registrars:
            raise BadSettings(f"registration {self.name!r} needs a registrar")

    @property
    def address_of_record(self) -> str:
        """Who we are at the PBX."""
        return f"sip:{self.user}@{self.domain or peer_of(self.registrars[0])[0]}"


def peer_of(uri: str) -> tuple[str, int]:
    """Host in lower case and port of a SIP URI; an empty host for what is none."""
    found = re.match(r"sips?:(?:[^@\s]*@)?(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>\d{1,5}))?", uri, re.IGNORECASE)
    return (found["host"].lower(), int(found["port"] or 5060)) if found else ("", 0)


def registrar_networks(registration: Registration) -> tuple[str, ...]:
    """The addresses that calls of this PBX come from: those of its registrars. ValueError when a name is unknown."""
    found: list[str] = []
    for registrar in registration.registrars:
        host, _ = peer_of(registrar)
        try:
            found += [str(info[4][0]) for info in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)]
        except OSError as error:
            raise BadSettings(f"registration {registration.name!r}: no address for {host!r} ({error})") from error
    return tuple(dict.fromkeys(found))


class Rotation:
    """Which registrar is tried, and when. Pure: the clock and chance come in."""

    def __init__(self, registrars: int, chance: random.Random) -> None:
        self.current = 0
        self.due_ns: int | None = 0
        """When the current one is to be asked (again); None while it is asked."""
        self.failures = 0
        self._registrars = registrars
        self._chance = chance

    def asked(self) -> None:
        """The REGISTER is out."""
        self.due_ns = None

    def succeeded(self, now_ns: int, expires_s: int) -> None:
        """The registration holds until it is renewed, at 70 to 80 % of its time; a failure begins a new count."""
        self.failures = 0
        self.due_ns = now_ns + int(expires_s * (0.7 + self._chance.random() / 10) * 1e9)

    def failed(self, now_ns: int) -> None:
        """Go to the next registrar: at once within a round, after a pause when all have failed."""
        self.current = (self.current + 1) % self._registrars
        self.failures += 1
        rounds, inside = divmod(self.failures, self._registrars)
        longest_s = 1.0 if inside else min(LONGEST_ROUND_S, ROUND_S * 2.0 ** min(rounds, 16))
        self.due_ns = now_ns + int(longest_s * (0.5 + self._chance.random() / 2) * 1e9)


class Extension:
    """A registration that is kept alive, with the library's accounts. Owner thread only."""

    def __init__(self, wanted: Registration, accounts: list[Any], chance: random.Random) -> None:
        self.wanted = wanted
        self.expires_s = 0
        self.code = 0
        """The registrar's last word; 0 before the first, 408 when it said nothing."""
        self._accounts = accounts
        self._peers = [peer_of(registrar) for registrar in wanted.registrars]
        self._rotation = Rotation(len(accounts), chance)
        self._asked_ns: int | None = None
        self.leaving = False
        """The registration was taken back, and the registrar has not confirmed it."""

    @property
    def registrar(self) -> str:
        """The one whose turn it is."""
        return self.wanted.registrars[self._rotation.current]

    @property
    def registered(self) -> bool:
        """Whether the PBX sends calls here."""
        return self.expires_s > 0

    def account_for(self, uri: str) -> Any | None:
        """The account to call an address of this PBX with, None when the address is another's."""
        return self._accounts[self._rotation.current] if peer_of(uri) in self._peers else None

    def tick(self, now_ns: int) -> None:
        """Ask the registrar whose turn it is; give up one that does not answer."""
        if self.leaving:
            return
        rotation = self._rotation
        if self._asked_ns is not None and now_ns - self._asked_ns > ANSWER_NS:
            self._over(408, 0, now_ns)
        if rotation.due_ns is not None and now_ns >= rotation.due_ns:
            rotation.asked()
            self._asked_ns = now_ns
            try:
                self._accounts[rotation.current].setRegistration(True)
            except pj.Error as error:  # busy with an earlier one, or no transport to there
                log.warning("sip_register_failed", registration=self.wanted.name, reason=str(error.reason))
                self._over(503, 0, now_ns)

    def lost(self, now_ns: int) -> None:
        """The registrar is gone, as OPTIONS have shown: do not wait for the next renewal to notice."""
        if self.registered and not self.leaving:
            self._over(408, 0, now_ns)

    def withdraw(self) -> None:
        """Take the registration back, so that the PBX rings for nobody no more; `leaving` until that is confirmed."""
        if not self.registered:
            return
        try:
            self._accounts[self._rotation.current].setRegistration(False)
            self.leaving = True
        except pj.Error as error:
            log.warning("sip_unregister_failed", registration=self.wanted.name, reason=str(error.reason))

    def answered(self, account: Any, code: int, expires_s: int, now_ns: int) -> None:
        """What the registrar said. What one says that was given up before counts only if it is good news."""
        if self.leaving:
            self.leaving = False
            self.expires_s = 0
            return
        is_current = account is self._accounts[self._rotation.current]
        if is_current and (self._asked_ns is not None or is_success(code)):
            self._over(code, expires_s, now_ns)

    def statistics(self) -> dict[str, Any]:
        """Whether it holds, where, and how often it failed in a row."""
        return {
            "registered": self.registered,
            "registrar": self.registrar,
            "code": self.code,
            "expires_s": self.expires_s,
            "failures": self._rotation.failures,
        }

    def release(self) -> None:
        """Delete the accounts in the library, which takes the registration back."""
        accounts, self._accounts = self._accounts, []
        for account in accounts:
            account.release()

    def _over(self, code: int, expires_s: int, now_ns: int) -> None:
        was, self.code, self._asked_ns = self.registered, code, None
        registrar = self.registrar
        if is_success(code) and expires_s > 0:
            self.expires_s = expires_s
            self._rotation.succeeded(now_ns, expires_s)
            if not was:
                log.info("sip_registered", registration=self.wanted.name, registrar=registrar, expires_s=expires_s)
        else:
            self.expires_s = 0
            self._rotation.failed(now_ns)
            log.warning("sip_registration_failed", registration=self.wanted.name, registrar=registrar, code=code)


def is_success(code: int) -> bool:
    """A final response of the 2xx class."""
    return 200 <= code < 300


def extension_account_config(base: Any, wanted: Registration, registrar: str) -> Any:
    """An account at a registrar, on top of what every account of ours has; it registers when it is told to."""
    base.idUri = wanted.address_of_record
    register = base.regConfig
    register.registrarUri = registrar
    register.registerOnAdd = False
    register.timeoutSec = wanted.expires_s
    register.retryIntervalSec = 0  # the rotation decides
    register.delayBeforeRefreshSec = 1  # so that the library's own renewal comes behind ours
    register.dropCallsOnFail = False
    base.sipConfig.authCreds.append(pj.AuthCredInfo("digest", "*", wanted.user, 0, wanted.password))
    return base
