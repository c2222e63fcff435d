# SPDX-License-Identifier: GPL-3.0-or-later
"""The build of PJSIP: what it is made of, what is kept, what is told. Nothing is compiled here."""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The script's modules, which are no part of the package."""
    folder = str(ROOT / "scripts" / "pjsua2")
    sys.path.insert(0, folder)
    names = ("build", "source", "wheel")
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(folder)
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What looks like PJSIP's source."""
    folder = tmp_path / "pjproject"
    folder.mkdir()
    text = "export PJ_VERSION_MAJOR  := 2\nexport PJ_VERSION_MINOR  := 17\nexport PJ_VERSION_REV    :=\n"
    (folder / "version.mak").write_text(text + "export PJ_VERSION_SUFFIX :=\n")
    (folder / "COPYING").write_text("GPL")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, in place of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "gateway" / "pjsua2"
    folder.mkdir(parents=True)
    return folder


def packed(tree: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:xz") as file:
        file.add(tree, "pjproject-2.17")
    return archive


def test_a_wheel_is_built_once_and_found_again(
    scripts: dict[str, Any],
    tree: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build, built = scripts["build"], []

    def compiled(source: Path, key: str, folder: Path, *, opus: bool, jobs: int) -> Path:
        built.append(key)
        module, shared = tree / "pjsua2.py", tree / "_pjsua2.so"
        module.write_text("# made")
        shared.write_bytes(b"\x7fELF")
        wheel: Path = scripts["wheel"].write_wheel(
            folder, f"2.17+gateway.{key}", module, shared, licence=tree / "COPYING"
        )
        module.unlink()
        shared.unlink()
        return wheel

    monkeypatch.setattr(build, "build", compiled)
    monkeypatch.setattr(build, "missing", lambda *, opus: [])
    assert build.main([str(tree)]) == 0
    first = capsys.readouterr().out.strip()
    assert build.main([str(tree)]) == 0
    again = capsys.readouterr()
    assert (again.out.strip(), len(built)) == (first, 1)
    assert "was built before" in again.err
    assert build.main([str(tree), "--without-opus"]) == 0
    (tree / "more.c").write_text("int x;")
    assert build.main([str(tree)]) == 0
    assert len(set(built)) == 3, "another setting or another source is another wheel"
    out = cache.parent / "out"
    assert build.main([str(tree), "--out", str(out)]) == 0
    assert [path.suffix for path in out.iterdir()] == [".whl"]


def test_the_key_follows_settings_and_patches(scripts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    build = scripts["build"]
    plain = build.settings_digest(opus=True)
    assert plain == build.settings_digest(opus=True) != build.settings_digest(opus=False)
    monkeypatch.setattr(build, "patches", list)
    assert build.settings_digest(opus=True) != plain
    monkeypatch.undo()
    monkeypatch.setattr(build, "C_FLAGS", "-O0")
    assert build.settings_digest(opus=True) != plain


def test_the_patches_that_the_gateway_relies_on_are_there(scripts: dict[str, Any]) -> None:
    text = "".join(path.read_text() for path in scripts["build"].patches())
    for name in ("read_bytes", "write_bytes", "pjsua_options_code"):
        assert name in text
    config = scripts["build"].CONFIG_SITE.read_text()
    assert "PJSUA_MAX_CALLS         512" in config
    assert "PJMEDIA_HAS_VIDEO       0" in config


def test_missing_packages_are_named_with_the_command(
    scripts: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tree: Path,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build = scripts["build"]
    monkeypatch.setattr(build.shutil, "which", lambda name: None if name in ("swig", "g++") else f"/usr/bin/{name}")
    assert build.main([str(tree)]) == 1
    told = capsys.readouterr().err
    assert "apt-get install swig g++ libsrtp2-dev" in told
    assert "libopus-dev" in told
    assert build.main([str(tree), "--without-opus"]) == 1
    assert "libopus-dev" not in capsys.readouterr().err


@pytest.mark.parametrize("what", ["nothing", "folder", "garbage", "old", "foreign"])
def test_a_source_that_is_none_is_told(
    scripts: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tree: Path,
    tmp_path: Path,
    cache: Path,
    capsys: pytest.CaptureFixture[str],
    what: str,
) -> None:
    build = scripts["build"]
    monkeypatch.setattr(build, "missing", lambda *, opus: [])
    source, words = tmp_path / what, "neither an archive nor PJSIP's source tree"
    if what == "folder":
        source.mkdir()
    elif what == "garbage":
        source.write_bytes(b"no archive")
        words = "cannot be unpacked"
    elif what == "old":
        (tree / "version.mak").write_text("export PJ_VERSION_MAJOR := 2\nexport PJ_VERSION_MINOR := 15\n")
        source, words = packed(tree, tmp_path / "old.tar.xz"), "is PJSIP 2.15; 2.17 or later is needed"
    elif what == "foreign":
        (tree / "version.mak").unlink()
        source, words = packed(tree, tmp_path / "foreign.tar.xz"), "holds no PJSIP"
    assert build.main([str(source)]) == 1
    assert words in capsys.readouterr().err
    assert not list(cache.glob("*.whl"))
    assert not [path for path in cache.iterdir() if path.is_dir()], "the work folder is gone"


def test_archive_and_tree_are_unpacked_alike(scripts: dict[str, Any], tree: Path, tmp_path: Path) -> None:
    source = scripts["source"]
    archive = packed(tree, tmp_path / "a.tar.xz")
    for number, given in enumerate((tree, archive)):
        work = tmp_path / f"work{number}"
        work.mkdir()
        found = source.unpack(given, work)
        assert source.version_of(found) == "2.17"
        assert found != tree
    assert source.source_digest(archive) == source.source_digest(archive) != source.source_digest(tree)


def test_the_source_line_is_the_machines_own_mirror(scripts: dict[str, Any]) -> None:
    source = scripts["source"]
    told = "\n".join(
        (
            "https://packages.example/tools/|stable|Example",
            "http://mirror.example/debian-security/|oldstable-security|Debian",
            "http://mirror.example/debian/|oldstable-updates|Debian",
            "http://mirror.example/debian/|oldstable|Debian",
        )
    )
    keyring = Path("/keys/debian.gpg")
    expected = "deb-src [signed-by=/keys/debian.gpg] http://mirror.example/debian unstable main"
    assert source.debian_line(told, keyring) == expected
    assert source.debian_line(told, None) == "deb-src http://mirror.example/debian unstable main"
    with pytest.raises(source.BuildFailed, match="give PJSIP's source tree"):
        source.debian_line("https://packages.example/tools/|stable|Example")


def test_a_kept_archive_needs_no_network(
    scripts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scripts["source"]
    kept = tmp_path / "asterisk_1.orig-Xpjproject.tar.xz"
    kept.write_bytes(b"")
    monkeypatch.setattr(source, "_apt", lambda *words, folder=None: pytest.fail("apt was asked"))
    assert source.debian_archive(tmp_path, refresh=False, say=print) == kept
    monkeypatch.setattr(source.shutil, "which", lambda name: None)
    with pytest.raises(source.BuildFailed, match="no apt-get"):
        source.debian_archive(tmp_path, refresh=True, say=print)


def test_the_wheel_takes_the_published_ones_place(scripts: dict[str, Any], tmp_path: Path, tree: Path) -> None:
    module, shared = tmp_path / "pjsua2.py", tmp_path / "_pjsua2.so"
    module.write_text("made = True")
    shared.write_bytes(b"\x7fELF")
    made = scripts["wheel"].write_wheel(tmp_path, "2.17+gateway.ab", module, shared, licence=tree / "COPYING")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert made.name.startswith(f"pjsua2_python-2.17+gateway.ab-{python}-{python}-linux_")
    with zipfile.ZipFile(made) as archive:
        assert archive.read("pjsua2/__init__.py") == b"made = True"
        info = "pjsua2_python-2.17+gateway.ab.dist-info"
        assert b"Name: pjsua2-python\nVersion: 2.17+gateway.ab\n" in archive.read(f"{info}/METADATA")
        for line in io.TextIOWrapper(archive.open(f"{info}/RECORD"), "utf-8"):
            path, digest, _size = line.strip().split(",")
            if digest:
                value = base64.urlsafe_b64encode(hashlib.sha256(archive.read(path)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={value}", path
    again = scripts["wheel"].write_wheel(tmp_path / "..", "2.17+gateway.ab", module, shared, licence=tree / "COPYING")
    assert again.read_bytes() == made.read_bytes(), "the same parts make the same file"
    again.unlink()


def test_the_launcher_tells_how_it_is_used() -> None:
    told = subprocess.run([ROOT / "scripts" / "build-pjsua2", "--help"], capture_output=True, text=True, check=True)
    assert "--install" in told.stdout
