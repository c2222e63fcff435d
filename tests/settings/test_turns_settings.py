# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of turn-taking are those of the settings, key by key."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from gateway.call.turns import TurnRules
from gateway.settings.model import Turns

pytestmark = pytest.mark.unit


def test_the_rooms_defaults_are_the_settings_defaults() -> None:
    assert asdict(TurnRules()) == Turns().model_dump()
