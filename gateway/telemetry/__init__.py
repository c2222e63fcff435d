# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs. Watches, touches nothing."""
