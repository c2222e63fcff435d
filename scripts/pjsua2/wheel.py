# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheel of one module and one shared object (binary distribution format 1.0), without further tools.

It bears the name of the distribution that the project depends on, with a local version: installed it takes the
published one's place, and whoever asks for that finds this.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import sysconfig
import zipfile
from pathlib import Path

DISTRIBUTION = "pjsua2-python"


def tags() -> tuple[str, str, str]:
    """Python, ABI and platform tag of the Python that runs this: made for this machine, not for others."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return python, python, sysconfig.get_platform().replace("-", "_").replace(".", "_")


def write_wheel(folder: Path, version: str, module: Path, shared: Path, *, licence: Path) -> Path:
    """Write the wheel and return its path. It appears whole or not at all."""
    name = DISTRIBUTION.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    tag = "-".join(tags())
    files: dict[str, bytes] = {
        "pjsua2/__init__.py": module.read_bytes(),
        f"pjsua2/{shared.name}": shared.read_bytes(),
        f"{info}/licenses/COPYING": licence.read_bytes(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: {version}\n"
            "Summary: PJSIP's Python binding, built for the gateway\n"
            "License-Expression: GPL-2.0-or-later\nLicense-File: COPYING\n"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: build-pjsua2\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = folder / f"{name}-{version}-{tag}.whl"
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(part, "w") as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)  # with a date that does not change
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return part.rename(wheel)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
