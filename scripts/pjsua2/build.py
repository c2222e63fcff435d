# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds a wheel of PJSIP's Python binding for the Python that runs this, and keeps it for the next time.

The published wheel is built for four calls, with assertions that abort the process, an OpenSSL without updates, and
without the security fixes since. This build holds 512, uses the system's libraries, and hands frames over in a tenth
of the time. It takes some minutes of one core, once: a wheel is found again by the source, the settings and the
Python it was made of.

Needs the standard library alone, so that it runs before anything is installed. Progress goes to standard error, the
path of the wheel to standard output.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from source import BuildFailed, debian_archive, source_digest, unpack, version_of
from wheel import tags, write_wheel

HERE = Path(__file__).resolve().parent
CONFIG_SITE = HERE / "config_site.h"
OLDEST = (2, 17)
"""Earlier releases lack security fixes and the helpers that copy frames."""

C_FLAGS = "-O2 -fPIC -DNDEBUG -fstack-protector-strong -D_FORTIFY_SOURCE=2"
LINK_FLAGS = "-Wl,-z,relro,-z,now"
CONFIGURE = (
    "--enable-epoll --enable-speex-resample --with-external-speex --with-external-srtp "
    "--disable-video --disable-sound --disable-upnp --disable-speex-aec --disable-speex-codec --disable-gsm-codec "
    "--disable-ilbc-codec --disable-g7221-codec --disable-libyuv --disable-libwebrtc --disable-openh264 "
    "--disable-v4l2 --disable-sdl --disable-ffmpeg --disable-vpx --disable-bcg729 --disable-silk --disable-lyra "
    "--disable-opencore-amr --disable-android-mediacodec"
)
SWIG_FLAGS = "-c++ -python -threads -w312"
WRAPPER_FLAGS = "-fno-strict-aliasing -w"  # SWIG's own code warns by the thousand

PROGRAMS = {"swig": "swig", "g++": "g++", "make": "make", "patch": "patch"}
HEADERS = {
    "srtp2/srtp.h": "libsrtp2-dev",
    "speex/speex.h": "libspeex-dev",  # only looked for
    "speex/speex_resampler.h": "libspeexdsp-dev",
    "openssl/ssl.h": "libssl-dev",
    "uuid/uuid.h": "uuid-dev",
}
OPUS = ("opus/opus.h", "libopus-dev")
SOURCE_FILES = 250  # of a build with these settings; only for the progress


def say(text: str) -> None:
    print(f"build-pjsua2: {text}", file=sys.stderr, flush=True)


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="build-pjsua2", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument(
        "source",
        nargs="?",
        type=Path,
        help="PJSIP's source tree or release archive (2.17 or later); "
        "by default the one in Debian's source package of Asterisk is fetched by apt-get",
    )
    parser.add_argument("--out", type=Path, help="folder that gets a copy of the wheel")
    parser.add_argument("--install", action="store_true", help="install the wheel into this Python's environment")
    parser.add_argument(
        "--packages", action="store_true", help="install missing Debian packages, where that is allowed"
    )
    parser.add_argument("--without-opus", action="store_true", help="leave Opus out")
    parser.add_argument("--refresh", action="store_true", help="look for a newer source instead of the kept one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once (default: all cores)")
    return parser.parse_args(arguments)


def cache_dir() -> Path:
    """The gateway's folder in the user's cache (XDG base directory specification), this script's part of it."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache") / "gateway" / "pjsua2"


def patches() -> list[Path]:
    """Our changes to the source, in the order in which they are applied."""
    return sorted(HERE.glob("*.patch"))


def settings_digest(*, opus: bool) -> str:
    """Changes with anything that the outcome depends on, but the source itself."""
    digest = hashlib.sha256()
    words = [C_FLAGS, LINK_FLAGS, CONFIGURE, SWIG_FLAGS, WRAPPER_FLAGS, f"opus={opus}", *tags(), platform.libc_ver()[1]]
    digest.update("\0".join(words).encode())
    for path in (CONFIG_SITE, *patches()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kept_wheel(folder: Path, key: str) -> Path | None:
    """The wheel that was made of the same things before."""
    return next(folder.glob(f"pjsua2_python-*+gateway.{key}-*.whl"), None)


def missing(*, opus: bool) -> list[str]:
    """Debian packages whose programs or headers are not there."""
    found = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    wanted = HEADERS | dict([OPUS]) if opus else HEADERS
    if shutil.which("g++"):
        found += [package for header, package in wanted.items() if not _includes(header)]
    else:
        found += wanted.values()
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        found.append("python3-dev")
    return found


def _includes(header: str) -> bool:
    probe = subprocess.run(
        ["g++", "-E", "-x", "c", "-"], input=f"#include <{header}>\n", capture_output=True, text=True, check=False
    )
    return probe.returncode == 0


def need_packages(*, opus: bool, install: bool) -> None:
    """Everything the compiler needs is there, or is installed now, or BuildFailed tells the command."""
    lacking = missing(opus=opus)
    if lacking and install:
        root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        say(f"installing {' '.join(lacking)}")
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *lacking]
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["apt-get", "update", "-qq"], command):
            subprocess.run([*root, *words], env=environ, stdout=sys.stderr, check=False)
        lacking = missing(opus=opus)
    if lacking:
        raise BuildFailed(f"these are missing: {', '.join(lacking)}; run  apt-get install {' '.join(lacking)}")


@contextmanager
def stage(title: str) -> Iterator[None]:
    began_s = time.monotonic()
    say(f"{title} …")
    yield
    say(f"{title}: {time.monotonic() - began_s:.0f} s")


def run(command: list[str], folder: Path, log: Path, *, counts: str = "") -> None:
    """Run a step with its words in the log; BuildFailed with the last of them. ``counts`` marks lines to report."""
    with log.open("a", encoding="utf-8") as words:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        done = 0
        assert process.stdout is not None
        for line in process.stdout:
            words.write(line)
            if counts and counts in line:
                done += 1
                if done % 50 == 0:
                    say(f"  {done} of about {SOURCE_FILES} files")
        status = process.wait()
    if status:
        last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise BuildFailed(f"{command[0]} failed with status {status}; the whole log is in {log}\n{last}")


def make_words(tree: Path, target: str) -> list[str]:
    """What PJSIP's own makefile says it compiles or links with."""
    helper = tree / "pjsip-apps" / "src" / "swig" / "python"
    told = subprocess.run(
        ["make", "--no-print-directory", "-f", "helper.mak", target],
        cwd=helper,
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.split()


def prepare(tree: Path) -> None:
    """Apply our settings and changes."""
    shutil.copy(CONFIG_SITE, tree / "pjlib" / "include" / "pj" / "config_site.h")
    # Debian's archive leaves this file out, but the makefile names it: a sound device that is not free.
    stub = tree / "pjmedia" / "src" / "pjmedia-audiodev" / "bdimad_dev.c"
    if not stub.exists():
        stub.write_text("", encoding="ascii")


def compile_binding(tree: Path, log: Path, *, opus: bool, jobs: int) -> tuple[Path, Path]:
    """Libraries, wrapper, extension. Returns the Python module and the shared object."""
    nice = ["nice", "-n", "10"]
    with stage("changing the source"):
        prepare(tree)
        for path in patches():
            run(["patch", "-p1", "--forward", "-i", str(path)], tree, log)
    with stage("configuring"):
        flags = [f"CFLAGS={C_FLAGS}", f"CXXFLAGS={C_FLAGS}", *CONFIGURE.split(), *([] if opus else ["--disable-opus"])]
        run([*nice, "./configure", *flags], tree, log)
    with stage("compiling the libraries"):  # PJSIP's own test programs would not link without a sound device
        run([*nice, "make", f"-j{jobs}", "lib"], tree, log, counts=" -c ")
    binding = tree / "pjsip-apps" / "src" / "swig" / "python"
    with stage("compiling the binding (one file, the longest step)"):
        parts = ("pjlib", "pjlib-util", "pjmedia", "pjsip", "pjnath")
        includes = [f"-I{tree / part / 'include'}" for part in parts]
        run([*nice, "swig", *SWIG_FLAGS.split(), *includes, "-o", "pjsua2_wrap.cpp", "../pjsua2.i"], binding, log)
        shared = binding / f"_pjsua2{sysconfig.get_config_var('EXT_SUFFIX')}"
        command = [*nice, "g++", "-shared", *WRAPPER_FLAGS.split(), "-I" + sysconfig.get_path("include")]
        command += [*make_words(tree, "cflags"), "pjsua2_wrap.cpp", "-o", str(shared), *LINK_FLAGS.split()]
        command += make_words(tree, "ldflags") + [f"-l{name}" for name in make_words(tree, "libs")] + ["-lspeexdsp"]
        run(command, binding, log)
        run(["strip", "--strip-debug", str(shared)], binding, log)
    return binding / "pjsua2.py", shared


def build(source: Path, key: str, folder: Path, *, opus: bool, jobs: int) -> Path:
    """Make the wheel in ``folder``. What is left of a failed build is its log."""
    log = folder / "build.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as work:
        with stage("unpacking"):
            tree = unpack(source, Path(work))
        version = version_of(tree)
        numbers = tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())
        if numbers < OLDEST:
            raise BuildFailed(f"{source} is PJSIP {version}; 2.17 or later is needed, give its archive as argument")
        module, shared = compile_binding(tree, log, opus=opus, jobs=jobs)
        return write_wheel(folder, f"{version}+gateway.{key}", module, shared, licence=tree / "COPYING")


def install(wheel: Path) -> None:
    """Put the wheel in the place of the published one; it bears the same distribution's name."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-index",
    ]
    if subprocess.run([*command, str(wheel)], check=False).returncode:
        raise BuildFailed(f"pip could not install {wheel} into {sys.prefix}")
    say(f"installed {wheel.name} into {sys.prefix}")


def wheel_for(given: argparse.Namespace, folder: Path) -> Path:
    """The wheel that was kept, or a new one."""
    opus = not given.without_opus
    source = given.source or debian_archive(folder / "source", refresh=given.refresh, say=say)
    key = hashlib.sha256((source_digest(source) + settings_digest(opus=opus)).encode()).hexdigest()[:10]
    kept = kept_wheel(folder, key)
    if kept is not None:
        say(f"{kept.name} was built before")
        return kept
    need_packages(opus=opus, install=given.packages)
    began_s = time.monotonic()
    wheel = build(source, key, folder, opus=opus, jobs=max(1, given.jobs))
    say(f"made {wheel.name} in {time.monotonic() - began_s:.0f} s")
    return wheel


def main(arguments: list[str]) -> int:
    given = options(arguments)
    try:
        folder = cache_dir()
        folder.mkdir(parents=True, exist_ok=True)
        wheel = wheel_for(given, folder)
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            wheel = Path(shutil.copy(wheel, given.out))
        if given.install:
            install(wheel)
    except BuildFailed as error:
        say(str(error))
        return 1
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
