# SPDX-License-Identifier: GPL-3.0-or-later
"""Trunks and registrations as people write them, and what the SIP room gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.runtime import sip_settings
from gateway.settings.model import Settings

pytestmark = pytest.mark.unit

EXTENSION = {"name": "pbx", "registrars": ["sip:192.0.2.10"], "user": "700"}
TRUNK = {"name": "carrier", "networks": ["198.51.100.7"]}


def settings(**sip: Any) -> Settings:
    return Settings.model_validate({"sip": sip})


def test_passwords_come_from_files_and_stay_out_of_texts(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    made = sip_settings(
        settings(
            trunks=[
                TRUNK | {"user": "gw", "password_file": str(secret), "max_calls": 3, "addresses": ["sip:198.51.100.7"]}
            ],
            registrations=[EXTENSION | {"password_file": str(secret), "trusted": True, "ping_s": 0}],
        )
    )
    (trunk,), (extension,) = made.trunks, made.registrations
    assert (trunk.addresses, trunk.ping_s, extension.ping_s) == (("sip:198.51.100.7",), 60, 0)
    assert trunk.login is not None and (trunk.login.user, trunk.login.password, trunk.max_calls) == ("gw", "s3cret", 3)
    assert (extension.password, extension.trusted) == ("s3cret", True)
    assert extension.address_of_record == "sip:700@192.0.2.10"
    assert "s3cret" not in repr(made)


def test_a_password_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ValueError, match=r"sip\.registrations 'pbx': password_file .*missing cannot be read"):
        sip_settings(settings(registrations=[EXTENSION | {"password_file": str(missing)}]))


@pytest.mark.parametrize(
    ("sip", "word"),
    [
        ({"registrations": [EXTENSION]}, "password_file"),
        ({"registrations": [EXTENSION | {"password": "a", "password_file": "/b"}]}, "password_file"),
        ({"trunks": [TRUNK | {"user": "gw"}]}, "user"),
        ({"trunks": [TRUNK | {"password": "x"}]}, "user"),
        ({"trunks": [TRUNK | {"addresses": ["198.51.100.7"]}]}, "addresses"),
        ({"trunks": [TRUNK | {"ping_s": -1}]}, "ping_s"),
        ({"trunks": [TRUNK, TRUNK]}, "name of its own"),
        ({"trunks": [TRUNK | {"name": "pbx"}], "registrations": [EXTENSION | {"password": "a"}]}, "name of its own"),
        ({"registrations": [EXTENSION | {"password": "a", "registrars": ["pbx.example"]}]}, "registrars"),
        ({"codecs": ["G722"]}, "media_rate_hz"),
        ({"transports": ["tls"]}, "tls_certificate"),
        ({"tls_verify": True}, "tls_ca"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(sip: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word) as fault:
        settings(**sip)
    assert "password='a'" not in str(fault.value)
