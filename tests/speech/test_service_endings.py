# SPDX-License-Identifier: GPL-3.0-or-later
"""How workers end: replaced under load, and with their parent however that ends."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from fake_speech_engines import FakeEngines, alive, pids, run, until, until_ready

from gateway.speech.errors import WorkerLost
from gateway.speech.jobs import Priority, RecognizeTask
from gateway.speech.service import LocalSpeechService

pytestmark = pytest.mark.slow


def test_h14_twenty_recycles_under_load_lose_nothing() -> None:
    async def main() -> None:
        async with LocalSpeechService(FakeEngines, workers=2) as service:
            seen = set(pids(service))
            stop = asyncio.Event()

            async def load(leg: str) -> int:
                served = 0
                while not stop.is_set():
                    await service.submit(leg, RecognizeTask(b"\0\0", leg), Priority.FINAL).result()
                    served += 1
                return served

            legs = [asyncio.create_task(load(leg)) for leg in "ab"]
            for n in range(20):
                service.recycle(n % 2)
                await until(partial(lambda n: service.statistics()["recycled"] > n, n))
                await until_ready(service)
                fresh = set(pids(service)) - seen
                assert len(fresh) == 1
                seen |= fresh
            stop.set()
            served = sum(await asyncio.gather(*legs))
            figures = service.statistics()
            assert figures["completed"] == served > 20
            assert (figures["recycled"], figures["restarts"], figures["lost"]) == (20, 0, 0)
        assert not any(alive(pid) for pid in seen)

    run(main())


def test_c8_workers_killed_at_random_leave_no_task_without_an_end() -> None:
    async def main() -> None:
        chance = random.Random(8)
        ends: Counter[str] = Counter()
        async with LocalSpeechService(FakeEngines, workers=2) as service:
            killed: set[int] = set()

            async def talk(leg: str) -> None:
                while len(killed) < 8:
                    ticket = service.submit(leg, RecognizeTask(b"\0\0", leg), chance.choice(list(Priority)))
                    if chance.random() < 0.1:
                        ticket.cancel()
                    try:
                        await ticket.result()
                        ends["done"] += 1
                    except WorkerLost:
                        ends["lost"] += 1
                    except asyncio.CancelledError:
                        ends["cancelled"] += 1

            legs = [asyncio.create_task(talk(leg)) for leg in "abc"]
            while len(killed) < 8:
                await asyncio.sleep(chance.random() / 10)
                ready = [
                    worker["pid"]
                    for worker in service.statistics()["workers"]
                    if worker["state"] != "loading" and worker["pid"] not in killed
                ]
                if ready:
                    pid = chance.choice(ready)
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            await asyncio.gather(*legs)
            await until(lambda: service.statistics()["restarts"] >= 8)  # the last one may be unseen yet
            figures = service.statistics()
            assert sum(figures["accepted"].values()) == sum(ends.values())
            assert (figures["completed"], figures["lost"]) == (ends["done"], ends["lost"])
            assert figures["cancelled"] == ends["cancelled"]
            assert figures["restarts"] == 8

    run(main())


CHILD = """
import asyncio, os, signal, sys
from ENGINES import FakeEngines
from gateway.speech.errors import WorkerLost
from gateway.speech.jobs import Priority, TranslateTask
from gateway.speech.service import LocalSpeechService

async def main():
    service = LocalSpeechService(FakeEngines, workers=2)
    await service.start()
    service.submit("a", TranslateTask(("hang",), "xx", "yy"), Priority.FINAL)
    await asyncio.sleep(0)
    print("workers", *(worker["pid"] for worker in service.statistics()["workers"]), flush=True)
    if sys.argv[1] == "raise":
        raise ValueError("without close")
    await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["kill", "interrupt", "raise"])
def test_no_orphans_however_the_parent_ends(tmp_path: Path, end: str) -> None:
    script = tmp_path / "parent.py"
    script.write_text(CHILD.replace("ENGINES", FakeEngines.__module__))
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(
        [sys.executable, str(script), end],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        try:
            lines = (line.split() for line in parent.stdout)  # the log goes there too
            workers = next([int(pid) for pid in words[1:]] for words in lines if words[:1] == ["workers"])
            assert len(workers) == 2
            if end == "kill":
                parent.kill()
            elif end == "interrupt":
                parent.send_signal(signal.SIGINT)
            # The workers hold the pipe of their standard output: its end is theirs too.
            parent.stdout.read()
            assert parent.wait(30) != 0
        finally:
            parent.kill()
    assert not any(running(pid) for pid in workers)


def running(pid: int) -> bool:
    """Alive and no zombie: an orphan's body waits for whatever process reaps here."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
