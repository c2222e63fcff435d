# SPDX-License-Identifier: GPL-3.0-or-later
"""L02: own G.711 tables, checked against values of the standard and its decision rules."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.bench import g711

pytestmark = pytest.mark.unit

# ITU-T G.711 tables 1a and 2a, in the 16-bit scale of G.191
ULAW = {
    0x00: -32124,
    0x01: -31100,
    0x0F: -16764,
    0x10: -15996,
    0x7E: -8,
    0x7F: 0,
    0x80: 32124,
    0xF0: 120,
    0xFE: 8,
    0xFF: 0,
}
ALAW = {0x00: -5504, 0x2A: -32256, 0x2B: -31232, 0x55: -8, 0x80: 5504, 0xAA: 32256, 0xD5: 8, 0xD4: 24, 0xC5: 264}


@pytest.mark.parametrize(("codec", "table"), [("PCMU", ULAW), ("PCMA", ALAW)])
def test_l02_decoder_values_of_the_standard(codec: str, table: dict[int, int]) -> None:
    assert g711.decode(codec, bytes(table)).tolist() == list(table.values())


@pytest.mark.parametrize(
    ("codec", "sample", "code"),
    [
        ("PCMU", 0, 0xFF),
        ("PCMU", -1, 0x7F),
        ("PCMU", 32767, 0x80),
        ("PCMU", -32768, 0x00),
        ("PCMU", 1000, 0xCE),
        ("PCMU", -1000, 0x4E),
        ("PCMA", 0, 0xD5),
        ("PCMA", -1, 0x55),
        ("PCMA", 32767, 0xAA),
        ("PCMA", -32768, 0x2A),
        ("PCMA", 1000, 0xFA),
        ("PCMA", -1000, 0x7A),
    ],
)
def test_l02_encoder_values(codec: str, sample: int, code: int) -> None:
    assert g711.encode(codec, np.array([sample], np.int16)) == bytes([code])


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_l02_every_code_survives_the_round_trip(codec: str) -> None:
    codes = bytes(range(256))
    again = g711.encode(codec, g711.decode(codec, codes))
    # the two zeros of mu-law are one number: 0x7F comes back as 0xFF
    assert [code for code in codes if again[code] != code] == ([0x7F] if codec == "PCMU" else [])


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_l02_encoder_takes_the_decision_interval_of_its_code(codec: str) -> None:
    """G.711 puts each value in the middle of its two decision values: a code that is off by one cannot do that."""
    samples = np.arange(-32768, 32768).astype(np.int16)
    codes = np.frombuffer(g711.encode(codec, samples), np.uint8)
    assert len(np.unique(codes)) == 256
    values = g711.decode(codec, bytes(range(256))).astype(int)
    for code in range(256):
        if abs(values[code]) != abs(values).max():  # the outermost take all that is clipped
            taken = samples[codes == code].astype(int)
            assert len(taken) == taken[-1] - taken[0] + 1
            assert abs((taken[0] + taken[-1]) / 2 - values[code]) <= 3  # the laws decide on 14 and 13 bits


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_l02_speech_level_tone_keeps_its_signal_to_noise_ratio(codec: str) -> None:
    tone = (6000 * np.sin(2 * np.pi * 1020 * np.arange(8000) / 8000)).astype(np.int16)
    noise = g711.decode(codec, g711.encode(codec, tone)).astype(np.float64) - tone
    # G.712 asks for 33 dB at this level
    assert 10 * np.log10(np.mean(tone.astype(np.float64) ** 2) / np.mean(noise**2)) > 33
