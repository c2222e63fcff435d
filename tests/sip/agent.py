# SPDX-License-Identifier: GPL-3.0-or-later
"""A user agent in a process of its own, driven by JSON lines: a crash of the library is a failed test, not the
end of the test run.

Argument: one JSON object with ``settings`` (of SipSettings, trunks as lists), ``auto_answer``, ``tone_hz``, ``echo``
and ``gc_storm``. Each line on stdin is a command; events and answers leave on stdout.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
import os
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from gateway.audio.frames import Frame
from gateway.sip.access import Trunk
from gateway.sip.agent import SipUserAgent
from gateway.sip.digest import Login
from gateway.sip.errors import SipError
from gateway.sip.events import Ended, Incoming, MediaActive, SipEvent
from gateway.sip.settings import SipSettings, Tls


class Tone:
    """A sine as a frame source: continuous over frames, counts how often it was asked."""

    def __init__(self, hz: float, rate_hz: int) -> None:
        second = np.sin(2 * np.pi * hz * np.arange(rate_hz) / rate_hz) * 8000
        self._frames = [part.astype("<i2").tobytes() for part in second.reshape(50, -1)]
        self.asked = 0

    def next_frame(self) -> bytes:
        frame = self._frames[self.asked % len(self._frames)]
        self.asked += 1
        return frame


class Echo:
    """Plays back what the same leg received."""

    def __init__(self, ear: Ear) -> None:
        self._ear = ear
        self.asked = 0

    def next_frame(self) -> bytes:
        self.asked += 1
        waiting = self._ear.waiting
        return waiting.popleft() if waiting else bytes(self._ear.rate_hz // 25)


class Ear:
    """A frame sink that keeps the last minute and checks that the count of samples has no gap."""

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self.frames: deque[Frame] = deque(maxlen=3000)
        self.waiting: deque[bytes] = deque(maxlen=1)
        self.expected = 0
        self.gaps = 0
        self.thread_states: set[int] = set()

    def put(self, frame: Frame) -> None:
        self.thread_states.add(thread_state())
        self.gaps += frame.first_sample != self.expected
        self.expected = frame.end_sample
        self.frames.append(frame)
        self.waiting.append(frame.pcm)

    def first_loud_ns(self) -> int:
        loud = (f.arrived_ns for f in list(self.frames) if np.abs(np.frombuffer(f.pcm, "<i2").astype(int)).max() > 2000)
        return next(loud, 0)

    def report(self, also_hz: float = 0.0) -> dict[str, Any]:
        frames, rate_hz = list(self.frames), self.rate_hz
        pcm = np.frombuffer(b"".join(frame.pcm for frame in frames), "<i2").astype(float)
        last = pcm[-rate_hz:]
        peak_hz, share, also = 0.0, 0.0, 0.0
        if last.size >= rate_hz // 2 and np.abs(last).max() > 100:
            power = np.abs(np.fft.rfft(last * np.hanning(last.size))) ** 2
            peak = int(power.argmax())
            peak_hz = peak * rate_hz / last.size
            share = float(power[max(0, peak - 3) : peak + 4].sum() / power.sum())
            other = round(also_hz * last.size / rate_hz)
            also = float(power[max(0, other - 3) : other + 4].sum() / power.sum())
        stamps = np.array([frame.arrived_ns for frame in frames]) / 1e6
        steps = np.diff(stamps) if stamps.size > 1 else np.zeros(1)
        loud = [frame.first_sample for frame in frames if np.abs(np.frombuffer(frame.pcm, "<i2")).max() > 1000]
        return {
            "samples": frames[-1].end_sample if frames else 0,  # of the same look as the frames
            "frames": len(frames),
            "gaps": self.gaps,
            "thread_states": len(self.thread_states),
            "peak_hz": peak_hz,
            "tone_share": share,
            "also_share": also,
            "level": float(np.sqrt((last**2).mean())) if last.size else 0.0,
            "worst_step_ms": float(steps.max()),
            "p99_step_ms": float(np.percentile(steps, 99)),
            "loud_samples": rate_hz // 50 * len(loud),
            "last_arrived_ns": frames[-1].arrived_ns if frames else 0,
        }


class Driver:
    """Keeps ears and mouths by leg, and turns lines into calls of the user agent."""

    def __init__(self, options: dict[str, Any]) -> None:
        given = dict(options.get("settings", {}))
        given["trunks"] = tuple(
            Trunk(
                t["name"],
                tuple(t["networks"]),
                t.get("trusted", False),
                t.get("max_calls"),
                Login(*t["login"]) if "login" in t else None,
                tuple(t.get("addresses", ())),
                t.get("ping_s", 60),
            )
            for t in given.get("trunks", [])
        )
        for key in ("transports", "codecs"):
            if key in given:
                given[key] = tuple(given[key])
        if "tls" in given:
            given["tls"] = Tls(**given["tls"])
        self.options = options
        self.ears: dict[str, Ear] = {}
        self.sources: dict[str, Tone | Echo] = {}
        self._out = threading.Lock()
        self._pace = threading.Event()
        self.rate_hz = given.get("media_rate_hz", 8000)
        self.agent = SipUserAgent(SipSettings(**given), self.on_event)

    def say(self, **line: Any) -> None:
        with self._out:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def on_event(self, event: SipEvent) -> None:
        values = dataclasses.asdict(event) | {"at_ns": time.monotonic_ns()}
        if isinstance(event, Incoming):
            values["headers"] = dict(event.headers)
            self.bind(event.leg)
            if self.options.get("auto_answer"):
                self.agent.answer(event.leg)
        self.say(event=type(event).__name__, **values)
        if isinstance(event, Ended):
            self.ears.pop(event.leg, None)
            self.sources.pop(event.leg, None)
            self.agent.hangup(event.leg)  # a late command for a leg that is gone: ignored and counted
        if isinstance(event, MediaActive) and self.options.get("hangup_on_media"):
            self.agent.hangup(event.leg)

    def bind(self, leg: str) -> None:
        ear = self.ears[leg] = Ear(self.rate_hz)
        source = Echo(ear) if self.options.get("echo") else Tone(self.options.get("tone_hz", 0) or 0.0, self.rate_hz)
        self.sources[leg] = source
        self.agent.attach(leg, ear, source)

    def obey(self, line: dict[str, Any]) -> None:
        leg = line.get("leg", "")
        match line["do"]:
            case "dial":
                self.agent.dial(leg, line["uri"], headers=line.get("headers"))
                self.bind(leg)
            case "ring":
                self.agent.ring(leg)
            case "answer":
                self.agent.answer(leg)
            case "hangup":
                self.agent.hangup(leg, line.get("code", 0), headers=line.get("headers"))
            case "accept":
                self.agent.accept_calls(line["accepting"])
            case "hear":
                ear, source = self.ears[leg], self.sources[leg]
                self.say(heard=leg, asked=source.asked, **ear.report(line.get("also_hz", 0.0)))
            case "first_loud":
                self.say(heard=leg, loud_ns=self.ears[leg].first_loud_ns())
            case "statistics":
                self.say(statistics=self.agent.statistics(), rss_kb=rss_kb(), threads=threads(), fds=fds())
            case "latency":
                self.say(latency_us=self.command_latency())
            case "switch_interval":
                sys.setswitchinterval(line["seconds"])
                self.say(switch_interval=sys.getswitchinterval())
            case "busy":
                threading.Thread(target=burn, args=(line["seconds"],), daemon=True).start()

    def command_latency(self) -> list[float]:
        """Microseconds from post to execution, one command every few milliseconds."""
        found: list[float] = []
        for _ in range(100):
            done = threading.Event()
            start = time.perf_counter_ns()

            def run(start: int = start, done: threading.Event = done) -> None:
                found.append((time.perf_counter_ns() - start) / 1e3)
                done.set()

            self.agent._post(run)
            done.wait(1)
            self._pace.wait(0.007)
        return found


def thread_state() -> int:
    """Number of the interpreter's record of this thread; no number is given twice."""
    api = ctypes.pythonapi
    api.PyThreadState_Get.restype = ctypes.c_void_p
    api.PyThreadState_GetID.argtypes, api.PyThreadState_GetID.restype = [ctypes.c_void_p], ctypes.c_uint64
    return int(api.PyThreadState_GetID(api.PyThreadState_Get()))


def burn(seconds: float) -> None:
    """Hold the interpreter as busy Python code does."""
    end, value = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        value = (value * 31 + 7) % 1_000_003


def rss_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def storm(stop: threading.Event) -> None:
    while not stop.is_set():
        gc.collect()
        stop.wait(0.002)


def main() -> int:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout carries the answers
    options = json.loads(sys.argv[1])
    driver = Driver(options)
    try:
        driver.agent.start()
    except SipError as error:
        driver.say(failed=type(error).__name__, text=str(error))
        return 3
    driver.say(ready=driver.agent.bound_port, tls=driver.agent.bound_tls_port, pid=os.getpid())
    over = threading.Event()
    if options.get("gc_storm"):
        threading.Thread(target=storm, args=(over,), daemon=True).start()
    for text in sys.stdin:
        line = json.loads(text)
        if line["do"] == "stop":
            break
        if line["do"] == "raise":
            raise RuntimeError("main ends without stopping the user agent")
        driver.obey(line)
    over.set()
    driver.agent.stop()
    driver.say(stopped=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
