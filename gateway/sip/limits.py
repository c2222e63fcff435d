# SPDX-License-Identifier: GPL-3.0-or-later
"""What the SIP library at hand can do: version, compiled-in number of calls, its own old libraries.

Works without starting the library, so that a check of the installation can tell. The number of calls is a constant
of the build (PJSUA_MAX_CALLS); a larger wish is clamped silently, so it is read back after the start.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pjsua2 as pj

from gateway.sip.native import library

UNKNOWN_CALL_LIMIT = 4
"""What pjsip is commonly built for; taken when the build hides the symbol."""

OWN_BUILD_PLACES = 4096
"""PJ_IOQUEUE_MAX_HANDLES of scripts/pjsua2/config_site.h."""
COMMON_PLACES = 64
"""What pjsip is commonly built with."""

REMEDY = "for 512 legs and current libraries run: make pjsua2"

FIXED_SINCE = (2, 17)
"""First release with the fixes the published wheel lacks; older ones must not speak ICE, STUN, video, presence."""


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """What was found out about the library in this installation."""

    version: str
    own_build: bool
    """Made by scripts/build-pjsua2."""
    bundled: tuple[str, ...]
    """File names of third-party libraries that came with the binding and get no system updates."""
    warnings: tuple[str, ...]

    @property
    def socket_places(self) -> int:
        """Sockets of calls that the library can hold at once."""
        return OWN_BUILD_PLACES if self.own_build else COMMON_PLACES


TLS_TOO_OLD = (
    "sip.transports has tls, but the pjsua2 at hand brings OpenSSL 1.0.2 (end of life): build one with "
    "`make pjsua2`, or leave tls out"
)


def _bundled() -> tuple[str, ...]:
    binding = Path(str(pj.__file__)).resolve().parent
    return tuple(sorted(p.name for p in binding.parent.glob("pjsua2*.libs/*.so*")))


def tls_is_sound() -> bool:
    """Whether the binding speaks TLS with a library that is still looked after."""
    return not any(".so.1.0.2" in name and "ssl" in name for name in _bundled())


def version_tuple(version: str) -> tuple[int, ...]:
    """``2.15.1`` and ``2.17-svn`` as numbers, for comparison."""
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())


def library_facts() -> LibraryFacts:
    """Version, bundled libraries and what follows from them, without starting anything."""
    native = library()
    version = _symbol_text(native, "pj_get_version") or "unknown"
    warnings = []
    if version == "unknown" or version_tuple(version) < FIXED_SINCE:
        warnings.append(f"pjsip {version} lacks security fixes of 2.17: keep its SIP port away from the open internet")
    if not tls_is_sound():
        warnings.append("the binding brings OpenSSL 1.0.2 (end of life): TLS is not offered with this build")
    return LibraryFacts(version, hasattr(pj.MediaFrame, "read_bytes"), _bundled(), tuple(warnings))


def call_limit() -> int:
    """Calls the running library holds at once. Only after its start: before it the library says 0."""
    native = library()
    if native is None or not hasattr(native, "pjsua_call_get_max_count"):
        return UNKNOWN_CALL_LIMIT
    return int(native.pjsua_call_get_max_count())


def built_call_limit() -> int:
    """The same without a running user agent: the library is started for a moment, without a transport.

    Not in a process in which a user agent runs: there is one library per process.
    """
    quiet_before_start()
    endpoint = pj.Endpoint()
    endpoint.libCreate()
    try:
        config = pj.EpConfig()
        config.uaConfig.threadCnt, config.uaConfig.mainThreadOnly = 0, True
        config.uaConfig.maxCalls = 1024  # clamped to the build's own limit
        config.logConfig.level = config.logConfig.consoleLevel = 0
        endpoint.libInit(config)
        return call_limit()
    finally:
        endpoint.libDestroy()


def quiet_before_start() -> None:
    """Keep the library from printing to stdout before its log settings are in force."""
    native = library()
    if native is not None and hasattr(native, "pj_log_set_level"):
        native.pj_log_set_level(ctypes.c_int(0))


def _symbol_text(native: ctypes.CDLL | None, name: str) -> str:
    if native is None or not hasattr(native, name):
        return ""
    function: Any = getattr(native, name)
    function.restype = ctypes.c_char_p
    return (function() or b"").decode("ascii", "replace")
