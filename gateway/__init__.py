# SPDX-License-Identifier: GPL-3.0-or-later
"""A SIP gateway that interprets telephone calls while people speak."""

__version__ = "0.1.0"
