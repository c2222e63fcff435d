# SPDX-License-Identifier: GPL-3.0-or-later
"""Log set-up: one line an event, personal data left out unless asked for (SPEC C6; CASES K07, K08).

Everything that logs ends in the same handler on stderr: structlog's loggers, the standard library's, and warnings.
The privacy rule is one processor before the renderer, so that no path leads around it:

- keys that begin with ``pii.`` are dropped, at any depth;
- other libraries speak from WARNING on only: their chatter may quote what was said on the phone;
- tracebacks show code, never the values of variables.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

PII_PREFIX = "pii."
_OURS = "gateway"

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]


def configure_logging(level: Level = "info", fmt: Format = "auto", pii: bool = False) -> None:
    """Send all logs of this process to stderr; may be called again, also in a worker process.

    ``fmt`` auto is console on a terminal and JSON otherwise. ``pii`` lets personal data through.
    """
    stream = sys.stderr
    console = fmt == "console" or (fmt == "auto" and stream.isatty())
    shared = _shared_processors(pii)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # module-level loggers must follow a later call
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _without_echo, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(console, stream)],
        )
    )
    if not pii:
        handler.addFilter(_quiet_libraries)
    root = logging.getLogger()
    for old in [old for old in root.handlers if getattr(old, "_of_gateway", False)]:
        root.removeHandler(old)
    handler._of_gateway = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.captureWarnings(True)


@contextmanager
def call_context(call: str, leg: str | None = None) -> Iterator[None]:
    """Put the ids of the call, and of the leg, on every line logged inside, also by tasks started there."""
    ids = {"call": call} if leg is None else {"call": call, "leg": leg}
    with structlog.contextvars.bound_contextvars(**ids):
        yield


def drop_pii(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Take out personal data, at any depth."""
    return {key: _without_pii(value) for key, value in event.items() if not _is_pii(key)}


def _without_echo(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Another handler's formatter leaves its result on the record, where it looks like a field of its own."""
    event.pop("message", None)
    event.pop("asctime", None)
    return event


def _is_pii(key: object) -> bool:
    return isinstance(key, str) and key.startswith(PII_PREFIX)


def _without_pii(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_pii(item) for key, item in value.items() if not _is_pii(key)}
    if type(value) in (list, tuple):
        return type(value)(map(_without_pii, value))
    return value


def _shared_processors(pii: bool) -> list[Processor]:
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    return processors if pii else [*processors, drop_pii]


def _renderers(console: bool, stream: TextIO) -> list[Processor]:
    if console:
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]


def _quiet_libraries(record: logging.LogRecord) -> bool:
    """Whether a record may be shown: all of ours, warnings and worse of others."""
    return record.levelno >= logging.WARNING or record.name.split(".", 1)[0] == _OURS
