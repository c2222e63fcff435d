# SPDX-License-Identifier: GPL-3.0-or-later
"""Sound as sample-counted frames: resampling, chunking, voice activity, play-out. Knows nothing of SIP or models."""
