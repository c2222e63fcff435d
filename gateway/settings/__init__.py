# SPDX-License-Identifier: GPL-3.0-or-later
"""One commented YAML, environment overrides, and where each effective value came from."""
