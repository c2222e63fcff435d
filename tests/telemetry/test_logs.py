# SPDX-License-Identifier: GPL-3.0-or-later
"""What reaches the log, and what must not (CASES K07, K08)."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from gateway.telemetry.logs import Format, call_context, configure_logging

pytestmark = pytest.mark.unit

CANARY = "+15550147"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.setLevel(level)
    root.handlers[:] = handlers


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def leak() -> None:
    """Log the canary in every way that is allowed to hold personal data."""
    log = structlog.get_logger("gateway.call")
    number = CANARY
    log.info("flat", **{"pii.number": number, "kept": 1})
    log.info("nested", legs=[{"pii.number": number, "leg": "a"}], party={"x": ({"pii.text": number},)})
    log.bind(**{"pii.text": number}).warning("bound")
    with structlog.contextvars.bound_contextvars(**{"pii.text": number}):
        log.info("context")
    logging.getLogger("gateway.sip").warning("stdlib", extra={"pii.number": number})
    logging.getLogger("somelib").info("heard: %s", number)
    try:
        raise RuntimeError("fault")
    except RuntimeError:
        log.exception("failed", **{"pii.number": number})
        logging.getLogger("gateway.sip").exception("failed", extra={"pii.number": number})


@pytest.mark.parametrize("fmt", ["json", "console", "auto"])
def test_k07_k08_canary_stays_out_by_default(capsys: pytest.CaptureFixture[str], fmt: Format) -> None:
    configure_logging("debug", fmt)
    leak()
    written = capsys.readouterr()
    assert CANARY not in written.err + written.out
    for event in ("flat", "nested", "bound", "context", "stdlib", "failed", "RuntimeError: fault"):
        assert event in written.err


def test_k07_canary_is_there_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "json", pii=True)
    leak()
    assert capsys.readouterr().err.count(CANARY) == 9


def test_json_line_holds_level_name_time_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    structlog.get_logger("gateway.x").info("call_up", n=1, word="olá", odd=object)
    (line,) = lines(capsys)
    assert {key: line[key] for key in ("event", "level", "logger", "n", "word")} == {
        "event": "call_up",
        "level": "info",
        "logger": "gateway.x",
        "n": 1,
        "word": "olá",
    }
    assert line["timestamp"].endswith("Z")
    assert datetime.fromisoformat(line["timestamp"]).utcoffset() == timedelta(0)


def test_stdlib_and_warnings_take_the_same_path(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    logging.getLogger("somelib.part").warning("it is %d", 7)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old way", DeprecationWarning, stacklevel=1)
    one, two = lines(capsys)
    assert (one["event"], one["logger"], one["level"]) == ("it is 7", "somelib.part", "warning")
    assert "old way" in two["event"]


def test_exceptions_are_one_line_without_values_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    secret = CANARY
    try:
        raise ValueError("fault" + secret[:0])
    except ValueError:
        structlog.get_logger("gateway.x").exception("failed")
    (line,) = lines(capsys)
    assert "ValueError: fault" in line["exception"]
    assert CANARY not in json.dumps(line)


def test_level_is_obeyed_and_set_up_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("gateway.x")
    configure_logging("debug", "json")
    log.debug("one")
    configure_logging("error", "json")
    log.warning("two")
    log.error("three")
    assert [line["event"] for line in lines(capsys)] == ["one", "three"]


def test_call_and_leg_are_on_every_line_inside(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    log = structlog.get_logger("gateway.x")
    with call_context("c1"):
        with call_context("c1", "a"):
            log.info("in_leg")
            logging.getLogger("gateway.y").info("in_leg_stdlib")
        log.info("in_call")
    log.info("outside")
    assert [(line.get("call"), line.get("leg")) for line in lines(capsys)] == [
        ("c1", "a"),
        ("c1", "a"),
        ("c1", None),
        (None, None),
    ]


def test_auto_is_json_when_nobody_looks() -> None:
    code = "from gateway.telemetry.logs import *; configure_logging(); structlog.get_logger('gateway').info('up')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stderr)["event"] == "up"
