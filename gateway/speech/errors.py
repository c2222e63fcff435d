# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong in the speech room, in words that name the remedy."""

from __future__ import annotations


class SpeechError(Exception):
    """Base of all errors of this room."""


class ModelMissing(SpeechError):
    """A model is not in the store, or its bytes are not those of the manifest."""


class QueueFull(SpeechError):
    """The scheduler's bound is reached; the task was not accepted."""


class WorkerLost(SpeechError):
    """The worker died or was closed while the task ran, and the one resubmission failed too."""


class TaskFailed(SpeechError):
    """The engine raised; the message carries its type and text."""


class EngineMissing(ModelMissing):
    """An optional engine is not installed."""


class UnsafeModel(SpeechError):
    """A model holds a file that could run code when it is loaded."""


class LicenceNotAccepted(SpeechError):
    """A model may be used under conditions that the settings do not accept."""
