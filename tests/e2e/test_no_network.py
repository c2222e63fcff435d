# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole interpreted call where there is no network but loopback: nothing in the product calls home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.sip, pytest.mark.model, pytest.mark.timeout(300)]

# a network namespace of its own has nothing but a loopback interface, which is down at first
ALONE = 'ip link set lo up && test "$(ls /sys/class/net)" = lo && exec "$@"'


def test_s1_17_a_call_is_interpreted_without_any_network(tmp_path: Path) -> None:
    if os.geteuid() or not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("a network namespace needs root, unshare and ip")
    bench = [sys.executable, "-m", "gateway", "bench", "ear", "--turns", "2", "--no-plain", "--json"]
    # a file system of its own, too, so that /sys shows the new namespace's interfaces
    alone = ["unshare", "--net", "--mount", "sh", "-c", f"mount -t sysfs none /sys && {ALONE}", "sh"]
    ran = subprocess.run(
        [*alone, *bench, "--out", str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    report = json.loads(ran.stdout)
    assert report["utterances"] == 2
    assert (report["lost_segments"], report["failed_calls"]) == (0, [])
