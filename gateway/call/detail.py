# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told and kept of a call: its detail record, and the settings in force. JSON-ready, nobody's words in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.call.bridge import Call


def effective(call: Call) -> dict[str, Any]:
    """The settings in force for a call (SPEC S4.5)."""
    return {
        "a_to_b": call.a_to_b.wanted().as_echo(),
        "b_to_a": call.b_to_a.wanted().as_echo(),
        "endpoint": call.desk.booth.endpoint.as_echo(),
        "disclosure": call.desk.disclosure,
        "fallback": call.fallback.both(),
    }


def detail_record(call: Call) -> dict[str, Any]:
    """A call's detail record so far, without numbers or words of anybody."""
    now = time.time()
    return {
        "route": call.match.route.name,
        "languages": [call.a.language, call.b.language],
        "mode": call.a_to_b.wanted().mode,
        "phase": call.phase.value,
        "paused": call.a_to_b.paused,
        "started_at": round(call.started_at, 3),
        "bridged_s": round(now - call.bridged_at, 3) if call.bridged_at else 0.0,
        "duration_s": round(now - call.started_at, 3),
        "result": call.ending.result.value if call.ending else None,
        "reason": call.ending.reason if call.ending else None,
        "safety_words": call.safety.on,
        "codecs": [call.a.codec, call.b.codec],
        "snr_db": [call.a_to_b.snr_db, call.b_to_a.snr_db],
        "transfers": len(call.transfers.legs),
        "utterances": dict(call.utterances),
        "controls": dict(call.controls_used),
        "safety_mode": call.safety.statistics(),
        "directions": {"a_to_b": call.a_to_b.statistics(), "b_to_a": call.b_to_a.statistics()},
        "parties": {"a": call.a.statistics(), "b": call.b.statistics()},
    }
