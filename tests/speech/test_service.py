# SPDX-License-Identifier: GPL-3.0-or-later
"""The service on real worker processes, with engines that do what the task says."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_speech_engines import (
    DiesAtLoad,
    FailsLater,
    FakeEngines,
    Gate,
    MissingModel,
    alive,
    pids,
    run,
    say,
    until,
    until_ready,
)

from gateway.speech import service as service_module
from gateway.speech.errors import ModelMissing, QueueFull, SpeechError, TaskFailed, WorkerLost
from gateway.speech.jobs import (
    Done,
    Priority,
    Recognition,
    RecognizeTask,
    Speech,
    SynthesizeTask,
    Translation,
)
from gateway.speech.protocols import SpeechService
from gateway.speech.scheduler import Bounds
from gateway.speech.service import LocalSpeechService

pytestmark = pytest.mark.unit

FINAL, CLAUSE, PREPARE, PREVIEW = Priority


def test_s1_16_start_returns_with_every_worker_warm_and_close_leaves_no_process() -> None:
    async def main() -> None:
        service: SpeechService = LocalSpeechService(FakeEngines, workers=2, threads=1)
        assert service.capabilities() == {}
        await service.start()
        figures = service.statistics()
        assert [worker["state"] for worker in figures["workers"]] == ["ready", "ready"]
        assert all(worker["rss_mb"] > 1 for worker in figures["workers"])
        assert all(worker["voice_mb"] == 0 for worker in figures["workers"]), "no voice has a process of its own"
        assert service.capabilities()["warm"] is True
        ids = [worker["pid"] for worker in figures["workers"]]
        assert len(set(ids)) == 2
        assert all(alive(pid) for pid in ids)
        done = await service.submit("a", RecognizeTask(b"\0\0" * 1600, "xx"), FINAL).result()
        assert isinstance(done, Done)
        assert done.queued_ns <= done.started_ns <= done.done_ns
        assert done.worker_pid in ids
        assert service.statistics()["real_time_factor"]["recognize"] > 0
        await service.close()
        await service.close()
        assert not any(alive(pid) for pid in ids)
        with pytest.raises(WorkerLost):
            await service.submit("a", say("late"), FINAL).result()

    run(main())


def test_h15_the_media_process_holds_no_model_library_that_a_fork_could_break() -> None:
    """Engines are not fork-safe: workers are spawned, and only they import what the models run on."""
    libraries = ("ctranslate2", "faster_whisper", "onnxruntime", "openvino", "tokenizers", "torch")
    look = f"import sys, gateway.runtime; print([name for name in {libraries!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


def test_c8_a_task_whose_worker_is_killed_completes_once_on_another(tmp_path: Path) -> None:
    async def main() -> None:
        gate, note = Gate(tmp_path, "gate"), tmp_path / "note"
        async with LocalSpeechService(FakeEngines, workers=2) as service:
            ticket = service.submit("a", say(f"gate-once {gate.name}"), FINAL)
            await gate.entered()
            (busy,) = [w["pid"] for w in service.statistics()["workers"] if w["state"] == "busy"]
            (idle,) = set(pids(service)) - {busy}
            os.kill(busy, signal.SIGKILL)
            assert (await ticket.result()).worker_pid == idle
            await service.submit("b", say(f"note {note}", "after"), FINAL).result()
            await until_ready(service)
            assert busy not in pids(service)
            figures = service.statistics()
            assert (figures["restarts"], figures["resubmitted"], figures["lost"]) == (1, 1, 0)
            assert figures["completed"] == 2

    run(main())


def test_a_task_that_kills_two_workers_is_lost_and_the_next_is_served() -> None:
    async def main() -> None:
        async with LocalSpeechService(FakeEngines) as service:
            deadly = service.submit("a", say("die"), FINAL)
            harmless = service.submit("b", say("echo"), FINAL)
            with pytest.raises(WorkerLost, match="two workers"):
                await deadly.result()
            result = (await harmless.result()).result
            assert isinstance(result, Translation)
            assert result.texts == ("echo",)
            figures = service.statistics()
            assert (figures["restarts"], figures["resubmitted"], figures["lost"]) == (2, 1, 1)

    run(main())


def test_an_idle_worker_that_dies_is_replaced_before_it_is_needed() -> None:
    async def main() -> None:
        async with LocalSpeechService(FakeEngines) as service:
            (pid,) = pids(service)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: service.statistics()["restarts"] == 1)
            await until_ready(service)
            assert (await service.submit("a", say("echo"), PREVIEW).result()).worker_pid != pid
            assert service.statistics()["resubmitted"] == 0

    run(main())


def test_an_engine_that_raises_fails_the_task_and_not_the_worker() -> None:
    async def main() -> None:
        async with LocalSpeechService(FakeEngines) as service:
            for command, words in (
                ("raise", "OddError: not today"),
                ("panic", "NativePanic"),
                ("unpicklable", "pickle"),
            ):
                with pytest.raises(TaskFailed, match=words):
                    await service.submit("a", say(command), FINAL).result()
            result = (await service.submit("a", say("echo"), FINAL).result()).result
            assert isinstance(result, Translation)
            assert result.route == (str(pids(service)[0]), "4")
            assert service.statistics()["restarts"] == 0
            assert service.statistics()["failed"] == 3

    run(main())


def test_cancelled_before_start_never_runs_and_promoted_overtakes(tmp_path: Path) -> None:
    async def main() -> None:
        gate, note = Gate(tmp_path, "gate"), tmp_path / "note"
        async with LocalSpeechService(FakeEngines) as service:
            started = service.submit("a", say(f"gate {gate.name}"), FINAL)
            await gate.entered()
            first = service.submit("a", say(f"note {note}", "clause"), CLAUSE)
            withdrawn = service.submit("a", say(f"note {note}", "withdrawn"), FINAL)
            prepared = service.submit("b", say(f"note {note}", "prepared"), PREPARE)
            assert withdrawn.withdraw()
            assert not withdrawn.withdraw()
            prepared.promote(FINAL)
            with pytest.raises(asyncio.CancelledError):
                await withdrawn.result()
            # A started task is cancelled: its result is unheard, and its worker stays busy until it is done.
            assert not started.withdraw()
            started.cancel()
            with pytest.raises(asyncio.CancelledError):
                await started.result()
            assert [w["state"] for w in service.statistics()["workers"]] == ["busy"]
            assert not note.exists()
            await gate.release()
            await asyncio.gather(first.result(), prepared.result())
            assert note.read_text().split() == ["prepared", "clause"]
            figures = service.statistics()
            assert (figures["unheard"], figures["completed"], figures["cancelled"]) == (1, 2, 1)

    run(main())


def test_one_who_stops_waiting_does_not_cancel_the_task(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate(tmp_path, "gate")
        async with LocalSpeechService(FakeEngines) as service:
            ticket = service.submit("a", say(f"gate {gate.name}"), FINAL)
            waiter = asyncio.create_task(ticket.result())
            await gate.entered()
            waiter.cancel()
            await asyncio.wait({waiter})
            await gate.release()
            assert isinstance(await ticket.result(), Done)

    run(main())


def test_full_queue_refuses_previews_sheds_them_and_accepts_finals(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate(tmp_path, "gate")
        bounds = Bounds(final=2, clause=2, prepare=2, preview=3, total=4)
        async with LocalSpeechService(FakeEngines, bounds=bounds) as service:
            running = service.submit("a", say(f"gate {gate.name}"), FINAL)
            await gate.entered()
            previews = [service.submit("a", say("preview"), PREVIEW) for _ in range(3)]
            with pytest.raises(QueueFull):
                service.submit("b", say("preview"), PREVIEW)
            others = [service.submit("b", say("final"), FINAL) for _ in range(2)]
            others += [service.submit("b", say("clause"), CLAUSE) for _ in range(2)]
            with pytest.raises(QueueFull):
                service.submit("b", say("final"), FINAL)
            for preview in previews:
                with pytest.raises(QueueFull, match="shed"):
                    await preview.result()
            await gate.release()
            await asyncio.gather(running.result(), *(ticket.result() for ticket in others))
            assert service.statistics()["shed"]["preview"] == 3

    run(main())


def test_f09_results_of_two_legs_never_cross() -> None:
    async def main() -> None:
        chance = random.Random(9)
        async with LocalSpeechService(FakeEngines, workers=2) as service:

            async def leg(name: str) -> None:
                for _ in range(60):
                    payload = chance.randbytes(chance.randrange(0, 4000))
                    recognised, spoken = (
                        service.submit(name, RecognizeTask(payload, name), chance.choice([FINAL, PREPARE])),
                        service.submit(name, SynthesizeTask(payload.hex(), name), CLAUSE),
                    )
                    assert (await recognised.result()).result == Recognition(payload.hex(), name, 1.0)
                    speech = (await spoken.result()).result
                    assert isinstance(speech, Speech)
                    assert (speech.pcm.decode("utf-16-le"), speech.voice) == (payload.hex(), name)

            await asyncio.gather(leg("a"), leg("b"))
            assert service.statistics()["completed"] == 240

    run(main())


def test_a_run_beyond_its_deadline_ends_the_worker_and_is_not_repeated() -> None:
    async def main() -> None:
        deadlines = {"translate": 0.3}
        async with LocalSpeechService(FakeEngines, deadlines_s=deadlines) as service:
            (pid,) = pids(service)
            hung = service.submit("a", say("hang"), FINAL)
            with pytest.raises(WorkerLost, match="longer than"):
                await hung.result()
            done = await service.submit("a", RecognizeTask(b"", "xx"), FINAL).result()
            assert done.worker_pid != pid
            figures = service.statistics()
            assert (figures["hung"], figures["restarts"], figures["resubmitted"]) == (1, 1, 0)
        assert not alive(pid)

    run(main())


def test_start_tells_what_is_missing_and_leaves_no_process() -> None:
    async def main() -> None:
        service = LocalSpeechService(MissingModel(), workers=2)
        with pytest.raises(ModelMissing, match=r"^model xx-1 is missing: run the fetch command$"):
            await service.start()
        assert {worker["state"] for worker in service.statistics()["workers"]} == {"ended"}
        with pytest.raises(SpeechError, match="ended while it loaded"):
            await LocalSpeechService(DiesAtLoad()).start()

    run(main())


def test_a_worker_that_cannot_be_rebuilt_is_given_up_and_its_queue_lost(tmp_path: Path) -> None:
    async def main() -> None:
        factory = FailsLater(tmp_path / "mark")
        async with LocalSpeechService(factory, load_attempts=2, backoff_s=0.01) as service:
            tickets = [service.submit("a", say(command), FINAL) for command in ("die", "echo")]
            for ticket in tickets:
                with pytest.raises(WorkerLost, match="no speech worker"):
                    await ticket.result()
            with pytest.raises(WorkerLost, match="no speech worker"):
                await service.submit("a", say("echo"), FINAL).result()
            assert service.statistics()["lost"] == 3

    run(main())


def test_close_fails_what_is_queued_and_what_runs(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate(tmp_path, "gate")
        service = LocalSpeechService(FakeEngines)
        await service.start()
        tickets = [service.submit("a", say(text), FINAL) for text in (f"gate {gate.name}", "echo")]
        await gate.entered()
        (pid,) = pids(service)
        await service.close()
        assert not alive(pid)
        for ticket in tickets:
            with pytest.raises(WorkerLost, match="closed"):
                await ticket.result()

    run(main())


def test_what_a_worker_has_started_itself_is_counted_with_it() -> None:
    assert service_module._children_mb(None) == 0
    before = service_module._children_mb(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        grown = service_module._children_mb(os.getpid())
        child.communicate(b"\n")
    assert grown > before
    assert service_module._children_mb(child.pid) == 0, "it is gone"
