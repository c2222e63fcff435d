# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway call``, ``calls``, ``hangup``, ``transfer``, ``transcript``: the control API from the command line."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.cli.client import Client, Config, Json, Url
from gateway.cli.errors import told


class Format(StrEnum):
    """How a transcript is printed."""

    TEXT = "text"
    JSON = "json"
    VTT = "vtt"
    SRT = "srt"


CallId = Annotated[str, typer.Argument(metavar="CALL", help="The call's id, as `gateway calls` shows it.")]


def call(
    a: Annotated[str, typer.Argument(help="Who rings first: a number of the dial plan or a SIP URI.")],
    b: Annotated[str, typer.Argument(help="Who is then called.")],
    source: Annotated[str | None, typer.Option("--from", help="Language of the first; a number has its own.")] = None,
    target: Annotated[str | None, typer.Option("--to", help="Language of the second.")] = None,
    voice_a: Annotated[str | None, typer.Option(help="Voice in which the first hears the second.")] = None,
    voice_b: Annotated[str | None, typer.Option(help="Voice in which the second hears the first.")] = None,
    mode: Annotated[str | None, typer.Option(help="consecutive or simultaneous.")] = None,
    api: Url = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Call two people and interpret between them."""
    order: dict[str, Any] = {
        "a": {"to": a, "language": source, "voice": voice_a},
        "b": {"to": b, "language": target, "voice": voice_b},
        "mode": mode,
    }
    with told(), Client(api, config) as client:
        placed = client.ask("POST", "/v1/calls", json=order).json()
    typer.echo(json.dumps(placed) if as_json else placed["id"])


def calls(
    ended: Annotated[bool, typer.Option("--ended", help="Those that are over, the latest first.")] = False,
    api: Url = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List the calls of this gateway and of all that share its Redis."""
    with told(), Client(api, config) as client:
        found = client.ask("GET", "/v1/calls", params={"state": "ended" if ended else "live"}).json()
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("CALL", "PHASE", "LANGUAGES", "MODE", "ROUTE", "SECONDS", "SPOKEN", "GATEWAY"):
        table.add_column(heading, justify="right" if heading in ("SECONDS", "SPOKEN") else "left", overflow="fold")
    for one in found["calls"]:
        phase = one["reason"] or ("paused" if one["paused"] else one["phase"])
        languages = f"{one['a']['language']} ↔ {one['b']['language']}"
        spoken = one["utterances"].get("spoken", 0)
        cells = (one["id"], phase, languages, one["mode"], one["route"], f"{one['duration_s']:.0f}", spoken)
        table.add_row(*(escape(str(cell)) for cell in (*cells, one["gateway"])))
    Console().print(table)


def hangup(call_id: CallId, api: Url = None, config: Config = None, as_json: Json = False) -> None:
    """Hang up on both parties of a call."""
    with told(), Client(api, config) as client:
        client.ask("DELETE", f"/v1/calls/{call_id}")
    if as_json:
        typer.echo(json.dumps({"id": call_id}))


def transfer(
    call_id: CallId,
    party: Annotated[str, typer.Argument(help="Who is transferred: a or b. The other one leaves.")],
    to: Annotated[str, typer.Argument(help="Whom to: a number of the dial plan or a SIP URI.")],
    language: Annotated[str | None, typer.Option(help="What they speak; a number has its own.")] = None,
    hand_over: Annotated[
        bool, typer.Option("--hand-over", help="Without the interpreter: the party's own PBX makes the call.")
    ] = False,
    api: Url = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Put a party of a call through to somebody else."""
    order = {"party": party, "to": to, "language": language, "interpreted": not hand_over}
    with told(), Client(api, config) as client:
        shown = client.ask("POST", f"/v1/calls/{call_id}/transfer", json=order).json()
    if as_json:
        typer.echo(json.dumps(shown))


def transcript(
    call_id: CallId,
    form: Annotated[Format, typer.Option("--format", help="text and json hold both languages.")] = Format.TEXT,
    language: Annotated[str | None, typer.Option(help="Of vtt and srt; default: the first party's.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print on while the call lives (text, or --json).")] = False,
    api: Url = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print what is said in a call, or was, as long as it is kept."""
    with told(), Client(api, config) as client:
        path = f"/v1/calls/{call_id}/transcript"
        if follow:
            for event in client.events(call_id):
                if event["kind"] != "utterance":
                    continue
                if as_json:
                    typer.echo(json.dumps(event, ensure_ascii=False))
                else:
                    _print_line(event["leg"], event["source_text"], event["target_text"], event["lost"])
        elif form in (Format.VTT, Format.SRT) and not as_json:
            typer.echo(client.ask("GET", f"{path}.{form}", params={"language": language} if language else {}).text)
        else:
            answer = client.ask("GET", f"{path}.json").json()
            if as_json or form is Format.JSON:
                typer.echo(json.dumps(answer, ensure_ascii=False))
            else:
                for line in answer["lines"]:
                    _print_line(line["party"], line["source_text"], line["target_text"], line["lost"])


def _print_line(party: str, said: str, spoken: str, lost: str | None) -> None:
    typer.echo(f"{party.upper()}  {said}\n   {f'({lost})' if lost else spoken}")
