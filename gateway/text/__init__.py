# SPDX-License-Identifier: GPL-3.0-or-later
"""Pure text work: terms, guards against loops, sentence splitting. Standard library and rapidfuzz only."""
