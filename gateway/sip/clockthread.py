# SPDX-License-Identifier: GPL-3.0-or-later
"""A native thread that calls Python again and again keeps what Python knows of it.

Each callback on a thread that Python did not start makes a thread state and destroys it again (PyGILState_Ensure and
_Release). With it goes the frame stack, a mapping of its own: mmap, page faults and munmap at each of a leg's hundred
callbacks a second took 40 % of the media process' time. One more Ensure keeps the state for the thread's life.
"""

from __future__ import annotations

import ctypes
import threading


class ClockThread:
    """Keeps the state of the library's clock thread; there is one while the library runs."""

    def __init__(self) -> None:
        self._kept: set[int] = set()

    def keep(self) -> None:
        """At the beginning of each callback."""
        thread = threading.get_ident()
        if thread not in self._kept:
            self._kept.add(thread)
            ctypes.pythonapi.PyGILState_Ensure()  # never released: that is the point
