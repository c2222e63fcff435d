# SPDX-License-Identifier: GPL-3.0-or-later
"""The one thread that touches pjsua2.

pjlib aborts the process when a thread it does not know calls it, and deadlocks between its locks and the
interpreter's are easy to build. So the library runs no worker of its own (``threadCnt`` 0), this thread polls it,
and everybody else posts commands.

A command must not wait for the poll to time out. The poll sleeps in ``select`` on the SIP socket, so a poster
sends a keep-alive (RFC 5626 section 3.5.1: CRLF CRLF, which the transport swallows) to that socket: 0.13 ms from
post to execution, at 1 % of a core idle. Without a UDP socket the poll is short instead.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pjsua2 as pj
import structlog

from gateway.sip.errors import PortTaken, SipError, StartFailed
from gateway.sip.limits import TLS_TOO_OLD, quiet_before_start, tls_is_sound
from gateway.sip.logbridge import DECORATION_SENDER_ONLY, LogBridge
from gateway.sip.settings import SipSettings, Tls

log = structlog.get_logger(__name__)

Command = Callable[[], None]

POLL_MS = 20
POLL_WITHOUT_WAKE_MS = 5
TICK_NS = 1_000_000_000
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 15.0
DRAIN_NS = 2_000_000_000
"""How long a stop waits for peers to confirm their BYE."""
MAX_COMMANDS = 4096
EPHEMERAL_TRIES = 8
NO_RX_MSG = 1  # PJSUA_DESTROY_NO_RX_MSG: do not wait a second for answers to farewells that were never sent
_KEEP_ALIVE = b"\r\n\r\n"
_ADDRESS_IN_USE = 120_098  # PJ_STATUS_FROM_OS(EADDRINUSE)


class SipEndpoint:
    """Owner thread, command queue and life cycle of the library."""

    def __init__(self, settings: SipSettings, *, on_tick: Command) -> None:
        self._settings = settings
        self._on_tick = on_tick
        self._commands: deque[Command] = deque()
        self._wake_sent = False
        self._wake_socket: socket.socket | None = None
        self._wake_to: tuple[str, int] = ("127.0.0.1", 0)
        self._ready = threading.Event()
        self._stopping = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self.bound_port = 0
        self.bound_tls_port = 0
        self.posted = 0
        self.dropped = 0
        self.failed = 0

    # --- any thread --------------------------------------------------------------------------------------------

    def start(self, opened: Command, closing: Callable[[], bool], closed: Command) -> None:
        """Run the library; returns when it is bound, raises what kept it from starting.

        ``opened`` runs once the library is up. At the stop ``closing`` ends the calls and tells whether any is
        left (asked again while it says True, up to a bound), and ``closed`` drops what remains. All three run on the
        owner thread.
        """
        if self._thread is not None:
            raise SipError("the SIP user agent was started before")
        # A daemon: an exception in main must not leave the process hanging on this thread. The front stops it at exit.
        self._thread = threading.Thread(target=self._run, args=(opened, closing, closed), name="sip-owner", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise StartFailed(f"the SIP library did not start within {START_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            self._thread.join(STOP_TIMEOUT_S)
            raise self._failure

    def post(self, command: Command) -> bool:
        """Queue a command for the owner thread and wake it; False when the queue is full or the thread is gone."""
        if self._stopping or len(self._commands) >= MAX_COMMANDS:
            self.dropped += 1
            return False
        self._commands.append(command)
        self.posted += 1
        self._wake()
        return True

    def stop(self) -> None:
        """End the calls and the library; returns when the owner thread is gone. Harmless when repeated."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        if thread is threading.current_thread():
            raise SipError("the SIP user agent cannot be stopped from one of its own events")
        self._stopping = True
        self._wake()
        thread.join(STOP_TIMEOUT_S)
        if thread.is_alive():
            log.error("sip_stop_timed_out", seconds=STOP_TIMEOUT_S)

    @property
    def depth(self) -> int:
        """Commands waiting."""
        return len(self._commands)

    def _wake(self) -> None:
        wake = self._wake_socket
        if wake is not None and not self._wake_sent:
            self._wake_sent = True
            try:
                wake.sendto(_KEEP_ALIVE, self._wake_to)
            except OSError:  # then the poll's own timeout has to do
                self._wake_sent = False

    # --- owner thread ------------------------------------------------------------------------------------------

    def _run(self, opened: Command, closing: Callable[[], bool], closed: Command) -> None:
        endpoint = None
        try:
            endpoint = pj.Endpoint()
            self._open(endpoint)
            opened()
        except BaseException as error:  # it is raised again in the starting thread
            self._failure = error if isinstance(error, SipError) else StartFailed(_words(error))
            self._guard(closed)
            self._destroy(endpoint)
            self._ready.set()
            return
        self._ready.set()
        self._serve(endpoint)
        deadline_ns = time.monotonic_ns() + DRAIN_NS
        while closing() and time.monotonic_ns() < deadline_ns:
            self._poll(endpoint, POLL_MS)
        self._guard(closed)
        self._destroy(endpoint)

    def _serve(self, endpoint: Any) -> None:
        poll_ms = POLL_MS if self._wake_socket is not None else POLL_WITHOUT_WAKE_MS
        next_tick_ns = time.monotonic_ns() + TICK_NS
        while not self._stopping:
            self._wake_sent = False  # before the queue is read: a later post sends its own wake
            for _ in range(len(self._commands)):
                self._guard(self._commands.popleft())
            self._poll(endpoint, poll_ms)
            now_ns = time.monotonic_ns()
            if now_ns >= next_tick_ns:
                next_tick_ns = now_ns + TICK_NS
                self._guard(self._on_tick)

    def _poll(self, endpoint: Any, timeout_ms: int) -> None:
        try:
            endpoint.libHandleEvents(timeout_ms)
        except BaseException as error:
            self.failed += 1
            log.error("sip_poll_failed", error=_words(error))

    def _guard(self, command: Command) -> None:
        try:
            command()
        except BaseException as error:  # the thread owns every call: one bad command must not end it
            self.failed += 1
            log.error("sip_command_failed", error=_words(error))

    def _open(self, endpoint: Any) -> None:
        settings = self._settings
        if settings.tls is not None and not tls_is_sound():
            raise StartFailed(TLS_TOO_OLD)
        quiet_before_start()
        endpoint.libCreate()
        endpoint.libInit(_library_config(settings))
        self._bind(endpoint)
        endpoint.audDevManager().setNullDev()
        _choose_codecs(endpoint, settings.codecs)
        endpoint.libStart()

    def _bind(self, endpoint: Any) -> None:
        """Bind all transports to one port number; an ephemeral one is tried until it is free for all of them."""
        settings = self._settings
        tries = 1 if settings.port else EPHEMERAL_TRIES
        for attempt in range(tries):
            bound: list[int] = []
            port = settings.port
            try:
                for transport in (each for each in settings.transports if each != "tls"):
                    bound.append(_open_transport(endpoint, settings, transport, port))
                    port = port or _local_port(endpoint, bound[0])
            except pj.Error as error:
                if error.status != _ADDRESS_IN_USE:
                    raise
                for transport_id in bound:
                    endpoint.transportClose(transport_id)
                if attempt + 1 == tries:
                    raise PortTaken(settings.bind_address, port) from None
                continue
            self.bound_port = port
            break
        self._bind_tls(endpoint)
        if "udp" in settings.transports:
            host = "127.0.0.1" if settings.bind_address == "0.0.0.0" else settings.bind_address  # noqa: S104
            self._wake_to = (host, self.bound_port)
            self._wake_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._wake_socket.setblocking(False)

    def _bind_tls(self, endpoint: Any) -> None:
        tls = self._settings.tls
        if tls is None:
            return
        try:
            transport = endpoint.transportCreate(pj.PJSIP_TRANSPORT_TLS, _tls_config(self._settings, tls))
        except pj.Error as error:
            if error.status == _ADDRESS_IN_USE:
                raise PortTaken(self._settings.bind_address, tls.port) from None
            raise StartFailed(
                f"SIP over TLS does not start with certificate {tls.certificate} and key {tls.key}: {error.reason}"
            ) from None
        self.bound_tls_port = _local_port(endpoint, int(transport))

    def _destroy(self, endpoint: Any) -> None:
        wake, self._wake_socket = self._wake_socket, None
        if wake is not None:
            wake.close()
        if endpoint is not None:
            try:
                endpoint.libDestroy(NO_RX_MSG)
            except BaseException as error:
                log.error("sip_destroy_failed", error=_words(error))


def _words(error: BaseException) -> str:
    """An error in words; pjsua2's own has its text in ``reason`` and a title that names the function."""
    reason = getattr(error, "reason", "")
    return f"{getattr(error, 'title', '')}: {reason}" if reason else f"{type(error).__name__}: {error}"


def _library_config(settings: SipSettings) -> Any:
    config = pj.EpConfig()
    ua = config.uaConfig
    ua.threadCnt = 0
    ua.mainThreadOnly = True
    ua.userAgent = settings.user_agent
    # Clamped to the build's own limit, which is read back. The library refuses what is over it with 486 by itself.
    ua.maxCalls = min(settings.max_legs or 1024, settings.rtp_legs)
    media = config.medConfig
    media.clockRate = media.sndClockRate = settings.media_rate_hz
    media.audioFramePtime = 20
    media.ecTailLen = 0
    media.noVad = True  # 50 packets a second always: carriers drop a leg that falls silent
    # The jitter buffer stays at the library's adaptive defaults: no prefetch, so that a packet is with the sink after
    # 7 ms on a quiet line (the phase of the 20 ms clock, 15 ms at most); it grows with the jitter that it sees.
    media.maxMediaPorts = max(media.maxMediaPorts, 2 * (settings.max_legs or 0) + 16)
    logs = config.logConfig
    logs.level = logs.consoleLevel = settings.log_level  # the smaller of the two decides
    logs.msgLogging = int(settings.log_level > 3)
    logs.decor = DECORATION_SENDER_ONLY
    bridge = LogBridge()
    logs.writer = bridge
    bridge.__disown__()  # the library deletes its writer itself
    return config


def _open_transport(endpoint: Any, settings: SipSettings, transport: str, port: int) -> int:
    config = pj.TransportConfig()
    config.boundAddress = settings.bind_address
    config.port = port
    if settings.public_address:
        config.publicAddress = settings.public_address
    kind = pj.PJSIP_TRANSPORT_UDP if transport == "udp" else pj.PJSIP_TRANSPORT_TCP
    return int(endpoint.transportCreate(kind, config))


def _tls_config(settings: SipSettings, tls: Tls) -> Any:
    config = pj.TransportConfig()
    config.boundAddress = settings.bind_address
    config.port = tls.port
    if settings.public_address:
        config.publicAddress = settings.public_address
    secure = config.tlsConfig
    secure.certFile, secure.privKeyFile, secure.CaListFile = tls.certificate, tls.key, tls.ca
    secure.verifyServer = secure.verifyClient = secure.requireClientCert = tls.verify
    secure.proto = pj.PJ_SSL_SOCK_PROTO_TLS1_2 | pj.PJ_SSL_SOCK_PROTO_TLS1_3
    return config


def _local_port(endpoint: Any, transport_id: int) -> int:
    return int(str(endpoint.transportGetInfo(transport_id).localAddress).rpartition(":")[2])


def _choose_codecs(endpoint: Any, codecs: tuple[str, ...]) -> None:
    """Enable the wanted codecs in their order and nothing else."""
    wanted = {name.upper(): 255 - index for index, name in enumerate(codecs)}
    for info in endpoint.codecEnum2():
        identity = str(info.codecId)
        endpoint.codecSetPriority(identity, wanted.get(identity.partition("/")[0].upper(), 0))
