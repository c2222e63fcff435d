# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong when the user agent starts, in words that name the remedy."""

from __future__ import annotations


class SipError(Exception):
    """Base of all errors of this room."""


class BadSettings(SipError, ValueError):
    """A setting of this room cannot be; the text names it and the remedy."""


class PortTaken(SipError):
    """The SIP port belongs to another process."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(f"port {port} is taken by another process on {address}: stop it or set sip.port")
        self.address = address
        self.port = port


class StartFailed(SipError):
    """The SIP library could not be started; the message carries its own words."""
