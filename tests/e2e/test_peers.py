# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway between telephones that are not ours: SIPp and baresip talk, and are talked to.

What was spoken is read back by a recogniser from the sound that arrived, and compared with what the gateway says it
spoke. So a translation that is only in the records, or that is unintelligible on the line, does not pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from gateway.bench import g711
from gateway.bench.capture import Pcm, Track
from gateway.bench.gateway_process import free_port
from gateway.bench.phone_process import PhoneProcess
from gateway.bench.sdp import RATE_HZ
from gateway.speech.local import Engines
from gateway.text.normal import wer
from tests.e2e.conftest import Site
from tests.e2e.sounds import SAID, bursts, first_and_last, heard_between, prompt, read_back

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(240)]

SCENARIOS = Path(__file__).parent / "scenarios"
MOST_WRONG = 0.35
"""Word error rate of a read-back: the recogniser's own errors on a synthetic voice over G.711 are in it."""

OVER_MS = 2500
"""Silence behind which a translation is over: on a busy machine the second piece may follow the first that late."""

Process = asyncio.subprocess.Process


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return found


@asynccontextmanager
async def running(*command: str, cwd: Path) -> AsyncIterator[Process]:
    with (cwd / "peer.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def speech(name: str, work: Path, *, before_s: float = 0.5, after_s: float = 0.5) -> Pcm:
    """A prompt with silence around it."""
    pcm, _ = soundfile.read(prompt(name, work), dtype="int16")
    rests = (np.zeros(int(rest * RATE_HZ), np.int16) for rest in (before_s, after_s))
    return np.concatenate([next(rests), pcm, next(rests)])


def sipp(scenario: str, said: str, work: Path, *arguments: str) -> list[str]:
    """The command line of one call; SIPp streams µ-law without a header."""
    (work / "said.ulaw").write_bytes(g711.encode("PCMU", speech(said, work)))
    binary = program("sipp", "sip-tester")
    common = ["-sf", str(SCENARIOS / scenario), "-i", "127.0.0.1", "-mi", "127.0.0.1", "-m", "1", "-nostdin"]
    return [binary, *common, "-timeout", "60s", *arguments]


def baresip(said: str | None, work: Path, account: str, *arguments: str, port: int) -> list[str]:
    """The command line of a baresip that speaks a prompt, or silence, and records what it hears into ``work``."""
    binary = program("baresip", "baresip")
    # it takes the end of its file for the end of its microphone, so the silence behind must outlast the call
    pcm = speech(said, work, before_s=1, after_s=80) if said else np.zeros(80 * RATE_HZ, np.int16)
    soundfile.write(work / "said.wav", pcm, RATE_HZ, subtype="PCM_16")
    modules = ["account.so", "aubridge.so", "aufile.so", "g711.so", "menu.so", "sndfile.so", "stdio.so"]
    config = [
        "module_path /usr/lib/baresip/modules",
        *(f"{'module_app' if name in ('account.so', 'menu.so') else 'module'} {name}" for name in modules),
        "net_interface 127.0.0.1",
        f"sip_listen 127.0.0.1:{port}",
        f"audio_source aufile,{work}/said.wav",
        "audio_player aubridge,x",
        "audio_channels 1-1",
        f"snd_path {work}",
        "rtp_ports 20200-20300",
    ]
    (work / "config").write_text("\n".join(config) + "\n")
    (work / "accounts").write_text(account + "\n")
    (work / "contacts").write_text("")
    return [binary, "-f", str(work), *arguments]


def recorded(work: Path) -> Pcm:
    """What baresip heard."""
    (file,) = (path for path in work.glob("*.wav") if "dec" in path.name)
    pcm, rate_hz = soundfile.read(file, dtype="int16")
    assert rate_hz == RATE_HZ
    return np.asarray(pcm)


async def translation_heard(site: Site, phone: PhoneProcess, since: int) -> dict[str, Any]:
    """The first utterance's record, when the telephone has heard it to the end."""
    (record, *_) = await site.spoken(since, 1)
    assert record["lost"] is None
    late: Callable[[dict[str, Any]], bool] = lambda event: event["last_ns"] > record["played_ns"]  # noqa: E731
    await phone.wait("sound_ended", timeout_s=40, such_that=late)
    return record


def check_spoken(engines: Engines, pcm: Pcm, record: dict[str, Any]) -> None:
    """The sound says the record's text, in the record's language."""
    heard = read_back(engines, pcm)
    assert heard.language == record["target_lang"], heard.text
    assert wer(record["target_text"], heard.text, record["target_lang"]) <= MOST_WRONG, heard.text


def check_understood(record: dict[str, Any], said: str) -> None:
    """The talker's first and last words are in the record."""
    assert first_and_last(record["source_text"], "en") == first_and_last(SAID[said], "en")


def check_disclosed(engines: Engines, pcm: Pcm, language: str) -> None:
    """The party is told that a machine interprets."""
    heard = read_back(engines, pcm, language).text.casefold()
    assert "interpret" in heard or "máquina" in heard or "machine" in heard, heard


def disclosure(track: Track, played_ns: int) -> Pcm:
    """What a telephone heard before the first translation."""
    return heard_between(track, int(track.at_ns[0]), played_ns)


def test_a_sipp_caller_is_understood_by_the_called_party(site: Site, engines: Engines, work: Path) -> None:
    said = "followme/sorry"

    async def call() -> tuple[dict[str, Any], Any, int | None]:
        since = site.position()
        async with PhoneProcess(user="b", sip_port=site.b_port, answer_after_ms=100, quiet_ms=OVER_MS) as b:
            command = sipp("caller_speaks.xml", said, work, "-s", "7001", f"127.0.0.1:{site.gateway.port}")
            async with running(*command, cwd=work) as caller:
                record = await translation_heard(site, b, since)
                b.send("hangup")
                await b.wait("ended", timeout_s=30)
                code = await asyncio.wait_for(caller.wait(), 15)
                await site.ended(since)
            return record, await b.capture(work / "b.npz"), code

    record, heard, code = site.run(call())
    assert code == 0, (work / "peer.log").read_text(errors="replace")[-2000:]
    check_understood(record, said)
    end_ns = int(heard.received.at_ns[-1])
    check_spoken(engines, heard_between(heard.received, record["played_ns"], end_ns), record)
    check_disclosed(engines, disclosure(heard.received, record["played_ns"]), "pt")


def test_a_sipp_callee_is_understood_by_the_caller(site: Site, engines: Engines, work: Path) -> None:
    said = "queue-youarenext"

    async def call() -> tuple[dict[str, Any], Any, int | None]:
        since = site.position()
        command = sipp("callee_speaks.xml", said, work, "-p", str(site.b_port))
        async with running(*command, cwd=work) as callee, PhoneProcess(user="a", quiet_ms=OVER_MS) as a:
            a.send("call", uri=site.gateway.uri("7002"))  # a Portuguese speaker calls an English one
            record = await translation_heard(site, a, since)
            a.send("hangup")
            await a.wait("ended", timeout_s=30)
            code = await asyncio.wait_for(callee.wait(), 15)
            await site.ended(since)
            return record, await a.capture(work / "a.npz"), code

    record, heard, code = site.run(call())
    assert code == 0, (work / "peer.log").read_text(errors="replace")[-2000:]
    assert record["leg"] == "b"
    check_understood(record, said)
    end_ns = int(heard.received.at_ns[-1])
    check_spoken(engines, heard_between(heard.received, record["played_ns"], end_ns), record)
    check_disclosed(engines, disclosure(heard.received, record["played_ns"]), "pt")


def test_a_baresip_caller_is_understood_and_hears_the_disclosure(site: Site, engines: Engines, work: Path) -> None:
    said = "followme/status"

    async def call() -> tuple[dict[str, Any], Any]:
        since = site.position()
        async with PhoneProcess(user="b", sip_port=site.b_port, answer_after_ms=100, quiet_ms=OVER_MS) as b:
            account = "<sip:bare@127.0.0.1>;regint=0;audio_codecs=PCMU/8000"
            command = baresip(said, work, account, "-e", f"/dial {site.gateway.uri('7001')}", port=free_port())
            async with running(*command, cwd=work) as caller:
                record = await translation_heard(site, b, since)
                b.send("hangup")
                await b.wait("ended", timeout_s=30)
                await site.ended(since)
                await _quit(caller)
            return record, await b.capture(work / "b.npz")

    record, heard = site.run(call())
    check_understood(record, said)
    end_ns = int(heard.received.at_ns[-1])
    check_spoken(engines, heard_between(heard.received, record["played_ns"], end_ns), record)
    check_disclosed(engines, recorded(work), "en")


def test_a_baresip_callee_hears_the_disclosure_and_the_translation(site: Site, engines: Engines, work: Path) -> None:
    said = "vm-whichbox"

    async def call() -> tuple[dict[str, Any], int]:
        since = site.position()
        account = "<sip:b@127.0.0.1>;regint=0;audio_codecs=PCMU/8000;answermode=auto"
        command = baresip(None, work, account, port=site.b_port)
        async with running(*command, cwd=work) as callee, PhoneProcess(user="a") as a:
            await asyncio.sleep(1)  # baresip has no word for being ready
            a.send("call", uri=site.gateway.uri("7001"))
            await site.phase(since, "bridged")
            await asyncio.sleep(5)  # its disclosure is over, so that the recording falls into two parts
            a.send("play", file=str(prompt(said, work)), id=said)
            record, *_ = await site.spoken(since, 1)
            a.send("hangup")  # it stays until it has heard the rest
            await site.ended(since)
            await _quit(callee)
            return record

    record = site.run(call())
    assert record["lost"] is None
    check_understood(record, said)
    pcm = recorded(work)
    first, *rest = bursts(pcm, apart_ms=1200)
    check_disclosed(engines, pcm[first[0] : first[1]], "pt")
    quiet = np.zeros(RATE_HZ // 4, np.int16)
    check_spoken(engines, np.concatenate([quiet, pcm[rest[0][0] : rest[-1][1]], quiet]), record)


async def _quit(process: Process) -> None:
    """Let baresip close its recording."""
    process.terminate()
    await asyncio.wait_for(process.wait(), 10)
