# SPDX-License-Identifier: GPL-3.0-or-later
"""`POST /v1/calls/{id}/transfer`: an operator puts a party through to somebody else (A5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.sip.events import Answered, Ended, ReferProgress
from tests.api.control_room import Room, room, run
from tests.api.test_api_commands import command
from tests.call.scripted import settle

pytestmark = pytest.mark.unit

SETTINGS = {"destinations": ["sip:*@192.0.2.1"]}


def slug(problem: dict[str, Any]) -> str:
    return str(problem["type"]).rpartition("#")[2]


async def over(one: Room, *legs: str) -> None:
    await one.exchange.hear(*(Ended(leg, 200, "OK", by_remote=True) for leg in legs))


def test_a5_the_caller_is_put_through_and_the_interpreter_stays(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings=SETTINGS) as one, one.client("operator") as operator:
            call_id = await one.bridge()
            call = one.exchange.board.live(call_id)
            assert call is not None
            a, b = call.a.leg, call.b.leg
            order = {"party": "a", "to": "7001"}
            for _ in range(2):  # asked for twice, one telephone rings
                asked = await operator.post(f"/v1/calls/{call_id}/transfer", json=order)
                assert asked.status_code == 202, asked.text
            dialled = [leg for what, leg in one.exchange.phones.done if what == "dial"]
            assert len(dialled) == 3
            busy = await operator.post(f"/v1/calls/{call_id}/transfer", json={**order, "to": "sip:ana@192.0.2.1"})
            assert (busy.status_code, slug(busy.json())) == (409, "no-transfer-now")
            await one.exchange.hear(Answered(dialled[2]))
            assert ("hangup", b) in one.exchange.phones.done
            assert call.b.leg == dialled[2]
            again = await operator.post(f"/v1/calls/{call_id}/transfer", json=order)
            assert again.status_code == 202, "they talk already"
            assert len([leg for what, leg in one.exchange.phones.done if what == "dial"]) == 3
            await over(one, a, dialled[2])
            await settle(40)

    run(work())


def test_a5_whoever_comes_speaks_as_ordered_or_as_the_dial_plan_says(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings=SETTINGS, free=12) as one, one.client("operator") as operator:
            for to, language, spoken in (
                ({"to": "7001"}, None, "yy"),
                ({"to": "812"}, None, "xx"),
                ({"to": "sip:ana@192.0.2.1"}, None, "yy"),
                ({"to": "sip:ana@192.0.2.1"}, "xx", "xx"),
            ):
                call_id = await one.bridge()
                call = one.exchange.board.live(call_id)
                assert call is not None
                order = {"party": "a", **to, **({"language": language} if language else {})}
                shown = await operator.post(f"/v1/calls/{call_id}/transfer", json=order)
                assert shown.status_code == 202, shown.text
                assert shown.json()["b"]["language"] == "yy", "nobody has come yet"
                await one.exchange.hear(Answered(one.exchange.phones.done[-1][1]))
                assert (await operator.get(f"/v1/calls/{call_id}")).json()["b"]["language"] == spoken, order
                await over(one, call.a.leg, call.b.leg)

    run(work())


def test_a5_a_party_is_handed_over_by_refer(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings=SETTINGS) as one, one.client("operator") as operator:
            call_id = await one.bridge()
            call = one.exchange.board.live(call_id)
            assert call is not None
            order = {"party": "b", "to": "sip:ana@192.0.2.1", "interpreted": False}
            for _ in range(2):
                assert (await operator.post(f"/v1/calls/{call_id}/transfer", json=order)).status_code == 202
            referred = [entry for entry in one.exchange.phones.done if entry[0].startswith("refer")]
            assert referred == [("refer-sip:ana@192.0.2.1", call.b.leg)]
            for other in ({**order, "party": "a"}, {**order, "to": "7001"}, {**order, "interpreted": True}):
                busy = await operator.post(f"/v1/calls/{call_id}/transfer", json=other)
                assert (busy.status_code, slug(busy.json())) == (409, "no-transfer-now")
            await one.exchange.hear(ReferProgress(call.b.leg, 100), ReferProgress(call.b.leg, 200))
            assert ("hangup", call.b.leg) in one.exchange.phones.done
            await over(one, call.b.leg, call.a.leg)
            await one.written()
            shown = (await operator.get(f"/v1/calls/{call_id}")).json()
            assert (shown["result"], shown["reason"]) == ("completed", "handed-over")

    run(work())


def test_a5_nobody_is_sent_where_the_operator_may_not_call(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            room(tmp_path, settings=SETTINGS, free=2) as one,
            one.client("operator") as operator,
            one.client("viewer") as viewer,
            one.client("admin") as admin,
        ):
            call_id = await one.bridge()
            path = f"/v1/calls/{call_id}/transfer"
            for interpreted in (True, False):
                order = {"party": "a", "to": "sip:+1900@192.0.2.66", "interpreted": interpreted}
                refused = await operator.post(path, json=order)
                assert (refused.status_code, slug(refused.json())) == (403, "destination-not-allowed")
                assert "1900" not in refused.text
                assert (await viewer.post(path, json=order)).status_code == 403
            assert not [entry for entry in one.exchange.phones.done if entry[0].startswith("refer")]
            for order, status, kind in (
                ({"party": "a", "to": "9"}, 422, "invalid"),
                ({"party": "c", "to": "7001"}, 422, "invalid"),
                ({"party": "a", "to": "7001", "language": "zz"}, 422, "pair-not-served"),
                ({"party": "a", "to": "7001"}, 503, "busy"),  # both legs there are in use
            ):
                refused = await admin.post(path, json=order)
                assert (refused.status_code, slug(refused.json())) == (status, kind), refused.text
            assert (
                await admin.post(path, json={"party": "a", "to": "sip:x@192.0.2.66", "interpreted": False})
            ).is_success
            await one.end(call_id)

    run(work())


def test_a5_nobody_is_transferred_before_there_is_a_conversation(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, settings=SETTINGS) as one, one.client("operator") as operator:
            call_id, call = one.exchange.place()
            refused = await operator.post(f"/v1/calls/{call_id}/transfer", json={"party": "a", "to": "7001"})
            assert (refused.status_code, slug(refused.json())) == (409, "no-transfer-now")
            await one.exchange.hear(Ended(call.a.leg, 486, "Busy Here", by_remote=True))

    run(work())


def test_c8_any_gateway_transfers_and_so_does_the_command_line(tmp_path: Path) -> None:
    async def work() -> None:
        async with room(tmp_path, name="one", settings=SETTINGS) as one, room(tmp_path, name="two") as two:
            call_id = await one.bridge()
            await one.written()
            await two.reaches("one")
            done = await command(two, "transfer", call_id, "a", "sip:ana@192.0.2.1", "--hand-over", "--json")
            assert done.exit_code == 0, done.output
            assert f'"id": "{call_id}"' in done.output
            assert one.exchange.phones.done[-1][0] == "refer-sip:ana@192.0.2.1"
            refused = await command(two, "transfer", call_id, "c", "7001")
            assert refused.exit_code == 1 and "body.party" in refused.output
            await one.end(call_id)

    run(work())
