# SPDX-License-Identifier: GPL-3.0-or-later
"""Telephones as processes over loopback: sound both ways, clean endings, and a peer that others wrote."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bench.interpreter import LANGUAGES, ToneInterpreter
from bench.synthetic import tone
from gateway.bench.capture import by_timestamp, delivery, packet_rate, regularity, tone_share
from gateway.bench.checks import check_all
from gateway.bench.dialogue import parse_script, voice_script
from gateway.bench.ear import REMAINDER, measure
from gateway.bench.orchestrate import CallPlan, run_dialogue, run_dialogues
from gateway.bench.phone_process import PhoneError, PhoneProcess
from gateway.bench.rtp import parse_event
from gateway.bench.tracks import write_tracks
from gateway.speech.jobs import Speech

pytestmark = pytest.mark.sip

Clip = Callable[[str, float, int], Path]


@pytest.fixture
def clip(tmp_path: Path) -> Clip:
    def write(name: str, hz: float, ms: int) -> Path:
        path = tmp_path / f"{name}.wav"
        soundfile.write(path, tone(ms, hz), 8000)
        return path

    return write


async def connect(a: PhoneProcess, b: PhoneProcess) -> None:
    a.send("call", uri=b.uri, headers={"X-Purpose": "test"})
    incoming = await b.wait("incoming", timeout_s=20)
    assert (incoming["caller"], incoming["dialled"], incoming["headers"]) == ("a", "b", {"x-purpose": "test"})
    b.send("answer")
    await asyncio.gather(a.wait("established", timeout_s=20), b.wait("established", timeout_s=20))


@pytest.mark.parametrize(("codecs", "codec"), [(("PCMU", "PCMA"), "PCMU"), (("PCMA",), "PCMA")])
def test_a8_two_telephones_hear_each_other(tmp_path: Path, clip: Clip, codecs: tuple[str, ...], codec: str) -> None:
    async def call() -> None:
        async with PhoneProcess(user="a") as a, PhoneProcess(user="b", codecs=codecs) as b:
            await connect(a, b)
            a.send("play", file=str(clip("low", 440, 1500)), id="low")
            b.send("play", file=str(clip("high", 1000, 1500)), id="high")
            played = await a.wait("played", timeout_s=20)
            await b.wait("sound_ended", timeout_s=20)
            await asyncio.sleep(0.8)
            a.send("hangup")
            mine, theirs = await asyncio.gather(a.wait("ended", timeout_s=20), b.wait("ended", timeout_s=20))
            assert (mine["code"], mine["by_remote"]) == (200, False)
            assert (theirs["code"], theirs["by_remote"]) == (200, True)
            at_a, at_b = await a.capture(tmp_path / "a.npz"), await b.capture(tmp_path / "b.npz")
        assert at_a.info["media"]["codec"] == at_b.info["media"]["codec"] == codec
        for capture, own, other in ((at_a, 440, 1000), (at_b, 1000, 440)):
            heard = by_timestamp(capture.received)
            assert tone_share(heard, other) > 0.9
            assert tone_share(heard, own) < 0.01
            assert packet_rate(capture.sent).overall_pps == pytest.approx(50.0, abs=1.0)
            assert regularity(capture.received).irregular == 0
            assert (delivery(capture.received).lost, delivery(capture.received).duplicate) == (0, 0)
        # what one sent is what the other got, bit for bit and at once
        count = min(at_a.sent.packets, at_b.received.packets)
        assert at_a.sent.packets - count <= 2
        assert (at_a.sent.pcm[: count * 160] == at_b.received.pcm[: count * 160]).all()
        assert (at_b.received.at_ns[:count] >= at_a.sent.at_ns[:count]).all()
        first = np.flatnonzero(np.abs(at_a.sent.pcm.astype(int)) > 1000)[0] // 160
        assert at_a.sent.at_ns[first] == played["first_ns"]

    asyncio.run(call())


def test_c02_keys_arrive_as_events(tmp_path: Path) -> None:
    async def call() -> None:
        async with PhoneProcess(user="a") as a, PhoneProcess(user="b") as b:
            await connect(a, b)
            a.send("dtmf", digits="*1")
            await asyncio.sleep(1.0)
            a.send("hangup")
            await b.wait("ended", timeout_s=20)
            received = (await b.capture(tmp_path / "b.npz")).received
        events = received.payload_type == 101
        assert np.unique(received.timestamp[events]).size == 2
        assert received.marker[events].sum() == 2
        assert parse_event(b"\x0a\x0a\x00\xa0").digit == "*"

    asyncio.run(call())


def test_refused_cancelled_and_wrong_commands() -> None:
    async def call() -> None:
        async with PhoneProcess(user="a") as a, PhoneProcess(user="b") as b:
            a.send("call", uri=b.uri)
            await b.wait("incoming", timeout_s=20)
            b.send("reject", code=486)
            assert (await a.wait("ended", timeout_s=20))["code"] == 486
            since = a.position, b.position
            a.send("call", uri=b.uri)
            await b.wait("incoming", timeout_s=20, since=since[1])
            await a.wait("ringing", timeout_s=20, since=since[0])
            a.send("hangup")
            assert (await a.wait("ended", timeout_s=20, since=since[0]))["code"] == 487
            assert (await b.wait("ended", timeout_s=20, since=since[1]))["code"] == 487
            for cmd, fields in (
                ("sing", {}),
                ("play", {"file": "none.wav"}),
                ("call", {"uri": "tel:1"}),
                ("answer", {}),
                ("reject", {}),
                ("dtmf", {"digits": "1"}),
                ("call", {}),
                ("hold", {"direction": "sendonly"}),
            ):
                position = a.position
                a.send(cmd, **fields)
                assert (await a.wait("error", timeout_s=20, since=position))["cmd"] == cmd
            position = a.position
            with pytest.raises(PhoneError, match="unknown command"):
                a.send("sing")
                await a.wait("established", timeout_s=20, since=position)

    asyncio.run(call())


def test_a_telephone_hangs_up_and_ends_with_its_parent() -> None:
    async def call() -> None:
        async with PhoneProcess(user="b", answer_after_ms=0) as b:
            async with PhoneProcess(user="a") as a:
                a.send("call", uri=b.uri)
                await a.wait("established", timeout_s=20)
                pid = a.pid
            assert (await b.wait("ended", timeout_s=20))["by_remote"]
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    asyncio.run(call())


def test_a_telephone_that_dies_is_an_error_for_who_waits() -> None:
    async def call() -> None:
        async with PhoneProcess(user="a") as a:
            os.kill(a.pid, signal.SIGKILL)
            with pytest.raises(PhoneError, match="ended while"):
                await a.wait("incoming", timeout_s=20)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            with pytest.raises(PhoneError, match="cannot listen"):
                async with PhoneProcess(user="a", sip_port=taken.getsockname()[1]):
                    pass

    asyncio.run(call())


@pytest.mark.skipif(shutil.which("sipp") is None, reason="sipp is not installed (Debian: sip-tester)")
def test_a_call_to_sipps_own_answering_scenario() -> None:
    async def call() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        sipp = await asyncio.create_subprocess_exec(
            "sipp",
            "-sn",
            "uas",
            "-i",
            "127.0.0.1",
            "-p",
            str(port),
            "-m",
            "1",
            "-nostdin",
            "-timeout",
            "20",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with PhoneProcess(user="a") as a:
                a.send("call", uri=f"sip:service@127.0.0.1:{port}")  # repeated until sipp listens
                await a.wait("established", timeout_s=20)
                assert a.find("media")[0]["codec"] == "PCMU"
                await asyncio.sleep(0.3)
                a.send("hangup")
                assert (await a.wait("ended", timeout_s=20))["code"] == 200
            assert await asyncio.wait_for(sipp.wait(), 20) == 0  # sipp saw one good call
        finally:
            if sipp.returncode is None:
                sipp.kill()
                await sipp.wait()

    asyncio.run(call())


def _script(pace: str) -> dict[str, object]:
    turns = [
        {"speaker": speaker, "text": "tone", "pause_ms": 600 if pace == "timed" else 0} for speaker in ("a", "b", "a")
    ]
    return {"name": "tones", "pace": pace, "languages": LANGUAGES, "turns": turns}


def _speak(text: str, language: str) -> Speech:
    return Speech(tone(900, 440 if language == "en" else 1000).tobytes(), 8000, "tone")


@pytest.mark.parametrize("pace", ["translated", "timed"])
def test_c10_a_conversation_is_led_measured_and_kept(tmp_path: Path, clip: Clip, pace: str) -> None:
    async def call() -> None:
        voiced = voice_script(parse_script(_script(pace)), tmp_path / "script", _speak)
        clips = {"a": clip("for-b", 1700, 500), "b": clip("for-a", 2300, 500)}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            b_port = probe.getsockname()[1]
        interpreter = ToneInterpreter(f"sip:b@127.0.0.1:{b_port}", clips, think_ms=250)
        try:
            plan = CallPlan(interpreter.uri, b_port, voiced, tmp_path / "call", opening_s=0.2, closing_s=2)
            outcome = await run_dialogue(plan)
        finally:
            interpreter.close()
        assert not interpreter.faults
        assert [one.turn_id for one in outcome.spoken] == ["a01", "b02", "a03"]
        assert not outcome.unheard
        assert outcome.endings == {"a": (200, "OK"), "b": (200, "OK")}
        report = measure(interpreter.records, outcome.captures, outcome.spoken)
        assert [one.leg for one in report.heard] == ["a", "b", "a"]
        assert (report.unheard, report.lost_segments, report.duplicate_segments) == ((), 0, 0)
        for one in report.heard:
            # the silence that ends a sound and the thinking are in it; packets, play-out and this machine add some
            assert 550e6 <= one.ear_ns < 1500e6
            assert one.stages_ns[REMAINDER] >= -20e6
        assert report.egress_pps == pytest.approx({"a": 50.0, "b": 50.0}, abs=1.0)
        assert tone_share(by_timestamp(outcome.captures["b"].received), 1700) > 0.9
        assert tone_share(by_timestamp(outcome.captures["a"].received), 2300) > 0.9
        if pace == "timed":
            gaps_ms = [
                (after.first_ns - before.last_ns) / 1e6
                for before, after in zip(outcome.spoken, outcome.spoken[1:], strict=False)
            ]
            assert all(600 <= gap < 900 for gap in gaps_ms)
        else:
            starts = [one.first_ns for one in outcome.spoken[1:]]
            heard = [one.first_audio_ns for one in report.heard]
            assert all(start > first + 500e6 for start, first in zip(starts, heard, strict=False))
        assert [check.findings for check in check_all(interpreter.records, outcome.captures)] == [()] * 4
        write_tracks(tmp_path / "call.wav", outcome.captures, outcome.established_ns, outcome.ended_ns)
        assert soundfile.info(tmp_path / "call.wav").channels == 4

    asyncio.run(call())


def test_a_refused_conversation_is_an_error_beside_a_good_one(tmp_path: Path) -> None:
    async def call() -> None:
        voiced = voice_script(parse_script(_script("timed")), tmp_path / "script", _speak)
        async with PhoneProcess(user="gateway") as nobody:
            plan = CallPlan(nobody.uri, 0, voiced, tmp_path / "call")
            running = asyncio.create_task(run_dialogues([plan]))
            await nobody.wait("incoming", timeout_s=20)
            nobody.send("reject", code=503)
            outcomes = await running
        assert isinstance(outcomes[0], PhoneError)
        assert "503" in str(outcomes[0])

    asyncio.run(call())
