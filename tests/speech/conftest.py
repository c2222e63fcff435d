# SPDX-License-Identifier: GPL-3.0-or-later
"""Models for the tests that need them: from the store, never downloaded by a test."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_dir() -> Callable[[str], Path]:
    """Directory of a model in the store; skips the test when the store does not hold it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    store = Path(os.environ.get("GATEWAY__MODELS__DIR") or cache / "gateway" / "models")

    def find(model: str) -> Path:
        path = store / model
        if not path.is_dir():
            pytest.skip(f"model {model} is not in the store {store}: run `gateway models pull`")
        return path

    return find
