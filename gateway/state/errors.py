# SPDX-License-Identifier: GPL-3.0-or-later
"""What can stop the state store at the start. Later losses stop nothing: see ``store``."""

from __future__ import annotations


class StateUnavailable(Exception):
    """There is no usable Redis; the message names it and the remedy."""
