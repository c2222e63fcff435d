# SPDX-License-Identifier: GPL-3.0-or-later
"""The first thing that a caller hears, with many calls at once (CASES B27)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from gateway.audio.original import Ducking
from gateway.call.dialplan import DialPlan, Route
from gateway.call.party import LEG_RATE_HZ, Party
from gateway.call.prompts import CALLER_DISCLOSURE, PromptBook
from gateway.sip.events import Answered, Ended, Incoming
from tests.call.scripted_exchange import Exchange

pytestmark = pytest.mark.unit

PLAN = DialPlan((Route("direct", "xx", "yy", "sip:b@host", number="1"),))
GREETING = (8000 * np.sin(np.arange(3 * LEG_RATE_HZ) / 3)).astype(np.int16)  # 3 s, as a disclosure is


def heard_by(party: Party, seconds: float) -> np.ndarray:
    frames = [np.frombuffer(party.playout.next_frame(), np.int16) for _ in range(int(seconds * 50))]
    return np.concatenate(frames)


def test_b27_ten_callers_who_are_answered_at_once_hear_the_greeting_whole() -> None:
    async def work() -> None:
        book = PromptBook(
            {}, {}, rate_hz=LEG_RATE_HZ, cache=Path("/nonexistent"), recorded={("xx", CALLER_DISCLOSURE): GREETING}
        )
        site = Exchange(20, dialplan=PLAN, prompts=book, disclosure=True, ducking=Ducking(on=False))
        legs = [f"leg-{n}" for n in range(10)]
        await site.hear(*(Incoming(leg, "127.0.0.1", "", "1", "somebody") for leg in legs))
        await site.hear(*(Answered(leg) for leg in legs))
        callers = [call.a for call_id in site.board.calls() if (call := site.board.live(call_id)) is not None]
        assert len(callers) == 10
        for caller in callers:
            heard = heard_by(caller, 3.5)
            first = int(np.flatnonzero(heard)[0])
            body = slice(LEG_RATE_HZ // 10, -LEG_RATE_HZ // 10)  # it fades in and out
            assert np.array_equal(heard[first - 1 : first - 1 + GREETING.size][body], GREETING[body])
            counts = caller.playout.statistics()
            assert (counts["clips_refused"], counts["clips_dropped"], counts["underruns"]) == (0, 0, 0)
        await site.hear(*(Ended(leg, 200, "OK", by_remote=True) for leg in legs))
        await site.board.stop()

    asyncio.run(asyncio.wait_for(work(), 60))
