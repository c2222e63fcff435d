# SPDX-License-Identifier: GPL-3.0-or-later
"""A call is two legs and two directions: dial plan, bridge, endings, transcript."""
