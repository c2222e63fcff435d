# SPDX-License-Identifier: GPL-3.0-or-later
"""PJSIP's log lines as structured events.

The library's lines carry user parts of URIs and, from level 4 on, whole messages and digits. Lines up to level 3
are redacted; the rest goes out under ``pii.`` alone, which the log set-up drops by default.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pjsua2 as pj
import structlog

from gateway.sip.message import redact

log = structlog.get_logger(__name__)

# 0 fatal, 1 error, 2 warning, 3 info, 4 debug, 5 trace (pj/log.h)
_METHODS = {0: "critical", 1: "error", 2: "warning", 3: "debug"}
LOUDEST_PRIVATE_LEVEL = 4

# Time stamp, sender and indentation marks are put in front by the library unless its decoration is off.
DECORATION_SENDER_ONLY = 64  # PJ_LOG_HAS_SENDER (pj/log.h)


def split_sender(message: str) -> tuple[str, str]:
    """Module and text of a line decorated with its sender alone."""
    line = message.strip()
    module, _, text = line.partition(" ")
    return module, text.lstrip(" .")


class LogBridge(pj.LogWriter):  # type: ignore[misc]  # pjsua2 has no types
    """Receives lines on whatever thread wrote them. Never raises."""

    def write(self, entry: Any) -> None:
        with contextlib.suppress(BaseException):  # an exception here would go through C
            emit(int(entry.level), str(entry.msg))


def emit(level: int, message: str) -> None:
    """Log one line of the library. Its info is our debug: the gateway says itself what happens to a call."""
    module, text = split_sender(message)
    if level >= LOUDEST_PRIVATE_LEVEL:
        log.debug("pjsip_log", module=module, **{"pii.text": text})
        return
    public = redact(text)
    if public:
        getattr(log, _METHODS.get(level, "debug"))("pjsip_log", module=module, text=public)
