# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs and counters. Watches, touches nothing."""
