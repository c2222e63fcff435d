# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines that recognise, translate and speak; where their models come from; and who runs them when."""
