# SPDX-License-Identifier: GPL-3.0-or-later
"""What the metrics say about the SIP room."""

from __future__ import annotations

import pytest

from gateway.telemetry.metrics import Meters

pytestmark = pytest.mark.unit


def test_a4_each_registration_is_a_gauge() -> None:
    registrations = {"pbx": {"registered": True}, "spare": {"registered": False}}
    text = Meters(lambda: {"sip": {"registrations": registrations}}).text().decode()
    assert 'gateway_sip_registered{registration="pbx"} 1.0' in text
    assert 'gateway_sip_registered{registration="spare"} 0.0' in text


def test_b11_refused_packets_are_a_counter() -> None:
    assert "gateway_rtp_refused_total 7.0" in Meters(lambda: {"sip": {"rx_refused": 7}}).text().decode()


def test_d07_a_flood_and_what_was_turned_away_are_counted() -> None:
    text = Meters(lambda: {"sip": {"counts": {"refused": 5, "rests": 2}}}).text().decode()
    assert "gateway_sip_refused_total 5.0" in text
    assert "gateway_sip_rests_total 2.0" in text
