"""The access log of a busy API: many lines written at once, each made with little ado.

What a line says is what any other record of `pybatchq.logs` would say; to a terminal it goes that
way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pybatchq.logs import Format

FLUSH_EVERY_S: Final = 0.05
MOST_LINES: Final = 1_000
FIELDS: Final = ("method", "path", "status", "took_ms", "request_id", "remote")

_PLAIN = re.compile(r"[\w.:/@+,%~\[\]-]*", re.ASCII)

access: Final = logging.getLogger("pybatchq.access")


def install(fmt: Format) -> logging.Handler | None:
    """Take over the lines of `pybatchq.access` in the running loop; None on a terminal."""
    if sys.stderr.isatty():
        return None
    handler = _Handler(fmt)
    access.addHandler(handler)
    access.propagate = False
    return handler


def remove(handler: logging.Handler | None) -> None:
    """Write what is left, and leave the rest to whoever had it before."""
    if handler is not None:
        access.removeHandler(handler)
        access.propagate = True
        handler.flush()


def note(fields: dict[str, Any]) -> None:
    """Log a request. As access.info, but for its search for the line that called it: this one."""
    if access.isEnabledFor(logging.INFO):
        access.handle(
            access.makeRecord(
                access.name, logging.INFO, __file__, 0, "request", (), None, extra=fields
            )
        )


class _Handler(logging.Handler):
    """Records of one thread, the loop's."""

    def __init__(self, fmt: Format) -> None:
        super().__init__()
        self._made = _json if fmt == "json" else _pretty
        self._lines: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock: there is one thread."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno != logging.INFO:
            self.flush()
            logging.getLogger().handle(record)
            return
        self._lines.append(self._made(record))
        if self._timer is None:
            self._timer = self._loop.call_later(FLUSH_EVERY_S, self.flush)
        elif len(self._lines) >= MOST_LINES:
            self.flush()

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            with contextlib.suppress(OSError):  # nobody reads it any longer
                sys.stderr.write("".join(lines))
                sys.stderr.flush()


def _json(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    entry = {
        "ts": at.replace("+00:00", "Z"),
        "level": "info",
        "logger": record.name,
        "message": record.msg,
    }
    values = record.__dict__
    entry |= {name: values[name] for name in FIELDS}
    return msgspec.json.encode(entry).decode() + "\n"


def _pretty(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created)  # noqa: DTZ006  # local, as all lines are
    values = record.__dict__
    fields = "".join(f" {name}={_shown(values[name])}" for name in FIELDS)
    return f"{at.isoformat(' ', 'milliseconds')} INFO {record.msg}{fields}\n"


def _shown(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(text).decode()
