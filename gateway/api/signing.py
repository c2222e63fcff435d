# SPDX-License-Identifier: GPL-3.0-or-later
"""How a webhook is signed, after the Standard Webhooks specification (https://www.standardwebhooks.com). Pure.

The signature covers id, time and body, so nobody can change the body, repeat the message later, or pass it off as
another one. Receivers compare in constant time, refuse what is older than five minutes, and take an id once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

_PREFIX = "whsec_"


def signing_key(secret: str) -> bytes:
    """The key: what follows ``whsec_`` is base64, anything else is taken as it is. ValueError for bad base64."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("a secret that begins with whsec_ must go on in base64") from None


def signed_headers(key: bytes, message_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """The headers that prove a message. ``at_s`` is in seconds since 1970."""
    signed = f"{message_id}.{at_s}.".encode() + body
    digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{digest}"}
