# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings' term list, looked at again and again: editing the file changes the calls that live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.call.glossary import load_glossary

Stamp = tuple[int, int, int]


class GlossaryFile:
    """A file and what it looked like when it was last read. Blocking: use it from a thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Stamp | None = None

    def read(self) -> dict[str, Any]:
        """Its document. GlossaryError when it cannot be used."""
        self._seen = self._stamp()
        return load_glossary(self.path)

    def news(self) -> dict[str, Any] | None:
        """Its document if it was changed since the last look, else None; a fault of the file is raised once."""
        stamp = self._stamp()
        return None if stamp is None or stamp == self._seen else self.read()

    def _stamp(self) -> Stamp | None:
        """None while it is away: editors write a new file and rename it."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
