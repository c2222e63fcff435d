# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kamailio with the shipped recipe, on a port of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from sip_harness import free_port, until

RECIPE = Path(__file__).parents[2] / "dialplans" / "kamailio" / "kamailio.cfg"
PASSWORD = "s3cret-of-the-test"


class Kamailio:
    """Runs inside ``with``; the test is skipped where Kamailio is not installed."""

    def __init__(self, work: Path, *gateway_ports: int) -> None:
        program = shutil.which("kamailio")
        if program is None:
            pytest.skip("kamailio is missing: apt-get install kamailio")
        self.port = free_port()
        self._work = work / f"kamailio-{self.port}"
        self._program = program
        self._gateway_ports = gateway_ports or (9,)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"sip:127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._work.mkdir()
        text = RECIPE.read_text()
        for old, new in (
            ("127.0.0.1:5060", f"127.0.0.1:{self.port}"),
            ("/etc/kamailio/dispatcher.list", f"{self._work}/dispatcher.list"),
            ("change-me", PASSWORD),
        ):
            assert old in text
            text = text.replace(old, new)
        gateways = "".join(f"1 sip:127.0.0.1:{port}\n" for port in self._gateway_ports)
        (self._work / "dispatcher.list").write_text(gateways)
        config = self._work / "kamailio.cfg"
        config.write_text(text)
        self._log = (self._work / "log").open("wb")
        self._process = subprocess.Popen(
            [
                *(self._program, "-f", str(config), "-DD", "-E", "-m", "16", "-M", "4"),
                *("-Y", str(self._work), "-P", f"{self._work}/pid"),
            ],
            stdout=self._log,
            stderr=self._log,
        )
        assert until(lambda: f":{self.port:04X} " in Path("/proc/net/udp").read_text(), 10), self.log()
        return self

    def log(self) -> str:
        return (self._work / "log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(10)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._log.close()
