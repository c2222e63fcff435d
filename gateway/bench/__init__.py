# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures real calls at the ear: simulated phones, the demo, the latency bench."""
