# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be wrong with sound. Each message names the thing at fault and what to do about it."""

from __future__ import annotations


class AudioFormatError(ValueError):
    """The sound is not in the form it must have here: wrong type, rate, shape, or a label that lies."""


class ResampleError(RuntimeError):
    """Resampling failed. The sound of this call to feed is dropped: what was not resampled never passes (B26)."""
