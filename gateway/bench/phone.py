# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated telephone in a process of its own: sockets and the clock around `ua`, `talker` and `hearing`.

``python -m gateway.bench.phone`` reads one JSON object per line on stdin and writes one per line on stdout; the end of
stdin hangs up and ends the process, so no telephone outlives its parent. Packets leave at absolute deadlines of the
monotonic clock (start + n * 20 ms): a late packet does not make the next one late, so 50.0 packets a second hold.

Commands (``cmd``)::

    call {uri, headers?}     answer      reject {code}      hold {direction}      hangup      quit
    play {file, id?, at_ns?} stop        dtmf {digits, by?} stats                 save {file}

    loudspeaker {gain_db?}   (what is heard goes back, so much louder; without: not any more)

Keys go out as RFC 4733 events in the sound, or ``by`` INFO: "info" (application/dtmf-relay), one request each.

Events (``event``)::

    ready {sip_port, rtp_port, pid}         ringing {code}    incoming {caller, dialled, headers}
    media {codec, remote, direction}        established {at_ns}   ended {code, phrase, by_remote, at_ns}
    playing {id, samples, at_ns}            played {id, first_ns, last_ns}
    sound_started {at_ns}                   sound_ended {first_ns, last_ns}
    rtp {sent, received, ...}               saved {file}      error {message, cmd}      bye {}
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from gateway.bench import g711, rtp, sdp, ua
from gateway.bench.capture import Capture, Pcm, build_track, save_capture
from gateway.bench.hearing import Hearing, SoundEnded, SoundStarted
from gateway.bench.talker import Talker

FRAME_NS = 20_000_000
_MOST_LATE = 50  # packets: after a stand-still of more than a second the missed ones are skipped, not sent in a burst
_MOST_PACKETS = 3600 * 50 * 2  # an hour of two directions is recorded, the rest of a longer call is only counted
_READ_AT_ONCE = 64

Emit = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class PhoneOptions:
    """Where a telephone listens and how it behaves; port 0 takes a free one."""

    host: str = "127.0.0.1"
    sip_port: int = 0
    rtp_port: int = 0
    user: str = "phone"
    codecs: tuple[str, ...] = ("PCMU", "PCMA")
    answer_after_ms: int | None = None
    quiet_ms: int = 500


class Phone:
    """One telephone on the running asyncio loop. ``emit`` gets the events named in the module's text."""

    def __init__(self, options: PhoneOptions, emit: Emit) -> None:
        self._options, self._emit = options, emit
        self._loop = asyncio.get_running_loop()
        self._sip = _bind(options.host, options.sip_port)
        self._rtp, self._rtcp = _bind_media(options.host, options.rtp_port)
        self._chance = random.Random()  # noqa: S311  a test telephone has no secrets
        self.sip_port: int = self._sip.getsockname()[1]
        self.rtp_port: int = self._rtp.getsockname()[1]
        self._agent = ua.PhoneAgent(
            host=options.host,
            sip_port=self.sip_port,
            rtp_port=self.rtp_port,
            user=options.user,
            codecs=options.codecs,
        )
        self._sip_timer: asyncio.TimerHandle | None = None
        self._pace_timer: asyncio.TimerHandle | None = None
        self._next_frame_ns = 0
        self._answer_timer: asyncio.TimerHandle | None = None
        self._media: sdp.Media | None = None
        self._talker: Talker | None = None
        self._new_call()
        self._loop.add_reader(self._sip, self._on_sip)
        self._loop.add_reader(self._rtp, self._on_rtp)
        if self._rtcp is not None:
            self._loop.add_reader(self._rtcp, _drain, self._rtcp)

    # --- commands ---------------------------------------------------------------------------------------------

    def command(self, order: dict[str, Any]) -> None:
        """Do what one line of stdin says; what goes wrong comes back as an ``error`` event."""
        name = order.get("cmd")
        handler = self._COMMANDS.get(str(name))
        if handler is None:
            self._emit({"event": "error", "cmd": name, "message": "unknown command"})
            return
        try:
            handler(self, order)
        except (KeyError, ValueError, TypeError, AttributeError, RuntimeError, OSError) as error:
            self._emit({"event": "error", "cmd": name, "message": f"{type(error).__name__}: {error}"})
        self._flush()

    @property
    def idle(self) -> bool:
        """No call, not even one that is being ended."""
        return self._agent.stage == "idle"

    def close(self) -> None:
        """Free sockets and timers."""
        for timer in (self._sip_timer, self._pace_timer, self._answer_timer):
            if timer is not None:
                timer.cancel()
        for sock in (self._sip, self._rtp, self._rtcp):
            if sock is not None:
                self._loop.remove_reader(sock)
                sock.close()

    def _call(self, order: dict[str, Any]) -> None:
        self._new_call()
        self._agent.invite(str(order["uri"]), time.monotonic_ns(), headers=order.get("headers"))

    def _answer(self, order: dict[str, Any]) -> None:
        self._handle(self._agent.answer(time.monotonic_ns()))

    def _reject(self, order: dict[str, Any]) -> None:
        self._handle(self._agent.reject(int(order.get("code", 486)), time.monotonic_ns()))

    def _hold(self, order: dict[str, Any]) -> None:
        self._agent.hold(str(order["direction"]), time.monotonic_ns())

    def _hangup(self, order: dict[str, Any]) -> None:
        self._handle(self._agent.hangup(time.monotonic_ns()))

    def _play(self, order: dict[str, Any]) -> None:
        talker = self._talking()
        pcm = read_clip(Path(order["file"]))
        clip_id = str(order.get("id", order["file"]))
        talker.play(clip_id, pcm, int(order.get("at_ns", 0)))
        self._emit({"event": "playing", "id": clip_id, "samples": len(pcm), "at_ns": time.monotonic_ns()})

    def _loudspeaker(self, order: dict[str, Any]) -> None:
        self._talking().loudspeaker(order.get("gain_db"))

    def _stop(self, order: dict[str, Any]) -> None:
        self._talking().stop()

    def _dtmf(self, order: dict[str, Any]) -> None:
        digits = str(order["digits"])
        if order.get("by") != "info":
            self._talking().press(digits)
            return
        for digit in digits:
            body = f"Signal={digit}\r\nDuration=160\r\n".encode()
            self._agent.info("application/dtmf-relay", body, time.monotonic_ns())

    def _stats(self, order: dict[str, Any]) -> None:
        self._emit({"event": "rtp", **self.statistics()})

    def _save(self, order: dict[str, Any]) -> None:
        path = Path(order["file"])
        save_capture(path, self.capture())
        self._emit({"event": "saved", "file": str(path)})

    _COMMANDS: dict[str, Callable[[Phone, dict[str, Any]], None]] = {  # noqa: RUF012  a table of methods, never changed
        "call": _call,
        "answer": _answer,
        "reject": _reject,
        "hold": _hold,
        "hangup": _hangup,
        "play": _play,
        "stop": _stop,
        "loudspeaker": _loudspeaker,
        "dtmf": _dtmf,
        "stats": _stats,
        "save": _save,
    }

    def statistics(self) -> dict[str, Any]:
        """Counters of the present or last call."""
        return {
            "sent": len(self._sent) + self._unrecorded_sent,
            "received": len(self._received) + self._unrecorded_received,
            "malformed": self._malformed,
            "foreign": self._foreign,
            "skipped": self._skipped,
            "late_max_ms": self._late_max_ns / 1e6,
            "unrecorded": self._unrecorded_sent + self._unrecorded_received,
            "sip": self._agent.statistics(),
            **(self._talker.statistics() if self._talker else {}),
        }

    def capture(self) -> Capture:
        """What was sent and received in the present or last call."""
        media = asdict(self._media) if self._media else None
        return Capture(
            build_track(self._sent),
            build_track(self._received),
            {"user": self._options.user, "media": media, **self._stamps, "rtp": self.statistics()},
        )

    # --- signalling -------------------------------------------------------------------------------------------

    def _on_sip(self) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                datagram, source = self._sip.recvfrom(65_535)
            except (BlockingIOError, ConnectionError):
                break
            self._handle(self._agent.receive(datagram, source[:2], time.monotonic_ns()))
        self._flush()

    def _on_sip_timer(self) -> None:
        self._sip_timer = None
        self._handle(self._agent.wake(time.monotonic_ns()))
        self._flush()

    def _flush(self) -> None:
        for data, (host, port) in self._agent.outgoing():
            address = "127.0.0.1" if host == "localhost" else host
            try:
                ipaddress.ip_address(address)
                self._sip.sendto(data, (address, port))
            except (ValueError, OSError) as error:
                self._emit({"event": "error", "cmd": "send", "message": f"{type(error).__name__}: {error}"})
        if self._sip_timer is not None:
            self._sip_timer.cancel()
            self._sip_timer = None
        due_ns = self._agent.next_wake_ns
        if due_ns is not None:
            self._sip_timer = self._loop.call_at(due_ns / 1e9, self._on_sip_timer)

    def _handle(self, events: list[ua.Event]) -> None:
        now_ns = time.monotonic_ns()
        for event in events:
            if isinstance(event, ua.Ringing):
                self._emit({"event": "ringing", "code": event.code, "at_ns": now_ns})
            elif isinstance(event, ua.Incoming):
                self._new_call()
                self._emit({"event": "incoming", **asdict(event)})
                if self._options.answer_after_ms is not None:
                    delay_s = self._options.answer_after_ms / 1000
                    self._answer_timer = self._loop.call_later(delay_s, self._answer_if_ringing)
            elif isinstance(event, ua.MediaChanged):
                self._start_media(event.media, now_ns)
            elif isinstance(event, ua.Established):
                self._stamps["established_ns"] = now_ns
                self._emit({"event": "established", "at_ns": now_ns})
            else:
                self._stop_media()
                self._stamps["ended_ns"] = now_ns
                self._emit({"event": "rtp", **self.statistics()})
                self._emit({"event": "ended", **asdict(event), "at_ns": now_ns})

    def _answer_if_ringing(self) -> None:
        if self._agent.stage == "ringing":
            self._answer({})
            self._flush()

    def _new_call(self) -> None:
        self._sent: list[tuple[int, rtp.RtpPacket]] = []
        self._received: list[tuple[int, rtp.RtpPacket]] = []
        self._stamps: dict[str, int] = {}
        self._hearing = Hearing(quiet_ms=self._options.quiet_ms)
        self._malformed = self._foreign = self._skipped = self._late_max_ns = 0
        self._unrecorded_sent = self._unrecorded_received = 0
        self._media = None

    # --- sound ------------------------------------------------------------------------------------------------

    def _start_media(self, media: sdp.Media, now_ns: int) -> None:
        self._media = media
        remote = list(media.remote)
        self._emit({"event": "media", "codec": media.codec, "remote": remote, "direction": media.direction})
        if self._talker is not None:
            self._talker.change(codec=media.codec, payload_type=media.payload_type, event_payload=media.event_payload)
            return
        self._stamps["media_ns"] = now_ns
        self._talker = Talker(
            codec=media.codec,
            payload_type=media.payload_type,
            event_payload=media.event_payload,
            ssrc=self._chance.getrandbits(32),
            sequence=self._chance.getrandbits(15),  # RFC 3711 advises to start in the lower half
        )
        self._next_frame_ns = now_ns
        self._on_pace()

    def _stop_media(self) -> None:
        self._talker = None
        if self._pace_timer is not None:
            self._pace_timer.cancel()
            self._pace_timer = None

    def _on_pace(self) -> None:
        self._pace_timer = None
        talker, media = self._talker, self._media
        if talker is None or media is None:
            return
        now_ns = time.monotonic_ns()
        late = (now_ns - self._next_frame_ns) // FRAME_NS
        if late > _MOST_LATE:
            talker.skip(late)
            self._skipped += late
            self._next_frame_ns += late * FRAME_NS
        while self._next_frame_ns <= now_ns:
            self._send_frame(talker, media)
            self._next_frame_ns += FRAME_NS
        for heard in self._hearing.tick(now_ns):
            self._emit_heard(heard)
        self._pace_timer = self._loop.call_at(self._next_frame_ns / 1e9, self._on_pace)

    def _send_frame(self, talker: Talker, media: sdp.Media) -> None:
        departed_ns = time.monotonic_ns()
        packet, played = talker.tick(departed_ns)
        if media.direction in ("sendrecv", "sendonly") and media.remote[1]:
            # the peer's socket may be gone a moment before its BYE arrives
            with suppress(OSError):
                self._rtp.sendto(rtp.pack(packet), media.remote)
            self._late_max_ns = max(self._late_max_ns, departed_ns - self._next_frame_ns)
            if len(self._sent) < _MOST_PACKETS // 2:
                self._sent.append((departed_ns, packet))
            else:
                self._unrecorded_sent += 1
        if played is not None:
            self._emit(
                {"event": "played", "id": played.clip_id, "first_ns": played.first_ns, "last_ns": played.last_ns}
            )

    def _on_rtp(self) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                datagram, source = self._rtp.recvfrom(4096)
            except (BlockingIOError, ConnectionError):
                return
            at_ns = time.monotonic_ns()
            try:
                packet = rtp.parse(datagram)
            except rtp.BadRtp:
                self._malformed += 1
                continue
            if self._media is not None and source[0] != self._media.remote[0]:
                self._foreign += 1
                continue
            if len(self._received) < _MOST_PACKETS // 2:
                self._received.append((at_ns, packet))
            else:
                self._unrecorded_received += 1
            codec = sdp.STATIC.get(packet.payload_type)
            if codec is not None:
                pcm = g711.decode(codec, packet.payload)
                if self._talker is not None:
                    self._talker.hear(pcm)
                for heard in self._hearing.feed(pcm, at_ns):
                    self._emit_heard(heard)

    def _emit_heard(self, heard: SoundStarted | SoundEnded) -> None:
        name = "sound_started" if isinstance(heard, SoundStarted) else "sound_ended"
        self._emit({"event": name, **asdict(heard)})

    def _talking(self) -> Talker:
        if self._talker is None:
            raise RuntimeError("no call with sound")
        return self._talker


def read_clip(path: Path) -> Pcm:
    """An 8 kHz sound file as mono int16; other rates are refused with ValueError, channels are averaged."""
    sound, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
    if rate_hz != sdp.RATE_HZ:
        raise ValueError(f"{path.name} has {rate_hz} Hz, the telephone plays {sdp.RATE_HZ} Hz")
    if sound.shape[1] == 1:
        return np.ascontiguousarray(sound[:, 0])
    return np.asarray(np.rint(sound.mean(axis=1)), dtype=np.int16)


async def serve(options: PhoneOptions) -> None:
    """Run a telephone on stdin and stdout until ``quit`` or the end of stdin."""
    phone = Phone(options, _write_line)
    _write_line({"event": "ready", "sip_port": phone.sip_port, "rtp_port": phone.rtp_port, "pid": os.getpid()})
    reader = asyncio.StreamReader(limit=1 << 16)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # An instrument must not be starved by what it measures: it takes 2 % of a core. Where real-time scheduling is not
    # permitted the telephone goes on without it, and its lateness is in the statistics.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    gc.freeze()  # modules are not searched for garbage while packets wait
    try:
        while line := await reader.readline():
            try:
                order = json.loads(line)
            except ValueError:
                order = None
            if not isinstance(order, dict):
                _write_line({"event": "error", "cmd": None, "message": "a line is one JSON object"})
                continue
            if order.get("cmd") == "quit":
                break
            phone.command(order)
        await _hang_up(phone)
    finally:
        phone.close()
    _write_line({"event": "bye"})


async def _hang_up(phone: Phone) -> None:
    phone.command({"cmd": "hangup"})
    for _ in range(100):  # 2 s: a peer that does not answer the BYE is left alone
        if phone.idle:
            return
        await asyncio.sleep(0.02)


def _write_line(event: dict[str, Any]) -> None:
    # a parent that is gone is no error: the end of stdin follows
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def _bind(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def _bind_media(host: str, port: int) -> tuple[socket.socket, socket.socket | None]:
    """The sockets for RTP and RTCP. A free even port is looked for by keeping what does not fit until one does."""
    if port:
        media = _bind(host, port)
        with suppress(OSError):
            return media, _bind(host, port + 1)
        return media, None
    kept: list[socket.socket] = []
    try:
        for _ in range(32):
            media = _bind(host, 0)
            kept.append(media)
            number = media.getsockname()[1]
            if number % 2 == 0 and number < 65_535:
                with suppress(OSError):
                    control = _bind(host, number + 1)
                    kept.remove(media)
                    return media, control
        return kept.pop(), None
    finally:
        for sock in kept:
            sock.close()


def _drain(sock: socket.socket) -> None:
    with suppress(BlockingIOError, ConnectionError):
        for _ in range(_READ_AT_ONCE):
            sock.recvfrom(4096)


def main(arguments: list[str] | None = None) -> int:
    """The command line of a telephone."""
    parser = argparse.ArgumentParser(prog="python -m gateway.bench.phone", description="A simulated telephone.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--sip-port", type=int, default=0)
    parser.add_argument("--rtp-port", type=int, default=0)
    parser.add_argument("--user", default="phone")
    parser.add_argument("--codecs", default="PCMU,PCMA", help="in the order of preference")
    parser.add_argument("--answer-after-ms", type=int, default=None, help="answer by itself; else wait for 'answer'")
    parser.add_argument("--quiet-ms", type=int, default=500, help="silence that ends a heard sound")
    given = parser.parse_args(arguments)
    codecs = tuple(given.codecs.split(","))
    if any(codec not in sdp.STATIC.values() for codec in codecs):
        parser.error("--codecs takes PCMU and PCMA")
    options = PhoneOptions(
        given.host, given.sip_port, given.rtp_port, given.user, codecs, given.answer_after_ms, given.quiet_ms
    )
    try:
        asyncio.run(serve(options))
    except OSError as error:
        _write_line({"event": "error", "cmd": None, "message": f"cannot listen: {error}"})
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
