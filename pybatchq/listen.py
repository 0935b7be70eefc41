"""The doorbell from the worker's side: a connection that listens, parks, and does nothing else.

Protocol (sql/functions/private/_parked.sql has the other half): LISTEN, park, ask whether an
enqueue is under way that may have missed the parking, look for jobs once more, then sleep. While
parked, whatever makes a job ready sends a notification; all of them fold into one event. That
somebody's running job was cancelled, or a worker was asked to drain, is told the same way.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import psycopg

from pybatchq import calls
from pybatchq.connections import Connector, Pauses
from pybatchq.silence import silence

CALL_TIMEOUT_S = 2.0
CANCELLED = b"cancel"
DRAIN = b"drain "
HEARD_WITHIN_S = 1.0
TRIES = 20
R = TypeVar("R")

log = logging.getLogger("pybatchq")


class Listener:
    """Keeps a LISTEN connection alive. `ring` is called for notifications and after a reconnect."""

    def __init__(
        self,
        connector: Connector,
        queues: Sequence[str],
        ring: Callable[[], None],
        cancelled: Callable[[], None] = lambda: None,
        drained: Callable[[str], None] = lambda _: None,
    ) -> None:
        """cancelled: a running job, anybody's, was asked to stop. drained: a worker, by its id."""
        self._connector = connector
        self._queues = list(queues)
        self._ring = ring
        self._cancelled = cancelled
        self._drained = drained
        self._conn: calls.Connection | None = None
        self._pauses = Pauses()
        self._watched: int | None = None
        self._lost = asyncio.Event()
        self._busy = asyncio.Lock()
        self.parked = False

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is lost.

        Ends by cancellation, or where a pooler swallows all notifications.
        """
        while True:
            self._lost.clear()
            conn = await self._connector.connect("listen")
            try:
                if not await self._is_heard(conn):
                    log.warning(
                        "the doorbell does not ring through this pooler: polling instead",
                        extra={"hint": "set BATCHQ_LISTEN_URL to the server's own address"},
                    )
                    return
                await calls.listen(conn)
                conn.add_notify_handler(lambda notify: self._heard(notify.payload.encode()))
                self._conn = conn
                self._watch()
                self._ring()  # what happened before LISTEN was not heard
                await self._lost.wait()
                log.warning("doorbell lost: polling until the connection is back")
                self._ring()  # others may be lost as well, and not know
            except psycopg.Error as error:
                log.warning("doorbell cannot listen", extra={"error": str(error)})
            finally:
                self._unwatch()
                self._conn, self.parked = None, False
                await conn.close()
            await asyncio.sleep(self._pauses.next_s())

    async def _is_heard(self, conn: calls.Connection) -> bool:
        """Whether notifications arrive: always without a pooler, and through some of them."""
        if not self._connector.is_pooled:
            return True
        other = await self._connector.connect("probe")
        try:
            for _ in range(TRIES):
                if await _share_sessions(conn, other):
                    return False
            return await _hears(conn, other)
        finally:
            await other.close()

    async def park(self) -> bool:
        """Ask to be woken. False where it cannot be: poll instead."""
        self.parked = await self._call(calls.park, default=False)
        return self.parked

    async def unpark(self) -> None:
        """Awake: producers need not ring."""
        if self.parked:
            self.parked = False
            await self._call(calls.unpark, default=None)

    async def bell_pending(self) -> bool:
        """Whether an enqueue is under way that may not have seen this session parked.

        Also finds out that the connection does not answer any more: then true, too.
        """
        return await self._call(calls.bell_pending, default=True)

    async def _call(self, function: Callable[..., Awaitable[R]], *, default: R) -> R:
        async with self._busy:
            conn = self._conn
            if conn is None:
                return default
            self._unwatch()
            try:
                async with silence(CALL_TIMEOUT_S):
                    answer = await function(conn, queues=self._queues)
            except (psycopg.Error, TimeoutError):
                self._lost.set()
                return default
            else:
                self._pauses.worked()
                return answer
            finally:
                self._watch()

    def _heard(self, payload: bytes) -> None:
        if payload == CANCELLED:
            self._cancelled()
        elif payload.startswith(DRAIN):
            self._drained(payload.removeprefix(DRAIN).decode(errors="replace"))
        else:
            self._ring()

    def _watch(self) -> None:
        """Between statements the socket is ours: read notifications as they come."""
        if self._conn is not None and not self._conn.closed:
            self._watched = self._conn.fileno()
            asyncio.get_running_loop().add_reader(self._watched, self._read)

    def _unwatch(self) -> None:
        """Also of a lost connection: its number may be the next connection's."""
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None

    def _read(self) -> None:
        if self._conn is None:
            return
        try:
            self._conn.pgconn.consume_input()
            while (notify := self._conn.pgconn.notifies()) is not None:
                self._heard(notify.extra)
        except psycopg.Error:
            self._unwatch()
            self._lost.set()


async def _share_sessions(conn: calls.Connection, other: calls.Connection) -> bool:
    """Whether the pooler is seen to give one server session to both, or two to one.

    Found out without LISTEN, which would stay behind on a shared session.
    """
    before = await calls.backend_pid(conn)
    async with other.transaction():
        held = await calls.backend_pid(other)
        return held == before or await calls.backend_pid(conn) != before


async def _hears(conn: calls.Connection, other: calls.Connection) -> bool:
    """Whether a notification of the other connection arrives at this one."""
    channel = f"batchq_test_{secrets.token_hex(8)}"
    await calls.listen(conn, channel=channel)
    await calls.notify(other, channel=channel)
    async for _ in conn.notifies(timeout=HEARD_WITHIN_S, stop_after=1):
        return True
    await calls.unlisten(conn, channel=channel)
    return False
