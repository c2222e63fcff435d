# SPDX-License-Identifier: GPL-3.0-or-later
"""The control API: calls, dictionaries, events, metrics over HTTP. It watches and asks; calls never wait for it."""
