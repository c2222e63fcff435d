# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the data files that ship with the gateway: in the wheel, or in the source tree."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Path of a shipped file such as ``models/manifest.yaml``; raises FileNotFoundError if it is not there."""
    for root in (_PACKAGE / "_bundled", _PACKAGE.parent):
        path = root / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is missing from this installation: reinstall the gateway")
