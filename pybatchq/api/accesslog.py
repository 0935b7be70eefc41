"""The access log of a busy API: requests are kept as they end, and their lines written together.

What a line says is what any other record of `pybatchq.logs` would say; to a terminal it goes that
way. In a service no record is made of a request: that alone is half of what its line costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
from datetime import UTC, datetime
from functools import lru_cache
from time import time
from typing import Any, Final, NamedTuple

import msgspec

from pybatchq.logs import Format

FLUSH_EVERY_S: Final = 0.05
MOST_LINES: Final = 500

_PLAIN = re.compile(r"[\w.:/@+,%~\[\]-]*", re.ASCII)

access: Final = logging.getLogger("pybatchq.access")


class Line(NamedTuple):
    """A request that was answered: the fields of its line. A tuple costs the least."""

    method: str
    path: str
    status: int
    took_ms: float
    request_id: str
    remote: str | None


class _Handler(logging.Handler):
    """Lines of one thread, the loop's. What else is logged under the name goes where all goes."""

    def __init__(self, fmt: Format) -> None:
        super().__init__()
        self._text = _json if fmt == "json" else _pretty
        self._lines: list[tuple[float, Line]] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.flush()
        logging.getLogger().handle(record)

    def add(self, line: Line) -> None:
        self._lines.append((time(), line))
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
                sys.stderr.write("".join([self._text(at, line) for at, line in lines]))
                sys.stderr.flush()


_installed: list[_Handler] = []


def install(fmt: Format) -> logging.Handler | None:
    """Take over the lines of requests in the running loop; None on a terminal."""
    if sys.stderr.isatty():
        return None
    handler = _Handler(fmt)
    access.addHandler(handler)
    access.propagate = False
    _installed[:] = [handler]
    return handler


def remove(handler: logging.Handler | None) -> None:
    """Write what is left, and leave the rest to whoever had it before."""
    if handler is not None:
        _installed.clear()
        access.removeHandler(handler)
        access.propagate = True
        handler.flush()


def note(line: Line) -> None:
    """Log a request."""
    if access.isEnabledFor(logging.INFO):
        if _installed:
            _installed[0].add(line)
        else:
            access.info("request", extra=line._asdict())


@lru_cache(maxsize=1)  # of many lines in a row it is the same
def _utc(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(maxsize=1)
def _local(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000)  # noqa: DTZ006  # local, as all lines are
    return moment.isoformat(" ", "milliseconds")


def _json(at: float, line: Line) -> str:
    entry: dict[str, Any] = {
        "ts": _utc(int(at * 1000)),
        "level": "info",
        "logger": access.name,
        "message": "request",
        **line._asdict(),
    }
    return msgspec.json.encode(entry).decode() + "\n"


def _pretty(at: float, line: Line) -> str:
    method, path, status, took_ms, request_id, remote = line
    if not _PLAIN.fullmatch(f"{method}{path}{request_id}{remote}"):
        method, path, request_id = _shown(method), _shown(path), _shown(request_id)
    return (
        f"{_local(int(at * 1000))} INFO request method={method} path={path}"
        f" status={status} took_ms={took_ms} request_id={request_id} remote={_shown(remote)}\n"
    )


def _shown(value: str | None) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(text).decode()
