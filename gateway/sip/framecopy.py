# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes into and out of pjsua2's frames, by the fastest way that this build has and that was seen to work.

A frame's buffer is a ``std::vector<unsigned char>``. Reading it element by element takes 360 µs for 20 ms of sound,
more than a whole leg may cost. The gateway's own build (scripts/build-pjsua2) hands the bytes over in one step,
0.1 µs; for others the vector's begin and end pointers are read (2 µs). That relies on the usual layout of a vector, so
it is tried on a known pattern first. PJSIP's own helpers, ``copy_to_bytearray`` and ``assign_from_bytes``, touch
Python objects without the interpreter's lock in 2.17 and are left alone.
A frame longer than asked crashes the process: writers never exceed ``frame.size``.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import pjsua2 as pj
import structlog

log = structlog.get_logger(__name__)

_POINTERS = ctypes.c_void_p * 2
_PATTERN = bytes((i * 7 + 3) & 0xFF for i in range(320))


class FrameCopy(Protocol):
    """Reads and writes the bytes of a pjsua2 media frame. One instance for each port: writers keep a buffer."""

    name: str

    def read(self, frame: Any) -> bytes:
        """The frame's bytes, at most ``frame.size``."""

    def write(self, frame: Any, pcm: bytes) -> None:
        """Put sound in the frame; what exceeds ``frame.size`` is cut."""


class DirectCopy:
    """With the frame's own methods, which the gateway's build adds."""

    name = "direct"

    def read(self, frame: Any) -> bytes:
        pcm: bytes = frame.read_bytes()
        return pcm

    def write(self, frame: Any, pcm: bytes) -> None:
        frame.write_bytes(pcm)


class PointerCopy:
    """Through the vector's own pointers."""

    name = "pointers"

    def __init__(self) -> None:
        self._vector = pj.ByteVector()
        self._vector_begin = 0
        self._vector_size = 0

    def read(self, frame: Any) -> bytes:
        begin, end = _POINTERS.from_address(int(frame.buf.this))
        if not begin or not end:
            return b""
        return ctypes.string_at(begin, min(end - begin, frame.size))

    def write(self, frame: Any, pcm: bytes) -> None:
        size = min(len(pcm), frame.size)
        if size != self._vector_size:
            self._vector = pj.ByteVector(size)
            begin, end = _POINTERS.from_address(int(self._vector.this))
            if size and (not begin or not end or end - begin != size):
                raise RuntimeError("the vector's layout is not the one that was verified")
            self._vector_begin, self._vector_size = begin or 0, size
        if size:
            ctypes.memmove(self._vector_begin, pcm, size)
        frame.buf = self._vector
        frame.size = size


class IteratorCopy:
    """Element by element: works with every build and costs too much for more than a leg or two."""

    name = "iterator"

    def read(self, frame: Any) -> bytes:
        return bytes(frame.buf)[: frame.size]

    def write(self, frame: Any, pcm: bytes) -> None:
        size = min(len(pcm), frame.size)
        frame.buf = pj.ByteVector(list(pcm[:size]))
        frame.size = size


def works(copy: FrameCopy) -> bool:
    """Whether a way carries a known pattern unchanged, in both directions, cuts, and survives an empty frame."""
    try:
        frame = pj.MediaFrame()
        frame.size = 0
        if copy.read(frame) != b"":
            return False
        frame.size = len(_PATTERN)
        copy.write(frame, _PATTERN + b"too long")
        if bytes(frame.buf) != _PATTERN or frame.size != len(_PATTERN) or copy.read(frame) != _PATTERN:
            return False
        copy.write(frame, _PATTERN[:100])
        return bytes(frame.buf) == _PATTERN[:100] and copy.read(frame) == _PATTERN[:100]
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return False


def choose_copy() -> type[DirectCopy] | type[PointerCopy] | type[IteratorCopy]:
    """The fastest way that works here. The slow one is said aloud, once for each start."""
    if hasattr(pj.MediaFrame, "read_bytes") and works(DirectCopy()):
        return DirectCopy
    # A vector is three pointers (begin, end, end of storage) in libstdc++ and libc++ alike: judged by a vector
    # whose size is known before anything is written through a pointer.
    probe = pj.ByteVector(len(_PATTERN))
    begin, end = _POINTERS.from_address(int(probe.this))
    if begin and end and end - begin == len(_PATTERN) and works(PointerCopy()):
        return PointerCopy
    log.warning("slow_frame_copy", remedy="run: make pjsua2")
    return IteratorCopy
