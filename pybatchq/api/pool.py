"""Database connections of an API process: bounded, shared, and with a deadline for every call.

A call runs in a task of its own, so that neither a client that leaves nor a server that is silent
holds a request up or leaks a connection: after the deadline the server is asked to cancel the
statement, and if it does not answer that either, the connection is cut.

While the server is away it is knocked at by one connection, with growing pauses, and calls are
refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import psycopg
import psycopg_pool

from pybatchq import calls
from pybatchq.api.errors import TimedOutError, unavailable
from pybatchq.calls import Connection
from pybatchq.connections import Connector, Pauses

P = ParamSpec("P")
R = TypeVar("R")

PROGRAM = "batchq-api"
ACQUIRE_S = 2.0
CALL_S = 5.0
CLOSE_S = 2.0
ASK_S = 1.0
# The server was demoted to read-only; a plan no longer fits its tables.
OF_NO_MORE_USE = frozenset({"25006", "0A000"})
MOST_WAITING = 1_000
KEPT_OPEN = 2

log = logging.getLogger("pybatchq")


class Database:
    """The pool of one process, from open() to close(). Calls raise what ends up as an answer."""

    def __init__(
        self, dsn: str, name: str, *, pool_max: int = 10, prepare: bool | None = None
    ) -> None:
        # its own log would tell of every connection it hands out
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        self._name = name
        self._connector = Connector(dsn, name, prepare=prepare, program=PROGRAM)
        self._door = _Door(self._connector)
        self._most = pool_max
        self._pool: psycopg_pool.AsyncConnectionPool[Connection] = psycopg_pool.AsyncConnectionPool(
            # it asks no more of the class than to connect
            connection_class=cast("type[Connection]", self._door),
            min_size=min(KEPT_OPEN, pool_max),
            max_size=pool_max,
            timeout=ACQUIRE_S,
            max_waiting=MOST_WAITING,
            open=False,
        )
        self._calls: set[asyncio.Task[Any]] = set()
        self._lent: set[Connection] = set()
        # their statement may yet be cancelled: it must not be the next one's
        self._given_up: set[Connection] = set()
        self._pauses = Pauses()
        self._renew_at = 0.0
        self._in_trouble = False
        self.renewals = 0  # how often all connections were renewed

    async def open(self) -> None:
        """Begin to connect; does not wait for it."""
        await self._pool.open()

    async def close(self) -> None:
        """Let calls that run end, for a moment, then close everything."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=CLOSE_S)
        for conn in self._lent:
            _cut(conn)
        self._door.close()
        await self._pool.close(timeout=CLOSE_S)

    def connector(self, dsn: str | None = None) -> Connector:
        """Who opens connections that are not of the pool; to another address if there is one."""
        if dsn is None:
            return self._connector
        return Connector(dsn, self._name, program=PROGRAM)

    @property
    def lent(self) -> int:
        """Connections that are in use."""
        return len(self._lent)

    @property
    def is_away(self) -> bool:
        """Whether nobody answers, and no connection is left from before."""
        if not self._connector.is_away:
            return False
        return not self._lent and not self._pool.get_stats().get("pool_available")

    async def __call__(
        self,
        function: Callable[Concatenate[Connection, P], Awaitable[R]],
        /,
        *args: P.args,
        **arguments: P.kwargs,
    ) -> R:
        """Call a function of `pybatchq.calls`: `await db(calls.get_job, job_id=1)`."""
        return await self.run(lambda conn: function(conn, *args, **arguments))

    def acting(self, actor: str) -> Acting:
        """Calls that are noted as this one's: `await db.acting("ann")(calls.pause, queue="q")`."""
        return Acting(self, actor)

    async def run(
        self, work: Callable[[Connection], Awaitable[R]], *, within_s: float | None = None
    ) -> R:
        """Do some work on a connection; TimedOutError if it takes longer (default: CALL_S).

        It may take 2 s more to be sure of that.
        """
        lent: list[Connection] = []
        task = self._start(self._work(work, lent))
        done, _ = await asyncio.wait((task,), timeout=CALL_S if within_s is None else within_s)
        if not done:
            self._given_up.update(lent)
            await asyncio.wait((self._start(_end(task, lent)),))
            if not task.done() or task.cancelled():
                raise TimedOutError
            if isinstance(task.exception(), psycopg.OperationalError):
                raise TimedOutError
        return task.result()

    def _start(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return task

    async def _work(self, work: Callable[[Connection], Awaitable[R]], lent: list[Connection]) -> R:
        async with self.connection() as conn:
            lent.append(conn)
            return await work(conn)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit mode; ApiError 503 if there is none to be had."""
        if self.is_away:
            raise unavailable("the database cannot be reached")
        try:
            conn = await self._pool.getconn()
        except (psycopg_pool.PoolTimeout, psycopg_pool.TooManyRequests):
            raise self._none_free() from None
        except psycopg_pool.PoolClosed:
            raise unavailable("the API is shutting down") from None
        self._lent.add(conn)
        try:
            yield conn
            if self._in_trouble:
                self._in_trouble = False
                self._pauses.worked()
        except BaseException as error:
            if conn.closed or getattr(error, "sqlstate", None) in OF_NO_MORE_USE:
                self._lost()
            raise
        finally:
            self._lent.discard(conn)
            if conn in self._given_up:
                self._given_up.discard(conn)
                await conn.close()
            await self._pool.putconn(conn)

    def _none_free(self) -> Exception:
        if self._connector.is_away:
            return unavailable("the database cannot be reached")
        return unavailable(f"all {self._most} database connections are busy", retry_after_s=1)

    def _lost(self) -> None:
        """One connection broke, or leads to a server that takes no writes: renew them all.

        Not more often than with growing pauses, until one works.
        """
        self._in_trouble = True
        if monotonic() >= self._renew_at:
            self._renew_at = monotonic() + self._pauses.next_s()
            self.renewals += 1
            self._start(self._pool.drain())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it, or has gone


class Acting:
    """As the Database, but each call is a transaction in which it is said who acts."""

    def __init__(self, database: Database, actor: str) -> None:
        self._database = database
        self._actor = actor

    async def __call__(
        self,
        function: Callable[Concatenate[Connection, P], Awaitable[R]],
        /,
        *args: P.args,
        **arguments: P.kwargs,
    ) -> R:
        return await self.run(lambda conn: function(conn, *args, **arguments))

    async def run(
        self, work: Callable[[Connection], Awaitable[R]], *, within_s: float | None = None
    ) -> R:
        """All of the work is one transaction, which an error undoes."""

        async def named(conn: Connection) -> R:
            async with conn.transaction():
                await calls.act_as(conn, actor=self._actor)
                return await work(conn)

        return await self._database.run(named, within_s=within_s)


async def _end(task: asyncio.Task[Any], lent: list[Connection]) -> None:
    """End a call that takes too long: ask the server to, then cut the connection.

    psycopg would ask and wait for 10 s in all, and so long the connection would be missing.
    """
    for conn in lent:
        with contextlib.suppress(psycopg.Error):
            await conn.cancel_safe(timeout=ASK_S)
        await asyncio.wait((task,), timeout=ASK_S)
        if not task.done():
            _cut(conn)
            await asyncio.wait((task,), timeout=ASK_S)
    task.cancel()
    await asyncio.wait((task,), timeout=ASK_S)


def _cut(conn: Connection) -> None:
    """Let whoever waits for an answer on this connection have an error instead."""
    if not conn.closed:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(conn.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


class _Door:
    """What the pool takes for its class of connections: it connects, however long it takes."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._closing = asyncio.Event()

    async def connect(self, _conninfo: str, **_options: Any) -> Connection:
        """A connection; OperationalError once the door is closed."""
        connecting = asyncio.ensure_future(self._connector.connect("pool"))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((connecting, closing), return_when=asyncio.FIRST_COMPLETED)
            if connecting.done():
                return connecting.result()
            raise psycopg.OperationalError("the pool is closing")
        finally:
            connecting.cancel()
            closing.cancel()

    def close(self) -> None:
        """Connect no more; whoever waits is told."""
        self._closing.set()
