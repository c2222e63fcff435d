# SPDX-License-Identifier: GPL-3.0-or-later
"""SRTP of our own (RFC 3711: AES_CM_128_HMAC_SHA1_80), so that the roll-over counter is in the test's hands."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
import time

import numpy as np
from numpy.typing import NDArray
from sip_peer import Packet, RtpSocket

Bytes = NDArray[np.uint8]
TAG_BYTES = 10


def _double(value: int) -> int:
    return ((value << 1) ^ (0x1B if value & 0x80 else 0)) & 0xFF


def _sbox() -> list[int]:
    """FIPS 197, section 5.1.1: walks the field by its generator 3, and by 3's inverse beside it."""
    box, p, q = [0x63] * 256, 1, 1
    while True:
        p ^= _double(p)
        for shift in (1, 2, 4):
            q = (q ^ (q << shift)) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        turned = [((q << n) | (q >> (8 - n))) & 0xFF for n in range(5)]
        box[p] = turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63
        if p == 1:
            return box


SBOX = np.array(_sbox(), np.uint8)
DOUBLE = np.array([_double(value) for value in range(256)], np.uint8)
SHIFTED_ROWS = np.array([(4 * (column + row) + row) % 16 for column in range(4) for row in range(4)])


class Aes128:
    """The cipher over many blocks at once."""

    def __init__(self, key: bytes) -> None:
        words, constant = [list(key[at : at + 4]) for at in range(0, 16, 4)], 1
        for at in range(4, 44):
            word = words[at - 1]
            if at % 4 == 0:
                word = [int(SBOX[byte]) for byte in (*word[1:], word[0])]
                word[0] ^= constant
                constant = _double(constant)
            words.append([one ^ other for one, other in zip(words[at - 4], word, strict=True)])
        self._keys = np.array(words, np.uint8).reshape(11, 16)

    def encrypt(self, blocks: Bytes) -> Bytes:
        """Blocks as rows of 16."""
        state = blocks ^ self._keys[0]
        for number in range(1, 11):
            state = SBOX[state][:, SHIFTED_ROWS]
            if number < 10:
                column = state.reshape(-1, 4, 4)
                next_one = np.roll(column, -1, axis=2)
                all_four = np.bitwise_xor.reduce(column, axis=2, keepdims=True)
                state = (column ^ all_four ^ DOUBLE[column ^ next_one]).reshape(-1, 16)
            state = state ^ self._keys[number]
        return state

    def stream(self, first: int, size: int) -> bytes:
        """The key stream that counts up from a 128-bit block (RFC 3711 section 4.1.1)."""
        counters = b"".join((first + n).to_bytes(16, "big") for n in range(-(-size // 16)))
        return self.encrypt(np.frombuffer(counters, np.uint8).reshape(-1, 16)).tobytes()[:size]


class Crypto:
    """One direction's keys: protects and opens packets whose 48-bit index is given."""

    def __init__(self, inline: str) -> None:
        master = base64.b64decode(inline)
        cipher, salt = Aes128(master[:16]), int.from_bytes(master[16:30], "big")

        def derive(label: int, size: int) -> bytes:
            return cipher.stream((salt ^ (label << 48)) << 16, size)

        self._cipher, self._auth, self._salt = (
            Aes128(derive(0, 16)),
            derive(1, 20),
            int.from_bytes(derive(2, 14), "big"),
        )

    def _crypt(self, payload: bytes, ssrc: int, index: int) -> bytes:
        key = self._cipher.stream((self._salt << 16) ^ (ssrc << 64) ^ (index << 16), len(payload))
        return (np.frombuffer(payload, np.uint8) ^ np.frombuffer(key, np.uint8)).tobytes()

    def _tag(self, packet: bytes, index: int) -> bytes:
        return hmac.digest(self._auth, packet + struct.pack("!I", index >> 16), hashlib.sha1)[:TAG_BYTES]

    def protect(self, head: bytes, payload: bytes, ssrc: int, index: int) -> bytes:
        """The packet on the wire."""
        packet = head + self._crypt(payload, ssrc, index)
        return packet + self._tag(packet, index)

    def open(self, packet: Packet, roll_over: int) -> bytes | None:
        """The payload of a received packet; None when it is not authentic with this roll-over counter."""
        index = (roll_over << 16) | packet.seq
        kind = packet.payload_type | (0x80 if packet.marker else 0)
        head = struct.pack("!BBHII", 0x80, kind, packet.seq, packet.timestamp, packet.ssrc)
        sealed, tag = packet.payload[:-TAG_BYTES], packet.payload[-TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(head + sealed, index)):
            return None
        return self._crypt(sealed, packet.ssrc, index)


def key_in(sdp: str) -> Crypto:
    """The keys that an SDP names for what its sender sends."""
    found = re.search(r"a=crypto:\d+ AES_CM_128_HMAC_SHA1_80 inline:([A-Za-z0-9+/=]+)", sdp)
    assert found, sdp
    return Crypto(found[1])


class SecureRtpSocket(RtpSocket):
    """Sends encrypted, with the roll-over counter that the sequence numbers ask for."""

    def __init__(self, crypto: Crypto, first_seq: int) -> None:
        super().__init__()
        self._crypto = crypto
        self.roll_over = 0
        self.seq = first_seq

    def send(
        self, to: tuple[str, int], payload: bytes, kind: int = 0, *, marker: bool = False, step: int = 160
    ) -> None:
        head = struct.pack("!BBHII", 0x80, kind | (0x80 if marker else 0), self.seq, self.timestamp, self.ssrc)
        index = (self.roll_over << 16) | self.seq
        self.sent_ns.append(time.monotonic_ns())
        self.socket.sendto(self._crypto.protect(head, payload, self.ssrc, index), to)
        self.seq = (self.seq + 1) & 0xFFFF
        self.roll_over += self.seq == 0
        self.timestamp = (self.timestamp + step) & 0xFFFFFFFF
