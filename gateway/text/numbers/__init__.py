# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers that hold: found in what was said, kept through translation, written and read in the listener's way."""
