# SPDX-License-Identifier: GPL-3.0-or-later
"""``gateway doctor``: can this machine answer the phone? Each finding comes with its remedy."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from gateway.api.server import ApiError, bind
from gateway.cli.errors import KNOWN, told
from gateway.cli.rooms_check import check_rooms
from gateway.runtime import engine_spec, model_store, sip_settings, speech_service, worker_threads
from gateway.settings import Loaded, load_settings
from gateway.sip.limits import REMEDY, built_call_limit, library_facts
from gateway.speech.errors import SpeechError
from gateway.state import open_store
from gateway.state.errors import StateUnavailable
from gateway.telemetry.logs import configure_logging

MEDIA_MB = 130  # what the media process may take, and each worker with the bundle's models
WORKER_MB = 1800

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. ``remedy`` is empty when there is nothing to do."""

    check: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def doctor(
    config: Annotated[Path | None, typer.Option("--config", help="Settings file instead of the usual one.")] = None,
    quick: Annotated[bool, typer.Option(help="Do not load the models to measure memory and start-up.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check ports, models, Redis, limits and memory; exit 1 when calls could not be taken."""
    with told():
        loaded = load_settings(config, os.environ)
    configure_logging("error", loaded.settings.log.format, pii=False)
    findings = []
    for finding in _all(loaded, quick=quick):
        findings.append(finding)
        if not as_json:
            typer.echo(f"{finding.verdict:<5} {finding.check:<12} {finding.detail}")
            if finding.remedy:
                typer.echo(f"{'':<18} → {finding.remedy}")
    healthy = all(finding.verdict != "fail" for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": healthy, "findings": [dataclasses.asdict(each) for each in findings]}))
    if not healthy:
        raise typer.Exit(1)


def _all(loaded: Loaded, *, quick: bool) -> Iterator[Finding]:
    yield from _settings(loaded)
    yield from _library(loaded)
    yield from _ports(loaded)
    yield from _tools()
    models = list(_models(loaded))
    yield from models
    yield from asyncio.run(_redis(loaded))
    if not quick and all(model.verdict != "fail" for model in models):
        yield from asyncio.run(_memory(loaded))


def _settings(loaded: Loaded) -> Iterator[Finding]:
    faults = list(check_rooms(loaded))
    for fault in faults:
        yield Finding("settings", "fail", fault, "run: gateway check-config")
    if not faults:
        yield Finding("settings", "ok", str(loaded.file))


def _library(loaded: Loaded) -> Iterator[Finding]:
    facts, limit = library_facts(), built_call_limit()
    sip = sip_settings(loaded.settings)
    legs = min(limit, sip.max_legs or limit, sip.rtp_legs)
    calls, narrower = legs // 2, f" (the settings leave {legs})" if legs < limit else ""
    detail = (
        f"PJSIP {facts.version}, {limit} legs{narrower}: {calls} interpreted call{'s' if calls != 1 else ''} at once"
    )
    if not calls:
        yield Finding("sip-library", "fail", detail, "raise sip.max_legs to 2 or more")
    else:
        yield Finding("sip-library", "ok", detail, "" if facts.own_build else REMEDY)
    for warning in facts.warnings:
        yield Finding("sip-library", "warn", warning, "keep sip.trunks to peers you know, or run: make pjsua2")


def _ports(loaded: Loaded) -> Iterator[Finding]:
    sip = sip_settings(loaded.settings)
    kinds = {"udp": socket.SOCK_DGRAM, "tcp": socket.SOCK_STREAM}
    taken = [name for name in sip.transports if not _can_bind(sip.bind_address, sip.port, kinds[name])]
    where = f"{sip.bind_address}:{sip.port}"
    if taken:
        remedy = f"stop what listens there (ss -lnp | grep :{sip.port}), or set sip.port"
        yield Finding("sip-port", "fail", f"{where} is taken on {', '.join(taken)}", remedy)
    else:
        yield Finding("sip-port", "ok", f"{where} {'+'.join(sip.transports)}")
    ports = range(sip.rtp_port_min, sip.rtp_port_max, 2)
    free = sum(_can_bind(sip.bind_address, port, socket.SOCK_DGRAM) for port in ports[:200])
    verdict: Verdict = "ok" if free > len(ports[:200]) // 2 else "fail"
    remedy = "" if verdict == "ok" else "set sip.rtp_port_min and sip.rtp_port_max to a free range"
    yield Finding("rtp-ports", verdict, f"{free} of {len(ports[:200])} tried ports are free", remedy)
    api = loaded.settings.api
    if api.enabled:
        try:
            bind(api.bind, api.port).close()
            yield Finding("api-port", "ok", f"{api.bind}:{api.port}")
        except ApiError as error:
            detail, _, remedy = str(error).partition(": ")
            yield Finding("api-port", "fail", detail, remedy)


def _can_bind(address: str, port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind is socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a socket in TIME_WAIT is not in the way
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _tools() -> Iterator[Finding]:
    if shutil.which("ffprobe"):
        yield Finding("ffprobe", "ok", "measures input files")
    else:
        yield Finding(
            "ffprobe", "warn", "not installed: only WAV, FLAC, OGG, MP3 can be probed", "apt-get install ffmpeg"
        )


def _models(loaded: Loaded) -> Iterator[Finding]:
    try:
        store, wanted = model_store(loaded), engine_spec(loaded.settings).models()
    except (SpeechError, ValueError) as error:
        yield Finding("models", "fail", str(error), "correct the speech section of the settings")
        return
    for model in wanted:
        try:
            store.ensure_verified(model)
            yield Finding("models", "ok", f"{model} verified")
        except SpeechError as error:
            yield Finding("models", "fail", str(error), f"run: gateway models pull {model}")


async def _redis(loaded: Loaded) -> list[Finding]:
    redis = loaded.settings.redis
    try:
        store = await open_store(
            url=redis.url,
            instance="doctor",
            password=redis.password.get_secret_value() if redis.password else None,
            prefix=f"{redis.prefix}-doctor",
            ttl_s=60,
            timeout_s=redis.timeout_s,
        )
    except StateUnavailable as error:
        return [Finding("redis", "fail", str(error), "start it, or correct or unset redis.url")]
    await store.close()
    return [Finding("redis", "ok", "answers" if redis.url else "embedded server starts and answers")]


async def _memory(loaded: Loaded) -> list[Finding]:
    """Load the engines as `serve` would, and see what that takes."""
    speech = speech_service(loaded)
    try:
        await speech.start()
        workers = speech.statistics()["workers"]
    except KNOWN as error:
        return [Finding("workers", "fail", str(error))]
    finally:
        await speech.close()
    media_mb = _own_resident_mb()
    detail = f"media process {media_mb:.0f} MB (limit {MEDIA_MB})"
    findings = [Finding("memory", "ok" if media_mb <= MEDIA_MB else "warn", detail)]
    for worker in workers:
        taken_mb, voice_mb = worker["rss_mb"] + worker["voice_mb"], worker["voice_mb"]
        verdict: Verdict = "ok" if taken_mb <= WORKER_MB else "warn"
        own_process = f", {voice_mb:.0f} MB of it in the voice's own process" if voice_mb else ""
        detail = (
            f"worker {worker['index']}: {taken_mb:.0f} MB (limit {WORKER_MB}){own_process}, "
            f"{worker_threads(loaded.settings)} threads, loaded in {worker['load_ms'] / 1000:.1f} s"
        )
        remedy = "" if verdict == "ok" else "choose smaller models in speech"
        findings.append(Finding("memory", verdict, detail, remedy))
    return findings


def _own_resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
