# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure streaming core: end-pointing and the life of a segment. No clock, no thread, no model in here."""
