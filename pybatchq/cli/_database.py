"""One connection, used call by call from plain code."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import click
import psycopg

from pybatchq import calls
from pybatchq.cli._common import (
    CONNECT_TIMEOUT_S,
    EXIT_UNREACHABLE,
    CliError,
    chosen_dsn,
    connect,
    is_lost,
)

P = ParamSpec("P")
R = TypeVar("R")
Conn = psycopg.AsyncConnection[tuple[Any, ...]]

RECONNECT_FOR_S = 60.0
RECONNECT_EVERY_S = 0.5


class Database:
    """The database a command works on, while it is entered.

    Each call has the event loop to itself for as long as it takes. In between, questions, reading
    of stdin, sleep and Ctrl-C are those of any plain program; Ctrl-C in a call cancels the
    statement.

    `look_until`: by the monotonic clock, when `look` ends its patience; inf: after a minute.
    """

    def __init__(
        self,
        dsn: str | None,
        *,
        autocommit: bool = True,
        connect_timeout_s: int = CONNECT_TIMEOUT_S,
    ) -> None:
        self._dsn = chosen_dsn(dsn)
        self._autocommit = autocommit
        self._timeout_s = connect_timeout_s
        self._runner = asyncio.Runner()
        self._skew: timedelta | None = None
        self.look_until = math.inf

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._runner.run(self.conn.close())
        finally:
            self._runner.close()

    def _open(self, within_s: float = math.inf) -> None:
        timeout_s = max(math.ceil(min(within_s, self._timeout_s)), 1)
        opening = connect(self._dsn, autocommit=self._autocommit, timeout_s=timeout_s)
        self.conn = self._runner.run(opening)

    @property
    def name(self) -> str:
        return self.conn.info.dbname

    def call(
        self,
        function: Callable[Concatenate[Conn, P], Coroutine[Any, Any, R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        return self._runner.run(function(self.conn, *arguments, **named))

    def look(
        self,
        function: Callable[Concatenate[Conn, P], Coroutine[Any, Any, R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        """As call, for what only reads: when the connection is lost it is made anew for a while."""
        until = 0.0
        while True:
            try:
                if self.conn.closed:
                    self._open((until or self.look_until) - time.monotonic())
                return self.call(function, *arguments, **named)
            except (psycopg.OperationalError, CliError) as error:
                if not _is_unreachable(error):
                    raise
                now = time.monotonic()
                if not until:
                    is_bounded = self.look_until < math.inf
                    until = self.look_until if is_bounded else now + RECONNECT_FOR_S
                    click.echo("batchq: the connection was lost; trying again", err=True)
                if now >= until:
                    raise
            time.sleep(min(RECONNECT_EVERY_S, until - now))

    def now(self) -> datetime:
        """The database's time: asked for once, then counted here."""
        if self._skew is None:
            self._skew = self.look(calls.now) - datetime.now(UTC)
        return datetime.now(UTC) + self._skew

    def moment(self, value: datetime | timedelta | None) -> datetime | None:
        """A point in time of the database; a timedelta is that long ago."""
        if not isinstance(value, timedelta):
            return value
        try:
            return self.now() - value
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)


def _is_unreachable(error: Exception) -> bool:
    if isinstance(error, CliError):
        return error.exit_code == EXIT_UNREACHABLE
    return isinstance(error, psycopg.Error) and is_lost(error)
