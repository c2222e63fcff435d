# SPDX-License-Identifier: GPL-3.0-or-later
"""The only place that imports model libraries; each engine is one file and one registry line."""
