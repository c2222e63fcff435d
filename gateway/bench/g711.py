# SPDX-License-Identifier: GPL-3.0-or-later
"""G.711 as tables: 256 decoder values, 65,536 encoder values per law, bit-exact with ITU-T G.191 (``g711.c``).

The tables are computed once from the law's arithmetic; coding a packet is one numpy look-up.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.int16]

_ULAW_BIAS = 33  # G.191 works on 14 bits: 33 of them are the bias of the first segment
_ULAW_CLIP = 0x1FFF


def _ulaw_decoder() -> Pcm:
    code = ~np.arange(256) & 0xFF
    magnitude = ((((code & 0x0F) << 1) + _ULAW_BIAS) << ((code >> 4) & 7)) - _ULAW_BIAS
    return (np.where(code & 0x80, -magnitude, magnitude) * 4).astype(np.int16)


def _ulaw_encoder() -> npt.NDArray[np.uint8]:
    linear = np.arange(65_536).astype(np.uint16).view(np.int16).astype(np.int32)
    # one's complement for negative numbers, as G.191 does: -1 codes like 0
    magnitude = np.minimum((np.where(linear < 0, ~linear, linear) >> 2) + _ULAW_BIAS, _ULAW_CLIP)
    segment = np.floor(np.log2(magnitude)).astype(np.int32) - 5
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0x0F)
    table: npt.NDArray[np.uint8] = (~np.where(linear < 0, code | 0x80, code) & 0xFF).astype(np.uint8)
    return table


def _alaw_decoder() -> Pcm:
    code = np.arange(256) ^ 0x55
    segment = (code >> 4) & 7
    mantissa = (((code & 0x0F) << 1) + 1) << 3
    magnitude = np.where(segment > 0, (mantissa + 0x100) << np.maximum(segment - 1, 0), mantissa)
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _alaw_encoder() -> npt.NDArray[np.uint8]:
    linear = np.arange(65_536).astype(np.uint16).view(np.int16).astype(np.int32)
    magnitude = np.where(linear < 0, ~linear, linear) >> 4
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 3, 1)
    code = np.where(magnitude > 15, (segment << 4) | ((magnitude >> (segment - 1)) & 0x0F), magnitude)
    return (np.where(linear < 0, code, code | 0x80) ^ 0x55).astype(np.uint8)


_DECODERS = {"PCMU": _ulaw_decoder(), "PCMA": _alaw_decoder()}
_ENCODERS = {"PCMU": _ulaw_encoder(), "PCMA": _alaw_encoder()}


def decode(codec: str, payload: bytes) -> Pcm:
    """One byte per sample to int16. ``codec`` is ``PCMU`` or ``PCMA``; KeyError for others."""
    return _DECODERS[codec][np.frombuffer(payload, dtype=np.uint8)]


def encode(codec: str, pcm: Pcm) -> bytes:
    """int16 samples to one byte each."""
    return _ENCODERS[codec][np.ascontiguousarray(pcm, dtype=np.int16).view(np.uint16)].tobytes()
