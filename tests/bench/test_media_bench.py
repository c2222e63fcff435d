# SPDX-License-Identifier: GPL-3.0-or-later
"""The media bench measures a real media process over loopback; what it computes is checked on made-up arrivals."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import fields

import pytest
from typer.testing import CliRunner

from gateway.bench.media_bench import MediaBenchFailed, MediaFigures, bench_media, free_rtp_range
from gateway.bench.swarm import figures
from gateway.cli import bench_media as bench_media_command
from gateway.cli.app import app

MS = 1_000_000


@pytest.mark.unit
def test_figures_of_even_and_of_late_packets() -> None:
    even = [number * 20 * MS for number in range(101)]
    late = [at + (25 * MS if number == 50 else 0) for number, at in enumerate(even)]
    found = figures([even, late, [5]])
    assert found["packets"] == 203
    assert (found["pps_min"], found["pps_max"]) == (0.0, pytest.approx(50))
    assert found["gap_p50_ms"] == pytest.approx(20)
    assert found["gap_max_ms"] == pytest.approx(45)
    assert figures([[], []])["gap_p99_ms"] == 0.0


@pytest.mark.unit
@pytest.mark.parametrize(("peers_core_pct", "void"), [(69.0, False), (71.0, True)])
def test_l04_a_run_whose_peers_were_too_busy_is_void(
    monkeypatch: pytest.MonkeyPatch, peers_core_pct: float, void: bool
) -> None:
    figure = dict.fromkeys((field.name for field in fields(MediaFigures)), 1.0) | {"peers_core_pct": peers_core_pct}
    found = MediaFigures(**figure)  # type: ignore[arg-type]

    async def measured(*_: object, **__: object) -> MediaFigures:
        return found

    monkeypatch.setattr(bench_media_command, "bench_media", measured)
    done = CliRunner().invoke(app, ["bench", "media", "--json"])
    assert json.loads(done.stdout)["void"] is void
    assert (done.exit_code == 1, "void" in done.stderr) == (void, void)


@pytest.mark.unit
def test_a_range_of_rtp_ports_steps_over_what_is_taken() -> None:
    first = free_rtp_range(4, 41_000)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", first + 3))
        again = free_rtp_range(4, first)
        assert again > first + 3
        assert again % 2 == 0


@pytest.mark.sip
def test_a8_l07_four_legs_send_fifty_packets_a_second_each_and_their_cost_is_measured() -> None:
    found = asyncio.run(bench_media(4, 3.0)).as_json()
    assert found["legs"] == 4
    assert found["pps_mean"] == pytest.approx(50, abs=0.5)
    assert found["gap_p50_ms"] == pytest.approx(20, abs=2)
    assert found["callback_errors"] == 0
    assert 0 < found["core_pct_per_leg"] < 25
    assert 20 < found["rss_mb"] < 300
    assert found["peers_core_pct"] > 0 and not found["void"]


@pytest.mark.sip
def test_more_legs_than_the_library_holds_are_refused_with_the_remedy() -> None:
    with pytest.raises(MediaBenchFailed, match=r"holds \d+ legs, not 513"):
        asyncio.run(bench_media(513, 1.0))
