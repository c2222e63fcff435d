# SPDX-License-Identifier: GPL-3.0-or-later
"""Where PJSIP's source comes from: a tree, a release archive, or Debian's source package of Asterisk.

Debian ships PJSIP as a part of Asterisk's source package, component ``pjproject``, and has current releases in
unstable alone. It is fetched by apt itself, from the mirror that this machine's packages come from and verified with
its keyring, with a list and a state of its own: the machine's configuration stays as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

PACKAGE = "asterisk"
COMPONENT = "*.orig-Xpjproject.tar.*"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
BY_HAND = "give PJSIP's source tree or release archive (2.17 or later) as argument"


class BuildFailed(RuntimeError):
    """The wheel could not be made; the message carries the remedy."""


def debian_line(targets: str, keyring: Path | None = KEYRING) -> str:
    """The source list's line, from the output of ``apt-get indextargets`` (``uri|suite|origin`` a line).

    The mirror of a release, not of its security or backports archive. BuildFailed when the machine has none.
    """
    for line in targets.splitlines():
        uri, suite, origin = ([*line.split("|"), "", ""])[:3]
        if origin == "Debian" and uri and re.fullmatch(r"[a-z]+", suite):
            options = f" [signed-by={keyring}]" if keyring is not None else ""
            return f"deb-src{options} {uri.rstrip('/')} unstable main"
    raise BuildFailed(f"this machine's apt knows no Debian mirror; {BY_HAND}")


def debian_archive(folder: Path, *, refresh: bool, say: Callable[[str], None]) -> Path:
    """The component's archive, fetched now or kept from before. BuildFailed with what apt said."""
    kept = sorted(folder.glob(COMPONENT))
    if kept and not refresh:
        return kept[-1]
    if shutil.which("apt-get") is None:
        raise BuildFailed(f"there is no apt-get here; {BY_HAND}")
    told = _apt("indextargets", "--format", "$(REPO_URI)|$(SUITE)|$(ORIGIN)", "Created-By: Packages")
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    sources.write_text(debian_line(told, KEYRING if KEYRING.exists() else None) + "\n", encoding="ascii")
    say(f"fetching PJSIP with Debian's source package {PACKAGE} (13 MB)")
    own = {
        "Dir::Etc::sourcelist": str(sources),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": str(folder / "lists"),
        "Acquire::Languages": "none",
    }
    if os.geteuid() == 0:
        own["APT::Sandbox::User"] = "root"  # apt's own user may not write here
    options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
    for path in folder.glob(f"{PACKAGE}_*"):
        path.unlink()
    _apt(*options, "update", "-qq", folder=folder)
    _apt(*options, "source", "--download-only", "-qq", PACKAGE, folder=folder)
    shutil.rmtree(folder / "lists")
    found = sorted(folder.glob(COMPONENT))
    if not found:
        raise BuildFailed(f"Debian's {PACKAGE} no longer carries PJSIP; {BY_HAND}")
    for path in folder.glob(f"{PACKAGE}_*"):
        if path not in found:
            path.unlink()
    return found[-1]


def _apt(*words: str, folder: Path | None = None) -> str:
    done = subprocess.run(["apt-get", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"apt-get {words[-1]} failed: {done.stderr.strip()[-500:]}; {BY_HAND}")
    return done.stdout


def source_digest(source: Path) -> str:
    """Of an archive's bytes, or of all names and bytes in a tree. BuildFailed when it is neither."""
    digest = hashlib.sha256()
    if source.is_file():
        digest.update(source.read_bytes())
    elif (source / "version.mak").is_file():
        for path in sorted(source.rglob("*")):
            if path.is_file() and ".git" not in path.parts:
                digest.update(str(path.relative_to(source)).encode() + b"\0")
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    else:
        raise BuildFailed(f"{source} is neither an archive nor PJSIP's source tree (no version.mak in it)")
    return digest.hexdigest()


def unpack(source: Path, folder: Path) -> Path:
    """A copy of the source that may be changed: the folder with ``version.mak``."""
    if source.is_dir():
        return Path(shutil.copytree(source, folder / "tree", ignore=shutil.ignore_patterns(".git"), symlinks=True))
    try:
        with tarfile.open(source) as archive:
            if hasattr(tarfile, "data_filter"):  # Pythons without it (before 3.11.4) unpack what Debian has signed
                archive.extractall(folder, filter="data")
            else:
                archive.extractall(folder)  # noqa: S202
    except (tarfile.TarError, OSError) as error:
        raise BuildFailed(f"{source} cannot be unpacked: {error}; {BY_HAND}") from error
    tree = next(iter(folder.glob("*/version.mak")), None)
    if tree is None:
        raise BuildFailed(f"{source} holds no PJSIP (no version.mak in its first folder); {BY_HAND}")
    return tree.parent


def version_of(tree: Path) -> str:
    """``2.17``, ``2.17.1``, from version.mak."""
    text = (tree / "version.mak").read_text(encoding="utf-8")
    parts = [re.search(rf"PJ_VERSION_{name}\s*:=[ \t]*(\S*)", text) for name in ("MAJOR", "MINOR", "REV")]
    return ".".join(part[1] for part in parts if part and part[1])
