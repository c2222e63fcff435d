# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Coqui is, its interpreter and the script that runs in it, and what it is never given."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.speech.errors import EngineMissing, UnsafeModel
from gateway.speech.manifest import is_pickled

HOST = Path(__file__).with_name("coqui_host.py")


def coqui_python() -> Path:
    """The interpreter of Coqui's environment: ``.venv-coqui`` beside ``.venv``. EngineMissing tells how to make it."""
    home = Path(sys.prefix)
    python = home.with_name(f"{home.name}-coqui") / "bin" / "python"
    if not python.is_file():
        raise EngineMissing(f"Coqui is not installed at {python.parent.parent}: run `make coqui`")
    return python


def refuse_unsafe(folder: Path) -> None:
    """Raise UnsafeModel for a checkpoint that its loader would unpickle, before anything of the folder is read."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if is_pickled(file.name):
            raise UnsafeModel(
                f"{folder.name}/{file.relative_to(folder)} is a pickled checkpoint, which can run code: it is never "
                "loaded; take the model in with `gateway models import`, which writes safetensors, and delete it here"
            )
