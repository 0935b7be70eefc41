"""The one connection of the view: what it shows, asked for again and again, and what it does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
import psycopg

from pybatchq import calls
from pybatchq.cli._common import EXIT_UNREACHABLE, CliError, as_cli_error, is_lost
from pybatchq.connections import Connector
from pybatchq.errors import BatchqError
from pybatchq.live import Live, LiveJob
from pybatchq.rates import WatchedQueue, summed, watched

P = ParamSpec("P")
R = TypeVar("R")

AWAY = "database away, trying again"
# What looking takes from the server: a twentieth of a core at most.
REST = 20
SILENCE_S = 15.0
CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Picture:
    """All of one moment. `total`: None where there are no queues."""

    live: Live
    queues: list[WatchedQueue]
    total: WatchedQueue | None

    @classmethod
    def of(cls, live: Live) -> Picture:
        queues = watched(live.queues, live.rates)
        return cls(live, queues, summed(queues) if queues else None)

    def queue(self, name: str) -> WatchedQueue | None:
        return next((queue for queue in self.queues if queue.queue == name), None)

    def job(self, job_id: int) -> LiveJob | None:
        return next((job for job in self.live.jobs if job.job_id == job_id), None)


class Feed:
    """Keeps a picture, from `first` on. `changed` is called with each new one, and with trouble.

    `watched`: jobs that are part of the next picture. `trouble`: why the picture is an old one.
    """

    def __init__(
        self, dsn: str, first: Live, *, every_s: float, changed: Callable[[], None]
    ) -> None:
        self.picture = Picture.of(first)
        self.trouble: str | None = None
        self.watched: set[int] = set()
        self._connector = Connector(dsn, str(os.getpid()), program="batchq top")
        self._every_s = every_s
        self._changed = changed
        self._next_at = monotonic() + every_s
        self._conn: calls.Connection | None = None

    async def run(self) -> None:
        """Until it is cancelled, over any number of connections."""
        while True:
            conn = await self._connector.connect("live")
            self._conn = conn
            try:
                await self._look(conn)
            finally:
                self._conn = None
                await _close(conn)

    async def call(
        self,
        function: Callable[Concatenate[calls.Connection, P], Coroutine[Any, Any, R]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        """A call in between; CliError while the database is away."""
        if self._conn is None:
            raise CliError(AWAY, exit_code=EXIT_UNREACHABLE)
        return await function(self._conn, *arguments, **named)

    async def _look(self, conn: calls.Connection) -> None:
        """Until the connection is lost."""
        while True:
            await asyncio.sleep(max(self._next_at - monotonic(), 0))
            began = monotonic()
            try:
                async with asyncio.timeout(SILENCE_S):
                    live = await calls.live(conn, job_ids=sorted(self.watched))
            except (psycopg.Error, BatchqError, TimeoutError) as error:
                told = as_cli_error(error)
                is_away = told is None or conn.closed or _is_lost(error)
                self.trouble = AWAY if is_away or told is None else told.message
                if is_away:
                    self._next_at = began + self._every_s
                    self._changed()
                    return
            except msgspec.DecodeError as error:  # another version of the schema by now
                self.trouble = f"the answer cannot be read: {error}"
            else:
                self.picture, self.trouble = Picture.of(live), None
            self._next_at = began + max(self._every_s, REST * (monotonic() - began))
            self._changed()


def _is_lost(error: Exception) -> bool:
    return isinstance(error, psycopg.Error) and is_lost(error)


async def _close(conn: calls.Connection) -> None:
    """A server that is gone may not be waited for."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await conn.close()
    except (psycopg.Error, TimeoutError):
        pass
