# SPDX-License-Identifier: GPL-3.0-or-later
"""What a command says when it cannot do its work: one line that names the remedy, and exit status 1."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from gateway.api.server import ApiError
from gateway.api.tokens import TokenError
from gateway.audio.errors import AudioFormatError
from gateway.call.delivery import StyleError
from gateway.call.dialplan import DialPlanError
from gateway.call.glossary_document import GlossaryError
from gateway.call.prompts import PromptError
from gateway.settings import SettingsError
from gateway.sip.errors import SipError
from gateway.speech.errors import SpeechError
from gateway.state.errors import StateUnavailable

KNOWN = (
    ApiError,
    AudioFormatError,
    DialPlanError,
    PromptError,
    SettingsError,
    SipError,
    SpeechError,
    StyleError,
    StateUnavailable,
    GlossaryError,
    TokenError,
)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn the rooms' own errors into a line on standard error and exit status 1; anything else is a bug and shows."""
    try:
        yield
    except KNOWN as error:
        typer.echo(f"gateway: {error}", err=True)
        raise typer.Exit(1) from None
