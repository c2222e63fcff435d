# SPDX-License-Identifier: GPL-3.0-or-later
"""One commented YAML, environment overrides, and where each effective value came from."""

from gateway.settings.faults import Fault, SettingsError
from gateway.settings.load import Loaded, effective, load_settings
from gateway.settings.model import Settings

__all__ = ["Fault", "Loaded", "Settings", "SettingsError", "effective", "load_settings"]
